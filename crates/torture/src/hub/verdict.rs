//! Whether what a hub left behind is all that it promised.

use std::sync::Arc;

use upesi_archive::Archive;
use upesi_engine::EngineHandle;
use upesi_journal::{Disk, END, Reader, SnapshotStore};
use upesi_ledger::codec::Decoder;
use upesi_ledger::{Ledger, LedgerConfig, PublicState, Record, Transfer};

use super::life::Memory;
use super::scheme::id;
use super::{Remains, Setup, block_on};

/// What a running hub says of itself.
struct Account {
    states: Vec<Option<PublicState>>,
    findings: Vec<String>,
    state: Vec<u8>,
    last_seq: u64,
}

/// Starts a hub on an image of what was left, and calls it to account. Panics, beginning with `what`, if it lacks
/// anything. The state that it came to, comparable between hubs.
pub fn judge(remains: &Remains, setup: &Setup, memory: &Memory, what: &str) -> Vec<u8> {
    block_on(async {
        let (engine, handle) =
            remains.start(setup).unwrap_or_else(|error| panic!("{what}: does not start: {error}"));
        let account = demand(&handle, memory).await;
        engine.shutdown();
        compare(remains, memory, &account, what);
        account.state
    })
}

async fn demand(handle: &EngineHandle, memory: &Memory) -> Account {
    let numbers: Vec<u64> = memory.transfers.keys().copied().collect();
    let question = move |ledger: &Ledger| Account {
        states: numbers
            .iter()
            .map(|number| ledger.transfer(id(*number)).map(Transfer::public_state))
            .collect(),
        findings: upesi_ledger::audit::check(ledger),
        state: state(ledger),
        last_seq: ledger.last_seq(),
    };
    handle.read(question).await.expect("a hub without a fault answers")
}

fn compare(remains: &Remains, memory: &Memory, account: &Account, what: &str) {
    assert!(account.findings.is_empty(), "{what}: {:?}", account.findings);
    for ((number, known), in_memory) in memory.transfers.iter().zip(&account.states) {
        let found = in_memory.or_else(|| archived(remains, *number));
        match (found, known.ended) {
            (None, _) => {
                assert!(!known.is_acknowledged, "{what}: transfer {number} was acknowledged and is lost")
            }
            (Some(state), Some(ended)) => {
                assert_eq!(state, ended, "{what}: transfer {number} ended otherwise than was answered");
            }
            (Some(state), None) => assert!(
                known.is_unsure || state == PublicState::Reserved,
                "{what}: transfer {number} is {state:?}, and nobody ended it"
            ),
        }
    }
    let replayed = replay(remains, what);
    assert_eq!(replayed.last_seq(), account.last_seq, "{what}: the replay ends elsewhere");
    assert!(state(&replayed) == account.state, "{what}: the live state is not the replay");
}

fn archived(remains: &Remains, number: u64) -> Option<PublicState> {
    let bytes = remains.archive.get(&id(number)).expect("an archive in memory")?;
    Some(Transfer::decode(&mut Decoder(&bytes)).expect("a transfer").public_state())
}

/// The state without what only the archive has to remember.
pub fn state(ledger: &Ledger) -> Vec<u8> {
    let mut copy = ledger.clone();
    copy.drain_finished(u64::MAX).for_each(drop);
    let mut bytes = Vec::new();
    copy.encode_snapshot(&mut bytes);
    bytes
}

/// The journal from its beginning; each snapshot must be what the replay gives at its place.
fn replay(remains: &Remains, what: &str) -> Ledger {
    let disk: Arc<dyn Disk> = Arc::new(remains.disk.clone());
    let store = SnapshotStore::open_for_reading(Arc::clone(&disk));
    let infos = store.list().expect("lists");
    // Damaged ones are not read by a hub either.
    let snapshots: Vec<_> = infos.iter().filter_map(|info| store.read(info.seq).ok()).collect();
    let mut ledger = Ledger::new(LedgerConfig::default());
    let mut reader = Reader::new(disk, 1);
    while let Some(found) = reader.next_record(END).unwrap_or_else(|error| panic!("{what}: {error}")) {
        let (seq, time) = (found.seq, found.time);
        let record = Record::decode(found.bytes).expect("a record");
        ledger.evolve(seq, time, record.events, &record.notices);
        for snapshot in snapshots.iter().filter(|snapshot| snapshot.seq == seq) {
            assert!(snapshot.bytes == state(&ledger), "{what}: snapshot {seq} is not the replay");
        }
    }
    ledger
}
