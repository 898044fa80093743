//! Tables and properties of entries, fold, leader and follower.

mod nodes;

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use proptest::prelude::*;

use crate::entry::{
    Beginning, Chain, Claim, ClusterId, Draft, Entry, EntryError, Incarnation, Kind, LEVEL, NodeId, Times,
};
use crate::fold::{Fold, Position, StorePosition, Verdict, Void};

const CLUSTER: ClusterId = ClusterId(7);

fn claim() -> Claim {
    Claim { incarnation: Incarnation(1), level: 1, address: "10.0.0.1:4002".to_string() }
}

/// A leader with an unknown form of records is not followed. If its claim is rejected, it has no effect.
#[test]
fn a_node_stops_before_a_claim_of_records_that_it_does_not_know() {
    let of_level = |level| -> &'static [u8] { Claim { level, ..claim() }.encode().leak() };
    let mut fold = Fold::new(CLUSTER, Position::START);
    let (newest, newer) = (of_level(LEVEL), of_level(LEVEL + 1));
    let (bytes, _) = first(|draft| (draft.body, draft.epoch) = (newer, 2));
    assert_eq!(fold.read(0, &bytes), Verdict::Void(Void::WrongEpoch));
    let (bytes, chain) = first(|draft| draft.body = newest);
    assert!(matches!(fold.read(1, &bytes), Verdict::Accepted(_)));
    let before = fold.clone();
    let (bytes, _) = first(|draft| (draft.body, draft.epoch, draft.previous) = (newer, 2, chain));
    let error = EntryError::NewerRecords { level: LEVEL + 1 };
    for _ in 0..2 {
        assert_eq!(fold.read(2, &bytes), Verdict::Newer(error));
        assert_eq!(fold, before, "it is not passed");
    }
}

/// The first claim of a log, with a change.
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

// Entries as bytes.

