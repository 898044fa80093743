//! Disks that report errors, on the shipped binary: after the first failed write or sync nothing is acknowledged, the hub ends
//! with its code, and the next start has all that was answered 202.

mod support_crash;
mod support_faults;

use std::path::Path;
use std::time::Instant;

use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use support_crash::hub::{Hub, PATIENCE, upesi};
use support_crash::load::Load;
use support_crash::scene::block_on;
use support_crash::verdict;
use support_crash::world::World;
use support_faults::{Fault, INPUT_OUTPUT, NO_SPACE, SHORT, Shim};
use tempfile::TempDir;
use upesi::exit::Exit;

/// Transfers that are accepted between two faults.
const BETWEEN: u64 = 60;
/// Short writes are met by this many transfers,
const UNDER_SHORT_WRITES: u64 = 400;
/// and they cause at least so many: each transfer is several records, of which many share one write.
const SHORT_WRITES_MIN: u64 = 20;

struct Scene {
    world: World,
    shim: Shim,
    load: Load,
    _directory: TempDir,
}

impl Scene {
    /// A hub that was onboarded, and payers that repeat what is not answered. `None` where the library cannot be made.
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

    /// A hub that meets a fault once it is armed, and serves until then.
    fn start(&self, fault: Fault) -> Hub {
        let mut command = self.world.serve(upesi());
        self.shim.load(&mut command, fault);
        let mut hub = Hub::spawn(command, self.world.log.clone());
        hub.serves();
        self.load.wait_for_accepted(BETWEEN);
        hub
    }

    /// Asks again and again until the hub says that it is well, or not.
    fn health_becomes(&self, well: bool) {
        block_on(async {
            let (admin, begun) = (self.world.admin(), Instant::now());
            while admin.get("/health").await.is_ok() != well {
                assert!(begun.elapsed() < PATIENCE, "the hub's health does not become {well}");
            }
        });
    }

    /// The hub, started without faults, against what the DFSPs saw.
    fn judge(mut self) {
        let mut hub = self.world.start();
        hub.serves();
        self.load.wait_for_accepted(BETWEEN);
        self.judge_running(hub);
    }

    fn judge_running(&mut self, hub: Hub) {
        let (accepted, refused) = self.load.end();
        assert!(refused.is_empty(), "{refused:?}");
        let admin = self.world.admin();
        block_on(async {
            verdict::quiet(&admin, &self.load).await;
            verdict::books_agree(&admin, &self.load, &accepted).await;
            verdict::answers_agree(&admin, &accepted).await;
        });
        drop(admin);
        let (status, log) = hub.stop();
        assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
        verdict::audit_is_clean(&self.world.data);
        verdict::journal_agrees(&self.world.data, &accepted);
        verdict::archive_agrees(&self.world.data);
    }
}

const fn journal(calls: &'static str, from: u64, errno: i32) -> Fault {
    Fault { calls, path: "/data/journal/", from, count: 0, errno }
}

/// Faults that a hub must not outlive.
const FATAL: &[Fault] = &[
    journal("fdatasync", 1, INPUT_OUTPUT),
    journal("fdatasync", 2, INPUT_OUTPUT),
    journal("fdatasync", 7, INPUT_OUTPUT),
    // Once only: what a later sync says cannot be believed any more.
    Fault { calls: "fdatasync", path: "/data/journal/", from: 3, count: 1, errno: INPUT_OUTPUT },
    journal("fdatasync", 4, NO_SPACE),
    journal("pwrite64", 1, INPUT_OUTPUT),
    journal("pwrite64", 12, INPUT_OUTPUT),
    // Into room that was allocated: what is decided cannot be recorded.
    journal("pwrite64", 5, NO_SPACE),
    // Room for the next segment: only lack of it may pass.
    journal("fallocate", 1, INPUT_OUTPUT),
    journal("fallocate", 2, INPUT_OUTPUT),
    // A segment's name, and a snapshot's.
    journal("rename", 1, INPUT_OUTPUT),
    Fault { calls: "rename", path: "/data/snapshots/", from: 1, count: 0, errno: INPUT_OUTPUT },
    // The directory, when a segment gets its name.
    Fault { calls: "fsync", path: "/data/journal", from: 1, count: 0, errno: INPUT_OUTPUT },
    Fault { calls: "fsync,fdatasync", path: "/data/archive/", from: 1, count: 0, errno: INPUT_OUTPUT },
];

