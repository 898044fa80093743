//! A small journal, written by hand: two DFSPs, and the additions of a test.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};
use upesi_journal::{Batch, DataDirectory, Disk, Options, SnapshotStore, Writer};
use upesi_ledger::codec::Encoder;
use upesi_ledger::command::{Fulfil, FulfilState, Fulfilment, FundsPrepare, NewSettlementModel, Prepare};
use upesi_ledger::{
    AdminCommand, Archived, Command, Decision, DecisionInput, FundsDirection, Ledger, LedgerAccountTypeId,
    LedgerConfig, Payload, Record, Stored as _,
};
use upesi_tables::archive::{Archive, ArchiveOptions, FjallArchive};
use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

/// The fulfilment of every transfer.
pub const PREIMAGE: [u8; 32] = [7; 32];
/// 2031-04-01T12:00:00.000Z. Each record is a second later than the previous one.
const START_MS: i64 = 1_932_811_200_000;

pub fn fsp(text: &str) -> FspId {
    FspId::parse(text).unwrap()
}

pub fn amount(text: &str) -> Amount {
    Amount::parse_decimal(text).unwrap()
}

pub fn kes() -> Currency {
    Currency::parse("KES").unwrap()
}

/// `00000000-0000-4000-8000-00000000000N`.
pub fn id(number: u8) -> TransferId {
    let mut bytes = [0; 16];
    bytes[15] = number;
    TransferId::from_random_bytes(bytes)
}

/// Headers of every prepare.
pub const SOURCE: &[u8] = b"fspiop-source: greenbank\r\n";

/// The body of this request.
pub fn prepare_body(command: &Command) -> String {
    let Command::Prepare(prepare) = command else { panic!("{command:?}") };
    let amount = prepare.amount.as_ref().unwrap();
    let condition = base64(&prepare.condition.unwrap());
    serde_json::json!({
        "transferId": prepare.id.to_string(),
        "payerFsp": prepare.payer.as_str(),
        "payeeFsp": prepare.payee.as_str(),
        "amount": { "amount": amount.to_string(), "currency": prepare.currency.as_str() },
        "condition": condition,
        "expiration": prepare.expires_at.to_string(),
    })
    .to_string()
}

/// Encodes a hash as in messages.
pub fn base64(bytes: &[u8; 32]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bit = |index: usize| bytes.get(index / 8).map_or(0, |byte| byte >> (7 - index % 8) & 1);
    let value = |letter: usize| (0..6).fold(0, |value, at| value << 1 | bit(letter * 6 + at));
    (0..43).map(|letter| char::from(LETTERS[usize::from(value(letter))])).collect()
}

/// A data directory with its writer, and its ledger.
pub struct TestJournal {
    _temporary: tempfile::TempDir,
    pub path: PathBuf,
    directory: Option<DataDirectory>,
    writer: Writer,
    pub ledger: Ledger,
}

