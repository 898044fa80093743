//! Disks that report errors, with the shipped binary. After the first failed write or sync nothing is acknowledged, the
//! hub exits with its code, and the next start has everything that was answered with 202.

use std::path::Path;
use std::time::Instant;

use crate::common::message::Message;
use crate::support_crash::hub::{Hub, PATIENCE, upesi};
use crate::support_crash::load::Load;
use crate::support_crash::scene::block_on;
use crate::support_crash::verdict;
use crate::support_faults::{Fault, INPUT_OUTPUT, NO_SPACE, SHORT, Shim, UNNOTICED};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use tempfile::TempDir;
use upesi_process::exit::Exit;

use crate::common::dfsp::Client;
use crate::support_crash::scene::World;

/// Transfers that are accepted between two faults.
const BETWEEN: u64 = 60;
/// Number of transfers during short writes.
const UNDER_SHORT_WRITES: u64 = 400;
/// Minimum number of short writes that they cause. Each transfer is several records, and many records share a write.
const SHORT_WRITES_MIN: u64 = 20;
/// More requests than can be in flight at one moment.
const SINCE_THE_LIE: u64 = 60;

struct Scene {
    world: World,
    shim: Shim,
    load: Load,
    _directory: TempDir,
}

impl Scene {
    /// An onboarded hub, and payers that repeat requests without an answer. `None` if the library cannot be built.
    fn new(seed: u64) -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let shim = Shim::build(directory.path())?;
        let data = directory.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let world = World { log: Some(directory.path().join("hub.log")), ..World::new(&data) };
        let mut hub = world.start();
        hub.serves();
        let mut load = block_on(world.load(seed));
        load.start();
        load.wait_for_accepted(BETWEEN);
        assert_eq!(hub.stop().0.code(), Some(0));
        Some(Self { world, shim, load, _directory: directory })
    }

    /// A hub that meets a fault when it is armed, and serves until then.
    fn start(&self, fault: Fault) -> Hub {
        let mut command = self.world.serve(upesi());
        self.shim.load(&mut command, fault);
        let mut hub = Hub::spawn(command, self.world.log.clone());
        hub.serves();
        self.load.wait_for_accepted(BETWEEN);
        hub
    }

    /// Polls until the hub's health is as expected.
    fn health_becomes(&self, well: bool) {
        block_on(async {
            let (admin, begun) = (self.world.admin(), Instant::now());
            while admin.get("/health").await.is_ok() != well {
                assert!(begun.elapsed() < PATIENCE, "the hub's health does not become {well}");
            }
        });
    }

    /// Starts the hub without faults, and compares it with the DFSPs' books.
    fn judge(mut self) {
        let mut hub = self.world.start();
        hub.serves();
        self.load.wait_for_accepted(BETWEEN);
        self.judge_running(hub);
    }

    fn judge_running(&mut self, hub: Hub) {
        let admin = self.world.admin();
        let accepted = block_on(verdict::all_agree(&admin, &mut self.load));
        drop(admin);
        let (status, log) = hub.stop();
        assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
        verdict::copy_agrees(&self.world.data, &accepted);
        verdict::archive_agrees(&self.world.data);
    }
}

const fn journal(calls: &'static str, from: u64, errno: i32) -> Fault {
    Fault { calls, path: "/data/journal/", from, count: 0, errno, loses: false }
}

/// Faults after which a hub must exit.
const FATAL: &[Fault] = &[
    // The page cache still shows data that is not on the disk, or loses it. The second case detects whether the data
    // was acknowledged.
    journal("fdatasync", 1, INPUT_OUTPUT),
    journal("fdatasync", 2, INPUT_OUTPUT).losing(),
    journal("fdatasync", 7, INPUT_OUTPUT).losing(),
    // Only once: later syncs can no longer be trusted.
    Fault { count: 1, ..journal("fdatasync", 3, INPUT_OUTPUT) }.losing(),
    journal("fdatasync", 4, NO_SPACE).losing(),
    // The archivist reads the journal behind its writer.
    journal("pread64", 1, INPUT_OUTPUT),
    journal("pwrite64", 1, INPUT_OUTPUT),
    journal("pwrite64", 12, INPUT_OUTPUT),
    // Into allocated space: decided commands cannot be recorded.
    journal("pwrite64", 5, NO_SPACE),
    // Space for the next segment. Only a full disk is tolerated.
    journal("fallocate", 1, INPUT_OUTPUT),
    journal("fallocate", 2, INPUT_OUTPUT),
    // The name of a segment, and of a snapshot.
    journal("rename", 1, INPUT_OUTPUT),
    Fault { path: "/data/snapshots/", ..journal("rename", 1, INPUT_OUTPUT) },
    Fault { path: "/data/snapshots/", ..journal("fdatasync", 1, INPUT_OUTPUT) }.losing(),
    // The directory, when a segment gets its name.
    Fault { path: "/data/journal", ..journal("fsync", 1, INPUT_OUTPUT) },
    Fault { path: "/data/archive/", ..journal("fsync,fdatasync", 1, INPUT_OUTPUT) }.losing(),
];

