//! The result of an audit, as text and as JSON.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde_json::{Value, json};
use upesi_journal::TornTail;
use upesi_ledger::{Account, Ledger, LedgerAccountTypeId, Participant, Totals};
use upesi_tables::store::StoreDigest;
use upesi_types::text::Escaped;

use super::archive::ArchiveResult;
use super::books::Counts;
use super::store::StoreResult;

/// Result of an audit.
#[derive(Debug)]
pub struct AuditReport {
    pub directory: PathBuf,
    /// The oldest record; 0 if there is none.
    pub first_seq: u64,
    /// The last replayed record.
    pub last_seq: u64,
    /// Number of journal segments.
    pub segments: usize,
    /// Result of reading the whole journal before the replay.
    pub journal: JournalState,
    /// The first state of the replay, a snapshot; `None`: the replay began with the first record.
    pub started_from: Option<u64>,
    /// Number of records up to that snapshot. They were read and parsed, but could not be replayed, because earlier
    /// ones no longer exist.
    pub early_records: u64,
    /// Numbers of events since then.
    pub counts: Counts,
    /// The ledger's counts since its beginning.
    pub totals: Totals,
    /// The state at the end.
    pub ledger: Ledger,
    /// The compared snapshots, by record.
    pub snapshots: Vec<u64>,
    pub archive: ArchiveResult,
    pub store: StoreResult,
    /// Whether the recovery of a start was run, on the same files and without changing them.
    pub is_rehearsed: bool,
    /// The remains of a batch that was never acknowledged, which are not a fault.
    pub torn: Option<TornTail>,
    /// The findings: damage and wrong sums first, then decisions against the auditor's rules. At most
    /// [`super::FINDINGS_KEPT_MAX`] of either kind.
    pub findings: Vec<String>,
    /// Number of these findings about rules.
    pub rule_findings: usize,
    pub findings_total: u64,
    /// Number of all findings about rules.
    pub rule_findings_total: u64,
}

impl AuditReport {
    /// Whether the audit has no findings.
    pub fn is_sound(&self) -> bool {
        self.findings_total == 0
    }

    /// Whether the data is complete and the sums are right, even if there are findings about rules.
    pub fn is_whole(&self) -> bool {
        self.findings_total == self.rule_findings_total
    }

    /// The findings of damage and wrong sums, and those about rules.
    pub fn findings_by_kind(&self) -> (&[String], &[String]) {
        self.findings.split_at(self.findings.len() - self.rule_findings)
    }
}

/// The journal as files: checksums, chain, sequence and times of all records of all segments, and zeros after them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalState {
    /// All records are valid; their number.
    Verified(u64),
    /// The first damage is a finding.
    Damaged,
    /// A hub is writing to it: its records are verified as the replay reads them, and not separately.
    InUse,
}

impl JournalState {
    /// The last record of a journal that begins with `first_seq`, if it is known.
    pub(super) const fn last_seq(self, first_seq: u64) -> Option<u64> {
        match self {
            Self::Verified(records) => Some((first_seq + records).saturating_sub(1)),
            Self::Damaged | Self::InUse => None,
        }
    }
}

