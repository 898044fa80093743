//! Tables and properties of entries, fold, leader and follower.

mod entries;
mod fold;
mod nodes;

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::entry::{
    Chain, Claim, ClusterId, Draft, EntryError, EntryKind, Incarnation, LEVEL, NodeId, Times,
};
use crate::fold::{EntryVerdict, LogFold, Position, VoidReason};

const CLUSTER: ClusterId = ClusterId(7);

fn claim() -> Claim {
    Claim { incarnation: Incarnation(1), level: 1, address: "10.0.0.1:4002".to_string() }
}

/// A leader with an unknown form of records is not followed. If its claim is rejected, it has no effect.
#[test]
fn node_stops_before_a_claim_with_unknown_records() {
    let of_level = |level| -> &'static [u8] { Claim { level, ..claim() }.encode().leak() };
    let mut fold = LogFold::new(CLUSTER, Position::START);
    let (newest, newer) = (of_level(LEVEL), of_level(LEVEL + 1));
    let (bytes, _) = first(|draft| (draft.body, draft.epoch) = (newer, 2));
    assert_eq!(fold.read(0, &bytes), EntryVerdict::Void(VoidReason::WrongEpoch));
    let (bytes, chain) = first(|draft| draft.body = newest);
    assert!(matches!(fold.read(1, &bytes), EntryVerdict::Accepted(_)));
    let before = fold.clone();
    let (bytes, _) = first(|draft| (draft.body, draft.epoch, draft.previous) = (newer, 2, chain));
    let error = EntryError::NewerRecords { level: LEVEL + 1 };
    for _ in 0..2 {
        assert_eq!(fold.read(2, &bytes), EntryVerdict::Newer(error));
        assert_eq!(fold, before, "it is not passed");
    }
}

/// The first claim of a log, with a change.
fn first(change: impl FnOnce(&mut Draft<'_>)) -> (Arc<[u8]>, Chain) {
    let body: Vec<u8> = claim().encode();
    let mut draft = Draft {
        cluster: CLUSTER,
        kind: EntryKind::Claim,
        epoch: 1,
        node: NodeId(1),
        first_seq: 1,
        count: 0,
        times: Times::at(5),
        previous: Chain(0),
        body: &body,
    };
    change(&mut draft);
    let (bytes, chain) = draft.encode();
    (bytes.into(), chain)
}
