//! Whether everything that was promised is there: the journal, the archive and the hub against what the DFSPs saw.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use upesi_engine::{Followed, follow};
use upesi_journal::{DataDirectory, EmbeddedLog};
use upesi_lab::AdminClient;
use upesi_lab::judge::audit::{Evidence, Originated, audit};
use upesi_ledger::codec::Decoder;
use upesi_ledger::{Event, PublicState, Stored as _, Transfer};
use upesi_sim::Outcome;
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive};
use upesi_types::{Amount, TransferId};

use super::hub::{PATIENCE, upesi};
use super::load::{Accepted, Load, amount, currency};

/// Transfers that are also asked for over the admin API.
const ASKED_MAX: usize = 100;

/// What a journal says about each transfer.
pub type Outcomes = HashMap<TransferId, PublicState>;

/// Reads the whole journal. A transfer that begins twice, ends twice, or ends without beginning is an error of the hub.
pub fn outcomes(data: &Path) -> Outcomes {
    let disk = DataDirectory::open_for_reading(data).unwrap().disk();
    let mut records = follow(&EmbeddedLog::for_reading(&disk), 1);
    let mut outcomes = Outcomes::new();
    while let Some(Followed { seq, record, .. }) = records.next().unwrap() {
        for event in record.events {
            let (id, before, after) = match event {
                Event::TransferPrepared(transfer) => (transfer.id, None, transfer.public_state()),
                Event::TransferCommitted { id, .. } => {
                    (id, Some(PublicState::Reserved), PublicState::Committed)
                }
                Event::TransferAborted { id, .. } => (id, Some(PublicState::Reserved), PublicState::Aborted),
                _ => continue,
            };
            let found = outcomes.insert(id, after);
            assert_eq!(found, before, "record {seq} makes {id} {after:?}");
        }
    }
    outcomes
}

fn is_same(outcome: Outcome, state: PublicState) -> bool {
    match outcome {
        Outcome::Committed => state == PublicState::Committed,
        Outcome::Aborted => state == PublicState::Aborted,
    }
}

/// Every transfer that was answered 202 is in the journal, and its payer was told what the journal says.
pub fn journal_agrees(data: &Path, accepted: &[Accepted]) {
    let outcomes = outcomes(data);
    for transfer in accepted {
        let id = transfer.id;
        let state =
            outcomes.get(&id).unwrap_or_else(|| panic!("{id} was answered 202 and is not in the journal"));
        let told = transfer.outcome.unwrap_or_else(|| panic!("the payer of {id} was told nothing"));
        assert!(is_same(told, *state), "the payer of {id} was told {told:?}, the journal says {state:?}");
    }
    assert_eq!(outcomes.len(), accepted.len(), "the journal has transfers that nobody sent");
}

/// The archive holds what the journal says, and nothing else.
pub fn archive_agrees(data: &Path) {
    let outcomes = outcomes(data);
    let archive = FjallArchive::open(data.join("archive"), &ArchiveOptions::default()).unwrap();
    let mut archived = 0;
    for (id, state) in &outcomes {
        let bytes = archive.get(id).unwrap().unwrap_or_else(|| panic!("{id} ({state:?}) is not archived"));
        let transfer = Transfer::decode(&mut Decoder(&bytes)).unwrap();
        assert_eq!((transfer.id, transfer.public_state()), (*id, *state));
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

/// Where the journal begins, by the names of its segments; 0 where it is empty. A hub may be writing it.
pub fn first_record(data: &Path) -> u64 {
    let names = std::fs::read_dir(data.join("journal")).unwrap().map(|entry| entry.unwrap().file_name());
    let records = names.filter_map(|name| name.to_str()?.strip_suffix(".seg")?.parse().ok());
    records.min().unwrap_or(0)
}

/// The archive holds every transfer that was answered 202, as its payer was told it, and nothing else. Parts of the
/// journal may be gone.
pub fn archive_has_all(data: &Path, accepted: &[Accepted]) {
    let archive = FjallArchive::open(data.join("archive"), &ArchiveOptions::default()).unwrap();
    for transfer in accepted {
        let id = transfer.id;
        let bytes = archive.get(&id).unwrap();
        let bytes = bytes.unwrap_or_else(|| panic!("{id} was answered 202 and is not in the archive"));
        let state = Transfer::decode(&mut Decoder(&bytes)).unwrap().public_state();
        let told = transfer.outcome.unwrap_or_else(|| panic!("the payer of {id} was told nothing"));
        assert!(is_same(told, state), "the payer of {id} was told {told:?}, the archive says {state:?}");
    }
    let mut stored = 0;
    let mut count = |_: TransferId, _: &[u8]| {
        stored += 1;
        std::ops::ControlFlow::Continue(())
    };
    archive.for_each(&mut count).unwrap();
    assert_eq!(stored, accepted.len(), "the archive has transfers that nobody sent");
}

/// Waits until no payee waits for anything any more. Each question to the hub gives it time.
pub async fn quiet(admin: &AdminClient, load: &Load) {
    let begun = std::time::Instant::now();
    while load.simulator.transfer_counts().incoming_open > 0 {
        admin.get("/health").await.unwrap();
        assert!(begun.elapsed() < PATIENCE, "payees wait: {:?}", load.simulator.transfer_counts());
    }
}

/// The hub's positions are what the DFSPs' own books say, and sum to zero.
pub async fn books_agree(admin: &AdminClient, load: &Load, accepted: &[Accepted]) {
    let sent = load.sent();
    let evidence = Evidence {
        currency: currency(),
        amount: amount(),
        before: BTreeMap::new(),
        after: admin.positions(currency()).await.unwrap(),
        expected: load.simulator.expected_positions(),
        transfers: load.simulator.transfer_counts(),
        counters: load.simulator.counters(),
        originated: Originated { sent, accepted: accepted.len() as u64, refused: 0, unanswered: 0 },
    };
    let sum: i64 = evidence.after.values().copied().map(Amount::units).sum();
    assert_eq!(sum, 0, "{:?}", evidence.after);
    let summary = audit(&evidence);
    assert!(summary.ok, "{summary:#?}\n{:#?}", evidence.counters);
}

/// A running hub tells operators what it told the payers.
pub async fn answers_agree(admin: &AdminClient, accepted: &[Accepted]) {
    let step = (accepted.len() / ASKED_MAX).max(1);
    for transfer in accepted.iter().step_by(step) {
        let answer = admin.get(&format!("/transfers/{}", transfer.id)).await.unwrap();
        let answer: serde_json::Value = serde_json::from_slice(&answer).unwrap();
        let expected = match transfer.outcome {
            Some(Outcome::Committed) => "COMMITTED",
            Some(Outcome::Aborted) => "ABORTED",
            None => "an outcome",
        };
        assert_eq!(answer["transferState"], expected, "{}", transfer.id);
    }
}

/// A running hub knows them, finished or not.
pub async fn answers_exist(admin: &AdminClient, accepted: &[Accepted]) {
    let step = (accepted.len() / ASKED_MAX).max(1);
    for transfer in accepted.iter().step_by(step) {
        admin.get(&format!("/transfers/{}", transfer.id)).await.unwrap();
    }
}

/// `upesi audit` finds nothing, and has looked at something.
pub fn audit_is_clean(data: &Path) -> serde_json::Value {
    let output = upesi().args(["audit", "--json"]).arg(data).output().unwrap();
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0), "{text}\n{errors}");
    serde_json::from_str(&text).unwrap()
}
