use std::time::Duration;

use http::HeaderValue;
use upesi_admission::TURNS_PER_S;
use upesi_ledger::Participant;

use super::*;

const LONG: Duration = Duration::from_millis(50);

fn door(settings: AdmissionSettings) -> Door {
    let mut door = Door::new(settings, &mut Registry::default());
    let participant = |number, name: &str| Participant {
        id: ParticipantId::new(number).unwrap(),
        name: FspId::parse(name).unwrap(),
        is_active: true,
        is_proxy: false,
        created_at: upesi_types::Timestamp::EPOCH,
        accounts: Vec::new(),
        limits: Vec::new(),
        endpoints: Vec::new(),
    };
    let all = vec![participant(1, "Hub"), participant(2, "greenbank"), participant(3, "bluewallet")];
    let participants = SharedParticipants::default();
    participants.set(Arc::new(upesi_engine::Participants::new(all, &[])));
    door.set_participants(participants);
    door
}

fn from(name: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("fspiop-source", HeaderValue::from_str(name).unwrap());
    headers
}

impl Door {
    fn at(&self, turn: u64) -> Instant {
        self.started + Duration::from_nanos(turn * TURN_NS)
    }

    /// A turn in which each probe waited so long, and each of `asking` asked so often; gives who was let in.
    fn pass(&self, turn: u64, wait: Duration, asking: &[(&str, usize)]) -> Vec<usize> {
        for _ in 0..8 {
            self.pulses.of_this_worker().note(wait);
        }
        self.turn(turn * TURN_NS);
        let ask = |(name, count): &(&str, usize)| {
            let headers = from(name);
            (0..*count).filter(|_| self.ask(Class::New, &headers, 0, self.at(turn)).is_ok()).count()
        };
        asking.iter().map(ask).collect()
    }
}

#[tokio::test]
async fn a_worker_that_keeps_up_takes_everything() {
    let door = door(AdmissionSettings::default());
    for turn in 1..50 {
        assert_eq!(door.pass(turn, Duration::ZERO, &[("greenbank", 200)]), [200]);
    }
    assert_eq!(door.core().admission.limit(), None);
}

#[tokio::test]
async fn one_that_does_not_limits_new_work_and_nothing_else() {
    let door = door(AdmissionSettings::default());
    let mut taken = 0;
    for turn in 1..60 {
        let wait = if turn < 30 { Duration::ZERO } else { LONG };
        taken = door.pass(turn, wait, &[("greenbank", 200)])[0];
    }
    assert!(taken < 200, "{taken}");
    let put = HeaderMap::new();
    assert!((0..1_000).all(|_| door.ask(Class::Finishing, &put, 0, door.at(59)).is_ok()));
    for turn in 60..60 + TURNS_PER_S {
        taken = door.pass(turn, Duration::ZERO, &[("greenbank", 50)])[0];
    }
    assert_eq!(taken, 50);
    assert_eq!(door.core().admission.limit(), None, "recovered");
}

#[tokio::test]
async fn a_flood_leaves_the_others_their_share() {
    let door = door(AdmissionSettings { rate_max: 5_000, ..AdmissionSettings::default() });
    for turn in 1..100 {
        let asking = [("greenbank", 2_000), ("bluewallet", 30), ("made-up-1", 5), ("made-up-2", 5)];
        let taken = door.pass(turn, Duration::ZERO, &asking);
        if turn > 20 {
            assert_eq!(&taken[1..], [30, 5, 5], "turn {turn}");
            assert!((40..=80).contains(&taken[0]), "turn {turn}: {taken:?}");
        }
    }
}

#[tokio::test]
async fn names_that_nobody_has_share_one_share() {
    let door = door(AdmissionSettings { rate_per_dfsp: 50, ..AdmissionSettings::default() });
    let name = |index| format!("made-up-{index}");
    let taken = (0..1_000).filter(|index| door.ask(Class::New, &from(&name(*index)), 0, door.at(1)).is_ok());
    assert_eq!(taken.count(), 50);
    assert_eq!(door.ask(Class::New, &HeaderMap::new(), 0, door.at(1)), Err(Refusal::Rate));
    assert_eq!(door.ask(Class::New, &from("greenbank"), 0, door.at(1)), Ok(()));
}

