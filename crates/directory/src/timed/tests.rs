use std::time::Duration;

use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Step {
    Keep { key: u8 },
    Take { nth: usize },
    TakeAbout { key: u8 },
    Wait { ticks: u64 },
    TakeDue,
    TakeOldest,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..6_u8).prop_map(|key| Step::Keep { key }),
        2 => (0..64_usize).prop_map(|nth| Step::Take { nth }),
        1 => (0..6_u8).prop_map(|key| Step::TakeAbout { key }),
        1 => (0..4_u64).prop_map(|ticks| Step::Wait { ticks }),
        2 => Just(Step::TakeDue),
        1 => Just(Step::TakeOldest),
    ]
}

/// Keys 0 to 5 share two hashes, so that equal hashes do not mean equal keys.
const fn hash(key: u8) -> u64 {
    key as u64 % 2
}

const LIFE: Duration = Duration::from_secs(3);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Beside a plain list that does the same slowly.
    #[test]
    fn does_what_a_list_does(steps in prop::collection::vec(step(), 1..200)) {
        let start = Instant::now();
        let mut now = start;
        let mut timed = Timed::default();
        let mut list = Vec::<(u8, u32, Instant)>::new();
        let mut places = Vec::new();
        let mut serial = 0;
        for step in steps {
            match step {
                Step::Keep { key } => {
                    serial += 1;
                    let place = timed.keep(hash(key), now + LIFE, (key, serial), |a, b| a.0 == b.0);
                    list.push((key, serial, now + LIFE));
                    places.push((serial, place));
                }
                Step::Take { nth } if !places.is_empty() => {
                    let (serial, place) = places[nth % places.len()];
                    let found = list.iter().position(|kept| kept.1 == serial).map(|at| list.remove(at));
                    prop_assert_eq!(timed.take(place), found.map(|kept| (kept.0, kept.1)));
                }
                Step::Take { .. } => {}
                Step::TakeAbout { key } => {
                    let at = list.iter().rposition(|kept| kept.0 == key);
                    let found = at.map(|at| list.remove(at));
                    let taken = timed.take_about(hash(key), |thing| thing.0 == key);
                    prop_assert_eq!(taken, found.map(|kept| (kept.0, kept.1)));
                }
                Step::Wait { ticks } => now += Duration::from_secs(ticks),
                Step::TakeDue => {
                    let is_due = list.first().is_some_and(|kept| kept.2 <= now);
                    let found = is_due.then(|| list.remove(0));
                    prop_assert_eq!(timed.take_due(now), found.map(|kept| (kept.0, kept.1)));
                }
                Step::TakeOldest => {
                    let found = (!list.is_empty()).then(|| list.remove(0));
                    prop_assert_eq!(timed.take_oldest(), found.map(|kept| (kept.0, kept.1)));
                }
            }
            prop_assert_eq!(timed.len(), list.len());
            prop_assert_eq!(timed.next_due(), list.first().map(|kept| kept.2));
            for key in 0..6 {
                let mut kept: Vec<_> = list.iter().filter(|kept| kept.0 == key).map(|kept| kept.1).collect();
                kept.reverse();
                let found: Vec<_> =
                    timed.about(hash(key), |thing| thing.0 == key).map(|(_, thing)| thing.1).collect();
                prop_assert_eq!(found, kept);
            }
        }
    }
}

#[test]
fn slots_are_used_again_and_old_places_do_not_reach_what_lies_there_now() {
    let (mut timed, now) = (Timed::default(), Instant::now());
    let first = timed.keep(1, now, "first", |a, b| a == b);
    assert_eq!(timed.take(first), Some("first"));
    let second = timed.keep(1, now, "second", |a, b| a == b);
    assert_eq!((first.slot, timed.slots.len()), (second.slot, 1));
    assert_eq!(timed.take(first), None);
    assert_eq!(timed.take(second), Some("second"));
}
