//! The packaged files for a cluster of three machines, on one machine: the certificates of
//! `packaging/cluster/certificates`, a broker by `kafka.properties`, nodes by `upesi.toml`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use tempfile::TempDir;
use upesi_testsupport::broker::Broker;

use super::support_crash::scene::World;
use crate::support_crash::hub::{PATIENCE, SERVING, free_ports, upesi};
use crate::support_crash::scene::block_on;
use crate::support_crash::verdict;
use crate::{TRANSFERS, answer, asked, stops};

/// The host of all nodes in this test.
const HOST: &str = "127.0.0.1";
/// Settings of a broker for its addresses, and for the number of brokers.
const OF_PLACES: [&str; 8] = [
    "node.id",
    "advertised.listeners",
    "listeners",
    "controller.quorum.voters",
    "log.dirs",
    "default.replication.factor",
    "offsets.topic.replication.factor",
    "min.insync.replicas",
];

fn packaged(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/cluster").join(name)
}

fn read(name: &str) -> String {
    std::fs::read_to_string(packaged(name)).unwrap()
}

/// Makes certificates, unless they exist.
fn certificates(directory: &Path) {
    let mut command = Command::new(packaged("certificates"));
    let output = command.env("UPESI", upesi().get_program()).arg(directory).args([HOST; 2]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Issues the certificate of a node again, as described in docs/cluster.md.
fn renew(directory: &Path) {
    let mut command = upesi();
    command.args(["pki", "issue", HOST, "--replace", "--for", "node", "--host", HOST, "--dir"]);
    let output = command.arg(directory.join("authorities/nodes")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    certificates(directory);
}

fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.append(&mut contents(&entry.path()));
        } else {
            found.insert(entry.path(), std::fs::read(entry.path()).unwrap());
        }
    }
    found
}

fn broker(directory: &Path, tls: &Path) -> Broker {
    let text = read("kafka.properties").replace("/etc/kafka/tls", tls.to_str().unwrap());
    Broker::start_with(directory, "", |first, _| {
        let here = format!("HUBS://{HOST}:{first},CONTROLLER://{HOST}:{}", first + 1);
        let places = ["listeners", "advertised.listeners"].map(|key| format!("{key}={here}"));
        let shipped = text.lines().filter(|line| {
            line.split_once('=').is_some_and(|(key, _)| !key.starts_with('#') && !OF_PLACES.contains(&key))
        });
        shipped.map(str::to_owned).chain(places).collect()
    })
}

/// Nodes 1 and 2 with the packaged settings and ports of their own.
fn nodes(directory: &Path, tls: &Path, broker: &Broker) -> [World; 2] {
    let file = directory.join("upesi.toml");
    std::fs::write(&file, read("upesi.toml").replace("/etc/upesi/tls", tls.to_str().unwrap())).unwrap();
    let text = |text: String| -> &'static str { text.leak() };
    let ports: [SocketAddr; 2] = [(); 2].map(|()| free_ports()[0]);
    [1, 2].map(|number| {
        let data = directory.join(format!("node-{number}"));
        let made = upesi().arg("init").arg(&data).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let mut world = World::new(&data);
        world.environment = vec![("UPESI_CONFIG".into(), OsString::from(&file))];
        world.settings = vec![
            "cluster.replicas=1",
            // The load onboards its DFSPs, which run on this machine, without a token.
            "admin.authentication=off",
            "outbound.addresses=any",
            text(format!("cluster.brokers={}", broker.addresses)),
            text(format!("cluster.node={number}")),
            text(format!("cluster.rank={}", number - 1)),
            text(format!("cluster.listen={}", ports[number - 1])),
            text(format!("cluster.nodes=1={},2={}", ports[0], ports[1])),
            text(format!("metrics.listen={}", free_ports()[0])),
        ];
        world
    })
}

/// Runs a command with a node's settings and further ones.
fn run(world: &World, arguments: &[&str], settings: &[String]) -> Output {
    let mut command = upesi();
    command.args(arguments).arg("--data").arg(&world.data).envs(world.environment.clone());
    let settings = world.settings.iter().copied().chain(settings.iter().map(String::as_str));
    command.args(settings.flat_map(|setting| ["--set", setting])).output().unwrap()
}

/// Waits until a load balancer would send requests to a node.
fn is_healthy(world: &World) {
    let since = Instant::now();
    loop {
        let text = answer(asked(world.ports[0], "/health"));
        if text.starts_with("HTTP/1.1 200") {
            return;
        }
        assert!(since.elapsed() < PATIENCE, "{text}");
        std::thread::yield_now();
    }
}

#[test]
fn packaged_files_connect_brokers_and_nodes() {
    let directory = TempDir::new().unwrap();
    let at = directory.path();
    let tls = at.join("tls");
    certificates(&tls);
    let made = contents(&tls);
    certificates(&tls);
    assert!(made == contents(&tls), "the second time changed something");
    renew(&tls);
    let is_renewed =
        |(path, content): (&PathBuf, &Vec<u8>)| made[path] != *content && path.ends_with("nodes/hub.pem");
    assert!(contents(&tls.join("hubs")).iter().any(is_renewed), "it was not handed out");
    let broker = broker(at, &tls.join("brokers").join(HOST));
    let of_hub = tls.join("hubs").join(HOST);
    let worlds = nodes(at, &of_hub, &broker);

    let output = run(&worlds[0], &["cluster", "create-topic"], &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The brokers do not accept a certificate of a node's port.
    let of_nodes = [("certificate_file", "hub.pem"), ("key_file", "hub.key")]
        .map(|(setting, file)| format!("broker_tls.{setting}={}", of_hub.join("nodes").join(file).display()));
    let output = run(&worlds[0], &["cluster", "create-topic"], &of_nodes);
    assert_eq!(output.status.code(), Some(69), "{output:?}");

    let mut leader = worlds[0].start();
    leader.serves();
    let mut other = worlds[1].start();
    assert!(other.logs("accepting requests and forwarding them"), "{}", other.log.join("\n"));
    worlds.iter().for_each(is_healthy);
    let text = answer(asked(worlds[1].ports[1], "/health"));
    assert!(text.starts_with("HTTP/1.1 502") && text.contains("this node is a follower"), "{text}");
    let callers = World { ports: [worlds[1].ports[0], worlds[0].ports[1]], ..World::new(&worlds[1].data) };
    let mut load = block_on(callers.load(1));
    load.start();
    load.wait_for_accepted(TRANSFERS);
    // Stopped in order, like a machine that is drained.
    stops(leader);
    assert!(other.logs(SERVING), "{}", other.log.join("\n"));
    load.wait_for_accepted(TRANSFERS);
    let accepted = block_on(verdict::all_agree(&worlds[1].admin(), &mut load));
    stops(other);
    verdict::copy_agrees(&worlds[1].data, &accepted);
}