#[tokio::test]
async fn bytes_are_a_rate_of_each_dfsp_and_small_bodies_pass() {
    let settings = AdmissionSettings { bytes_per_dfsp: 1_000_000, ..AdmissionSettings::default() };
    let door = door(settings);
    let ask = |name: &str, bytes| door.ask(Class::New, &from(name), bytes, door.at(1));
    // What is saved up, and one that is taken on credit.
    let taken = (0..20).filter(|_| ask("greenbank", 300_000).is_ok()).count();
    assert_eq!(taken, 4);
    assert_eq!(ask("greenbank", 300_000), Err(Refusal::Bytes));
    assert_eq!(ask("greenbank", ORDINARY_BODY_BYTES_MAX + 1), Err(Refusal::Bytes));
    assert_eq!(ask("greenbank", ORDINARY_BODY_BYTES_MAX), Ok(()));
    assert_eq!(ask("bluewallet", 300_000), Ok(()));
    let finishing = door.ask(Class::Finishing, &from("greenbank"), 300_000, door.at(1));
    assert_eq!(finishing, Ok(()));
    // What was not announced is charged afterwards.
    door.charge(Class::New, &from("bluewallet"), 900_000);
    assert_eq!(ask("bluewallet", 300_000), Err(Refusal::Bytes));
    // A quarter of a second pays back the 200,000 that were owed.
    door.turn(14 * TURN_NS);
    assert_eq!(ask("greenbank", 300_000), Ok(()));
    assert_eq!(ask("greenbank", 300_000), Err(Refusal::Bytes));
}

#[test]
fn so_many_may_wait_for_the_engine() {
    let settings =
        AdmissionSettings { engine_batch_commands: 2, engine_waiting_max: 3, ..AdmissionSettings::default() };
    let door = door(settings);
    let now = door.started;
    let first = door.wait();
    assert_eq!(door.ask_engine(Class::New, now), Ok(()));
    let second = door.wait();
    assert_eq!(door.ask_engine(Class::New, now), Err(Refusal::Engine));
    assert_eq!(door.ask_engine(Class::Finishing, now), Ok(()));
    first.answered();
    assert_eq!(door.ask_engine(Class::New, now), Ok(()));
    drop(second);
    assert_eq!(door.engine.waiting(), 0);
}

#[test]
fn more_may_wait_where_the_engine_is_fast() {
    let settings = AdmissionSettings { engine_batch_commands: 1, ..AdmissionSettings::default() };
    let door = door(settings);
    for _ in 0..100 {
        for _ in 0..10 {
            door.wait().answered();
        }
        door.engine.turn(1);
    }
    // Ten per turn, 25 turns in half a second.
    let held: Vec<_> = (0..240).map(|_| door.wait()).collect();
    let now = Instant::now();
    assert_eq!(door.ask_engine(Class::New, now), Ok(()));
    let more: Vec<_> = (0..20).map(|_| door.wait()).collect();
    assert_eq!(door.ask_engine(Class::New, now), Err(Refusal::Engine));
    drop((held, more));
}

#[test]
fn an_engine_that_answers_nobody_gets_nothing_new() {
    let door = door(AdmissionSettings::default());
    let waiting = door.wait();
    let now = Instant::now();
    assert_eq!(door.ask_engine(Class::New, now), Ok(()));
    let later = now + Duration::from_millis(501);
    assert_eq!(door.ask_engine(Class::New, later), Err(Refusal::Engine));
    assert_eq!(door.ask_engine(Class::Finishing, later), Ok(()));
    drop(waiting);
    assert_eq!(door.ask_engine(Class::New, later), Ok(()));
}

#[test]
fn very_many_refusals_wait() {
    let door = door(AdmissionSettings::default());
    let held = (0..200).filter(|_| door.hold().is_some()).count();
    assert_eq!(held, 150);
    door.turn(TURN_NS);
    assert_eq!(door.hold(), None);
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
