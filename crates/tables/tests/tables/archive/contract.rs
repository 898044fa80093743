//! The guarantees of every archive, checked with the one in memory and the one on disk.

use std::ops::ControlFlow;

use super::support::{entries, entry, small_options};
use upesi_tables::TablesError;
use upesi_tables::archive::{
    Archive, ArchivePosition, DivisionOrder, FjallArchive, MemoryArchive, VALUE_BYTES_MAX,
};
use upesi_types::{Timestamp, TransferId};

/// Runs a check with both archives. The one on disk has tables of ten transfers, so that pending and stored transfers
/// mix.
fn on_both(check: impl Fn(&dyn Archive)) {
    check(&MemoryArchive::new());
    let directory = tempfile::tempdir().unwrap();
    check(&FjallArchive::open(directory.path().join("archive"), &small_options(10)).unwrap());
}

#[test]
fn empty_archive_has_no_transfers() {
    on_both(|archive| {
        assert_eq!((archive.watermark(), archive.watermark_applied()), (0, 0));
        assert_eq!(archive.sync().unwrap(), 0);
        assert!(archive.stats().filter_ready && !archive.may_contain(&entry(1).0));
        assert_eq!(archive.get(&entry(1).0).unwrap(), None);
    });
}

#[test]
fn applied_transfers_are_found_and_others_are_not() {
    on_both(|archive| {
        for start in (0..100).step_by(4) {
            archive.apply(&entries(start..start + 4), start + 4).unwrap();
            assert_eq!(archive.watermark_applied(), start + 4);
            assert!(archive.watermark() <= start + 4);
            for (id, value) in entries(0..start + 4) {
                assert!(archive.may_contain(&id));
                assert_eq!(archive.get(&id).unwrap(), Some(value));
            }
        }
        assert!(entries(100..1100).iter().all(|(id, _)| archive.get(id).unwrap().is_none()));
        assert_eq!(archive.sync().unwrap(), 100);
        assert_eq!(archive.watermark(), 100);
    });
}

#[test]
fn a_range_may_be_applied_again() {
    on_both(|archive| {
        archive.apply(&entries(0..25), 25).unwrap();
        archive.apply(&entries(5..20), 20).unwrap();
        archive.sync().unwrap();
        archive.apply(&entries(0..25), 25).unwrap();
        assert_eq!(archive.sync().unwrap(), 25, "an older watermark does not take the present one back");
        assert_eq!(all(archive), sorted(entries(0..25)));
    });
}

#[test]
fn the_same_id_twice_in_a_batch_keeps_the_later_value() {
    on_both(|archive| {
        let (id, _) = entry(1);
        let mut batch = entries(0..20);
        batch.push((id, b"later".to_vec()));
        archive.apply(&batch, 1).unwrap();
        assert_eq!(archive.get(&id).unwrap(), Some(b"later".to_vec()));
        archive.apply(&[(id, b"pending".to_vec())], 2).unwrap();
        assert_eq!(archive.get(&id).unwrap(), Some(b"pending".to_vec()));
        archive.sync().unwrap();
        assert_eq!(archive.get(&id).unwrap(), Some(b"pending".to_vec()));
    });
}

#[test]
fn an_empty_batch_moves_the_watermark() {
    on_both(|archive| {
        archive.apply(&[], 7).unwrap();
        assert_eq!(archive.watermark_applied(), 7);
        assert_eq!(archive.sync().unwrap(), 7);
        assert_eq!(archive.watermark(), 7);
    });
}

#[test]
fn batch_with_an_oversized_value_is_rejected_as_a_whole() {
    on_both(|archive| {
        let mut batch = entries(0..3);
        batch.push((entry(3).0, vec![0; VALUE_BYTES_MAX + 1]));
        let error = archive.apply(&batch, 4).unwrap_err();
        assert!(
            matches!(error, TablesError::TooLarge { what: "value", bytes, .. } if bytes == VALUE_BYTES_MAX + 1)
        );
        assert_eq!(archive.watermark_applied(), 0);
        assert_eq!(all(archive), []);
        batch[3].1.pop();
        archive.apply(&batch, 4).unwrap();
        archive.sync().unwrap();
        assert_eq!(archive.get(&entry(3).0).unwrap(), Some(vec![0; VALUE_BYTES_MAX]));
    });
}

