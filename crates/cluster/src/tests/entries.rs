//! Entries as bytes.

use alloc::vec::Vec;

use proptest::prelude::*;

use super::{CLUSTER, claim, first};
use crate::entry::{Chain, ClusterId, Draft, EntryError, EntryKind, LogEntry, LogStart, NodeId, Times};
use crate::fold::{EntryVerdict, LogFold, Position, StorePosition, VoidReason};

proptest! {
    #[test]
    fn an_entry_is_read_as_it_was_written(
        kind in prop::sample::select(&EntryKind::ALL[..]),
        (cluster, previous) in any::<(u128, u128)>(),
        (epoch, node, first_seq, count) in any::<(u64, u32, u64, u32)>(),
        (first_ns, last_ns) in any::<(i64, i64)>(),
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let draft = Draft {
            cluster: ClusterId(cluster),
            kind,
            epoch,
            node: NodeId(node),
            first_seq,
            count,
            times: Times { first_ns, last_ns },
            previous: Chain(previous),
            body: &body,
        };
        let (bytes, chain) = draft.encode();
        let entry = LogEntry::decode(&bytes).expect("an entry");
        prop_assert_eq!(
            entry,
            LogEntry {
                cluster: draft.cluster,
                kind,
                epoch,
                node: draft.node,
                first_seq,
                count,
                times: draft.times,
                previous: draft.previous,
                chain,
                body: &body,
            }
        );
    }

    #[test]
    fn corrupt_or_truncated_entry_is_rejected(at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let (bytes, _) = first(|_| {});
        let index = at.index(bytes.len());
        let mut changed = bytes.to_vec();
        changed[index] ^= 1 << bit;
        let error = LogEntry::decode(&changed).expect_err("a changed bit");
        prop_assert_eq!(error == EntryError::NoEntry, index < 4);
        prop_assert!(LogEntry::decode(&bytes[..index]).is_err());
        let mut fold = LogFold::new(CLUSTER, Position::START);
        prop_assert!(matches!(fold.read(0, &changed), EntryVerdict::Void(VoidReason::Unreadable(_))));
        prop_assert_eq!(fold.position().next_offset, 1);
    }

    #[test]
    fn arbitrary_bytes_are_decoded_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut with_magic = Vec::from(*b"UPE\x01");
        with_magic.extend_from_slice(&bytes);
        for bytes in [&bytes, &with_magic] {
            let mut fold = LogFold::new(CLUSTER, Position::START);
            prop_assert!(matches!(fold.read(0, bytes), EntryVerdict::Void(VoidReason::Unreadable(_))));
        }
    }
}

#[test]
fn claim_names_the_node() {
    let (bytes, _) = first(|_| {});
    let entry = LogEntry::decode(&bytes).expect("an entry");
    assert_eq!(entry.claim(), Some(claim()));
    assert_eq!(entry.successor(), None);
    let (bytes, _) = first(|draft| draft.body = &[0; 11]);
    assert_eq!(LogEntry::decode(&bytes).expect("an entry").claim(), None, "a body that is too short");
    let mut fold = LogFold::new(CLUSTER, Position::START);
    assert_eq!(
        fold.read(0, &bytes),
        EntryVerdict::Void(VoidReason::Unsound),
        "the claim does not name its node"
    );
}

#[test]
fn beginning_names_the_next_record() {
    let beginning =
        LogStart { seq: 1 << 40, time_ns: -4, store: StorePosition { seq: 1 << 41, time_ns: i64::MIN } };
    let mut fold = LogFold::new(CLUSTER, Position::START);
    let bytes = fold.draft_beginning(NodeId(3), &beginning).bytes;
    let entry = LogEntry::decode(&bytes).expect("an entry");
    assert_eq!((entry.beginning(), entry.claim(), entry.successor()), (Some(beginning), None, None));
    assert_eq!(fold.read(0, &bytes), EntryVerdict::Accepted(entry));
    let LogStart { seq, time_ns, store } = beginning;
    let expected = Position { seq, time_ns, store, chain: entry.chain, next_offset: 1, ..Position::START };
    assert_eq!(*fold.position(), expected, "no leader, in the same epoch");
    let mut cut = bytes.to_vec();
    cut.pop();
    let chain = crate::entry::digest_of(&cut);
    cut[80..96].copy_from_slice(&chain.0.to_le_bytes());
    let mut fold = LogFold::new(CLUSTER, Position::START);
    assert_eq!(fold.read(0, &cut), EntryVerdict::Void(VoidReason::Unsound), "a body that is too short");
}

#[test]
fn a_node_stops_before_an_entry_of_a_newer_hub() {
    let (bytes, _) = first(|_| {});
    // The entries have version 2 of the form, or an unknown kind, and correct digests.
    for (at, newer) in [(4, (2, 3)), (6, (1, 9))] {
        let mut changed = bytes.to_vec();
        changed[at] = if at == 4 { 2 } else { 9 };
        let chain = crate::entry::digest_of(&changed);
        changed[80..96].copy_from_slice(&chain.0.to_le_bytes());
        let mut fold = LogFold::new(CLUSTER, Position::START);
        let error = EntryError::Newer { version: newer.0, kind: newer.1, cluster: CLUSTER };
        assert_eq!(fold.read(0, &changed), EntryVerdict::Newer(error));
        assert_eq!(*fold.position(), Position::START, "it is not passed");
        let mut other = LogFold::new(ClusterId(8), Position::START);
        assert_eq!(
            other.read(0, &changed),
            EntryVerdict::Void(VoidReason::ForeignCluster),
            "an entry of another cluster is ignored"
        );
    }
}