/// The report as text.
pub fn to_text(report: &AuditReport) -> String {
    let mut text = String::new();
    let mut row = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<13} {value}");
    };
    row("directory", report.directory.display().to_string());
    row("records", records(report));
    row("journal", journal(report.journal));
    let (counts, totals) = (report.counts, report.totals);
    row(
        "transfers",
        format!(
            "{} reserved, {} refused, {} committed, {} aborted ({} expired), {} in flight",
            totals.reserved,
            totals.refused,
            totals.committed,
            totals.aborted,
            totals.expired,
            report.ledger.reserved_len()
        ),
    );
    row("funds", format!("{} movements", report.ledger.all_funds().count()));
    let outbox = report.ledger.outbox();
    row(
        "callbacks",
        format!(
            "{} owed, {} delivered, {} undelivered ({} parked)",
            counts.owed,
            counts.delivered,
            outbox.len(),
            outbox.parked_len()
        ),
    );
    row(
        "requests",
        format!(
            "{} compared with their records, {} could not be parsed",
            counts.requests, counts.requests_unread
        ),
    );
    row("snapshots", snapshots(report));
    row("archive", archive(report));
    row("store", store(&report.store));
    row("start", if report.is_rehearsed { "rehearsed" } else { "not rehearsed" }.to_owned());
    if let Some(torn) = &report.torn {
        row(
            "torn tail",
            format!("{} bytes at {} byte {}, never acknowledged", torn.bytes, torn.file, torn.offset),
        );
    }
    text.push_str(&balances(&report.ledger));
    let _ = writeln!(text, "\n{}", verdict(report));
    text
}

fn records(report: &AuditReport) -> String {
    if report.counts.records == 0 {
        return "none".to_owned();
    }
    let from = match report.started_from {
        None => "replayed from the beginning".to_owned(),
        Some(seq) => {
            format!(
                "replayed from the snapshot of record {seq}, {} before it were only read",
                report.early_records
            )
        }
    };
    let (first, last, segments) = (report.first_seq, report.last_seq, report.segments);
    format!("{first} to {last} in {segments} segments, {} {from}", report.counts.records)
}

fn journal(state: JournalState) -> String {
    match state {
        JournalState::Verified(records) => {
            format!("{records} records verified: checksums, chain, times, and zeros after them")
        }
        JournalState::Damaged => "DAMAGED, see below".to_owned(),
        JournalState::InUse => "verified up to the last replayed record: a hub is using it".to_owned(),
    }
}

fn snapshots(report: &AuditReport) -> String {
    match &report.snapshots[..] {
        [] => "none to compare".to_owned(),
        seqs => {
            let seqs: Vec<_> = seqs.iter().map(ToString::to_string).collect();
            format!("compared at record {}", seqs.join(", "))
        }
    }
}

fn archive(report: &AuditReport) -> String {
    let archive = &report.archive;
    match &archive.left_out {
        Some(why) => format!("not compared: {why}"),
        None => format!(
            "{} transfers compared, {} stored, complete to record {}",
            archive.compared, archive.stored, archive.watermark
        ),
    }
}

fn store(store: &StoreResult) -> String {
    match store {
        Err(why) => format!("not read: {why}"),
        Ok(StoreDigest { record, entries, digest }) => {
            format!("{entries} entries at record {record}, digest {digest:032x}")
        }
    }
}

