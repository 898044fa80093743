//! Models of the data that tables keep in memory.

/// The archive's filter: threads check it without a lock while it accepts ids and grows, and it always finds an id that
/// it contains.
mod filter_model {
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
    fn growing_filter_finds_earlier_insertions() {
        check(2, || {
            let filter = Arc::new(Filter::with_segments_of(KEYS, 0));
            let inserted = Arc::new(AtomicUsize::new(0));
            let (of_archivist, told) = (Arc::clone(&filter), Arc::clone(&inserted));
            let archivist = loom::thread::spawn(move || {
                for number in 1..=2 {
                    // One id fills a segment, so the second id is put into another one.
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
    fn filter_with_two_writers_loses_no_id() {
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
}

/// A table in memory: whatever the writer does at the same time, a reader gets durable data or is referred to the disk.
mod resident_model {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;

    use fjall::UserValue;
    use loom::sync::atomic::AtomicUsize;

    use crate::check;
    use crate::resident::{Residence, Resident};

    /// Two keys in different shards.
    const KEYS: [&[u8]; 2] = [b"0", b"1"];
    const ROOMY: u64 = 1 << 20;

    fn value(number: usize) -> UserValue {
        UserValue::from(number.to_le_bytes())
    }

    fn number(value: &UserValue) -> usize {
        usize::from_le_bytes(value[..].try_into().unwrap())
    }

    /// The data that a reader gets for a key; `None` if it is referred to the disk.
    fn known(resident: &Resident, key: &[u8]) -> Option<Option<usize>> {
        match resident.get(key) {
            Residence::Known(value) => Some(value.as_ref().map(number)),
            Residence::Unknown => None,
        }
    }

    #[test]
    fn table_that_is_loaded_and_given_up_misses_nothing() {
        check(3, || {
            let resident = Arc::new(Resident::new(0, ROOMY));
            let of_writer = Arc::clone(&resident);
            let writer = loom::thread::spawn(move || {
                KEYS.iter().for_each(|key| of_writer.set(key, Some(&value(1))));
                of_writer.completed();
                of_writer.give_up();
                of_writer.completed();
            });
            for key in KEYS {
                assert!(matches!(known(&resident, key), None | Some(Some(1))), "a present key is not found");
            }
            writer.join().unwrap();
            assert_eq!(known(&resident, KEYS[0]), None, "a key that was given up stays unknown");
        });
    }

    #[test]
    fn answered_writer_reads_its_own_write() {
        check(3, || {
            let resident = Arc::new(Resident::new(0, ROOMY));
            let shown = Arc::new(AtomicUsize::new(0));
            let (of_writer, told) = (Arc::clone(&resident), Arc::clone(&shown));
            let writer = loom::thread::spawn(move || {
                of_writer.set(KEYS[0], Some(&value(1)));
                told.store(1, Ordering::Release);
                of_writer.completed();
                of_writer.set(KEYS[0], Some(&value(2)));
                told.store(2, Ordering::Release);
                of_writer.set(KEYS[0], None);
                told.store(3, Ordering::Release);
            });
            let told = shown.load(Ordering::Acquire);
            match known(&resident, KEYS[0]) {
                None => {}
                Some(Some(number)) => assert!(number >= told, "{number} after {told}"),
                Some(None) => {
                    assert!(shown.load(Ordering::Relaxed) >= 2, "missing before it was removed");
                }
            }
            writer.join().unwrap();
            assert_eq!(known(&resident, KEYS[0]), Some(None));
        });
    }

    #[test]
    fn table_above_its_limit_refers_every_reader_to_the_disk() {
        // A shard takes seven entries before it grows; the eighth is one too many here.
        check(2, || {
            let resident = Arc::new(Resident::new(0, 0));
            resident.completed();
            (0..14_u8).for_each(|key| resident.set(&[key], Some(&value(1))));
            let of_writer = Arc::clone(&resident);
            let writer = loom::thread::spawn(move || {
                (14..20_u8).for_each(|key| of_writer.set(&[key], Some(&value(1))));
            });
            assert!(matches!(known(&resident, &[0]), None | Some(Some(1))), "a present key is not found");
            writer.join().unwrap();
            assert!(!resident.is_complete());
            assert_eq!((known(&resident, &[0]), resident.bytes()), (None, 0));
        });
    }
}
