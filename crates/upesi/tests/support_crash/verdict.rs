//! Checks that all promises are kept: compares the journal, the archive and the hub with the DFSPs' books.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use upesi_engine::{DecodedRecord, follow};
use upesi_journal::{DataDirectory, EmbeddedLog, SnapshotStore};
use upesi_lab::AdminClient;
use upesi_lab::judge::audit::{Evidence, HubSide, audit};
use upesi_lab::result::exchanges::GeneratorCounts;
use upesi_ledger::codec::Decoder;
use upesi_ledger::{Event, Ledger, LedgerConfig, ParticipantId, PublicState, Stored as _, Transfer};
use upesi_sim::TransferOutcome;
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive};
use upesi_types::{Amount, TransferId};

use super::hub::{PATIENCE, upesi};
use super::load::{Accepted, Load, amount_max, currency};

/// Number of transfers that are also read through the admin API.
const ASKED_MAX: usize = 100;
/// A filter that matches all settlements.
const ALL_SETTLEMENTS: &str = "fromDateTime=1970-01-01T00:00:00.000Z";

/// The journal's data about each transfer: as prepared, and its present state.
pub type Outcomes = HashMap<TransferId, (Transfer, PublicState)>;

/// Names of participants.
pub type Names = HashMap<ParticipantId, String>;

/// Terms and outcome of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub payer: String,
    pub payee: String,
    pub amount: String,
    pub is_committed: bool,
}

/// Facts of a transfer as its payer knows it. The payer must have received its outcome.
pub fn facts(transfer: &Accepted) -> Facts {
    let told = transfer.outcome.unwrap_or_else(|| panic!("the payer of {} was not notified", transfer.id));
    Facts {
        payer: transfer.payer.clone(),
        payee: transfer.payee.clone(),
        amount: transfer.amount.to_string(),
        is_committed: told == TransferOutcome::Committed,
    }
}

/// Facts of a transfer as the hub stores it.
pub fn facts_of(transfer: &Transfer, names: &Names) -> Facts {
    facts_in(transfer, transfer.public_state(), names)
}

fn facts_in(transfer: &Transfer, state: PublicState, names: &Names) -> Facts {
    let name = |id: Option<ParticipantId>| names[&id.unwrap()].clone();
    assert_eq!(transfer.currency, currency());
    assert!(matches!(state, PublicState::Committed | PublicState::Aborted), "{} is {state:?}", transfer.id);
    Facts {
        payer: name(transfer.payer),
        payee: name(transfer.payee),
        amount: transfer.amount.to_string(),
        is_committed: state == PublicState::Committed,
    }
}

/// A transfer of the archive.
pub fn decoded(bytes: &[u8]) -> Transfer {
    Transfer::decode(&mut Decoder(bytes)).unwrap()
}

/// The participants in the newest snapshot.
pub fn names(data: &Path) -> Names {
    let disk = DataDirectory::open_for_reading(data).unwrap().disk();
    let snapshot = SnapshotStore::open_for_reading(disk).latest().unwrap().snapshot.unwrap();
    let ledger = Ledger::decode_snapshot(&snapshot.bytes, LedgerConfig::default()).unwrap();
    ledger.participants().iter().map(|one| (one.id, one.name.to_string())).collect()
}

/// Reads the whole journal. A transfer that begins twice, ends twice, or ends without a beginning is an error of the
/// hub.
pub fn outcomes(data: &Path) -> Outcomes {
    let disk = DataDirectory::open_for_reading(data).unwrap().disk();
    let mut records = follow(&EmbeddedLog::for_reading(&disk), 1);
    let mut outcomes = Outcomes::new();
    while let Some(DecodedRecord { seq, record, .. }) = records.next().unwrap() {
        for event in record.events {
            match event {
                Event::TransferPrepared(transfer) => {
                    let (id, state) = (transfer.id, transfer.public_state());
                    let before = outcomes.insert(id, (transfer, state));
                    assert!(before.is_none(), "record {seq} prepares {id} again");
                }
                Event::TransferCommitted { id, .. } => end(&mut outcomes, seq, id, PublicState::Committed),
                Event::TransferAborted { id, .. } => end(&mut outcomes, seq, id, PublicState::Aborted),
                _ => {}
            }
        }
    }
    outcomes
}