#[test]
#[allow(clippy::print_stdout, reason = "a failure must say which fault it was")]
fn first_disk_error_ends_the_hub_and_loses_nothing() {
    let Some(scene) = Scene::new(11) else { return };
    for fault in FATAL {
        println!("{fault:?}");
        let mut hub = scene.start(*fault);
        let before = scene.shim.met();
        scene.shim.arm();
        let status = hub.exit();
        scene.shim.disarm();
        assert!(scene.shim.met() > before, "{fault:?}: no call met it");
        let log = hub.log.join("\n");
        assert_eq!(status.code(), Some(i32::from(Exit::InputOutput.code())), "{fault:?}: {log}");
        verdict::audit_is_clean(&scene.world.data);
    }
    scene.judge();
}

/// The check can fail: if syncs lose data without an error, transfers that were answered with 202 are missing.
#[test]
fn false_success_of_a_sync_is_detected() {
    let Some(mut scene) = Scene::new(17) else { return };
    // Without snapshots, nothing reads the journal in the meantime, so nothing else can detect the loss.
    scene.world.settings = vec!["data.snapshot_every_records=1000000"];
    let hub = scene.start(journal("fdatasync", 1, UNNOTICED).losing());
    scene.shim.arm();
    scene.load.wait_for_accepted(SINCE_THE_LIE);
    let accepted = scene.load.accepted();
    hub.kill();
    assert!(scene.shim.met() > 0, "no call met it");
    // A journal with a gap between its segments cannot be read, which also detects the loss.
    let known = std::panic::catch_unwind(|| verdict::outcomes(&scene.world.data)).unwrap_or_default();
    let lost = accepted.iter().filter(|transfer| !known.contains_key(&transfer.id)).count();
    assert!(lost > 0, "of {} accepted transfers none is missing", accepted.len());
}

/// Only half of every write is done, without an effect for clients.
#[test]
fn short_writes_are_continued() {
    let Some(mut scene) = Scene::new(12) else { return };
    let fault = Fault { path: "/data/", ..journal("pwrite64,write", 1, SHORT) };
    let hub = scene.start(fault);
    scene.shim.arm();
    scene.load.wait_for_accepted(UNDER_SHORT_WRITES);
    let met = scene.shim.met();
    assert!(met >= SHORT_WRITES_MIN, "only {met} writes were cut short");
    scene.judge_running(hub);
}

