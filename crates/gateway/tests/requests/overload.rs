//! Load beyond the hub's capacity: rejections by the head alone, which are fair, on connections that stay usable.

use std::sync::mpsc;

use upesi_gateway::{AdmissionSettings, GatewayConfig};

use super::common::position;
use crate::common::{
    Answer, Client, ID, Running, Settings, fulfil_body, get, post, prepare_body, put, request, two_banks,
};

const FLOOD: usize = 300;

fn start(admission: AdmissionSettings) -> Running {
    let gateway = GatewayConfig { admission, ..GatewayConfig::default() };
    Running::start(Settings { gateway, dress: two_banks, ..Settings::default() })
}

/// A hub that accepts one new request per second, and two saved-up requests of each DFSP.
fn narrow() -> Running {
    start(AdmissionSettings { rate_max: 1, ..AdmissionSettings::default() })
}

fn is_busy(answer: &Answer) -> bool {
    if answer.status != 503 {
        return false;
    }
    assert_eq!((answer.code(), answer.header("retry-after")), (2005, Some("1")), "{answer:?}");
    assert!(answer.body.contains("Server busy - "), "{answer:?}");
    true
}

/// Sends prepares on one connection. Returns the number of accepted ones.
fn flood(client: &mut Client, count: usize) -> usize {
    let prepare = post(&[], prepare_body(ID));
    (0..count).filter(|_| !is_busy(&client.exchange(&prepare))).count()
}

fn metric(running: &Running, line: &str) -> u64 {
    let text = running.metrics();
    let value = text.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(' '));
    value.unwrap_or_else(|| panic!("no {line} in {text}")).parse().unwrap()
}

