//! DFSPs that register parties continuously, and the answers that they received.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};

use upesi_types::TransferId;

use super::common::dfsp::{Client, request};
use crate::common::AMPLE;
use crate::common::message::Message;

const SENDERS: u64 = 4;
/// Number of parties in a batch.
const BATCH: u64 = 20;
/// The answers that the senders received, and their number.
#[derive(Default)]
pub struct Told {
    /// Registered parties, and removed ones. The state of other parties is not known.
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

    /// Without an answer, both states are possible.
    fn doubt(&self, numbers: &[String]) {
        let mut registered = self.registered.lock().unwrap();
        for number in numbers {
            registered.remove(number);
        }
    }

    /// Waits for this many further acknowledgements.
    pub fn wait_for_more(&self, count: u64) {
        let count = *self.count.lock().unwrap() + count;
        let guard = self.count.lock().unwrap();
        let waited = self.counted.wait_timeout_while(guard, AMPLE, |so_far| *so_far < count).unwrap();
        assert!(!waited.1.timed_out(), "{} of {count} acknowledgements", waited.0);
    }
}

/// A number that no other call returns.
fn new_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// Starts senders to a hub. They end when the hub is gone, or reports that it is no longer the leader.
pub fn start(hub: SocketAddr, told: &Arc<Told>) -> Vec<JoinHandle<()>> {
    let told = |_| Arc::clone(told);
    (0..SENDERS).map(told).map(|told| thread::spawn(move || send(hub, &told))).collect()
}

/// Registers parties one by one, removes some of them again, and registers others in batches.
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
            Some(answer) if answer.status == 503 && answer.body.contains("\"2003\"") => return false,
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

/// Sends a request of an operator, which must succeed.
pub fn operate(client: &mut Client, method: &str, path: &str, body: &str) -> String {
    let headers = [("host", "localhost"), ("content-type", "application/json")];
    let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let answer = client.exchange(&request(&format!("{method} {path}"), &headers, body.as_bytes()));
    assert!((200..300).contains(&answer.status), "{method} {path}: {answer:?}");
    answer.body
}

/// The admin API agrees with the answers that the senders received.
pub fn are_there(admin: &mut Client, told: &Told) {
    for (number, is_registered) in &*told.registered.lock().unwrap() {
        let found = operate(admin, "GET", &format!("/directory/parties/MSISDN/{number}"), "");
        assert_eq!(found.contains("dfsp-1"), *is_registered, "{number}: {found}");
    }
}
