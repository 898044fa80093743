//! Clients keep connections with mutual TLS open to both nodes, while leadership is handed over under load. No
//! connection is closed, and no request waits long.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::sleep;
use upesi_pki::Usage;

use super::support_crash::scene::World;
use crate::brokers::shared;
use crate::common::message::{Message, Sent};
use crate::common::secure::{Caller, Pki};
use crate::serving::{nodes, takes_requests};
use crate::support_crash::hub::{PATIENCE, SERVING};
use crate::support_crash::scene::block_on;
use crate::{FOLLOWS, Logs, hand_over, makes_topic, metrics, stops};

/// Connections of all clients; half of them to each node.
const CONNECTIONS: usize = 200;
/// Pause of a client between two requests.
const PAUSE: Duration = Duration::from_millis(200);
/// Answers between two handovers.
const ANSWERS: u64 = 1_000;
const IS_OPTIMISED: bool = !cfg!(debug_assertions);
/// Longest permitted wait for an answer, with optimised clients.
const WAIT_MAX: Duration = Duration::from_millis(200);

/// Clients that send requests on their connections until the test ends them.
struct Clients {
    ends: watch::Sender<bool>,
    seen: Arc<Seen>,
    thread: JoinHandle<()>,
}

/// What the clients have seen.
#[derive(Default)]
struct Seen {
    answers: AtomicU64,
    /// Answers 503.
    rejections: AtomicU64,
    /// The longest wait for an answer since the last look, in microseconds.
    longest_us: AtomicU64,
}

impl Clients {
    fn start(worlds: &[World], pki: &Pki) -> Self {
        let (ends, ended) = watch::channel(false);
        let seen = Arc::<Seen>::default();
        let caller = |number: usize| {
            let id = format!("01563e3a-b5d3-4676-8c61-{number:012}");
            let sent = Message::get(&id, "dfsp-1").into_sent();
            (pki.caller(Some("client"), worlds[number % worlds.len()].ports[0]), sent)
        };
        let callers: Vec<_> = (0..CONNECTIONS).map(caller).collect();
        let shared = Arc::clone(&seen);
        let run = async move {
            let mut clients = JoinSet::new();
            for (caller, sent) in callers {
                clients.spawn(ask(caller, sent, ended.clone(), Arc::clone(&shared)));
            }
            while let Some(client) = clients.join_next().await {
                client.unwrap();
            }
        };
        Self { ends, seen, thread: std::thread::spawn(move || block_on(run)) }
    }

    /// Waits for this many further answers.
    fn wait_for_answers(&self, count: u64) {
        let (since, before) = (Instant::now(), self.seen.answers.load(Ordering::Relaxed));
        while self.seen.answers.load(Ordering::Relaxed) < before + count {
            assert!(!self.thread.is_finished(), "a client failed");
            assert!(since.elapsed() < PATIENCE, "the clients get no answers");
            std::thread::sleep(PAUSE);
        }
    }

    /// The longest wait for an answer since the last call.
    fn take_longest(&self) -> Duration {
        Duration::from_micros(self.seen.longest_us.swap(0, Ordering::Relaxed))
    }

    fn end(self) {
        self.ends.send_replace(true);
        self.thread.join().unwrap();
    }
}

/// Sends a request again and again. The first wait does not count, because it includes the handshake.
async fn ask(caller: Caller, sent: Sent, ended: watch::Receiver<bool>, seen: Arc<Seen>) {
    let mut is_first = true;
    while !*ended.borrow() {
        let asked = Instant::now();
        let answer = caller.send(&sent).await.unwrap();
        if IS_OPTIMISED || answer.status != 503 {
            assert_eq!(answer.status, 202, "{answer:?}");
        } else {
            // On a busy machine, a node can be too far behind the leader to forward requests.
            assert!(answer.head.contains("retry-after"), "{answer:?}");
            seen.rejections.fetch_add(1, Ordering::Relaxed);
        }
        if !std::mem::take(&mut is_first) {
            let waited = u64::try_from(asked.elapsed().as_micros()).unwrap();
            seen.longest_us.fetch_max(waited, Ordering::Relaxed);
        }
        seen.answers.fetch_add(1, Ordering::Relaxed);
        sleep(PAUSE).await;
    }
}

/// Number of TLS handshakes on the port for DFSPs, with any outcome.
fn handshakes(world: &World) -> u64 {
    let text = metrics(world);
    let counts = text.lines().filter_map(|line| {
        let rest = line.strip_prefix("upesi_tls_handshakes_total{port=\"fspiop\",")?;
        rest.rsplit_once(' ')?.1.parse::<u64>().ok()
    });
    counts.sum()
}

#[test]
fn handover_under_load_closes_no_connection() {
    let directory = TempDir::new().unwrap();
    let _logs = Logs(directory.path());
    let (mut of_nodes, mut of_dfsps) = (Pki::new(), Pki::new());
    of_dfsps.issue(Usage::Client, "client");
    let mut worlds = nodes(directory.path(), shared(), &mut of_nodes, 2);
    for world in &mut worlds {
        let given = of_dfsps.listener("fspiop_tls").into_iter().map(|(key, value)| format!("{key}={value}"));
        world.settings.extend(given.map(|setting| -> &'static str { setting.leak() }));
        world.settings.push("fspiop_tls.bindings_required=false");
        // On a busy machine, load shedding would reject requests that the nodes can accept.
        world.settings.extend(["admission.delay_target_us=0", "admission.engine_wait_max_ms=600000"]);
    }
    makes_topic(&worlds[0]);
    let mut one = worlds[0].start();
    one.serves();
    let mut other = takes_requests(&worlds[1]);
    // DFSPs that receive callbacks, and send nothing.
    let load = block_on(worlds[0].load(1));
    let clients = Clients::start(&worlds, &of_dfsps);
    clients.wait_for_answers(ANSWERS);
    let _with_handshakes = clients.take_longest();
    clients.wait_for_answers(ANSWERS);
    let longest_before = clients.take_longest();
    let before = [0, 1].map(|node| handshakes(&worlds[node]));
    assert_eq!(before.iter().sum::<u64>(), CONNECTIONS as u64, "{before:?}");
    for (from, to) in [(0, 1), (1, 0)] {
        hand_over(&worlds[from], from, to);
        assert!([&mut one, &mut other][to].logs(SERVING), "node {to} does not lead");
        assert!([&mut one, &mut other][from].logs(FOLLOWS), "node {from} does not follow");
        clients.wait_for_answers(ANSWERS);
    }
    let after = [0, 1].map(|node| handshakes(&worlds[node]));
    let longest = clients.take_longest();
    let rejections = clients.seen.rejections.load(Ordering::Relaxed);
    clients.end();
    println!(
        "{CONNECTIONS} connections: the longest wait was {} ms before the handovers, {} ms during them; {rejections} \
         requests were rejected",
        longest_before.as_millis(),
        longest.as_millis()
    );
    assert_eq!(after, before, "clients had to connect again");
    assert!(!IS_OPTIMISED || longest <= WAIT_MAX, "a request waited {} ms", longest.as_millis());
    drop(load);
    stops(one);
    stops(other);
}
