//! The filter at its real sizes; the crate `models` has its concurrency.

use std::hash::BuildHasher as _;

use upesi_types::TransferId;

use crate::archive::filter::{Filter, HASHER, SEGMENT_KEYS_MIN};

fn id(index: u64) -> TransferId {
    let mixed = HASHER.hash_one(index);
    TransferId::from_random_bytes(((u128::from(mixed) << 64) | u128::from(index)).to_be_bytes())
}

fn growing() -> Filter {
    Filter::with_segments_of(SEGMENT_KEYS_MIN, 0)
}

#[test]
fn finds_everything_that_was_inserted_across_segments() {
    let filter = growing();
    let ids: Vec<_> = (0..SEGMENT_KEYS_MIN as u64 * 5 / 2).map(id).collect();
    filter.insert(&ids);
    assert_eq!(
        (filter.segments_used(), filter.bytes()),
        (3, (2 + 2 + 4) << 20),
        "each as large as all before it"
    );
    assert!(ids.iter().all(|id| filter.may_contain(id)));
}

#[test]
fn passes_few_absent_ids() {
    let filter = growing();
    filter.insert(&(0..SEGMENT_KEYS_MIN as u64).map(id).collect::<Vec<_>>());
    let passed = (1 << 32..(1 << 32) + 100_000).filter(|&index| filter.may_contain(&id(index))).count();
    assert!(passed < 500, "{passed} of 100,000 absent ids pass a full segment");
}

#[test]
fn an_empty_filter_passes_nothing_and_takes_two_megabytes() {
    let filter = growing();
    assert!(!filter.may_contain(&id(1)));
    assert_eq!(filter.bytes(), 2 << 20);
}

#[test]
fn a_known_size_takes_one_segment() {
    let filter = Filter::with_capacity(3_000_000);
    filter.insert(&(0..3_000_000).map(id).collect::<Vec<_>>());
    assert_eq!(filter.segments_used(), 1);
    assert_eq!(Filter::with_capacity(100).bytes(), 7 * 32, "sixteen ids share a block of 32 bytes");
}

#[test]
fn filter_is_built_only_from_valid_segments() {
    let of = |segments: Vec<Vec<u32>>| Filter::from_segments(segments, 3);
    for none in [vec![vec![]], vec![vec![0; 8], vec![0; 7]], vec![vec![0; 8]; 33]] {
        assert!(of(none).is_none());
    }
    let filter = of(vec![vec![0; 8]; 32]).unwrap();
    let ids: Vec<_> = (0..10).map(id).collect();
    filter.insert(&ids);
    assert_eq!(
        (filter.segments_used(), filter.room_left()),
        (32, 0),
        "the last segment takes all further ids"
    );
    assert!(ids.iter().all(|id| filter.may_contain(id)));
    let filter = of(vec![vec![0; 8]]).unwrap();
    filter.insert(&ids[..3]);
    assert_eq!((filter.segments_used(), filter.room_left()), (1, 0));
    filter.insert(&ids[3..4]);
    assert_eq!((filter.segments_used(), filter.room_left()), (2, SEGMENT_KEYS_MIN as u64 - 1));
}
