//! `kill -9` of the real binary while DFSPs register parties: what was acknowledged is there after the next start.

mod common;
mod support_crash;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use common::AMPLE;
use common::client::{Client, request};
use common::message::Message;
use support_crash::verdict;
use support_crash::world::World;
use tempfile::TempDir;
use upesi_types::TransferId;

const SENDERS: u64 = 4;
/// Parties of a batch.
const BATCH: u64 = 20;
/// Acknowledgements after which each life of the hub ends.
const LIVES: [u64; 5] = [1, 7, 40, 150, 400];

/// What the senders were told, and how often they were.
#[derive(Default)]
struct Told {
    /// Parties that are registered, and those that are removed; who knows about others.
    registered: Mutex<BTreeMap<String, bool>>,
    count: Mutex<u64>,
    counted: Condvar,
}

impl Told {
    fn note(&self, numbers: &[String], is_registered: bool) {
        let mut registered = self.registered.lock().unwrap();
        registered.extend(numbers.iter().map(|number| (number.clone(), is_registered)));
        drop(registered);
        *self.count.lock().unwrap() += 1;
        self.counted.notify_all();
    }

    /// An answer that is still out may mean either.
    fn doubt(&self, numbers: &[String]) {
        let mut registered = self.registered.lock().unwrap();
        for number in numbers {
            registered.remove(number);
        }
    }

    fn wait_for(&self, count: u64) {
        let guard = self.count.lock().unwrap();
        let waited = self.counted.wait_timeout_while(guard, AMPLE, |so_far| *so_far < count).unwrap();
        assert!(!waited.1.timed_out(), "{} of {count} acknowledgements", waited.0);
    }
}

/// A number that no other call gives.
fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Registers parties one by one, removes some of them again, and registers others in batches, until the hub is gone.
fn send(hub: SocketAddr, told: &Told) {
    let mut client = Client::connect(hub);
    let source = "dfsp-1";
    let mut exchange = |message: Message, numbers: &[String], is_registered: bool| {
        told.doubt(numbers);
        let accepted = if message.path == "/participants" { 200 } else { 202 };
        if client.try_send(&message.into_sent().bytes()).is_err() {
            return false;
        }
        match client.answer() {
            Some(answer) => assert_eq!(answer.status, accepted, "{answer:?}"),
            None => return false,
        }
        told.note(numbers, is_registered);
        true
    };
    loop {
        let number = new_number();
        let mut goes_on = true;
        if number % 10 == 9 {
            let numbers: Vec<_> = (0..BATCH).map(|_| format!("25470{:07}", new_number())).collect();
            let party = |number: &String| {
                format!(r#"{{"partyIdType":"MSISDN","partyIdentifier":"{number}","fspId":"{source}"}}"#)
            };
            let parties: Vec<_> = numbers.iter().map(party).collect();
            let mut bytes = [7; 16];
            bytes[8..].copy_from_slice(&number.to_be_bytes());
            let id = TransferId::from_random_bytes(bytes);
            let body = format!(r#"{{"requestId":"{id}","partyList":[{}]}}"#, parties.join(","));
            goes_on &= exchange(Message::of("POST", "/participants", source, None, body), &numbers, true);
        } else {
            let numbers = [format!("25471{number:07}")];
            let path = format!("/participants/MSISDN/{}", numbers[0]);
            let body = format!(r#"{{"fspId":"{source}"}}"#);
            goes_on &= exchange(Message::of("POST", &path, source, None, body), &numbers, true);
            if goes_on && number.is_multiple_of(3) {
                goes_on &= exchange(Message::of("DELETE", &path, source, None, ""), &numbers, false);
            }
        }
        if !goes_on {
            return;
        }
    }
}

fn operate(client: &mut Client, method: &str, path: &str, body: &str) -> String {
    let headers = [("host", "localhost"), ("content-type", "application/json")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let answer = client.exchange(&request(&format!("{method} {path}"), &headers, body.as_bytes()));
    assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
    answer.body
}

#[test]
fn acknowledged_registrations_survive_kills() {
    let directory = TempDir::new().unwrap();
    let world =
        World { log: Some(directory.path().join("hub.log")), ..World::new(&directory.path().join("data")) };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut hub = world.start();
    hub.serves();
    // Its simulated DFSPs take the callbacks.
    let _dfsps = runtime.block_on(world.load(1));
    let [fspiop, admin] = world.ports;
    let oracle = r#"{"oracleIdType":"ALIAS","endpoint":{"value":"http://127.0.0.1:9","endpointType":"URL"}}"#;
    operate(&mut Client::connect(admin), "POST", "/oracles", oracle);

    let told = Arc::new(Told::default());
    for count in LIVES {
        let before = *told.count.lock().unwrap();
        let senders: Vec<_> = (0..SENDERS)
            .map(|_| {
                let told = Arc::clone(&told);
                thread::spawn(move || send(fspiop, &told))
            })
            .collect();
        told.wait_for(before + count);
        hub.kill();
        for sender in senders {
            sender.join().unwrap();
        }
        hub = world.start();
        hub.serves();
        let mut client = Client::connect(admin);
        for (number, is_registered) in &*told.registered.lock().unwrap() {
            let found = operate(&mut client, "GET", &format!("/directory/parties/MSISDN/{number}"), "");
            assert_eq!(found.contains("dfsp-1"), *is_registered, "{number}: {found}");
        }
        let oracles = operate(&mut client, "GET", "/oracles", "");
        assert!(oracles.contains("http://127.0.0.1:9"), "{oracles}");
    }
    let (status, log) = hub.stop();
    assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
    verdict::audit_is_clean(&world.data);
}
