//! Lookups without an answer, and limits.

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use tokio::time::{Instant, advance};
use upesi_delivery::relayed::RelayConfig;

use crate::DirectoryConfig;
use crate::metrics::LookupOutcome;
use crate::oracle::OracleFailure;
use crate::scripted::{DfspBehaviour, Script, ScriptedOracle, ScriptedOracles, World};

pub(super) const LOOKUP: &str = "GET /parties/MSISDN/26097";

fn world(config: DirectoryConfig) -> World {
    let world = World::new(config, ScriptedOracle::new(Script::Finds(vec![("greenbank", None)]), false));
    tokio::spawn(world.directory.expiry());
    world
}

/// A scheme that accepts answers of DFSPs that were not queried.
fn open_world(config: DirectoryConfig) -> World {
    let world = World::open(config, ScriptedOracle::new(Script::Finds(vec![("greenbank", None)]), false));
    tokio::spawn(world.directory.expiry());
    world
}

fn config(deadline_s: u64, pending_max: usize) -> DirectoryConfig {
    let lookup_deadline = Duration::from_secs(deadline_s);
    DirectoryConfig { lookup_deadline, pending_max, sender_share_percent: 100, ..DirectoryConfig::default() }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_lookup_ends_with_an_error_at_its_deadline_and_not_before() {
    let world = world(config(20, 10));
    world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    assert_eq!(world.sent().await.len(), 1);
    advance(Duration::from_millis(19_990)).await;
    assert!(world.sent().await.is_empty());
    assert_eq!(world.directory.lookups_pending(), 1);
    advance(Duration::from_millis(30)).await;
    assert_eq!(
        world.sent().await,
        [
            "PUT bluebank /parties/MSISDN/26097/error from Hub: 3300 Generic expired error - No answer within 20 s"
        ]
    );
    assert_eq!(world.directory.lookups_pending(), 0);
    assert_eq!(world.metrics.lookups(LookupOutcome::Expired), 1);
    // A late answer is forwarded.
    world.take("PUT /parties/MSISDN/26097", "greenbank", Some("bluebank"), "{}").await.unwrap();
    assert_eq!(world.sent().await, ["PUT bluebank /parties/MSISDN/26097 from greenbank: {}"]);
    assert_eq!(world.metrics.lookups(LookupOutcome::Answered), 0);
    // A much later answer is rejected.
    advance(Duration::from_secs(20)).await;
    assert!(world.take("PUT /parties/MSISDN/26097", "greenbank", Some("bluebank"), "{}").await.is_err());
    assert_eq!(world.sent().await, [""; 0]);
}

/// However many lookups of one DFSP are pending, lookups of another one are accepted.
#[tokio::test(start_paused = true)]
async fn one_dfsp_leaves_room_for_the_lookups_of_others() {
    for (pending_max, bytes_max) in [(8, 128 << 20), (65_536, 8_000)] {
        let config =
            DirectoryConfig { pending_max, pending_bytes_max: bytes_max, ..DirectoryConfig::default() };
        let world = world(config);
        world.add_proxies();
        let mut taken = 0;
        while world.take(LOOKUP, "bluebank", None, "").await.is_ok() {
            taken += 1;
            assert!(taken < 100);
        }
        world.take(LOOKUP, "redbank", None, "").await.unwrap();
        // DFSPs behind a proxy share its limit.
        let mut proxied = 0;
        while world.take_proxied(LOOKUP, ["farbank", "farwallet"][proxied % 2], None, "").await.is_ok() {
            proxied += 1;
        }
        assert!(proxied <= taken + 1, "{proxied} and {taken}");
        assert!(world.take_proxied(LOOKUP, "farwallet", None, "").await.is_err());
        // Lookups that end release their places.
        world.sent().await;
        world.take("PUT /parties/MSISDN/26097", "greenbank", Some("bluebank"), "{}").await.unwrap();
        world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn lookup_with_hanging_oracle_or_owner_ends_at_its_deadline() {
    for hangs_at_oracle in [true, false] {
        let world = world(config(20, 10));
        match hangs_at_oracle {
            true => *crate::scripted::lock(&world.oracle.script) = Script::Hangs,
            false => world.set_manner("greenbank", DfspBehaviour::Hangs),
        }
        world.take(LOOKUP, "bluebank", None, "").await.unwrap();
        world.sent().await;
        advance(Duration::from_millis(20_020)).await;
        let sent = world.sent().await;
        assert!(sent.len() == 1 && sent[0].contains(": 3300 "), "{sent:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn failure_after_the_end_of_a_lookup_causes_no_callback() {
    for is_answered in [false, true] {
        let world = open_world(config(20, 10));
        let failure = OracleFailure::Refused { status: 400 };
        *crate::scripted::lock(&world.oracle.script) = Script::FailsAfter(Duration::from_secs(30), failure);
        world.take(LOOKUP, "bluebank", None, "").await.unwrap();
        if is_answered {
            world.take("PUT /parties/MSISDN/26097", "greenbank", Some("bluebank"), "{}").await.unwrap();
        }
        world.sent().await;
        advance(Duration::from_millis(20_050)).await;
        assert_eq!(world.sent().await.len(), usize::from(!is_answered));
        advance(Duration::from_secs(20)).await;
        assert!(world.sent().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn an_answered_lookup_does_not_expire() {
    let world = world(config(20, 10));
    for answer in ["PUT /parties/MSISDN/26097", "PUT /parties/MSISDN/26097/error"] {
        world.take(LOOKUP, "bluebank", None, "").await.unwrap();
        assert_eq!(world.sent().await.len(), 1);
        world.take(answer, "greenbank", Some("bluebank"), "{}").await.unwrap();
        assert_eq!(world.sent().await.len(), 1);
        advance(Duration::from_secs(60)).await;
        assert!(world.sent().await.is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn full_table_rejects_lookups_until_one_ends() {
    let world = world(config(20, 3));
    for _ in 0..3 {
        world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    }
    let refusal = world.take(LOOKUP, "bluebank", None, "").await.unwrap_err();
    assert_eq!((refusal.status, refusal.code.number()), (503, 2005));
    assert_eq!(world.metrics.lookups(LookupOutcome::Refused), 1);
    assert_eq!(world.sent().await.len(), 3, "a rejected lookup causes no message");
    world.take("PUT /parties/MSISDN/26097", "greenbank", Some("bluebank"), "{}").await.unwrap();
    world.take(LOOKUP, "bluebank", None, "").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn pending_lookups_above_the_memory_limit_are_rejected() {
    let world = world(DirectoryConfig { pending_bytes_max: 1000, ..config(20, 65_536) });
    let mut taken = 0;
    while world.take(LOOKUP, "bluebank", None, "").await.is_ok() {
        taken += 1;
    }
    assert!((1..10).contains(&taken), "{taken}");
    assert_eq!(world.directory.lookups_pending(), taken);
    world.sent().await;
    world.take("PUT /parties/MSISDN/26097", "greenbank", Some("bluebank"), "{}").await.unwrap();
    world.take(LOOKUP, "bluebank", None, "").await.unwrap();
}

/// However many lookups expire together, only a limited number of callbacks is in flight, and the others are not lost.
#[tokio::test(start_paused = true)]
async fn many_expiries_at_once_are_limited_and_complete() {
    let world = world(DirectoryConfig { expiries_in_flight_max: 4, ..config(20, 100) });
    for _ in 0..10 {
        world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    }
    assert_eq!(world.sent().await.len(), 10);
    world.set_manner("bluebank", DfspBehaviour::Hangs);
    advance(Duration::from_millis(20_050)).await;
    assert_eq!(world.sent().await.len(), 4);
    assert_eq!(world.directory.lookups_pending(), 6);
}

/// A slow oracle uses only its own limit: lookups of other types continue, and so does the rest of the relay.
#[tokio::test(start_paused = true)]
async fn slow_oracle_does_not_delay_requests_to_others() {
    use upesi_fspiop::PartyIdType::{Business, Msisdn};
    let slow = ScriptedOracle::new(Script::Hangs, false);
    let quick = ScriptedOracle::new(Script::Finds(vec![("greenbank", None)]), false);
    let oracles = Arc::new(ScriptedOracles([(Msisdn, slow.clone()), (Business, quick.clone())].into()));
    let relay = RelayConfig { in_flight_max: 8, sender_share_percent: 100, ..RelayConfig::default() };
    let world = World::with_oracles(DirectoryConfig::default(), slow.clone(), oracles, relay);
    for _ in 0..7 {
        world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    }
    assert!(world.sent().await.is_empty());
    for _ in 0..100 {
        world.take("GET /parties/BUSINESS/acme", "bluebank", None, "").await.unwrap();
        assert_eq!(world.sent().await, ["GET greenbank /parties/BUSINESS/acme from bluebank"]);
    }
    // The relay's own limit applies last, as an immediate error.
    world.take(LOOKUP, "bluebank", None, "").await.unwrap();
    let refusal = world.take("GET /parties/BUSINESS/acme", "bluebank", None, "").await.unwrap_err();
    assert_eq!((refusal.status, refusal.code.number()), (503, 2005));
}

#[derive(Clone, Debug)]
enum Step {
    Ask {
        source: usize,
        party: u8,
    },
    Answer {
        destination: usize,
        party: u8,
        is_error: bool,
    },
    Wait {
        seconds: u64,
    },
    /// The owner stops accepting messages, or accepts them again.
    Owner {
        is_reachable: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..2_usize, 0..3_u8).prop_map(|(source, party)| Step::Ask { source, party }),
        2 => (0..2_usize, 0..3_u8, any::<bool>())
            .prop_map(|(destination, party, is_error)| Step::Answer { destination, party, is_error }),
        2 => (0..12_u64).prop_map(|seconds| Step::Wait { seconds }),
        1 => any::<bool>().prop_map(|is_reachable| Step::Owner { is_reachable }),
    ]
}

const SOURCES: [&str; 2] = ["bluebank", "redbank"];
const PENDING_MAX: usize = 6;
const DEADLINE: Duration = Duration::from_secs(20);

/// An accepted lookup that has not ended.
struct Open {
    source: usize,
    party: u8,
    due: Instant,
}

struct Play {
    world: World,
    open: Vec<Open>,
    is_reachable: bool,
}

impl Play {
    async fn step(&mut self, step: &Step) {
        match step {
            Step::Ask { source, party } => self.ask(*source, *party).await,
            Step::Answer { destination, party, is_error } => {
                let suffix = if *is_error { "/error" } else { "" };
                let request = format!("PUT /parties/MSISDN/{party}{suffix}");
                self.world.take(&request, "greenbank", Some(SOURCES[*destination]), "{}").await.unwrap();
                self.open.retain(|open| (open.source, open.party) != (*destination, *party));
                let sent = self.sent().await;
                assert!(sent.len() == 1 && sent[0].starts_with(&format!("PUT {}", SOURCES[*destination])));
            }
            Step::Wait { seconds } => {
                for _ in 0..*seconds {
                    advance(Duration::from_secs(1)).await;
                    assert!(self.sent().await.is_empty());
                }
            }
            Step::Owner { is_reachable } => {
                self.is_reachable = *is_reachable;
                let status = if self.is_reachable { 202 } else { 503 };
                self.world.set_manner("greenbank", DfspBehaviour::Answers(status, ""));
            }
        }
        assert!(self.sent().await.is_empty());
        assert_eq!(self.world.directory.lookups_pending(), self.open.len(), "{step:?}");
        assert!(self.open.len() <= PENDING_MAX);
    }

    async fn ask(&mut self, source: usize, party: u8) {
        let due = Instant::now() + DEADLINE;
        let request = format!("GET /parties/MSISDN/{party}");
        let taken = self.world.take(&request, SOURCES[source], None, "").await;
        assert_eq!(taken.is_ok(), self.open.len() < PENDING_MAX);
        if taken.is_ok() && self.is_reachable {
            self.open.push(Open { source, party, due });
        }
        let sent = self.sent().await;
        match (taken.is_ok(), self.is_reachable) {
            (false, _) => assert!(sent.is_empty()),
            (true, true) => assert!(sent.len() == 1 && sent[0].starts_with("GET greenbank"), "{sent:?}"),
            (true, false) => {
                let expected =
                    format!("PUT {} /parties/MSISDN/{party}/error from Hub: 1001", SOURCES[source]);
                assert!(sent.len() == 2 && sent[1].starts_with(&expected), "{sent:?}");
            }
        }
    }

    /// The messages except error callbacks of expired lookups. Checks that exactly the lookups that are due expired.
    async fn sent(&mut self) -> Vec<String> {
        // As long as the hub collects expired lookups.
        advance(Duration::from_millis(15)).await;
        let mut sent = self.world.sent().await;
        let now = Instant::now();
        sent.retain(|line| {
            let Some((message, _)) = line.split_once(": 3300 ") else { return true };
            let ended = self.open.iter().position(|open| {
                let Open { source, party, due } = open;
                *due <= now
                    && *message == format!("PUT {} /parties/MSISDN/{party}/error from Hub", SOURCES[*source])
            });
            self.open.remove(ended.expect("a lookup that is not due expired"));
            false
        });
        assert!(
            self.open.iter().all(|open| open.due + Duration::from_millis(30) > now),
            "a lookup that is due did not expire"
        );
        sent
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Each accepted lookup is pending until exactly one event ends it: an answer, a failure, or its deadline.
    #[test]
    fn each_lookup_ends_exactly_once(steps in prop::collection::vec(step(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let world = open_world(config(DEADLINE.as_secs(), PENDING_MAX));
            let mut play = Play { world, open: Vec::new(), is_reachable: true };
            for step in &steps {
                play.step(step).await;
            }
        });
    }
}
