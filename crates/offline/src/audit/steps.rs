//! An audit of records one by one, without files, for tests that create records.

use std::collections::BTreeMap;
use std::fmt;

use upesi_ledger::{AccountId, Ledger, Obligation, Record, WindowId};
use upesi_types::Timestamp;

use super::findings::Findings;
use super::replay::Replay;

/// Number of records after which the state is checked; each record is also checked by itself.
const CHECK_EVERY_RECORDS: u64 = 8;

/// Sum of each account in each window.
type Sums = BTreeMap<(WindowId, AccountId), i128>;

/// An audit from the first record on. The obligations of finished entries must add up to the nets of the windows.
#[derive(Default)]
pub struct StepAudit {
    replay: Option<Replay>,
    /// From the list of obligations.
    listed: Sums,
}

impl fmt::Debug for StepAudit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StepAudit").finish_non_exhaustive()
    }
}

impl StepAudit {
    /// Audits the next record, and at intervals the state after it. Returns the findings.
    pub fn step(&mut self, seq: u64, time: Timestamp, record: Record<'_>) -> Vec<String> {
        let replay = self.replay.get_or_insert_with(Replay::without_files);
        let mut findings = Findings::default();
        if let Err(contradiction) = replay.step(seq, time, record, &mut findings) {
            findings.add(format!("record {seq}: {contradiction}"));
        }
        let ledger = &mut replay.ledger;
        let mut ended = Vec::new();
        ended.extend(ledger.take_finished(seq).flat_map(|(_, transfer)| transfer.obligations()));
        let fx_transfers = ledger.take_finished_fx_transfers(seq);
        ended.extend(fx_transfers.flat_map(|(_, fx_transfer)| fx_transfer.obligations()));
        ledger.take_finished_bulks(seq).for_each(drop);
        for Obligation { window, debtor, creditor, amount, .. } in ended {
            *self.listed.entry((window, debtor)).or_default() += i128::from(amount.units());
            *self.listed.entry((window, creditor)).or_default() -= i128::from(amount.units());
        }
        if seq.is_multiple_of(CHECK_EVERY_RECORDS) {
            replay.check(&mut findings);
            findings.extend(unlike_nets(&self.listed, &replay.ledger));
        }
        [findings.kept, findings.rules_kept].concat()
    }
}

/// The accounts of windows whose net is not the sum of the listed obligations.
fn unlike_nets(listed: &Sums, ledger: &Ledger) -> Vec<String> {
    let mut nets = Sums::new();
    let mut dropped = Vec::new();
    for window in ledger.windows() {
        let Some(pairs) = ledger.window_pairs(window) else {
            dropped.push(window.id);
            continue;
        };
        for pair in &*pairs {
            *nets.entry((window.id, pair.payer)).or_default() += pair.sum.units;
            *nets.entry((window.id, pair.payee)).or_default() -= pair.sum.units;
        }
    }
    let is_kept = |window: WindowId| !dropped.contains(&window);
    let sum = |of: &Sums, key: &(WindowId, AccountId)| of.get(key).copied().unwrap_or(0);
    let mut keys: Vec<_> = nets.keys().chain(listed.keys()).filter(|(window, _)| is_kept(*window)).collect();
    keys.sort_unstable();
    keys.dedup();
    let differ = keys.into_iter().filter(|key| sum(&nets, key) != sum(listed, key));
    let text = |key: &(WindowId, AccountId)| {
        let (window, account) = (key.0, key.1.number());
        let (net, listed) = (sum(&nets, key), sum(listed, key));
        format!("window {window}: the net of account {account} is {net}, its obligations add up to {listed}")
    };
    differ.map(text).collect()
}
