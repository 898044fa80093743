//! Conditions at the end, computed from the log and from the clients' answers.

use std::collections::{BTreeMap, BTreeSet};

use upesi_cluster::{Chain, EntryKind, EntryVerdict, LogEntry, LogFold, Position};

use crate::node::{Book, CLUSTER, Told};
use crate::world::{Flaw, World, is_claim};

/// The accepted entries of the whole log, by the rule.
struct Accepted {
    book: Book,
    chains: BTreeSet<Chain>,
}

/// Checks a world that has come to rest. Returns counts of its content.
///
/// C1: every answer's entry is accepted, and its command is applied. C2 and C7: the accepted entries of a node are the
/// beginning of the accepted entries of the log's fold, byte for byte. C3: no command is applied twice. C5: a read has
/// everything that had been answered before its request. C6: epochs, sequence numbers and times increase. (C4, an
/// answer of a former leader for an entry after the next leader's claim, would break C1, because such an entry is
/// rejected.)
pub fn world(
    world: &World,
    counts: &mut BTreeMap<&'static str, u64>,
) -> Result<BTreeMap<&'static str, u64>, String> {
    let accepted = fold(world, counts)?;
    for (command, times) in &accepted.book.applied {
        if *times > 1 {
            return Err(format!("C3: command {command} was applied {times} times"));
        }
    }
    for node in &world.nodes {
        let (own, all) = (&node.book.copy, &accepted.book.copy);
        if own.len() > all.len() || own[..] != all[..own.len()] {
            return Err(format!("C2, C7: what {:?} accepted is not the beginning of the log", node.id));
        }
    }
    for left in &world.left {
        if left.chain.is_some_and(|chain| !accepted.chains.contains(&chain)) {
            return Err(format!("C1: {:?} was answered for a void entry", left.told));
        }
        match &left.told {
            Told::Written { command } => {
                if !accepted.book.applied.contains_key(command) {
                    return Err(format!("C1: command {command} was answered and is not applied"));
                }
            }
            Told::Read { id, answered_before, applied } => {
                let before = &world.answered[..*answered_before];
                if let Some(missing) = before.iter().find(|command| !applied.contains(command)) {
                    return Err(format!("C5: read {id} does not know command {missing}, answered before it"));
                }
            }
        }
    }
    Ok(std::mem::take(counts))
}

fn fold(world: &World, counts: &mut BTreeMap<&'static str, u64>) -> Result<Accepted, String> {
    let mut fold = LogFold::new(CLUSTER, Position::START);
    let mut accepted = Accepted { book: Book::default(), chains: BTreeSet::new() };
    // Of the journal and of the store.
    let (mut epoch, mut last) = (0, [(0, i64::MIN); 2]);
    let mut lax = (0, None);
    for (offset, bytes) in world.broker.committed().iter().enumerate() {
        let entry = LogEntry::decode(bytes).map_err(|error| error.to_string())?;
        let verdict = fold.read(offset as u64, bytes);
        let is_accepted = if world.flaw == Flaw::FoldsByEpochAlone {
            by_epoch_alone(&mut lax, &entry)
        } else {
            matches!(verdict, EntryVerdict::Accepted(_))
        };
        let name = match (is_claim(&entry), is_accepted) {
            (true, true) => "claims accepted",
            (true, false) => "claims void",
            (false, true) => "entries accepted",
            (false, false) => "void",
        };
        *counts.entry(name).or_default() += 1;
        if !is_accepted {
            continue;
        }
        if world.flaw == Flaw::None {
            let (seq, time_ns) = last[usize::from(entry.kind == EntryKind::Store)];
            let is_later = entry.count == 0 || entry.times.first_ns > time_ns;
            let continues = entry.epoch >= epoch && entry.first_seq == seq + 1 && is_later;
            if !continues {
                return Err(format!("C6: {entry:?} behind epoch {epoch}, record {seq}, time {time_ns}"));
            }
        }
        epoch = entry.epoch;
        if entry.count > 0 {
            let (seq, time_ns) = &mut last[usize::from(entry.kind == EntryKind::Store)];
            (*seq, *time_ns) = (*seq + u64::from(entry.count), entry.times.last_ns);
            *counts
                .entry(if entry.kind == EntryKind::Store { "of the store" } else { "of the journal" })
                .or_default() += 1;
        }
        accepted.book.accept(bytes, &entry);
        accepted.chains.insert(entry.chain);
    }
    Ok(accepted)
}

/// The rule without the chain, to count the entries that it would accept.
fn by_epoch_alone(state: &mut (u64, Option<upesi_cluster::NodeId>), entry: &LogEntry<'_>) -> bool {
    let (epoch, leader) = *state;
    if is_claim(entry) {
        let is_next = entry.epoch == epoch + 1;
        if is_next {
            *state = (entry.epoch, Some(entry.node));
        }
        return is_next;
    }
    entry.epoch == epoch && leader == Some(entry.node)
}
