//! The verdict: whether the data after a crash contain everything that the hub promised.

use std::collections::BTreeMap;
use std::sync::Arc;

use upesi_engine::{EngineHandle, LedgerFold, StartError};
use upesi_journal::{Disk, END, EmbeddedLog, SnapshotStore};
use upesi_ledger::codec::Decoder;
use upesi_ledger::{Ledger, LedgerConfig, ParticipantId, PublicState, Stored as _, Transfer};
use upesi_types::Amount;

use super::life::Memory;
use super::scheme::{DFSPS, amount_of, id, parties, positions};
use super::treasury::{SettlementSnapshot, settled_and_held};
use super::{HubRemains, Setup, block_on};

/// The state that a running hub reports.
struct Account {
    in_memory: BTreeMap<u64, Transfer>,
    positions: [Option<(ParticipantId, Amount)>; 3],
    /// Amounts that settlements added to the positions, and amounts that windows hold of them.
    settled_and_held: ([i128; 3], [i128; 3]),
    settling: SettlementSnapshot,
    findings: Vec<String>,
    state: Vec<u8>,
    last_seq: u64,
}

/// Starts a hub on an image of the remains, and judges it. Panics with a message that starts with `what` if something
/// is missing. Returns the hub's state, comparable between hubs.
pub fn judge(remains: &HubRemains, setup: &Setup, memory: &Memory, what: &str) -> Vec<u8> {
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
    let numbers: Vec<u64> = memory.transfers.keys().chain(memory.removed.keys()).copied().collect();
    let question = move |ledger: &Ledger| Account {
        in_memory: numbers
            .iter()
            .filter_map(|number| Some((*number, ledger.transfer(id(*number))?.clone())))
            .collect(),
        positions: positions(ledger),
        settled_and_held: settled_and_held(ledger),
        settling: SettlementSnapshot::of(ledger),
        findings: upesi_ledger::audit::check(ledger),
        state: ledger.encode_unfinished(),
        last_seq: ledger.last_seq(),
    };
    handle.read(question).await.expect("a hub without a fault answers")
}

fn compare(remains: &HubRemains, memory: &Memory, account: &Account, what: &str) {
    assert!(account.findings.is_empty(), "{what}: {:?}", account.findings);
    let archive = remains.archive.open();
    let find = |number: u64| {
        account.in_memory.get(&number).cloned().or_else(|| {
            let bytes = archive.get(&id(number)).expect("an archive without a fault")?;
            Some(Transfer::decode(&mut Decoder(&bytes)).expect("a transfer"))
        })
    };
    // Removed transfers have moved their money, and so have removed transfers that were prepared again.
    let mut moved: Vec<(u64, PublicState)> = memory.came_again.clone();
    for (number, known) in &memory.transfers {
        let found = find(*number);
        let state = found.as_ref().map(Transfer::public_state);
        if let Some(found) = &found {
            expect_as_sent(*number, found, &account.positions, what);
        }
        match (state, known.perhaps_removed, known.ended) {
            (None, Some(removed), _) => moved.push((*number, removed)),
            (Some(state), Some(removed), _) => {
                assert_eq!(state, removed, "{what}: transfer {number} has another end than the archived one");
            }
            (None, None, _) => {
                assert!(!known.is_acknowledged, "{what}: transfer {number} was acknowledged and is lost")
            }
            (Some(state), None, Some(ended)) => {
                assert_eq!(state, ended, "{what}: transfer {number} has another end than the answered one");
            }
            (Some(state), None, None) => assert!(
                known.is_unsure || state == PublicState::Reserved,
                "{what}: transfer {number} is {state:?}, but no request ended it"
            ),
        }
        moved.extend(state.map(|state| (*number, state)));
    }
    for (number, state) in &memory.removed {
        assert!(find(*number).is_none(), "{what}: transfer {number} was removed and is back");
        moved.push((*number, *state));
    }
    let found = account.positions.map(|position| position.map_or(0, |(_, units)| i128::from(units.units())));
    let (settled, held) = account.settled_and_held;
    let expected = added(positions_by(&moved), settled);
    assert_eq!(found, expected, "{what}: positions of {DFSPS:?}; settlements added {settled:?}");
    moved.retain(|(_, state)| *state == PublicState::Committed);
    assert_eq!(held, positions_by(&moved), "{what}: windows do not equal the committed amounts");
    memory.treasury.compare(&account.settling, what);
    let replayed = replay(remains, what);
    assert_eq!(replayed.last_seq(), account.last_seq, "{what}: the replay ends at another record");
    assert!(replayed.encode_unfinished() == account.state, "{what}: the live state differs from the replay");
}

fn expect_as_sent(number: u64, found: &Transfer, known: &[Option<(ParticipantId, Amount)>; 3], what: &str) {
    assert_eq!(found.amount, amount_of(number), "{what}: the amount of transfer {number}");
    let expected = parties(number).map(|party| known[party].map(|(id, _)| id));
    assert_eq!([found.payer, found.payee], expected, "{what}: the parties of transfer {number}");
}

fn added(one: [i128; 3], other: [i128; 3]) -> [i128; 3] {
    std::array::from_fn(|dfsp| one[dfsp] + other[dfsp])
}

/// The positions that must result from all movements of money, except settlements.
fn positions_by(moved: &[(u64, PublicState)]) -> [i128; 3] {
    let mut positions = [0; 3];
    for (number, state) in moved {
        let ([payer, payee], units) = (parties(*number), i128::from(amount_of(*number).units()));
        positions[payer] += if *state == PublicState::Aborted { 0 } else { units };
        positions[payee] -= if *state == PublicState::Committed { units } else { 0 };
    }
    positions
}

/// Replays the journal from its start, or from the oldest snapshot if the start was removed. Each snapshot must agree
/// with the replay at its record.
fn replay(remains: &HubRemains, what: &str) -> Ledger {
    let disk: Arc<dyn Disk> = Arc::new(remains.disk.clone());
    let store = SnapshotStore::open_for_reading(Arc::clone(&disk));
    let infos = store.list().expect("lists");
    // A hub does not read damaged snapshots either.
    let snapshots: Vec<_> = infos.iter().filter_map(|info| store.read(info.seq).ok()).collect();
    let failed = |error: StartError| -> ! { panic!("{what}: {error}") };
    let log = EmbeddedLog::for_reading(&disk);
    let mut fold =
        LedgerFold::earliest(&log, &snapshots, LedgerConfig::default()).unwrap_or_else(|error| failed(error));
    while fold.next(END).unwrap_or_else(|error| failed(error)) {
        let seq = fold.ledger.last_seq();
        for snapshot in snapshots.iter().filter(|snapshot| snapshot.seq == seq) {
            assert!(
                snapshot.bytes == fold.ledger.encode_unfinished(),
                "{what}: snapshot {seq} differs from the replay"
            );
        }
    }
    fold.ledger
}
