//! `fold.txt`, line by line.

use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{CLUSTER, claim};
use crate::entry::{Chain, ClusterId, Draft, EntryKind, LogStart, NodeId, Times};
use crate::fold::{EntryVerdict, LogFold, Position, StorePosition};

/// Entries that a case has written, by name.
type Written = BTreeMap<String, (Arc<[u8]>, Chain)>;

/// Writes the entry of a line. It continues `fold`, unless the line says otherwise.
fn write(words: &[&str], fold: &LogFold, written: &Written) -> (Arc<[u8]>, Chain) {
    let kind = match words[1] {
        "claim" => EntryKind::Claim,
        "batch" => EntryKind::Batch,
        "beat" => EntryKind::Beat,
        "hand-over" => EntryKind::HandOver,
        "store" => EntryKind::Store,
        "begin" => EntryKind::Begin,
        other => panic!("no kind {other}"),
    };
    let body: Vec<u8> = match kind {
        EntryKind::Claim => claim().encode(),
        EntryKind::HandOver => 3_u32.to_le_bytes().into(),
        EntryKind::Begin => {
            let seq = words.iter().find_map(|word| word.strip_prefix("store="));
            let seq = seq.map_or(0, |seq| seq.parse().expect("a number"));
            let store = StorePosition { seq, time_ns: 200 };
            LogStart { seq: 0, time_ns: 0, store }.encode().into()
        }
        EntryKind::Batch | EntryKind::Beat | EntryKind::Store => words[0].as_bytes().into(),
    };
    let at = fold.position();
    let mut draft = Draft {
        cluster: CLUSTER,
        kind,
        epoch: at.epoch + u64::from(kind == EntryKind::Claim),
        node: NodeId(words[2].parse().expect("a node")),
        first_seq: if kind == EntryKind::Store { at.store.seq } else { at.seq } + 1,
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
            // This word is part of the body.
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
fn entries_are_valid_or_void_as_in_the_table() {
    let mut cases = 0;
    for case in include_str!("fold.txt").split("case: ").skip(1) {
        let mut fold = LogFold::new(CLUSTER, Position::START);
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
                EntryVerdict::Accepted(_) => String::from("accepted"),
                EntryVerdict::Void(void) => format!("void {void:?}"),
                EntryVerdict::Newer(error) => format!("newer {error}"),
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