#[test]
fn flood_of_one_dfsp_leaves_another_its_share() {
    let running = narrow();
    let mut green = running.connect();
    let taken = flood(&mut green, FLOOD);
    assert!((2..FLOOD / 2).contains(&taken), "{taken}");
    let mut blue = running.connect();
    let from_blue = post(&["fspiop-source: bluewallet", "fspiop-destination: greenbank"], prepare_body(ID));
    assert_eq!(blue.exchange(&from_blue).status, 202);
    flood(&mut green, FLOOD);
    assert_eq!(blue.exchange(&from_blue).status, 202);
    assert!(metric(&running, r#"upesi_admission_refused_total{class="new",reason="overload"}"#) > 0);
}

#[test]
fn fulfils_are_accepted_while_new_work_is_rejected() {
    let running = narrow();
    let mut client = running.connect();
    assert!(flood(&mut client, 10) < 10, "new work is refused");
    let fulfil = put(ID, &["fspiop-source: bluewallet", "fspiop-destination: greenbank"], fulfil_body());
    for round in 0..20 {
        let records = running.records();
        assert_eq!(client.exchange(&fulfil).status, 200);
        // The first one commits, and callbacks answer the others. Each is a record.
        assert_eq!(running.records(), records + 1, "round {round}");
        assert_eq!(running.wait(position(&running.handle, "bluewallet")), "-125.5");
        flood(&mut client, 5);
    }
    assert_eq!(metric(&running, r#"upesi_admission_refused_total{class="finishing",reason="overload"}"#), 0);
}

#[test]
fn overload_rejects_all_new_work_except_operators() {
    let running = narrow();
    let mut client = running.connect();
    flood(&mut client, FLOOD);
    for (line, body) in [
        ("GET /transfers/5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d", ""),
        ("GET /parties/MSISDN/1", ""),
        ("POST /quotes", "{}"),
        ("DELETE /participants/MSISDN/1", ""),
    ] {
        // One request per second is accepted.
        let busy = (0..5).filter(|_| is_busy(&client.exchange(&request(line, &[], body)))).count();
        assert!(busy >= 3, "{line}: {busy}");
    }
    for line in ["GET /health", "GET /live", "GET /"] {
        assert_eq!(client.exchange(&request(line, &[], "")).status, 200, "{line}");
    }
}

#[test]
fn overload_rejection_writes_no_record_and_reads_no_body() {
    let running = narrow();
    let mut client = running.connect();
    flood(&mut client, FLOOD);
    let records = running.records();
    let nonsense = post(&[], "no json at all");
    let (mut busy, mut malformed) = (0, 0);
    for _ in 0..20 {
        let answer = client.exchange(&nonsense);
        if is_busy(&answer) {
            busy += 1
        } else {
            malformed += usize::from(answer.code() == 3101)
        };
    }
    assert_eq!(busy + malformed, 20);
    assert!(busy > 15, "{busy}");
    assert_eq!(running.records(), records);
}

#[test]
fn large_bodies_are_rejected_unread() {
    let running = narrow();
    flood(&mut running.connect(), FLOOD);
    let large = post(&[], "x".repeat(200_000));
    let mut refused = 0;
    for _ in 0..5 {
        let mut client = running.connect();
        if is_busy(&client.exchange(&large)) {
            refused += 1;
            assert!(client.is_closed_without_a_word());
        }
    }
    assert!(refused >= 3, "{refused}");
}

#[test]
fn expect_continue_is_rejected_before_the_body_is_sent() {
    let running = narrow();
    flood(&mut running.connect(), FLOOD);
    let head = post(&["expect: 100-continue", "content-length: 10000"], "");
    let refused = (0..5).filter(|_| is_busy(&running.connect().exchange(&head))).count();
    assert!(refused >= 3, "{refused}");
}

#[test]
fn rate_per_dfsp_applies_to_each_dfsp() {
    let running = start(AdmissionSettings { rate_per_dfsp: 1, ..AdmissionSettings::default() });
    let mut green = running.connect();
    let taken = flood(&mut green, FLOOD);
    assert!((1..FLOOD / 2).contains(&taken), "{taken}");
    let answer = loop {
        let answer = green.exchange(&get(ID, &[]));
        if is_busy(&answer) {
            break answer;
        }
    };
    assert!(answer.body.contains("more requests per second than this scheme allows a DFSP"), "{answer:?}");
    let from_blue = post(&["fspiop-source: bluewallet", "fspiop-destination: greenbank"], prepare_body(ID));
    assert_eq!(running.ask(&from_blue).status, 202);
    assert!(metric(&running, r#"upesi_admission_refused_total{class="new",reason="rate"}"#) > 0);
}

/// Blocks the engine until the sender is used or dropped.
fn block(running: &Running) -> (mpsc::Sender<()>, std::thread::JoinHandle<()>) {
    let (release, released) = mpsc::channel::<()>();
    let (reached, is_reached) = mpsc::channel();
    let handle = running.handle.clone();
    let asker = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let question = handle.read(move |_| {
            reached.send(()).unwrap();
            let _ = released.recv();
        });
        runtime.block_on(question).unwrap();
    });
    is_reached.recv().unwrap();
    (release, asker)
}

#[test]
fn new_work_is_rejected_while_the_engine_queue_is_long() {
    let admission =
        AdmissionSettings { engine_batch_commands: 2, engine_waiting_max: 2, ..AdmissionSettings::default() };
    let running = start(admission);
    let (release, asker) = block(&running);
    let mut waiting: Vec<Client> = Vec::new();
    for count in 1..=2 {
        let mut client = running.connect();
        client.send(&post(&[], prepare_body(ID)));
        waiting.push(client);
        while running.handle.status().queue_depth < count {
            std::thread::yield_now();
        }
    }
    let mut late = running.connect();
    assert!(is_busy(&late.exchange(&post(&[], prepare_body(ID)))));
    let mut finishing = running.connect();
    finishing.send(&put(ID, &[], fulfil_body()));
    while running.handle.status().queue_depth < 3 {
        std::thread::yield_now();
    }
    assert!(is_busy(&late.exchange(&get(ID, &[]))));
    // Lookups do not need the engine.
    assert_eq!(late.exchange(&request("GET /parties/MSISDN/1", &[], "")).status, 501);
    drop(release);
    asker.join().unwrap();
    for client in &mut waiting {
        assert_eq!(client.answer().status, 202);
    }
    assert_eq!(finishing.answer().status, 200);
    // At once, on the connection whose request was rejected.
    assert_eq!(late.exchange(&post(&[], prepare_body(ID))).status, 202);
    assert!(metric(&running, r#"upesi_admission_refused_total{class="new",reason="engine"}"#) >= 2);
}