#[test]
fn removed_divisions_move_the_beginning_of_the_archive() {
    on_both(|archive| {
        let second = |seq: u64| Timestamp::from_ms(seq as i64 * 1000);
        for (from, to) in [(0, 25), (25, 60), (60, 80)] {
            // An empty division is not closed.
            archive.divide().unwrap();
            archive.apply_at(&entries(from..to), to, second(to)).unwrap();
            archive.divide().unwrap();
        }
        let told = |archive: &dyn Archive| -> Vec<_> {
            let of = |division: upesi_tables::archive::Division| {
                (division.first_seq, division.watermark, division.last_time, division.is_closed)
            };
            archive.divisions().into_iter().map(of).collect()
        };
        let third = (61, 80, Some(second(80)), true);
        let growing = (81, 0, None, false);
        let before = [(1, 25, Some(second(25)), true), (26, 60, Some(second(60)), true), third, growing];
        assert_eq!(told(archive), before);
        assert_eq!([24, 60, 79].map(|seq| archive.remove_to(seq).unwrap()), [0, 2, 0]);
        assert_eq!((archive.first_seq(), told(archive)), (61, vec![third, growing]));
        assert_eq!(all(archive), sorted(entries(60..80)));
        let mut of_third = Vec::new();
        let mut visit = |id: TransferId, value: &[u8]| {
            of_third.push((id, value.to_vec()));
            ControlFlow::Continue(())
        };
        assert!(
            archive.for_each_in(61, &mut visit).unwrap() && !archive.for_each_in(26, &mut visit).unwrap()
        );
        assert_eq!(of_third, sorted(entries(60..80)));
        assert_eq!(archive.remove_to(90).unwrap(), 2, "removed up to a record that is not yet applied");
        assert_eq!(told(archive), [(91, 0, None, false)]);
        assert_eq!((archive.watermark(), archive.watermark_applied(), all(archive).len()), (90, 90, 0));
        archive.apply_at(&entries(90..95), 95, second(95)).unwrap();
        assert_eq!((archive.sync().unwrap(), all(archive)), (95, sorted(entries(90..95))));
        archive.divide().unwrap();
        archive.apply_at(&entries(95..99), 99, second(99)).unwrap();
        assert_eq!(archive.remove_to(97).unwrap(), 1, "the growing division extends beyond that");
        assert_eq!(all(archive), sorted(entries(95..99)));
    });
}

#[test]
fn entries_come_in_the_order_of_their_stored_ids() {
    on_both(|archive| {
        let ulids =
            ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "ZZZZZZZZZZZZZZZZZZZZZZZZZZ", "00000000000000000000000000"];
        let mut batch = entries(0..42);
        batch.extend(ulids.map(|text| (TransferId::parse(text).unwrap(), text.as_bytes().to_vec())));
        archive.apply(&batch[20..], 1).unwrap();
        archive.apply(&batch[..20], 2).unwrap();
        archive.apply(&entries(42..45), 3).unwrap();
        batch.extend(entries(42..45));
        assert_eq!(all(archive), sorted(batch));
    });
}

#[test]
fn a_visitor_may_stop() {
    on_both(|archive| {
        archive.apply(&entries(0..30), 1).unwrap();
        let mut seen = 0;
        archive
            .for_each(&mut |_, _| {
                seen += 1;
                if seen == 5 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })
            .unwrap();
        assert_eq!(seen, 5);
    });
}

#[test]
fn visit_continues_where_the_last_one_stopped() {
    on_both(|archive| {
        for (from, to) in [(0, 25), (25, 60)] {
            archive.apply(&entries(from..to), to).unwrap();
            archive.divide().unwrap();
        }
        archive.apply(&entries(60..67), 67).unwrap();
        // The first visit finds pending transfers.
        let orders = [DivisionOrder::OldestFirst, DivisionOrder::YoungestFirst];
        for (limit, order) in
            [1_000, 1, 7, 66, 67].into_iter().flat_map(|limit| orders.map(|order| (limit, order)))
        {
            let (mut place, mut found) = (ArchivePosition::default(), Vec::new());
            for visits in 1..=67 / limit + 1 {
                let (mut next, mut seen) = (place, 0);
                let mut visit = |here: ArchivePosition, value: &[u8]| {
                    if seen == limit {
                        return ControlFlow::Break(());
                    }
                    (next, seen) = (here, seen + 1);
                    found.push((here.after.unwrap(), value.to_vec()));
                    ControlFlow::Continue(())
                };
                archive.visit_behind(place, Timestamp::EPOCH, order, &mut visit).unwrap();
                place = next;
                assert_eq!(seen == limit, visits <= 67 / limit, "{limit} at once");
            }
            assert_eq!(sorted(found), sorted(entries(0..67)), "{limit} at once, {order:?}");
        }
    });
}

#[test]
fn memory_archive_loses_unsynced_entries_in_a_crash() {
    let archive = MemoryArchive::new();
    archive.apply(&entries(0..5), 5).unwrap();
    archive.sync().unwrap();
    archive.apply(&entries(5..9), 9).unwrap();
    let told = |archive: &MemoryArchive| {
        (archive.watermark(), archive.watermark_applied(), archive.stats().transfers_estimate)
    };
    assert_eq!(told(&archive), (5, 9, 9));
    let copy = archive.after_crash();
    assert_eq!((told(&archive), told(&copy)), ((5, 9, 9), (5, 5, 5)));
    archive.open_again();
    assert_eq!(told(&archive), (9, 9, 9), "its process alone was killed");
    archive.crash();
    assert_eq!(told(&archive), (5, 5, 5));
    assert_eq!((all(&archive), all(&copy)), (sorted(entries(0..5)), sorted(entries(0..5))));
    archive.lose();
    assert_eq!((told(&archive), all(&archive)), ((0, 0, 0), vec![]));
}

fn all(archive: &dyn Archive) -> Vec<(TransferId, Vec<u8>)> {
    let mut all = Vec::new();
    archive
        .for_each(&mut |id, value| {
            all.push((id, value.to_vec()));
            ControlFlow::Continue(())
        })
        .unwrap();
    all
}

fn sorted(mut entries: Vec<(TransferId, Vec<u8>)>) -> Vec<(TransferId, Vec<u8>)> {
    entries.sort_by_key(|(id, _)| id.to_bytes());
    entries
}