proptest! {
    #[test]
    fn an_entry_is_read_as_it_was_written(
        kind in prop::sample::select(&Kind::ALL[..]),
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
        let entry = Entry::decode(&bytes).expect("an entry");
        prop_assert_eq!(
            entry,
            Entry {
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
    fn a_changed_bit_or_a_cut_end_is_no_entry(at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let (bytes, _) = first(|_| {});
        let index = at.index(bytes.len());
        let mut changed = bytes.to_vec();
        changed[index] ^= 1 << bit;
        let error = Entry::decode(&changed).expect_err("a changed bit");
        prop_assert_eq!(error == EntryError::NoEntry, index < 4);
        prop_assert!(Entry::decode(&bytes[..index]).is_err());
        let mut fold = Fold::new(CLUSTER, Position::START);
        prop_assert!(matches!(fold.read(0, &changed), Verdict::Void(Void::Unreadable(_))));
        prop_assert_eq!(fold.position().next_offset, 1);
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut with_magic = Vec::from(*b"UPE\x01");
        with_magic.extend_from_slice(&bytes);
        for bytes in [&bytes, &with_magic] {
            let mut fold = Fold::new(CLUSTER, Position::START);
            prop_assert!(matches!(fold.read(0, bytes), Verdict::Void(Void::Unreadable(_))));
        }
    }
}

#[test]
fn a_claim_says_who_claims() {
    let (bytes, _) = first(|_| {});
    let entry = Entry::decode(&bytes).expect("an entry");
    assert_eq!(entry.claim(), Some(claim()));
    assert_eq!(entry.successor(), None);
    let (bytes, _) = first(|draft| draft.body = &[0; 11]);
    assert_eq!(Entry::decode(&bytes).expect("an entry").claim(), None, "a body that is too short");
    let mut fold = Fold::new(CLUSTER, Position::START);
    assert_eq!(fold.read(0, &bytes), Verdict::Void(Void::Unsound), "nobody would know who leads");
}

#[test]
fn a_beginning_says_where_records_go_on() {
    let beginning =
        Beginning { seq: 1 << 40, time_ns: -4, store: StorePosition { seq: 1 << 41, time_ns: i64::MIN } };
    let mut fold = Fold::new(CLUSTER, Position::START);
    let bytes = fold.draft_beginning(NodeId(3), &beginning).bytes;
    let entry = Entry::decode(&bytes).expect("an entry");
    assert_eq!((entry.beginning(), entry.claim(), entry.successor()), (Some(beginning), None, None));
    assert_eq!(fold.read(0, &bytes), Verdict::Accepted(entry));
    let Beginning { seq, time_ns, store } = beginning;
    let expected = Position { seq, time_ns, store, chain: entry.chain, next_offset: 1, ..Position::START };
    assert_eq!(*fold.position(), expected, "nobody leads, in the same epoch");
    let mut cut = bytes.to_vec();
    cut.pop();
    let chain = crate::entry::digest_of(&cut);
    cut[80..96].copy_from_slice(&chain.0.to_le_bytes());
    let mut fold = Fold::new(CLUSTER, Position::START);
    assert_eq!(fold.read(0, &cut), Verdict::Void(Void::Unsound), "a body that is too short");
}

#[test]
fn a_node_stops_before_an_entry_of_a_newer_hub() {
    let (bytes, _) = first(|_| {});
    // Version 2 of the form, and an unknown kind, with correct digests.
    for (at, newer) in [(4, (2, 3)), (6, (1, 9))] {
        let mut changed = bytes.to_vec();
        changed[at] = if at == 4 { 2 } else { 9 };
        let chain = crate::entry::digest_of(&changed);
        changed[80..96].copy_from_slice(&chain.0.to_le_bytes());
        let mut fold = Fold::new(CLUSTER, Position::START);
        let error = EntryError::Newer { version: newer.0, kind: newer.1, cluster: CLUSTER };
        assert_eq!(fold.read(0, &changed), Verdict::Newer(error));
        assert_eq!(*fold.position(), Position::START, "it is not passed");
        let mut other = Fold::new(ClusterId(8), Position::START);
        assert_eq!(
            other.read(0, &changed),
            Verdict::Void(Void::ForeignCluster),
            "another cluster's concerns nobody"
        );
    }
}

// `fold.txt`, line by line.

/// Entries that a case has written, by name.
type Written = BTreeMap<String, (Arc<[u8]>, Chain)>;

/// Writes the entry of a line. It continues `fold`, unless the line says otherwise.
fn write(words: &[&str], fold: &Fold, written: &Written) -> (Arc<[u8]>, Chain) {
    let kind = match words[1] {
        "claim" => Kind::Claim,
        "batch" => Kind::Batch,
        "beat" => Kind::Beat,
        "hand-over" => Kind::HandOver,
        "store" => Kind::Store,
        "begin" => Kind::Begin,
        other => panic!("no kind {other}"),
    };
    let body: Vec<u8> = match kind {
        Kind::Claim => claim().encode(),
        Kind::HandOver => 3_u32.to_le_bytes().into(),
        Kind::Begin => {
            let seq = words.iter().find_map(|word| word.strip_prefix("store="));
            let seq = seq.map_or(0, |seq| seq.parse().expect("a number"));
            let store = StorePosition { seq, time_ns: 200 };
            Beginning { seq: 0, time_ns: 0, store }.encode().into()
        }
        Kind::Batch | Kind::Beat | Kind::Store => words[0].as_bytes().into(),
    };
    let at = fold.position();
    let mut draft = Draft {
        cluster: CLUSTER,
        kind,
        epoch: at.epoch + u64::from(kind == Kind::Claim),
        node: NodeId(words[2].parse().expect("a node")),
        first_seq: if kind == Kind::Store { at.store.seq } else { at.seq } + 1,
        count: u32::from(kind.has_records()),
        times: Times::at(at.time_ns.max(at.store.time_ns).saturating_add(1).max(1)),
        previous: at.chain,
        body: &body,
    };
    for word in &words[3..] {
        let (key, value) = word.split_once('=').expect("key=value");
        let number = || value.parse::<u64>().expect("a number");
        match key {
            "epoch" => draft.epoch = number(),
            "seq" => draft.first_seq = number(),
            "count" => draft.count = u32::try_from(number()).expect("a small number"),
            "after" => draft.previous = written[value].1,
            // Part of the body.
            "store" => {}
            "cluster" => draft.cluster = ClusterId(8),
            "time" => {
                let (first, last) = value.split_once("..").expect("first..last");
                draft.times = Times {
                    first_ns: first.parse().expect("a number"),
                    last_ns: last.parse().expect("a number"),
                };
            }
            _ => panic!("no key {key}"),
        }
    }
    let (bytes, chain) = draft.encode();
    (bytes.into(), chain)
}

#[test]
fn entries_count_as_the_table_says() {
    let mut cases = 0;
    for case in include_str!("tests/fold.txt").split("case: ").skip(1) {
        let mut fold = Fold::new(CLUSTER, Position::START);
        let mut written = Written::from([("start".into(), ([].into(), Chain(0)))]);
        let mut lines = case.lines();
        let title = lines.next().expect("a title");
        for (offset, line) in lines.map(str::trim).filter(|line| !line.is_empty()).enumerate() {
            let (entry, expected) = line.split_once(" => ").expect("an entry and a verdict");
            let words: Vec<&str> = entry.split(' ').collect();
            let (bytes, chain) = match words[..] {
                ["again", name] => written[name].clone(),
                _ => write(&words, &fold, &written),
            };
            let before = fold.position().clone();
            let verdict = match fold.read(offset as u64, &bytes) {
                Verdict::Accepted(_) => String::from("accepted"),
                Verdict::Void(void) => format!("void {void:?}"),
                Verdict::Newer(error) => format!("newer {error}"),
            };
            assert_eq!(verdict, expected, "{title}: {line}");
            let after = Position { next_offset: before.next_offset, ..fold.position().clone() };
            assert_eq!(
                verdict == "accepted",
                after != before,
                "{title}: {line}: void entries change nothing"
            );
            written.insert(words[0].into(), (bytes, chain));
        }
        cases += 1;
    }
    assert_eq!(cases, 15, "cases of the table");
}
