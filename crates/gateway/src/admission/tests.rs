use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, HeaderValue};
use upesi_admission::INTERVALS_PER_S;
use upesi_http::PeerIdentity;
use upesi_ledger::Participant;

use super::*;

const LONG: Duration = Duration::from_millis(50);

fn gate(settings: AdmissionSettings) -> AdmissionGate {
    let participant = |number, name: &str| {
        Participant::new(
            ParticipantId::new(number).unwrap(),
            FspId::parse(name).unwrap(),
            upesi_types::Timestamp::EPOCH,
        )
    };
    let all = vec![participant(1, "Hub"), participant(2, "greenbank"), participant(3, "bluewallet")];
    let participants = SharedParticipants::default();
    participants.set(Arc::new(upesi_engine::Participants::new(all, &[])));
    AdmissionGate::new(settings, participants, &mut Registry::default())
}

fn from(name: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("fspiop-source", HeaderValue::from_str(name).unwrap());
    headers
}

impl AdmissionGate {
    fn at(&self, interval: u64) -> Instant {
        self.started + Duration::from_nanos(interval * INTERVAL_NS)
    }

    /// An interval in which each probe waited this long, and each of `asking` sent this many requests. Returns the
    /// accepted ones.
    fn pass(&self, interval: u64, wait: Duration, asking: &[(&str, usize)]) -> Vec<usize> {
        for _ in 0..8 {
            self.probes.of_this_worker().note(wait);
        }
        self.end_interval(interval * INTERVAL_NS);
        let ask = |(name, count): &(&str, usize)| {
            let headers = from(name);
            (0..*count)
                .filter(|_| self.ask(Class::New, Caller::named(&headers), 0, self.at(interval)).is_ok())
                .count()
        };
        asking.iter().map(ask).collect()
    }
}

#[tokio::test]
async fn worker_without_delay_accepts_everything() {
    let gate = gate(AdmissionSettings::default());
    for interval in 1..50 {
        assert_eq!(gate.pass(interval, Duration::ZERO, &[("greenbank", 200)]), [200]);
    }
    assert_eq!(gate.core().admission.limit(), None);
}

#[tokio::test]
async fn a_slow_worker_limits_only_new_work() {
    let gate = gate(AdmissionSettings::default());
    let mut taken = 0;
    for interval in 1..60 {
        let wait = if interval < 30 { Duration::ZERO } else { LONG };
        taken = gate.pass(interval, wait, &[("greenbank", 200)])[0];
    }
    assert!(taken < 200, "{taken}");
    let put = HeaderMap::new();
    assert!((0..1_000).all(|_| gate.ask(Class::Finishing, Caller::named(&put), 0, gate.at(59)).is_ok()));
    for interval in 60..60 + INTERVALS_PER_S {
        taken = gate.pass(interval, Duration::ZERO, &[("greenbank", 50)])[0];
    }
    assert_eq!(taken, 50);
    assert_eq!(gate.core().admission.limit(), None, "recovered");
}

#[tokio::test]
async fn flood_leaves_other_senders_their_share() {
    let gate = gate(AdmissionSettings { rate_max: 5_000, ..AdmissionSettings::default() });
    for interval in 1..100 {
        let asking = [("greenbank", 2_000), ("bluewallet", 30), ("made-up-1", 5), ("made-up-2", 5)];
        let taken = gate.pass(interval, Duration::ZERO, &asking);
        if interval > 20 {
            assert_eq!(&taken[1..], [30, 5, 5], "interval {interval}");
            assert!((40..=80).contains(&taken[0]), "interval {interval}: {taken:?}");
        }
    }
}

#[tokio::test]
async fn unknown_names_share_one_share() {
    let gate = gate(AdmissionSettings { rate_per_dfsp: 50, ..AdmissionSettings::default() });
    let name = |index| format!("made-up-{index}");
    let taken = (0..1_000)
        .filter(|index| gate.ask(Class::New, Caller::named(&from(&name(*index))), 0, gate.at(1)).is_ok());
    assert_eq!(taken.count(), 50);
    assert_eq!(gate.ask(Class::New, Caller::named(&HeaderMap::new()), 0, gate.at(1)), Err(Refusal::Rate));
    assert_eq!(gate.ask(Class::New, Caller::named(&from("greenbank")), 0, gate.at(1)), Ok(()));
}

