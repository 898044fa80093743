//! Ids whose hashes are the same as far as the index keeps them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::BuildHasher;

use foldhash::fast::FixedState;
use upesi_types::{Timestamp, TransferId};

use super::transfer;
use crate::transfer::{AbortKind, Transfer, TransferState};
use crate::transfer_table::TransferTable;

const HASH_SEED: u64 = 7;

/// Two ids with the same lower half of the hash: one in 2³² is, so a hundred thousand ids have some.
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
    transfer.state = TransferState::Aborted {
        kind: AbortKind::ByPayee,
        cause: super::declined(),
        fingerprint: None,
        operator_reason: None,
        at: Timestamp::EPOCH,
    };
}

#[test]
fn ids_with_the_same_hash_are_kept_apart() {
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
        // The place that became free is taken again, and nothing leads to it under the old id.
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
fn what_was_never_prepared_does_not_end() {
    TransferTable::new(HASH_SEED).finish(1, super::id(1), end);
}