fn end(outcomes: &mut Outcomes, seq: u64, id: TransferId, after: PublicState) {
    let Some((_, state)) = outcomes.get_mut(&id) else { panic!("record {seq} ends {id}, which never began") };
    assert_eq!(*state, PublicState::Reserved, "record {seq} makes {id} {after:?}");
    *state = after;
}

/// Every transfer that was answered with 202 is in the journal, with the outcome that its payer received.
pub fn journal_agrees(data: &Path, accepted: &[Accepted]) {
    let (outcomes, names) = (outcomes(data), names(data));
    for transfer in accepted {
        let id = transfer.id;
        let (prepared, state) =
            outcomes.get(&id).unwrap_or_else(|| panic!("{id} was answered 202 and is not in the journal"));
        assert_eq!(
            facts_in(prepared, *state, &names),
            facts(transfer),
            "{id} in the journal, and to its payer"
        );
    }
    assert_eq!(outcomes.len(), accepted.len(), "the journal has transfers that were not sent");
}

/// The archive has the transfers of the journal, and no others.
pub fn archive_agrees(data: &Path) {
    let outcomes = outcomes(data);
    let archive = FjallArchive::open(data.join("archive"), &ArchiveOptions::default()).unwrap();
    let mut archived = 0;
    let terms = |transfer: &Transfer| {
        (transfer.id, transfer.payer, transfer.payee, transfer.amount, transfer.currency, transfer.condition)
    };
    for (id, (prepared, state)) in &outcomes {
        let bytes = archive.get(id).unwrap().unwrap_or_else(|| panic!("{id} ({state:?}) is not archived"));
        let transfer = decoded(&bytes);
        assert_eq!((terms(&transfer), transfer.public_state()), (terms(prepared), *state));
        archived += 1;
    }
    let mut stored = 0;
    let mut count = |_: TransferId, _: &[u8]| {
        stored += 1;
        std::ops::ControlFlow::Continue(())
    };
    archive.for_each(&mut count).unwrap();
    assert_eq!(stored, archived);
}

/// First record of the journal, from the names of its segments; 0 if it is empty. A hub may be writing the journal.
pub fn first_record(data: &Path) -> u64 {
    let names = std::fs::read_dir(data.join("journal")).unwrap().map(|entry| entry.unwrap().file_name());
    let records = names.filter_map(|name| name.to_str()?.strip_suffix(".seg")?.parse().ok());
    records.min().unwrap_or(0)
}

/// The archive has every transfer that was answered with 202, with the outcome that its payer received, and no others.
/// Parts of the journal may be removed.
pub fn archive_has_all(data: &Path, accepted: &[Accepted]) {
    let archive = FjallArchive::open(data.join("archive"), &ArchiveOptions::default()).unwrap();
    let names = names(data);
    for transfer in accepted {
        let id = transfer.id;
        let bytes = archive.get(&id).unwrap();
        let bytes = bytes.unwrap_or_else(|| panic!("{id} was answered 202 and is not in the archive"));
        let archived = facts_of(&decoded(&bytes), &names);
        assert_eq!(archived, facts(transfer), "{id} in the archive, and to its payer");
    }
    let mut stored = 0;
    let mut count = |_: TransferId, _: &[u8]| {
        stored += 1;
        std::ops::ControlFlow::Continue(())
    };
    archive.for_each(&mut count).unwrap();
    assert_eq!(stored, accepted.len(), "the archive has transfers that were not sent");
}

/// Waits until no payee waits for anything. Each query lets the hub continue its work.
pub async fn quiet(admin: &AdminClient, load: &Load) {
    let begun = std::time::Instant::now();
    while load.simulator.transfer_counts().incoming_open > 0 {
        admin.get("/health").await.unwrap();
        assert!(begun.elapsed() < PATIENCE, "payees wait: {:?}", load.simulator.transfer_counts());
    }
}

/// Ends the load. When everything has ended, the hub must agree with payers and payees about positions and the end of
/// each transfer.
pub async fn all_agree(admin: &AdminClient, load: &mut Load) -> Vec<Accepted> {
    let accepted = load.end();
    quiet(admin, load).await;
    books_agree(admin, load, &accepted).await;
    answers_agree(admin, &accepted).await;
    accepted
}

/// The hub's positions match the DFSPs' own books, and sum to zero.
pub async fn books_agree(admin: &AdminClient, load: &Load, accepted: &[Accepted]) {
    settled_books_agree(admin, load, accepted, settled(admin).await.1).await;
}

