//! Full disks, with the shipped binary: a file system that fills up under load, recovery from one that stays full, and
//! a read-only one.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::support_crash::hub::{Hub, PATIENCE};
use crate::support_crash::load::Load;
use crate::support_crash::scene::{Scene, block_on};
use crate::support_crash::verdict;
use upesi_lab::AdminClient;
use upesi_process::exit::Exit;
use upesi_types::Timestamp;

use crate::support_crash::scene::{SmallDisk, World};

const MIB: u64 = 1 << 20;
/// Space for the archive's first files, some segments and snapshots, and two segments of the store.
const DISK_BYTES: u64 = 128 * MIB;
/// Space for the archive, a snapshot and some segments.
const RESERVE_BYTES: u64 = 24 * MIB;
/// Transfers that fill several segments.
const FILLING: u64 = 1_500;
/// Number of consecutive checks that must find the disk full.
const CALM_CHECKS: u32 = 100;
/// Time limit for a rejection: far more than it needs, and far less than any client's timeout.
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(5);

/// The whole answer to one request.
fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(REFUSAL_TIMEOUT)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn prepare(id: &str) -> String {
    const MEDIA: &str = "application/vnd.interoperability.transfers+json;version=1.1";
    let condition = "c".repeat(42) + "A";
    let body = format!(
        r#"{{"transferId":"{id}","payerFsp":"dfsp-1","payeeFsp":"dfsp-2","amount":{{"currency":"KES","amount":"1"}},"ilpPacket":"AYIC","condition":"{condition}","expiration":"2099-01-01T00:00:00.000Z"}}"#
    );
    let date = Timestamp::from_ms(0).http_date();
    format!(
        "POST /transfers HTTP/1.1\r\nhost: hub\r\nconnection: close\r\ncontent-type: {MEDIA}\r\naccept: {MEDIA}\r\n\
         date: {date}\r\nfspiop-source: dfsp-1\r\nfspiop-destination: dfsp-2\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Polls until the hub's health is as expected.
async fn health_becomes(admin: &AdminClient, well: bool) {
    let begun = Instant::now();
    while admin.get("/health").await.is_ok() != well {
        assert!(begun.elapsed() < PATIENCE, "the hub's health does not become {well}");
    }
}

/// Fills the disk until it stays full: files that the hub was preparing are released, and their space is filled again.
async fn fill_for_good(disk: &SmallDisk, admin: &AdminClient) {
    let (begun, mut calm) = (Instant::now(), 0);
    while calm < CALM_CHECKS {
        let is_full = disk.fill() == 0 && admin.get("/health").await.is_err();
        calm = if is_full { calm + 1 } else { 0 };
        assert!(begun.elapsed() < PATIENCE, "the disk does not stay full");
    }
}

/// Reads of operators are answered although nothing can be written, and changes are rejected.
async fn only_reads_answer(disk: &SmallDisk, admin: &AdminClient, load: &Load) {
    fill_for_good(disk, admin).await;
    for path in
        ["/participants", "/positions", "/participants/dfsp-1/positions", "/callbacks", "/lanes", "/metrics"]
    {
        admin.get(path).await.unwrap();
    }
    let known = load.accepted();
    verdict::answers_exist(admin, &known).await;
    // Files that a start prepares in the background may have been released in the meantime.
    fill_for_good(disk, admin).await;
    let health = admin.get("/health").await.unwrap_err().to_string();
    assert!(health.contains("502") && health.contains("the disk is full"), "{health}");
    let refused = admin.create("/participants", r#"{"name":"latecomer","currency":"KES"}"#.to_owned()).await;
    let refused = refused.unwrap_err().to_string();
    assert_eq!(refused, "the hub's disk is full (2003)");
}

fn payments_are_refused(world: &World) {
    let answer = exchange(world.ports[0], &prepare("11436b17-c690-4a30-8505-42a2c4eafb9d"));
    assert!(answer.starts_with("HTTP/1.1 503 ") && answer.contains(r#""errorCode":"2003""#), "{answer}");
}

/// Runs a command that must succeed. Returns its output.
fn succeeds(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}\n{errors}");
    text.into_owned()
}

fn audit_is_clean(disk: &SmallDisk) {
    succeeds(disk.upesi().arg("audit").arg(disk.data()));
}

#[test]
fn full_disk_rejects_writes_serves_reads_and_recovers() {
    let Some(disk) = SmallDisk::of_bytes(DISK_BYTES) else { return };
    let world = World::new(&disk.data());
    let start = || Hub::spawn(world.serve(disk.upesi()), None);
    let mut hub = start();
    hub.serves();
    let mut load = block_on(world.load(3));
    load.start();
    load.wait_for_accepted(100);
    let admin = world.admin();
    block_on(only_reads_answer(&disk, &admin, &load));
    payments_are_refused(&world);

    // A restart on the full disk is possible, and changes nothing.
    let log = stopped(hub);
    assert!(log.contains("archive and snapshots wait for free space on the disk"), "{log}");
    let mut hub = start();
    hub.serves();
    // The start released the file that the store had prepared.
    let admin = world.admin();
    block_on(only_reads_answer(&disk, &admin, &load));

    disk.make_room();
    block_on(health_becomes(&admin, true));
    load.wait_for_accepted(1_500);
    let accepted = block_on(verdict::all_agree(&admin, &mut load));
    stopped(hub);
    audit_is_clean(&disk);
    verdict::journal_agrees(&disk.root().join("data"), &accepted);
}

/// Sends a request of an operator, with the token in a file. Returns the status and the body.
fn ask(world: &World, token: &str, line: &str, body: &str) -> (u16, String) {
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = exchange(world.ports[1], &request);
    let (head, body) = answer.split_once("\r\n\r\n").expect(&answer);
    (head[9..12].parse().unwrap(), body.to_owned())
}

/// The entries of the audit trail, newest first.
fn trail(world: &World, auditor: &str) -> Vec<serde_json::Value> {
    let (status, page) = ask(world, auditor, "GET /audit?limit=1000", "");
    assert_eq!(status, 200, "{page}");
    let mut page: serde_json::Value = serde_json::from_str(&page).unwrap();
    let mut entries = std::mem::take(page["entries"].as_array_mut().unwrap());
    entries.sort_by_key(|entry| std::cmp::Reverse(entry["number"].as_u64().unwrap()));
    entries
}

/// Changes are rejected, in the ledger and outside it.
fn changes_are_refused(world: &World, [iam, operations, security]: [&str; 3]) {
    for (token, line, body) in [
        (operations, "POST /participants", r#"{"name":"latecomer","currency":"KES"}"#),
        (operations, "POST /participants/Hub/accounts", r#"{"currency":"KES","type":"HUB_RECONCILIATION"}"#),
        (iam, "POST /operators", r#"{"name":"late","roles":["viewer"]}"#),
        (iam, "POST /operators/maker/tokens", "{}"),
        // These actions have effects outside the ledger.
        (security, "PUT /log-level", r#"{"level":"trace"}"#),
        (
            operations,
            "POST /oracles",
            r#"{"oracleIdType":"MSISDN","endpoint":{"value":"http://127.0.0.1:9","endpointType":"URL"}}"#,
        ),
    ] {
        let (status, answer) = ask(world, token, line, body);
        assert!(status == 503 && answer.contains(r#""errorCode":"2003""#), "{line}: {status} {answer}");
    }
}

/// No action is done without its entry, and lost entries of rejections are reported.
#[test]
fn full_disk_prevents_actions_without_audit_entry() {
    let Some(disk) = SmallDisk::of_bytes(DISK_BYTES) else { return };
    let mut world = World::new(&disk.data());
    let mut hub = Hub::spawn(world.serve(disk.upesi()), None);
    hub.serves();
    // Payments use up the journal's prepared space.
    let mut load = block_on(world.load(9));
    load.start();
    load.wait_for_accepted(50);
    stopped(hub);
    world.settings = vec!["admin.authentication=required", "admin.approvals=off"];
    let mut hub = Hub::spawn(world.serve(disk.upesi()), None);
    hub.serves();
    let files = tempfile::tempdir().unwrap();
    let file = |name: &str| files.path().join(name);
    succeeds(
        disk.upesi().args(["admin", "bootstrap", "--data"]).arg(disk.data()).arg("--out").arg(file("first")),
    );
    let url = format!("http://{}", world.ports[1]);
    let create = |name: &str, role: &str, by: &str| {
        let mut command = disk.upesi();
        command.args(["admin", "create", name, "--role", role, "--admin", &url, "--token-file"]);
        succeeds(command.arg(file(by)).arg("--out").arg(file(name)));
        fs::read_to_string(file(name)).unwrap().trim().to_owned()
    };
    let iam = create("iam", "iam-admin", "first");
    let [operations, security, auditor] =
        [("maker", "operations"), ("guard", "security-officer"), ("watcher", "auditor")]
            .map(|(name, role)| create(name, role, "iam"));
    let admin = world.admin();
    let reads = [
        (&iam, "GET /operators"),
        (&operations, "GET /participants"),
        (&security, "GET /log-level"),
        (&operations, "GET /oracles"),
    ];
    let state = || reads.map(|(token, line)| ask(&world, token, line, ""));
    let (before, entries) = (state(), trail(&world, &auditor).len());
    assert!(before.iter().all(|(status, _)| *status == 200), "{before:?}");

    block_on(fill_for_good(&disk, &admin));
    changes_are_refused(&world, [&iam, &operations, &security]);
    // Attempts are rejected as usual, also those whose entries cannot be stored.
    for (token, line, status) in [
        ("upesi_wrong", "GET /participants", 401),
        (&*auditor, "POST /operators", 403),
        (&*operations, "POST /operators", 403),
    ] {
        assert_eq!(ask(&world, token, line, "{}").0, status, "{line}");
    }
    assert_eq!((state(), trail(&world, &auditor).len()), (before.clone(), entries), "nothing was done");

    disk.make_room();
    block_on(health_becomes(&admin, true));
    assert_eq!((state(), trail(&world, &auditor).len()), (before, entries), "nothing is done later");
    assert_eq!(ask(&world, &iam, "POST /operators", r#"{"name":"late","roles":["viewer"]}"#).0, 201);
    assert_eq!(ask(&world, &operations, "POST /operators", "{}").0, 403);
    let after = trail(&world, &auditor);
    assert_eq!(after.len(), entries + 2, "{:?}", &after[..2]);
    let refused = after[0]["refused"].as_str().unwrap();
    // The rejection of this operator. Other operators have their own limits.
    assert!(refused.contains("1 earlier rejections were not recorded"), "{refused}");
    load.end();
    stopped(hub);
    audit_is_clean(&disk);
}

/// Disk space of the reserve, in bytes, computed from its blocks.
fn reserved_bytes(disk: &SmallDisk) -> u64 {
    fs::metadata(disk.root().join("data/reserve")).map_or(0, |found| found.blocks() * 512)
}

async fn reserve_metric(admin: &AdminClient) -> u64 {
    let text = String::from_utf8(admin.get("/metrics").await.unwrap().to_vec()).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix("upesi_disk_reserve_bytes "));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no such metric:\n{text}"))
}

/// Output of `upesi trim`.
fn trim(disk: &SmallDisk, arguments: &[&str]) -> serde_json::Value {
    let text = succeeds(disk.upesi().arg("trim").arg(disk.data()).arg("--json").args(arguments));
    serde_json::from_str(&text).unwrap()
}

#[test]
fn released_reserve_recovers_a_full_disk() {
    let Some(disk) = SmallDisk::of_bytes(2 * DISK_BYTES) else { return };
    let reserve = format!("data.reserve_bytes={RESERVE_BYTES}").leak();
    // Without a snapshot since the start nothing can be trimmed, as on a disk that has been full for a long time.
    let settings = vec![&*reserve, "store.free_bytes_min=67108864", "data.snapshot_every_records=1000000"];
    let world = World { settings, ..World::new(&disk.data()) };
    let start = || Hub::spawn(world.serve(disk.upesi()), None);
    let mut hub = start();
    hub.serves();
    let mut load = block_on(world.load(5));
    load.start();
    let admin = world.admin();
    assert_eq!(block_on(reserve_metric(&admin)), RESERVE_BYTES);
    assert!(reserved_bytes(&disk) >= RESERVE_BYTES, "its blocks are taken");
    load.wait_for_accepted(FILLING);
    block_on(fill_for_good(&disk, &admin));
    payments_are_refused(&world);

    // The disk is completely full, and a file of another program must stay: there is nothing to trim.
    stopped(hub);
    disk.fill();
    assert_eq!(disk.fill(), 0);
    assert_eq!(trim(&disk, &["--delete"])["segments"], 0);
    let mut hub = start();
    hub.serves();
    block_on(fill_for_good(&disk, &admin));
    payments_are_refused(&world);
    stopped(hub);
    disk.fill();

    // These are the steps of the runbook.
    let other_volume = tempfile::tempdir().unwrap();
    let to = other_volume.path().join("journal");
    let wanted = trim(&disk, &["--release-reserve", "--dry-run"]);
    assert_eq!((&wanted["released_bytes"], reserved_bytes(&disk)), (&RESERVE_BYTES.into(), RESERVE_BYTES));
    let report = trim(&disk, &["--release-reserve", "--to", to.to_str().unwrap()]);
    assert_eq!((&report["released_bytes"], &report["held_up"]), (&RESERVE_BYTES.into(), &().into()));
    assert!(report["segments"].as_u64() >= Some(1), "{report}");
    assert_eq!(reserved_bytes(&disk), 0);
    let before = load.accepted().len() as u64;
    let mut hub = start();
    hub.serves();
    assert!(
        hub.log.iter().any(|line| line.contains("not enough space for the reserve")),
        "{}",
        hub.log.join("\n")
    );
    block_on(health_becomes(&admin, true));
    load.wait_for_accepted(before + FILLING / 2);
    assert_eq!(block_on(reserve_metric(&admin)), 0);
    stopped(hub);

    // When there is space again, a start allocates the reserve again.
    disk.make_room();
    let mut hub = start();
    hub.serves();
    assert!(reserved_bytes(&disk) >= RESERVE_BYTES);
    load.wait_for_accepted(before + FILLING);
    let accepted = block_on(verdict::all_agree(&admin, &mut load));
    stopped(hub);
    audit_is_clean(&disk);
    // Segments that are moved back are part of the history again.
    for segment in fs::read_dir(&to).unwrap().map(Result::unwrap) {
        fs::copy(segment.path(), disk.root().join("data/journal").join(segment.file_name())).unwrap();
    }
    audit_is_clean(&disk);
    verdict::journal_agrees(&disk.root().join("data"), &accepted);
}

/// Stops a hub, which must end in order. Returns its log.
fn stopped(hub: Hub) -> String {
    let (status, log) = hub.stop();
    let log = log.join("\n");
    assert_eq!(status.code(), Some(0), "{log}");
    log
}

#[test]
fn read_only_directory_is_rejected() {
    let scene = Scene::new();
    let Some(disk) = SmallDisk::read_only(&scene.world.data) else { return };
    let before = scene.contents();
    for data in [Path::new("/mnt"), Path::new("/mnt/data")] {
        let world = World::new(data);
        let mut hub = Hub::spawn(world.serve(disk.upesi()), None);
        let status = hub.exit();
        let log = hub.log.join("\n");
        assert_eq!(status.code(), Some(i32::from(Exit::CannotCreate.code())), "{log}");
        assert!(
            log.contains("cannot be written to") && log.contains("give the hub's user write access"),
            "{log}"
        );
    }
    assert!(scene.contents() == before, "something was overwritten");
}
