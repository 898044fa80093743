//! Thousands of unauthenticated connections to the real binary do not use up the descriptors that storage needs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::Instant;

use crate::support_crash::hub::{Hub, PATIENCE, free_ports, upesi};
use crate::support_crash::scene::block_on;
use crate::support_crash::verdict;
use rustix::process::{Pid, Resource, Rlimit, prlimit};
use tempfile::TempDir;
use upesi_lab::AdminClient;

use crate::support_crash::scene::World;

/// The usual soft limit of open files; here it is also the hard limit.
const LIMIT: u64 = 1_024;
const ARMY: usize = 1_200;
const CALM_LOOKS: u32 = 300;
const ACCEPT_FAILED: &str = "cannot accept connections";

/// The binary with a limit of open files.
fn limited(limit: u64) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -Sn {limit} && ulimit -Hn {limit} && exec \"$@\""), "sh"]);
    let plain = upesi();
    command.arg(plain.get_program());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

fn army(address: SocketAddr, count: usize) -> Vec<TcpStream> {
    (0..count).map(|_| TcpStream::connect(address).unwrap()).collect()
}

/// Waits until every thread of a process has slept at this many consecutive checks, so that the start is complete.
fn until_calm(pid: u32) {
    let sleeps = || {
        let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks.flatten().all(|task| {
            let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('S'))
        })
    };
    let (begun, mut calm) = (Instant::now(), 0);
    while calm < CALM_LOOKS {
        calm = if sleeps() { calm + 1 } else { 0 };
        assert!(begun.elapsed() < PATIENCE, "it does not come to rest");
    }
}

async fn metric(admin: &AdminClient, name: &str) -> u64 {
    let text = String::from_utf8(admin.get("/metrics").await.unwrap().to_vec()).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
}

fn lowered(hub: &Hub) -> bool {
    hub.log.iter().any(|line| {
        line.contains("fspiop.connections_max is lowered from 10000 to") && line.contains("open 1024 files")
    })
}

#[test]
fn idle_connections_beyond_the_limit_stop_no_payment_and_no_restart() {
    upesi_node::raise_limit();
    let directory = TempDir::new().unwrap();
    let mut world = World::new(directory.path());
    let metrics = free_ports()[0];
    world.settings = vec![format!("metrics.listen={metrics}").leak()];
    let world = world;
    let start = || {
        let mut hub = Hub::spawn(world.serve(limited(LIMIT)), None);
        hub.serves();
        assert!(lowered(&hub), "{:?}", hub.log);
        hub
    };
    let mut hub = start();
    let mut load = block_on(world.load(5));
    load.start();
    load.wait_for_accepted(50);
    for _ in 0..2 {
        let armies = [(world.ports[0], ARMY), (world.ports[1], 200), (metrics, 200)];
        let armies = armies.map(|(port, count)| army(port, count));
        // Meanwhile segments roll, and the archivist folds records and writes snapshots.
        load.wait_for_accepted(1_200);
        let admin = world.admin();
        let failed = block_on(async {
            admin.get("/health").await.unwrap();
            assert!(metric(&admin, "process_open_fds").await < LIMIT);
            assert_eq!(metric(&admin, "process_max_fds").await, LIMIT);
            // Nearly all connections of the army are accepted, and replace earlier ones. A new one waits half a second
            // for this.
            let made_way = metric(&admin, "upesi_http_connections_made_way_total").await;
            let refused = metric(&admin, "upesi_http_connections_refused_total").await;
            assert!(made_way > 500 && refused < made_way / 10, "{refused} refused, {made_way} made way");
            metric(&admin, "upesi_http_accept_failures_total").await
        });
        assert_eq!(failed, 0, "{:?}", hub.stop().1);
        // A restart while all clients connect again.
        let (status, log) = hub.stop();
        assert_eq!(status.code(), Some(0), "{log:?}");
        hub = start();
        drop(armies);
    }
    let accepted = load.end();
    let admin = world.admin();
    block_on(async {
        verdict::quiet(&admin, &load).await;
        verdict::books_agree(&admin, &load, &accepted).await;
    });
    assert_eq!(hub.stop().0.code(), Some(0));
    verdict::audit_is_clean(directory.path());
}

#[test]
fn hub_without_descriptors_waits_logs_once_and_continues() {
    let directory = TempDir::new().unwrap();
    let world = World::new(directory.path());
    let mut hub = world.start();
    hub.serves();
    // By then the hub has the descriptors for the work that it prepares after its start. An idle hub needs no further
    // ones.
    for log in ["journal", "store/journal"] {
        let prepared = directory.path().join(log).join("prepared.tmp");
        let begun = Instant::now();
        while !prepared.exists() {
            assert!(begun.elapsed() < PATIENCE, "no {prepared:?}");
            std::thread::yield_now();
        }
    }
    until_calm(hub.pid());
    let pid = Pid::from_raw(hub.pid() as i32).unwrap();
    let open = std::fs::read_dir(format!("/proc/{}/fd", hub.pid())).unwrap().count() as u64;
    let before = prlimit(Some(pid), Resource::Nofile, Rlimit { current: Some(open), maximum: Some(4_096) });
    assert!(before.unwrap().current > Some(open));
    let mut waiting = army(world.ports[0], 20);
    assert!(hub.logs(ACCEPT_FAILED));
    // The hub tries again twenty times a second, and logs this every ten seconds.
    let begun = Instant::now();
    let metrics = Rlimit { current: Some(4_096), maximum: Some(4_096) };
    prlimit(Some(pid), Resource::Nofile, metrics).unwrap();
    for stream in &mut waiting {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
    let lines_max = 1 + begun.elapsed().as_secs() / 10;
    let (status, log) = hub.stop();
    assert_eq!(status.code(), Some(0));
    let lines = log.iter().filter(|line| line.contains(ACCEPT_FAILED)).count() as u64;
    assert!((1..=lines_max).contains(&lines), "{log:?}");
}

#[test]
fn limit_below_the_needs_of_storage_is_rejected() {
    let directory = TempDir::new().unwrap();
    let world = World::new(directory.path());
    let mut hub = Hub::spawn(world.serve(limited(256)), None);
    assert_eq!(hub.exit().code(), Some(75));
    let log = hub.log.join("\n");
    assert!(log.contains("open 256 files") && log.contains("at least; raise the limit"), "{log}");
}

#[test]
fn admin_port_beyond_loopback_causes_a_warning() {
    const OPEN: &str = "the admin port is open to other machines and has no authentication";
    for (admin, is_open) in [("127.0.0.1:0", false), ("0.0.0.0:0", true)] {
        let directory = TempDir::new().unwrap();
        let mut command = upesi();
        command.arg("serve").arg("--data").arg(directory.path());
        command.args(["--fspiop", "127.0.0.1:0", "--admin", admin]);
        let mut hub = Hub::spawn(command, None);
        hub.serves();
        assert_eq!(hub.log.iter().any(|line| line.contains(OPEN)), is_open, "{:?}", hub.log);
    }
}
