//! Files that operators write, and requests that their programs send to a running hub.

use std::cell::RefCell;
use std::io::Write;
use std::sync::Arc;

use tempfile::TempDir;
use upesi_admin::{AdminContext, AdminService, NoLanes};
use upesi_client::scheme;
use upesi_engine::{Engine, EngineHandle, follow};
use upesi_http::{Bytes, Request, StatusCode};
use upesi_journal::{Access, Disk, EmbeddedLog, RealDisk};
use upesi_parties::import::{Chunk, Columns, Conflict};
use upesi_quoting::Rules;
use upesi_settings::{Sources, load};
use upesi_transfers::into_command;

use super::{edge, memory};

/// Number of requests after which a new hub is started, so that their effects do not accumulate.
const REQUESTS_PER_HUB: u32 = 2_000;
/// Number of requests between two audits of the hub's books.
const REQUESTS_PER_AUDIT: u32 = 100;

/// A hub without sockets.
pub(crate) struct Hub {
    runtime: tokio::runtime::Runtime,
    service: AdminService,
    handle: EngineHandle,
    requests: u32,
    // Stopped before the directory is removed.
    engine: Engine,
    directory: TempDir,
}

thread_local! {
    static HUB: RefCell<Option<Hub>> = const { RefCell::new(None) };
}

/// Sends a request in its form on the wire, to a hub in the state after earlier requests.
pub(crate) fn admin(input: &[u8]) {
    HUB.with_borrow_mut(|hub| {
        hub.take_if(|hub| hub.requests >= REQUESTS_PER_HUB);
        let hub = hub.get_or_insert_with(Hub::start);
        let Some(status) = hub.ask(input) else { return };
        assert!(status.as_u16() < 500, "{status}");
        if hub.requests.is_multiple_of(REQUESTS_PER_AUDIT) {
            let findings = hub.handle.read(upesi_ledger::audit::check);
            let findings = hub.runtime.block_on(findings).expect("the engine runs");
            assert!(findings.is_empty(), "{findings:?}");
        }
    });
}

impl Hub {
    /// Starts a hub with two DFSPs.
    pub(crate) fn start() -> Self {
        let (engine, handle, directory) = super::start();
        let context = AdminContext { lanes: Arc::new(NoLanes), ..AdminContext::new(handle.clone()) };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let service = AdminService::new(context);
        let mut hub = Self { runtime, service, handle, requests: 0, engine, directory };
        // Creates the participants that later requests are about.
        for request in crate::seeds::admin_scheme() {
            let status = hub.ask(&request);
            assert!(status.is_some_and(|status| status.is_success()), "{status:?}");
        }
        hub
    }

    /// Sends an operator's request. Returns the status of the response; `None` if the input is not a request.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Option<StatusCode> {
        let (parts, body) = edge::split(request)?;
        let request = Request::from_parts(parts, Bytes::copy_from_slice(body));
        self.requests += 1;
        Some(self.runtime.block_on(self.service.answer_whole(request)).status())
    }

    /// Submits a DFSP's valid request about a transfer.
    pub(crate) fn submit(&self, request: &[u8]) {
        let (parts, body) = edge::split(request).expect("a whole request");
        let read = edge::read(&parts, Bytes::copy_from_slice(body));
        if let Ok((command, payload)) = read.and_then(into_command) {
            let reply = self.runtime.block_on(self.handle.submit(command, payload));
            reply.expect("the engine runs");
        }
    }

    /// The state and the records that led to it, in their stored form.
    pub(crate) fn stored(self) -> (Vec<u8>, Vec<Vec<u8>>) {
        let snapshot = self.handle.read(|ledger| {
            let mut bytes = Vec::new();
            ledger.encode_snapshot(&mut bytes);
            bytes
        });
        let snapshot = self.runtime.block_on(snapshot).expect("the engine runs");
        self.engine.shutdown();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(self.directory.path(), Access::Read));
        let mut followed = follow(&EmbeddedLog::for_reading(&disk), 1);
        let mut records = Vec::new();
        while let Some(found) = followed.next().expect("a whole journal") {
            records.push(found.bytes.to_vec());
        }
        (snapshot, records)
    }
}

pub(crate) fn config(input: &[u8]) {
    let mut file = tempfile::NamedTempFile::new_in(memory()).expect("a temporary file");
    file.write_all(input).expect("is written");
    let sources = Sources { file: Some(file.path().to_path_buf()), ..Sources::default() };
    if let Err(mistakes) = load(&sources) {
        assert!(!mistakes.is_empty());
        assert!(mistakes.iter().all(|mistake| !mistake.text.is_empty()));
    }
}

pub(crate) fn scheme_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(mistakes) = scheme::reading::parse("scheme.toml", text) {
        assert!(!mistakes.is_empty());
    }
}

pub(crate) fn quote_rules(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _understood_or_refused = Rules::parse(text);
}

/// A file of parties with a header or without one.
pub(crate) fn party_file(input: &[u8]) {
    let header = input.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    let columns = std::str::from_utf8(header).map(Columns::parse);
    let (columns, lines) = match columns {
        Ok(Ok(columns)) => (columns, &input[header.len()..]),
        _ => (Columns::default(), input),
    };
    let _understood_or_refused = Chunk::read(lines, 1, &columns, Conflict::Refuse, |_| true);
}