fn balances(ledger: &Ledger) -> String {
    let rows: Vec<[String; 5]> = opened(ledger)
        .map(|(participant, account)| {
            [
                participant.name.to_string(),
                account.currency.to_string(),
                ledger.account_type_name(account.kind).to_owned(),
                account.balance.to_string(),
                cap(participant, account).unwrap_or_default(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return String::new();
    }
    let heads = ["participant", "", "account", "balance", "cap"].map(str::to_owned);
    let mut text = String::from("\n");
    let widths: [usize; 5] = std::array::from_fn(|column| {
        rows.iter().chain([&heads]).map(|row| row[column].chars().count()).max().unwrap_or(0)
    });
    for row in [&heads].into_iter().chain(&rows) {
        let [name, currency, kind, balance, cap] = row;
        let [w0, w1, w2, w3, w4] = widths;
        let line = format!("{name:<w0$}  {currency:<w1$}  {kind:<w2$}  {balance:>w3$}  {cap:>w4$}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

fn opened(ledger: &Ledger) -> impl Iterator<Item = (&Participant, &Account)> {
    ledger.participants().iter().flat_map(|participant| {
        let accounts = participant.accounts.iter().filter_map(|account| ledger.account(account.id));
        accounts.filter(|account| account.is_opened).map(move |account| (participant, account))
    })
}

fn cap(participant: &Participant, account: &Account) -> Option<String> {
    let is_position = account.kind == LedgerAccountTypeId::POSITION;
    participant.limit(account.currency).filter(|_| is_position).map(|limit| limit.value.to_string())
}

fn verdict(report: &AuditReport) -> String {
    if report.is_sound() {
        return match report.started_from {
            None => "sound: every record, sum, cap and callback is correct".to_owned(),
            Some(seq) => format!(
                "sound: every existing record, and every sum, cap and callback since record {seq}, is correct"
            ),
        };
    }
    let mut text = format!("NOT SOUND: {} findings", report.findings_total);
    let (faults, rules) = report.findings_by_kind();
    let faults_total = report.findings_total.saturating_sub(report.rule_findings_total);
    for (name, found, total) in [
        ("damage or wrong sums", faults, faults_total),
        (
            "decisions that violate the auditor's rules; data and sums are correct",
            rules,
            report.rule_findings_total,
        ),
    ] {
        // No heading if all findings are of the usual kind.
        if report.rule_findings_total > 0 && total > 0 {
            let _ = write!(text, "\n{total} of {name}:");
        }
        for finding in found {
            let _ = write!(text, "\n  {}", Escaped(finding));
        }
        let more = total.saturating_sub(found.len() as u64);
        if more > 0 {
            let _ = write!(text, "\n  and {more} more");
        }
    }
    text
}

/// The report as one JSON object. Amounts are strings.
pub fn to_json(report: &AuditReport) -> String {
    let (totals, counts, outbox) = (report.totals, report.counts, report.ledger.outbox());
    let balances: Vec<Value> = opened(&report.ledger)
        .map(|(participant, account)| {
            json!({
                "participant": participant.name.as_str(),
                "currency": account.currency.as_str(),
                "ledgerAccountType": report.ledger.account_type_name(account.kind),
                "accountId": account.id.number(),
                "balance": account.balance.to_string(),
                "netDebitCap": cap(participant, account),
            })
        })
        .collect();
    let object = json!({
        "directory": report.directory.display().to_string(),
        "ok": report.is_sound(),
        "records": {
            "firstSeq": report.first_seq,
            "lastSeq": report.last_seq,
            "replayed": counts.records,
            "startedFromSnapshot": report.started_from,
            "early": report.early_records,
            "verified": match report.journal {
                JournalState::Verified(records) => Some(records),
                JournalState::Damaged | JournalState::InUse => None,
            },
            "segments": report.segments,
        },
        "transfers": {
            "reserved": totals.reserved,
            "refused": totals.refused,
            "committed": totals.committed,
            "aborted": totals.aborted,
            "expired": totals.expired,
            "inFlight": report.ledger.reserved_len(),
        },
        "callbacks": {
            "owed": counts.owed,
            "delivered": counts.delivered,
            "undelivered": outbox.len(),
            "parked": outbox.parked_len(),
        },
        "requestsCompared": counts.requests,
        "requestsUnread": counts.requests_unread,
        "startRehearsed": report.is_rehearsed,
        "fundsMovements": report.ledger.all_funds().count(),
        "snapshotsCompared": report.snapshots,
        "archive": {
            "compared": report.archive.compared,
            "stored": report.archive.stored,
            "watermark": report.archive.watermark,
            "leftOut": report.archive.left_out,
        },
        "store": report.store.as_ref().ok().map(|store| json!({
            "record": store.record,
            "entries": store.entries,
            "digest": format!("{:032x}", store.digest),
        })),
        "tornTail": report.torn.as_ref().map(|torn| json!({
            "file": torn.file,
            "offset": torn.offset,
            "bytes": torn.bytes,
        })),
        "balances": balances,
        "findings": report.findings,
        "findingsTotal": report.findings_total,
        "ruleFindings": report.findings_by_kind().1,
        "ruleFindingsTotal": report.rule_findings_total,
    });
    format!("{object:#}\n")
}
