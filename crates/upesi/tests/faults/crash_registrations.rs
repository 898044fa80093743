//! `kill -9` of the real binary while DFSPs register parties. Acknowledged registrations exist after the next start.

use std::sync::Arc;

use crate::support_crash::verdict;
use crate::support_registrations::{Told, are_there, operate, start};
use tempfile::TempDir;

use crate::common::dfsp::Client;
use crate::support_crash::scene::World;

/// Number of acknowledgements after which each process of the hub is killed.
const LIVES: [u64; 5] = [1, 7, 40, 150, 400];

#[test]
fn acknowledged_registrations_survive_kills() {
    let directory = TempDir::new().unwrap();
    let world =
        World { log: Some(directory.path().join("hub.log")), ..World::new(&directory.path().join("data")) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut hub = world.start();
    hub.serves();
    // Its simulated DFSPs receive the callbacks.
    let _dfsps = runtime.block_on(world.load(1));
    let [fspiop, admin] = world.ports;
    let oracle = r#"{"oracleIdType":"ALIAS","endpoint":{"value":"http://127.0.0.1:9","endpointType":"URL"}}"#;
    operate(&mut Client::connect(admin), "POST", "/oracles", oracle);

    let told = Arc::new(Told::default());
    for count in LIVES {
        let senders = start(fspiop, &told);
        told.wait_for_more(count);
        hub.kill();
        for sender in senders {
            sender.join().unwrap();
        }
        hub = world.start();
        hub.serves();
        let mut client = Client::connect(admin);
        are_there(&mut client, &told);
        let oracles = operate(&mut client, "GET", "/oracles", "");
        assert!(oracles.contains("http://127.0.0.1:9"), "{oracles}");
    }
    let (status, log) = hub.stop();
    assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
    verdict::audit_is_clean(&world.data);
}