impl TestJournal {
    /// An empty one with segments of this length.
    pub fn new(segment_bytes: u64) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let path = temporary.path().join("data");
        let directory = DataDirectory::open(&path).unwrap();
        let options = Options { segment_bytes, zero_ahead: false, ..Options::default() };
        let writer = upesi_journal::open(directory.disk(), options).unwrap().writer;
        Self {
            _temporary: temporary,
            path,
            directory: Some(directory),
            writer,
            ledger: Ledger::new(LedgerConfig::default()),
        }
    }

    /// Two DFSPs, greenbank and bluebank, with a cap of 100 KES and a cover of 500.
    pub fn onboarded() -> Self {
        let mut journal = Self::new(64 * 1024);
        journal.onboard();
        journal
    }

    pub fn onboard(&mut self) {
        for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
            self.admin(AdminCommand::CreateHubAccount {
                name: fsp("Hub"),
                currency: kes(),
                kind: kind.into(),
            });
        }
        self.admin(AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net(
            "DEFERREDNET",
            None,
        )));
        for (number, name) in [(201, "greenbank"), (202, "bluebank")] {
            let name = fsp(name);
            self.admin(AdminCommand::CreateParticipant { name, currency: kes(), is_proxy: false });
            self.admin(AdminCommand::OpenAccounts {
                name,
                currency: kes(),
                net_debit_cap: amount("100"),
                initial_position: Amount::ZERO,
            });
            let participant = self.ledger.participant_named(&name).unwrap();
            let account = participant.account(kes(), LedgerAccountTypeId::SETTLEMENT).unwrap();
            self.admin(AdminCommand::PrepareFunds(FundsPrepare {
                direction: FundsDirection::In,
                id: id(number),
                name,
                account,
                amount: amount("500"),
                currency: kes(),
                external_reference: "bank".into(),
                reason: "prefund".into(),
                extensions: None,
                fingerprint: [1; 16],
            }));
        }
    }

    pub fn admin(&mut self, command: AdminCommand) {
        self.command(&Command::Admin(command), Payload::default());
    }

    /// A prepare from greenbank to bluebank.
    pub fn prepare(&mut self, number: u8, units: &str) {
        let command = self.prepare_command(number, units);
        let body = prepare_body(&command);
        self.command(&command, Payload { headers: SOURCE, body: body.as_bytes() });
    }

    /// A prepare from bluebank to greenbank.
    pub fn prepare_back(&mut self, number: u8, units: &str) {
        let Command::Prepare(prepare) = self.prepare_command(number, units) else { unreachable!() };
        let (source, payee) = (prepare.payee, prepare.payer);
        let command =
            Command::Prepare(Prepare { source, destination: Some(payee), payer: source, payee, ..prepare });
        let body = prepare_body(&command);
        self.command(&command, Payload { headers: b"fspiop-source: bluebank\r\n", body: body.as_bytes() });
    }

    pub fn prepare_command(&self, number: u8, units: &str) -> Command {
        Command::Prepare(Prepare {
            id: id(number),
            source: fsp("greenbank"),
            destination: Some(fsp("bluebank")),
            payer: fsp("greenbank"),
            payee: fsp("bluebank"),
            amount: Ok(amount(units)),
            currency: kes(),
            condition: Some(Sha256::digest(PREIMAGE).into()),
            expires_at: self.now().plus_ms(60_000),
            fingerprint: [number; 16],
            extensions: None,
        })
    }

    /// A fulfil of bluebank.
    pub fn fulfil(&mut self, number: u8) {
        let command = self.fulfil_command(number);
        let body = format!("{{\"fulfilment\":\"{}\"}}", base64(&PREIMAGE));
        self.command(&command, Payload { headers: b"", body: body.as_bytes() });
    }

    pub fn fulfil_command(&self, number: u8) -> Command {
        Command::Fulfil(Fulfil {
            transfer: id(number).into(),
            source: fsp("bluebank"),
            destination: Some(fsp("greenbank")),
            state: FulfilState::Committed,
            may_reserve: true,
            fulfilment: Fulfilment::Preimage(PREIMAGE),
            fingerprint: [number; 16],
            extensions: None,
        })
    }

    /// The time of the next record.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_ms(START_MS + 1000 * (self.ledger.last_seq() as i64 + 1))
    }

    /// The ledger's decision.
    pub fn decide(&self, command: &Command) -> Decision {
        let mut decision = Decision::default();
        let facts = DecisionInput::new(self.now().into(), &Archived::Absent);
        self.ledger.decide(command, &facts, &mut decision);
        decision
    }

    pub fn command(&mut self, command: &Command, payload: Payload<'_>) {
        let decision = self.decide(command);
        assert!(!decision.is_empty(), "{command:?}: {:?}", decision.reply);
        self.write(&decision, payload);
        let now = self.now();
        self.ledger.evolve(self.ledger.last_seq() + 1, now, decision.events, &decision.callbacks);
    }

    /// Writes a record without the ledger. It must be the last record of the journal.
    pub fn write(&mut self, decision: &Decision, payload: Payload<'_>) {
        let Decision { actor, events, callbacks, .. } = decision;
        let mut batch = Batch::new(self.ledger.last_seq() + 1);
        batch.push(self.now().as_ns(), |buffer| Record::encode(*actor, events, callbacks, payload, buffer));
        self.writer.append(&mut batch).unwrap();
    }

    pub fn disk(&self) -> Arc<dyn Disk> {
        self.directory.as_ref().unwrap().disk()
    }

    /// Writes a snapshot with this state for the last record.
    pub fn write_snapshot(&self, ledger: &Ledger) {
        let mut bytes = Vec::new();
        ledger.encode_snapshot(&mut bytes);
        let store = SnapshotStore::open(self.disk()).unwrap();
        let write = |sink: &mut upesi_journal::SnapshotSink| std::io::Write::write_all(sink, &bytes);
        store.write(ledger.last_seq(), ledger.last_time().as_ns(), write).unwrap();
    }

    /// Adds the finished transfers to the archive. A test may change each one, or leave it out.
    pub fn write_archive(&mut self, change: impl Fn(TransferId, Vec<u8>) -> Option<Vec<u8>>) {
        let archive = FjallArchive::open(self.path.join("archive"), &ArchiveOptions::default()).unwrap();
        let seq = self.ledger.last_seq();
        let mut entries = Vec::new();
        for transfer in self.ledger.drain_finished(seq) {
            let mut bytes = Vec::new();
            transfer.encode(&mut Encoder(&mut bytes));
            entries.extend(change(transfer.id, bytes).map(|bytes| (transfer.id, bytes)));
        }
        archive.apply(&entries, seq).unwrap();
        archive.sync().unwrap();
    }

    /// Releases the directory, like a hub that stops.
    pub fn close(&mut self) {
        self.directory = None;
    }

    /// The segment files, oldest first.
    pub fn segments(&self) -> Vec<PathBuf> {
        files(&self.path.join("journal"))
    }
}

pub fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<_> =
        std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
