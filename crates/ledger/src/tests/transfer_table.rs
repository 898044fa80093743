//! Ids with the same hash, as far as the index stores it.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use upesi_types::{Timestamp, TransferId};

use super::transfer;
use crate::base::refusal::AbortKind;
use crate::money::transfer::{Aborted, Transfer, TransferState};
use crate::money::transfer_table::TransferTable;

const HASH_SEED: u64 = 7;

/// Two ids with the same lower half of the hash. The probability is 1 in 2³², so a hundred thousand ids include some.
fn colliding() -> [TransferId; 2] {
    let (hash, mut seen) = (FixedState::with_seed(HASH_SEED), BTreeMap::new());
    for number in 0_u128.. {
        let id = TransferId::from_random_bytes(number.to_le_bytes());
        match seen.insert(hash.hash_one(id) as u32, id) {
            Some(other) if other != id => return [other, id],
            _ => {}
        }
    }
    unreachable!("there are more ids than hashes")
}

fn end(transfer: &mut Transfer) {
    transfer.state = TransferState::from(Aborted {
        kind: AbortKind::ByPayee,
        cause: super::declined(),
        fingerprint: None,
        operator_reason: None,
        at: Timestamp::EPOCH,
    });
}

#[test]
fn ids_with_the_same_hash_are_distinguished() {
    let [first, second] = colliding();
    for order in [[first, second], [second, first]] {
        let mut table = TransferTable::new(HASH_SEED);
        for (id, units) in order.into_iter().zip(1..) {
            assert_eq!(table.get(id), None);
            table.insert(1, Transfer { id, ..transfer(1, units) });
        }
        let amount = |table: &TransferTable, id| table.get(id).map(|found| found.amount.units());
        assert_eq!(order.map(|id| amount(&table, id)), [Some(1), Some(2)]);
        table.finish(3, order[1], end);
        table.finish(4, order[0], end);
        let drained: Vec<_> = table.drain_finished(3).map(|(seq, transfer)| (seq, transfer.id)).collect();
        assert_eq!(drained, [(3, order[1])]);
        assert_eq!(order.map(|id| amount(&table, id)), [Some(1), None]);
        // The free place is used again, and the old id no longer leads to it.
        table.insert(5, transfer(9, 3));
        assert_eq!(order.map(|id| amount(&table, id)), [Some(1), None]);
        assert_eq!(amount(&table, super::id(9)), Some(3));
    }
}

#[test]
#[should_panic(expected = "is prepared twice")]
fn a_transfer_is_prepared_once() {
    let mut table = TransferTable::new(HASH_SEED);
    table.insert(1, transfer(1, 1));
    table.insert(2, transfer(1, 1));
}

#[test]
#[should_panic(expected = "is finished twice")]
fn a_transfer_ends_once() {
    let mut table = TransferTable::new(HASH_SEED);
    table.insert(1, transfer(1, 1));
    table.finish(2, super::id(1), end);
    table.finish(3, super::id(1), end);
}

#[test]
#[should_panic(expected = "was never prepared")]
fn unprepared_transfer_cannot_end() {
    TransferTable::new(HASH_SEED).finish(1, super::id(1), end);
}

/// All queries about the order of reserved transfers: by deadline, due before an instant, after a place, and the first
/// deadline.
fn order(
    table: &TransferTable,
    now: Timestamp,
) -> (Vec<&Transfer>, Vec<&Transfer>, Vec<&Transfer>, Option<Timestamp>) {
    let behind = table.reserved_behind(None).nth(1).map(|(place, _)| place);
    (
        table.reserved().collect(),
        table.due(now).collect(),
        table.reserved_behind(behind).map(|(_, transfer)| transfer).collect(),
        table.next_deadline(),
    )
}

#[test]
fn deadline_counts_do_not_change_the_order() {
    let (mut kept, mut counted) = (TransferTable::new(HASH_SEED), TransferTable::new(HASH_SEED));
    kept.insert(1, transfer(1, 1));
    counted.insert(1, transfer(1, 1));
    counted.count_deadlines();
    for step in 2..=120_u8 {
        // Deadlines increase and decrease, and some are the same.
        let expires_at = Timestamp::from_ms(i64::from(step).wrapping_mul(37) % 50);
        for table in [&mut kept, &mut counted] {
            let prepare_seq = u64::from(step);
            table.insert(prepare_seq, Transfer { expires_at, prepare_seq, ..transfer(step, 1) });
            if step % 3 == 0 {
                table.finish(prepare_seq, super::id(step / 3), end);
                table.drain_finished(prepare_seq.saturating_sub(5)).for_each(drop);
            }
        }
        assert_eq!(kept.reserved_len(), counted.reserved_len());
        for now in [0, 20, 100] {
            let now = Timestamp::from_ms(now);
            assert_eq!(order(&kept, now), order(&counted, now), "step {step}");
        }
    }
    assert_eq!(kept.reserved_len(), 80);
    let by_deadline = kept.reserved().map(|transfer| transfer.expires_at);
    assert!(by_deadline.is_sorted(), "the oldest deadline comes first");
}

/// A snapshot lists them in this order, independent of their slots.
#[test]
fn oldest_prepare_comes_first_even_in_a_reused_slot() {
    let mut table = TransferTable::new(HASH_SEED);
    assert_eq!(table.oldest_reserved_seq(), None);
    let insert = |table: &mut TransferTable, seq: u64| {
        let number = seq as u8;
        table.insert(seq, Transfer { prepare_seq: seq, ..transfer(number, i64::from(number)) });
    };
    (1..=3).for_each(|seq| insert(&mut table, seq));
    table.finish(4, super::id(1), end);
    table.drain_finished(4).for_each(drop);
    insert(&mut table, 5);
    table.finish(6, super::id(3), end);
    let seqs: Vec<_> = table.reserved_by_age().map(|transfer| transfer.prepare_seq).collect();
    assert_eq!((seqs, table.oldest_reserved_seq()), (vec![2, 5], Some(2)));
}
