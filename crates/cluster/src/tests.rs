//! Tables and properties of entries, fold, leader and standby.

mod entries;
mod nodes;
mod table;

use alloc::string::ToString;
use alloc::sync::Arc;
use alloc::vec::Vec;

use crate::entry::{Chain, Claim, ClusterId, Draft, Incarnation, Kind, NodeId, Times};

const CLUSTER: ClusterId = ClusterId(7);

fn claim() -> Claim {
    Claim { incarnation: Incarnation(1), level: 1, address: "10.0.0.1:4002".to_string() }
}

/// The first claim of a log, with something to change.
fn first(change: impl FnOnce(&mut Draft<'_>)) -> (Arc<[u8]>, Chain) {
    let body: Vec<u8> = claim().encode();
    let mut draft = Draft {
        cluster: CLUSTER,
        kind: Kind::Claim,
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
