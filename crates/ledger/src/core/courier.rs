//! Assigns the delivery of callbacks to the nodes of a cluster (couriers).
//!
//! The leader records which nodes are alive. All nodes that have read the journal up to the same record therefore agree
//! which node delivers to a participant.

use crate::base::ids::ParticipantId;

/// The node, among `nodes`, that delivers to a participant: the one with the highest hash of node and participant. When
/// a node joins or leaves, only its own participants move. Returns `None` if there are no nodes.
pub fn courier_of(nodes: &[u32], target: ParticipantId) -> Option<u32> {
    nodes
        .iter()
        .copied()
        .max_by_key(|node| (mixed(u64::from(*node) << 32 | u64::from(target.number())), *node))
}

/// A bijection: every bit of the result depends on all bits of the number. All versions must use the same one.
const fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    let number = (number ^ (number >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    number ^ (number >> 32)
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::*;

    fn shares(nodes: &[u32]) -> Vec<Option<u32>> {
        (1..=3_000).map(|number| courier_of(nodes, ParticipantId::new(number).unwrap())).collect()
    }

    #[test]
    fn participants_are_shared_evenly_and_few_move_when_a_node_leaves() {
        assert!(shares(&[]).iter().all(Option::is_none));
        let (all, without) = (shares(&[1, 2, 3]), shares(&[1, 3]));
        for node in 1..=3 {
            let share = all.iter().filter(|owner| **owner == Some(node)).count();
            assert!((900..=1_100).contains(&share), "node {node} has {share} of 3000");
        }
        for (before, after) in all.iter().zip(&without) {
            assert!(after == before || *before == Some(2), "{before:?} became {after:?}");
            assert_ne!(*after, Some(2));
        }
        assert_eq!(shares(&[3, 1, 2]), all, "whatever their order");
    }

    #[test]
    fn every_version_assigns_the_same_nodes() {
        let first: Vec<_> = shares(&[1, 2, 3]).into_iter().take(12).flatten().collect();
        assert_eq!(first, [3, 3, 3, 2, 3, 2, 3, 2, 2, 2, 1, 2]);
    }
}