#[tokio::test]
async fn byte_rate_per_dfsp_holds_for_any_body_size() {
    let settings = AdmissionSettings { bytes_per_dfsp: 1_000_000, ..AdmissionSettings::default() };
    let gate = gate(settings);
    let of = |class, name: &str, bytes, at| gate.ask(class, Caller::named(&from(name)), bytes, gate.at(at));
    let ask = |name: &str, bytes| of(Class::New, name, bytes, 1);
    // The saved-up requests, and one on credit.
    let taken = (0..20).filter(|_| ask("greenbank", 300_000).is_ok()).count();
    assert_eq!(taken, 4);
    for bytes in [1, 300, ORDINARY_BODY_BYTES_MAX, ORDINARY_BODY_BYTES_MAX + 1, 300_000] {
        assert_eq!(ask("greenbank", bytes), Err(Refusal::Bytes), "{bytes}");
    }
    assert_eq!(ask("greenbank", 0), Ok(()), "without a body");
    assert_eq!(ask("bluewallet", 300_000), Ok(()));
    // Requests that finish something have their own limit.
    let finishing = (0..2_000).filter(|_| of(Class::Finishing, "greenbank", 1_000, 1).is_ok()).count();
    assert_eq!(finishing, 1_000);
    // Bytes that were not announced are charged afterwards.
    assert_eq!(ask("bluewallet", 1), Ok(()));
    gate.charge(Class::New, Caller::named(&from("bluewallet")), 900_000, gate.at(1));
    assert_eq!(ask("bluewallet", 1), Err(Refusal::Bytes));
    // A quarter of a second pays back the debt of 200,000.
    assert_eq!(of(Class::New, "greenbank", 300_000, 14), Ok(()));
    assert_eq!(of(Class::New, "greenbank", 1, 14), Err(Refusal::Bytes));
    gate.end_interval(20 * INTERVAL_NS);
}

#[test]
fn commands_that_wait_for_the_engine_are_limited() {
    let settings =
        AdmissionSettings { engine_batch_commands: 2, engine_waiting_max: 3, ..AdmissionSettings::default() };
    let gate = gate(settings);
    let now = gate.started;
    let first = gate.enter_engine();
    assert_eq!(gate.ask_engine(Class::New, now), Ok(()));
    let second = gate.enter_engine();
    assert_eq!(gate.ask_engine(Class::New, now), Err(Refusal::Engine));
    assert_eq!(gate.ask_engine(Class::Finishing, now), Ok(()));
    first.answered();
    assert_eq!(gate.ask_engine(Class::New, now), Ok(()));
    drop(second);
    assert_eq!(gate.engine.waiting(), 0);
}

#[test]
fn more_commands_may_wait_if_the_engine_is_fast() {
    let settings = AdmissionSettings { engine_batch_commands: 1, ..AdmissionSettings::default() };
    let gate = gate(settings);
    for _ in 0..100 {
        for _ in 0..10 {
            gate.enter_engine().answered();
        }
        gate.engine.end_interval(1);
    }
    // The engine decides ten commands per interval, and half a second has 25 intervals.
    let held: Vec<_> = (0..240).map(|_| gate.enter_engine()).collect();
    let now = Instant::now();
    assert_eq!(gate.ask_engine(Class::New, now), Ok(()));
    let more: Vec<_> = (0..20).map(|_| gate.enter_engine()).collect();
    assert_eq!(gate.ask_engine(Class::New, now), Err(Refusal::Engine));
    drop((held, more));
}

#[test]
fn engine_without_answers_receives_no_new_commands() {
    let gate = gate(AdmissionSettings::default());
    let waiting = gate.enter_engine();
    let now = Instant::now();
    assert_eq!(gate.ask_engine(Class::New, now), Ok(()));
    let later = now + Duration::from_millis(501);
    assert_eq!(gate.ask_engine(Class::New, later), Err(Refusal::Engine));
    assert_eq!(gate.ask_engine(Class::Finishing, later), Ok(()));
    drop(waiting);
    assert_eq!(gate.ask_engine(Class::New, later), Ok(()));
}

#[test]
fn delayed_rejections_are_limited() {
    let gate = gate(AdmissionSettings::default());
    let held = (0..200).filter(|_| gate.refusal_delay().is_some()).count();
    assert_eq!(held, 150);
    gate.end_interval(INTERVAL_NS);
    assert_eq!(gate.refusal_delay(), None);
}

#[test]
fn methods_have_classes() {
    for (method, class) in [
        (Method::POST, Class::New),
        (Method::GET, Class::New),
        (Method::DELETE, Class::New),
        (Method::PUT, Class::Finishing),
        (Method::PATCH, Class::Finishing),
    ] {
        assert_eq!(class_of(&method), class);
    }
}

#[test]
fn sender_is_identified_by_the_certificate_and_not_the_header() {
    let gate = gate(AdmissionSettings::default());
    let identity = PeerIdentity { number: 3, name: "bluewallet".into() };
    for (name, named) in [("greenbank", SourceId(2)), ("farbank", SourceId::OTHERS)] {
        let headers = from(name);
        assert_eq!(gate.source(Caller::named(&headers)), named);
        let caller = Caller::new(&headers, Some(&identity));
        assert_eq!((gate.source(caller), gate.knows(caller)), (SourceId(3), true), "{name}");
    }
}
