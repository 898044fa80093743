//! Tables in memory at their real sizes; the crate `models` has their concurrency.

use std::collections::HashMap;

use crate::lsm::UserValue;
use proptest::prelude::*;

use crate::store::resident::{FREE, Residence, Resident, Shard, VALUE_BYTES_MAX, VALUES_MAX};

fn value(number: u16) -> UserValue {
    UserValue::from(format!("greenbank{number}").into_bytes())
}

fn known(resident: &Resident, key: &[u8]) -> Option<UserValue> {
    match resident.get(key) {
        Residence::Known(value) => value,
        Residence::Unknown => panic!("not known"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Few keys in a small shard: probing wraps around, and removal moves entries back.
    #[test]
    fn shard_behaves_like_a_map(steps in proptest::collection::vec((0..40_u8, 0..4_u16), 1..400)) {
        let mut shard = Shard::with_room_for(0);
        let mut model = HashMap::new();
        for (key, number) in steps {
            // All home places are at the end of the shard.
            let tag = [255, 255, 255, 255, key, 0, 0, 0, 0];
            if number == FREE {
                model.remove(&key);
                shard.remove(&tag);
            } else {
                model.insert(key, number);
                shard.insert(tag, number);
            }
            prop_assert_eq!(shard.used, model.len());
        }
        for key in 0..40 {
            let tag = [255, 255, 255, 255, key, 0, 0, 0, 0];
            prop_assert_eq!(shard.get(&tag), model.get(&key).copied().unwrap_or(FREE));
        }
    }
}

#[test]
fn resident_table_finds_exactly_its_entries() {
    let resident = Resident::new(0, 1 << 20);
    let key = |number: u32| number.to_le_bytes();
    for number in 0..30_000 {
        resident.set(&key(number), Some(&value((number % 300) as u16)));
    }
    for number in (0..30_000).step_by(3) {
        resident.set(&key(number), None);
    }
    resident.completed();
    for number in 0..40_000 {
        let expected = (number < 30_000 && number % 3 != 0).then(|| value((number % 300) as u16));
        assert_eq!(known(&resident, &key(number)), expected, "{number}");
    }
    assert!(resident.bytes() < 30_000 * 16 + 256 * 100 * 12, "{}", resident.bytes());
}

#[test]
fn incomplete_or_released_table_knows_no_key() {
    let resident = Resident::new(10, 1 << 20);
    resident.set(b"key", Some(&value(1)));
    assert!(matches!(resident.get(b"key"), Residence::Unknown));
    resident.completed();
    assert_eq!(known(&resident, b"key"), Some(value(1)));
    resident.give_up();
    resident.completed();
    assert!(matches!(resident.get(b"key"), Residence::Unknown));
}

#[test]
fn table_above_its_limit_releases_its_memory() {
    let resident = Resident::new(0, 64 << 10);
    resident.completed();
    for number in 0..20_000_u32 {
        resident.set(&number.to_le_bytes(), Some(&value(1)));
    }
    assert!(matches!(resident.get(b"key"), Residence::Unknown));
    assert_eq!(resident.bytes(), 0);
}

#[test]
fn long_or_too_many_values_are_not_in_memory() {
    let resident = Resident::new(0, 16 << 20);
    resident.completed();
    resident.set(b"long", Some(&UserValue::from(vec![7; VALUE_BYTES_MAX + 1])));
    assert!(matches!(resident.get(b"long"), Residence::Unknown));
    for number in 0..=VALUES_MAX as u32 {
        resident.set(&number.to_le_bytes(), Some(&UserValue::from(number.to_be_bytes())));
    }
    let last = VALUES_MAX as u32;
    assert!(matches!(resident.get(&last.to_le_bytes()), Residence::Unknown));
    assert_eq!(known(&resident, &0_u32.to_le_bytes()), Some(UserValue::from(0_u32.to_be_bytes())));
    // An entry can be added again, and one can be removed.
    resident.set(b"long", Some(&UserValue::from(0_u32.to_be_bytes())));
    assert_eq!(known(&resident, b"long"), Some(UserValue::from(0_u32.to_be_bytes())));
    resident.set(&last.to_le_bytes(), None);
    assert_eq!(known(&resident, &last.to_le_bytes()), None);
}