/// Number of settlements, which must all be settled, and the amounts that they moved for each DFSP.
pub async fn settled(admin: &AdminClient) -> (usize, BTreeMap<String, i128>) {
    let read = |bytes: upesi_http::Bytes| serde_json::from_slice::<serde_json::Value>(&bytes).unwrap();
    let participants = read(admin.get("/participants").await.unwrap());
    let mut names = BTreeMap::new();
    for participant in participants.as_array().unwrap() {
        for account in participant["accounts"].as_array().unwrap() {
            names.insert(account["id"].as_u64(), participant["name"].as_str().unwrap().to_owned());
        }
    }
    let Ok(settlements) = admin.get(&format!("/v2/settlements?{ALL_SETTLEMENTS}")).await else {
        // The hub has no settlement.
        return (0, BTreeMap::new());
    };
    let settlements = read(settlements);
    let mut nets = BTreeMap::<String, i128>::new();
    for settlement in settlements.as_array().unwrap() {
        assert_eq!(settlement["state"], "SETTLED", "{settlement}");
        let accounts = settlement["participants"].as_array().unwrap().iter();
        let mut sum = 0;
        for account in accounts.flat_map(|party| party["accounts"].as_array().unwrap()) {
            let net = account["netSettlementAmount"]["amount"].to_string();
            let net = i128::from(Amount::parse_decimal(&net).unwrap().units());
            sum += net;
            *nets.entry(names[&account["id"].as_u64()].clone()).or_default() += net;
        }
        assert_eq!(sum, 0, "{settlement}");
    }
    (settlements.as_array().unwrap().len(), nets)
}

/// Like `books_agree`, if settlements have changed the positions.
pub async fn settled_books_agree(
    admin: &AdminClient,
    load: &Load,
    accepted: &[Accepted],
    settled: BTreeMap<String, i128>,
) {
    let sent = load.sent();
    let after = admin.positions(currency()).await.unwrap();
    let sum: i64 = after.values().copied().map(Amount::units).sum();
    assert_eq!(sum, 0, "{after:?}");
    let side = HubSide {
        currency: currency(),
        amount: amount_max(),
        before: BTreeMap::new(),
        after,
        settled,
        in_windows: None,
        committed: 0,
    };
    let evidence = Evidence {
        sides: vec![side],
        settlement: None,
        findings: Vec::new(),
        expected: load.simulator.expected_positions(),
        transfers: load.simulator.transfer_counts(),
        counters: load.simulator.counters(),
        originated: GeneratorCounts { sent, accepted: accepted.len() as u64, refused: 0, unanswered: 0 },
    };
    let summary = audit(&evidence);
    assert!(summary.ok, "{summary:#?}\n{:#?}", evidence.counters);
}

/// A running hub reports the outcomes that the payers received.
pub async fn answers_agree(admin: &AdminClient, accepted: &[Accepted]) {
    let step = (accepted.len() / ASKED_MAX).max(1);
    for transfer in accepted.iter().step_by(step) {
        let answer = admin.get(&format!("/transfers/{}", transfer.id)).await.unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        let expected = match transfer.outcome {
            Some(TransferOutcome::Committed) => "COMMITTED",
            Some(TransferOutcome::Aborted) => "ABORTED",
            None => "an outcome",
        };
        assert_eq!(answer["transferState"], expected, "{}", transfer.id);
    }
}

/// A running hub knows these transfers, finished or not.
pub async fn answers_exist(admin: &AdminClient, accepted: &[Accepted]) {
    let step = (accepted.len() / ASKED_MAX).max(1);
    for transfer in accepted.iter().step_by(step) {
        admin.get(&format!("/transfers/{}", transfer.id)).await.unwrap();
    }
}

/// `upesi audit` reports no mistakes, and has checked something.
pub fn audit_is_clean(data: &Path) -> serde_json::Value {
    let output = upesi().args(["audit", "--json"]).arg(data).output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}\n{errors}");
    serde_json::from_str(&text).unwrap()
}

/// A copy of the journal has the outcomes that the payers received, and the audit reports no mistakes.
pub fn copy_agrees(data: &Path, accepted: &[Accepted]) {
    journal_agrees(data, accepted);
    audit_is_clean(data);
}