/// Requests the registration of a party, and waits until the hub has done so or cannot.
fn register(scene: &Scene, number: &str) {
    let path = format!("/participants/MSISDN/{number}");
    let message = Message::of("POST", &path, "dfsp-1", None, r#"{"fspId":"dfsp-1"}"#);
    // Accepted means understood. A callback reports the outcome.
    let answer = Client::connect(scene.world.ports[0]).exchange(&message.into_sent().bytes());
    assert_eq!(answer.status, 202, "{answer:?}");
}

fn is_registered(scene: &Scene, number: &str) -> bool {
    let admin = scene.world.admin();
    let found = block_on(admin.get(&format!("/directory/parties/MSISDN/{number}"))).unwrap();
    String::from_utf8_lossy(&found).contains("dfsp-1")
}

/// The store's journal cannot be synced: the hub stops accepting registrations, registered parties are found, and
/// payments continue.
#[test]
fn store_without_sync_rejects_parties_and_payments_continue() {
    let Some(mut scene) = Scene::new(16) else { return };
    let hub = scene.start(Fault { path: "/data/store/", ..journal("fdatasync", 1, INPUT_OUTPUT) }.losing());
    register(&scene, "25471000001");
    assert!(is_registered(&scene, "25471000001"));
    scene.shim.arm();
    for number in ["25471000002", "25471000003"] {
        register(&scene, number);
        assert!(!is_registered(&scene, number), "{number}");
    }
    assert!(scene.shim.met() > 0, "no call met it");
    assert!(is_registered(&scene, "25471000001"));
    scene.load.wait_for_accepted(BETWEEN);
    scene.shim.disarm();
    register(&scene, "25471000004");
    assert!(!is_registered(&scene, "25471000004"), "the store goes on after a failure");
    assert_eq!(hub.stop().0.code(), Some(0));

    let mut hub = scene.world.start();
    hub.serves();
    assert!(is_registered(&scene, "25471000001"));
    for number in ["25471000002", "25471000003", "25471000004"] {
        assert!(!is_registered(&scene, number), "{number} was never registered");
    }
    register(&scene, "25471000004");
    assert!(is_registered(&scene, "25471000004"));
    scene.judge_running(hub);
}

/// The archive and the snapshots have no space, but the journal has some: payments continue.
#[test]
fn hub_without_space_for_snapshots_continues() {
    let Some(mut scene) = Scene::new(13) else { return };
    let fault = Fault { path: "/data/snapshots/", ..journal("pwrite64", 1, NO_SPACE) };
    let mut hub = scene.start(fault);
    scene.shim.arm();
    assert!(hub.logs("archive and snapshots wait for free space on the disk"));
    scene.load.wait_for_accepted(BETWEEN);
    scene.shim.disarm();
    assert!(hub.logs("archive and snapshots have enough space again"));
    scene.load.wait_for_accepted(BETWEEN);
    scene.judge_running(hub);
}

/// No segment can be allocated: the hub rejects changes, and continues by itself when there is space.
#[test]
fn hub_without_space_for_a_segment_rejects_and_recovers() {
    let Some(mut scene) = Scene::new(15) else { return };
    let hub = scene.start(journal("fallocate", 1, NO_SPACE));
    scene.shim.arm();
    scene.health_becomes(false);
    assert!(scene.shim.met() > 0, "no call met it");
    scene.shim.disarm();
    scene.health_becomes(true);
    scene.load.wait_for_accepted(BETWEEN);
    scene.judge_running(hub);
}

/// The process is paused while its DFSPs continue to send, and transfers expire meanwhile.
#[test]
fn paused_process_continues() {
    let directory = TempDir::new().unwrap();
    let mut scene = still(directory.path());
    for _ in 0..2 {
        scene.stand_still();
        scene.load.wait_for_accepted(BETWEEN);
    }
    scene.judge();
}

struct Still {
    world: World,
    hub: Hub,
    load: Load,
}

fn still(directory: &Path) -> Still {
    let data = directory.join("data");
    std::fs::create_dir(&data).unwrap();
    let world = World::new(&data);
    let mut hub = world.start();
    hub.serves();
    let mut load = block_on(world.load(14));
    load.start();
    load.wait_for_accepted(BETWEEN);
    Still { world, hub, load }
}

impl Still {
    fn pid(&self) -> Pid {
        i32::try_from(self.hub.pid()).ok().and_then(Pid::from_raw).unwrap()
    }

    /// SIGSTOP, a request without an answer for longer than the short expiry, SIGCONT.
    fn stand_still(&mut self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let stopped = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap();
        assert!(stopped.is_some_and(|(_, status)| status.stopped()), "{stopped:?}");
        let mut stream = std::net::TcpStream::connect(self.world.ports[1]).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        std::io::Write::write_all(&mut stream, b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let answer = std::io::Read::read(&mut stream, &mut [0; 64]);
        let kind = answer.map_err(|error| error.kind());
        assert_eq!(kind, Err(std::io::ErrorKind::WouldBlock), "a process that stands still does not answer");
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    fn judge(mut self) {
        let admin = self.world.admin();
        let accepted = block_on(verdict::all_agree(&admin, &mut self.load));
        drop(admin);
        let (status, log) = self.hub.stop();
        assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
        verdict::copy_agrees(&self.world.data, &accepted);
    }
}