#[test]
#[allow(clippy::print_stdout, reason = "a failure must say which fault it was")]
fn the_first_error_of_the_disk_is_the_end_and_loses_nothing() {
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

/// Half of every write is done. Nobody notices.
#[test]
fn short_writes_are_continued() {
    let Some(mut scene) = Scene::new(12) else { return };
    let fault = Fault { calls: "pwrite64,write", path: "/data/", from: 1, count: 0, errno: SHORT };
    let hub = scene.start(fault);
    scene.shim.arm();
    scene.load.wait_for_accepted(UNDER_SHORT_WRITES);
    let met = scene.shim.met();
    assert!(met >= SHORT_WRITES_MIN, "only {met} writes were cut short");
    scene.judge_running(hub);
}

/// The archive and the snapshots run out of room and the journal does not: nobody waits for them.
#[test]
fn without_room_for_snapshots_the_hub_goes_on() {
    let Some(mut scene) = Scene::new(13) else { return };
    let fault = Fault { calls: "pwrite64", path: "/data/snapshots/", from: 1, count: 0, errno: NO_SPACE };
    let mut hub = scene.start(fault);
    scene.shim.arm();
    assert!(hub.logs("archive and snapshots wait for room on the disk"));
    scene.load.wait_for_accepted(BETWEEN);
    scene.shim.disarm();
    assert!(hub.logs("archive and snapshots have room again"));
    scene.load.wait_for_accepted(BETWEEN);
    scene.judge_running(hub);
}

/// No segment can be allocated: what changes something is refused, and it goes on by itself when there is room.
#[test]
fn without_room_for_a_segment_the_hub_refuses_and_goes_on() {
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

/// The process stands still while its DFSPs go on sending, and transfers expire meanwhile.
#[test]
fn a_process_that_stood_still_goes_on() {
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

    /// SIGSTOP, a request that is not answered for longer than the short expiry, SIGCONT.
    fn stand_still(&mut self) {
        kill_process(self.pid(), Signal::STOP).unwrap();
        let stopped = waitpid(Some(self.pid()), WaitOptions::UNTRACED).unwrap();
        assert!(stopped.is_some_and(|(_, status)| status.stopped()), "{stopped:?}");
        let mut stream = std::net::TcpStream::connect(self.world.ports[1]).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(2))).unwrap();
        std::io::Write::write_all(&mut stream, b"GET /health HTTP/1.1\r\nhost: hub\r\n\r\n").unwrap();
        let answer = std::io::Read::read(&mut stream, &mut [0; 64]);
        let kind = answer.map_err(|error| error.kind());
        assert_eq!(kind, Err(std::io::ErrorKind::WouldBlock), "a process that stands still does not answer");
        kill_process(self.pid(), Signal::CONT).unwrap();
    }

    fn judge(mut self) {
        let (accepted, refused) = self.load.end();
        assert!(refused.is_empty(), "{refused:?}");
        let admin = self.world.admin();
        block_on(async {
            verdict::quiet(&admin, &self.load).await;
            verdict::books_agree(&admin, &self.load, &accepted).await;
            verdict::answers_agree(&admin, &accepted).await;
        });
        drop(admin);
        let (status, log) = self.hub.stop();
        assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
        verdict::audit_is_clean(&self.world.data);
        verdict::journal_agrees(&self.world.data, &accepted);
    }
}
