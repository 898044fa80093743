//! The archive's filter: checked without a lock while it takes ids and grows, and never wrong about an id that is in
//! it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use loom::sync::atomic::AtomicUsize;
use upesi_types::TransferId;

use crate::check;
use crate::filter::Filter;

/// The smallest filter: one block.
const KEYS: usize = 1;

fn id(number: u8) -> TransferId {
    TransferId::from_random_bytes([number; 16])
}

#[test]
fn what_was_inserted_before_a_check_is_found_while_the_filter_grows() {
    check(2, || {
        let filter = Arc::new(Filter::with_segments_of(KEYS, 0));
        let inserted = Arc::new(AtomicUsize::new(0));
        let (of_archivist, told) = (Arc::clone(&filter), Arc::clone(&inserted));
        let archivist = loom::thread::spawn(move || {
            for number in 1..=2 {
                // One id fills a segment: the second is put into another.
                of_archivist.insert(&[id(number)]);
                told.store(usize::from(number), Ordering::Release);
            }
        });
        let known = inserted.load(Ordering::Acquire);
        for number in (1..=2_u8).take(known) {
            assert!(filter.may_contain(&id(number)), "{number} of {known} is not found");
        }
        archivist.join().unwrap();
        assert!(filter.may_contain(&id(1)) && filter.may_contain(&id(2)));
    });
}

#[test]
fn two_writers_lose_no_id() {
    // The archivist, and the thread that builds the filter after a start.
    check(2, || {
        let filter = Arc::new(Filter::with_segments_of(KEYS, 2));
        let of_builder = Arc::clone(&filter);
        let builder = loom::thread::spawn(move || of_builder.insert(&[id(1)]));
        filter.insert(&[id(2)]);
        builder.join().unwrap();
        assert!(filter.may_contain(&id(1)) && filter.may_contain(&id(2)));
    });
}
