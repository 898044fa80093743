use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use upesi_admin::{AdminContext, AdminService, DirectoryHandle};
use upesi_engine::{Engine, EngineHandle, EngineMetrics, EngineOptions, NoEffects, Payload};
use upesi_http::{Schemes, Server, Workers};
use upesi_ledger::command::NewSettlementModel;
use upesi_ledger::{AdminCommand, Command};
use upesi_parties::builtin::{BuiltInDirectory, BuiltInOptions};
use upesi_parties::registry::OracleRegistry;
use upesi_tables::store::{Store, StoreOptions};
use upesi_types::{Currency, FspId};

use super::*;

/// The admin API of a hub with two DFSPs.
struct Operated {
    address: SocketAddr,
    store: Store,
    engine: Option<Engine>,
    server: Option<Server>,
    workers: Workers,
}

impl Operated {
    async fn start(path: &Path) -> Self {
        let options = EngineOptions::new(path);
        let (engine, handle) = Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).unwrap();
        prepare_scheme(&handle).await;
        let options = StoreOptions { free_bytes_min: 0, pending_bytes: 64 << 10, ..StoreOptions::default() };
        let store = Store::open(path.join("store"), &options).unwrap();
        let built_in = BuiltInDirectory::open(&store, BuiltInOptions::default()).unwrap();
        let oracles = OracleRegistry::open(&store, true, Schemes::default()).unwrap();
        let directory = Some(DirectoryHandle::new(built_in, oracles).unwrap());
        let context = AdminContext { directory, ..AdminContext::new(handle) };
        let workers = Workers::start(1, "admin").unwrap();
        let bound = Server::bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let address = bound.local_addr();
        let service = Arc::new(AdminService::new(context));
        let server = Server::serve(bound, upesi_admin::limits(64), &workers, service);
        Self { address, store, engine: Some(engine), server: Some(server), workers }
    }

    fn options(&self, file: &Path) -> ImportOptions {
        ImportOptions {
            file: file.to_owned(),
            admin_url: format!("http://{}", self.address),
            admin_tls: None,
            admin_token: None,
            wait: Duration::ZERO,
            name: None,
            replace: false,
            json: false,
        }
    }

    /// The output for an identifier, or the exit code.
    async fn get(&self, id: &str) -> Result<String, Exit> {
        let mut output = Vec::new();
        let outcome = get(
            &AdminApi::new(&format!("http://{}", self.address)).unwrap(),
            "MSISDN",
            id,
            false,
            &mut output,
        )
        .await;
        outcome.map(|()| String::from_utf8(output).unwrap()).map_err(|failure| failure.exit)
    }

    async fn stop(mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown(Instant::now() + Duration::from_secs(5)).await;
        }
        self.store.close();
        if let Some(engine) = self.engine.take() {
            engine.shutdown();
        }
        drop(self.workers);
    }
}

/// Creates the hub's accounts, a settlement model and two DFSPs, unless they exist.
async fn prepare_scheme(handle: &EngineHandle) {
    let currency = Currency::parse("KES").unwrap();
    let name = |name| FspId::parse(name).unwrap();
    let account =
        |kind: &str| AdminCommand::CreateHubAccount { name: name("Hub"), currency, kind: kind.into() };
    let participant = |dfsp| AdminCommand::CreateParticipant { name: name(dfsp), currency, is_proxy: false };
    let model = NewSettlementModel::deferred_net("DEFERREDNET", None);
    for command in [
        account("HUB_MULTILATERAL_SETTLEMENT"),
        account("HUB_RECONCILIATION"),
        AdminCommand::CreateSettlementModel(model),
        participant("green"),
        participant("blue"),
    ] {
        handle.submit(Command::Admin(command), Payload::default()).await.unwrap();
    }
}

/// Returns stdout, stderr and the exit.
async fn run(options: &ImportOptions) -> (String, String, Exit) {
    let (mut output, mut notes) = (Vec::new(), Vec::new());
    let outcome = import(options, &mut output, &mut notes).await;
    let exit = outcome.map_or_else(|failure| failure.exit, |()| Exit::Success);
    (String::from_utf8(output).unwrap(), String::from_utf8(notes).unwrap(), exit)
}

fn parties(count: u64) -> String {
    let lines = (0..count).map(|party| format!("green,MSISDN,{party}\n"));
    std::iter::once("fspId,partyIdType,partyIdentifier\n".to_owned()).chain(lines).collect()
}

#[tokio::test]
async fn interrupted_import_continues_where_it_stopped() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let file = place.path().join("parties.csv");
    let whole = parties(25_000);
    // The first attempt reads a truncated file.
    let half = whole[..whole.len() / 2].rfind('\n').unwrap() + 1;
    std::fs::write(&file, &whole[..half]).unwrap();
    let hub = Operated::start(&data).await;
    let options = ImportOptions { name: Some("january".to_owned()), ..hub.options(&file) };
    let first = send(&options).await.unwrap();
    assert!(first.taken > CHUNK_LINES_MAX as u64 && first.taken < 25_000, "{} taken", first.taken);
    hub.stop().await;
    // The second one uses another hub with the same data, and the whole file.
    std::fs::write(&file, &whole).unwrap();
    let hub = Operated::start(&data).await;
    let options = ImportOptions { admin_url: format!("http://{}", hub.address), ..options };
    let second = send(&options).await.unwrap();
    assert_eq!(second.first_line, first.taken + 2, "it goes on");
    assert_eq!((second.taken, second.refused), (25_000, 0));
    for party in ["0", "9999", "10000", "24999"] {
        assert_eq!(hub.get(party).await.as_deref(), Ok("green\t-\t-\n"), "{party}");
    }
    assert_eq!(hub.get("25000").await, Err(Exit::Failure));
    // A third attempt has nothing left to do.
    let third = send(&options).await.unwrap();
    assert_eq!((third.first_line, third.taken), (25_002, 25_000));
    hub.stop().await;
}

#[tokio::test]
async fn import_reports_rejected_lines_and_accepts_the_others() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("parties.csv");
    let long = "7".repeat(3 * LINE_BYTES_MAX);
    let text = format!(
        "partyIdType,partyIdentifier,partySubIdOrType,currency,fspId\r\nMSISDN,1,,,green\r\n\r\nMSISDN,2,,KES,nobody\nMSISDN,{long},,,green\nMSISDN,1,,,blue\nMSISDN,3,shop,KES,blue"
    );
    std::fs::write(&file, text).unwrap();
    let hub = Operated::start(&place.path().join("data")).await;
    let (output, notes, exit) = run(&hub.options(&file)).await;
    assert!(output.ends_with(": 2 lines accepted, 3 rejected\n"), "{output}");
    assert_eq!(
        notes,
        "line 4: fspId \"nobody\" is not a participant\nline 5: the line has more than 4096 bytes\nline 6: the party is \
         registered by green\n"
    );
    assert_eq!(exit, Exit::Failure);
    assert_eq!(hub.get("3").await.as_deref(), Ok("blue\tKES\tshop\n"));
    // The same file is sent again. It adds nothing, and the totals are the same.
    let (again, notes, exit) = run(&hub.options(&file)).await;
    assert_eq!((again, notes.as_str(), exit), (output, "", Exit::Failure));
    // With replacement it is another import.
    let options = ImportOptions { replace: true, json: true, ..hub.options(&file) };
    let (output, _, _) = run(&options).await;
    assert!(
        output.contains(r#"-replace","taken":3,"refused":2,"firstLine":2,"refusals":[{"line":4,"#),
        "{output}"
    );
    assert_eq!(hub.get("1").await.as_deref(), Ok("blue\t-\t-\n"));
    hub.stop().await;
}

#[tokio::test]
async fn import_of_unusable_file_fails_with_its_exit_code() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("parties.csv");
    std::fs::write(&file, parties(1)).unwrap();
    let hub = Operated::start(&place.path().join("data")).await;
    let good = hub.options(&file);
    let headless = place.path().join("headless.csv");
    std::fs::write(&headless, "MSISDN,1,,,green\n").unwrap();
    let cases = [
        (ImportOptions { file: place.path().join("none.csv"), ..good.clone() }, Exit::NoInput),
        (ImportOptions { file: headless, ..good.clone() }, Exit::Data),
        (ImportOptions { name: Some("a b".to_owned()), ..good.clone() }, Exit::Usage),
        (ImportOptions { admin_url: "nowhere".to_owned(), ..good.clone() }, Exit::Usage),
        (good.clone(), Exit::Success),
    ];
    for (options, expected) in cases {
        assert_eq!(run(&options).await.2, expected, "{options:?}");
    }
    hub.stop().await;
    assert_eq!(run(&good).await.2, Exit::Unavailable, "the hub no longer answers there");
}

#[test]
fn chunks_respect_limits_and_skip_accepted_lines() {
    let lines: String = (0..CHUNK_LINES_MAX + 5).map(|_| "x\n").collect();
    let mut reader = lines.as_bytes();
    let mut line = 2;
    let first = Chunk::read(&mut reader, &mut line, 4).unwrap();
    assert_eq!((first.from, first.lines.len(), line), (4, 2 * CHUNK_LINES_MAX, 4 + CHUNK_LINES_MAX as u64));
    let next = line;
    let second = Chunk::read(&mut reader, &mut line, next).unwrap();
    assert_eq!((second.from, second.lines.len()), (4 + CHUNK_LINES_MAX as u64, 6));
    let next = line;
    assert!(Chunk::read(&mut reader, &mut line, next).unwrap().lines.is_empty());
    let long = format!("{}\n", "y".repeat(LINE_BYTES_MAX)).repeat(400);
    let mut reader = long.as_bytes();
    let chunk = Chunk::read(&mut reader, &mut 2, 2).unwrap();
    assert!(chunk.lines.len() > CHUNK_BYTES_MAX && chunk.lines.len() <= upesi_admin::BODY_BYTES_MAX);
}

#[test]
fn lines_end_at_breaks_and_long_ones_are_truncated() {
    for capacity in [1, 3, 100] {
        let mut reader = io::BufReader::with_capacity(capacity, &b"a\n\nabcdefgh\r\nlast"[..]);
        let mut read = || {
            let mut line = Vec::new();
            let taken = read_line(&mut reader, &mut line, 4).unwrap();
            (String::from_utf8(line).unwrap(), taken)
        };
        let expected = [("a", 2), ("", 1), ("abcde", 10), ("last", 4), ("", 0)];
        for (line, taken) in expected {
            assert_eq!(read(), (line.to_owned(), taken), "capacity {capacity}");
        }
    }
}
