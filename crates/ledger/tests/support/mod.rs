//! A ledger under test, with checks of everything that must hold after each of its steps.

use std::collections::BTreeMap;

use upesi_ledger::{
    Archived, Bulk, Command, Decision, DecisionInput, Event, FxTransfer, Ledger, LedgerConfig, Payload,
    Record, Reply, Transfer, audit,
};
use upesi_types::{BulkId, FxTransferId, Timestamp, TransferId};

/// A live ledger, a second one that receives only encoded records, and an archive.
pub struct Twin {
    pub live: Ledger,
    replica: Ledger,
    pub archive: BTreeMap<TransferId, Transfer>,
    pub archived_fx_transfers: BTreeMap<FxTransferId, FxTransfer>,
    pub archived_bulks: BTreeMap<BulkId, Bulk>,
}

impl Twin {
    pub fn new(config: LedgerConfig) -> Self {
        Self {
            live: Ledger::new(config.clone()),
            replica: Ledger::new(config),
            archive: BTreeMap::new(),
            archived_fx_transfers: BTreeMap::new(),
            archived_bulks: BTreeMap::new(),
        }
    }

    /// Decides and folds one command as the engine does: an id that is not in memory is looked up in the archive. The
    /// wall clock has not jumped.
    pub fn submit(&mut self, command: Command, now: Timestamp) -> Decision {
        let mut decision = Decision::default();
        self.live.decide(&command, &DecisionInput::at(now), &mut decision);
        if decision.reply == Reply::NeedsArchive {
            assert!(decision.is_empty(), "nothing is decided before the archive answers");
            let archived = self.look_up(&command);
            decision.clear();
            self.live.decide(&command, &DecisionInput::new(now.into(), &archived), &mut decision);
            assert_ne!(decision.reply, Reply::NeedsArchive, "the archive was queried already");
        }
        if !decision.is_empty() {
            self.fold(&decision, now);
        }
        self.check();
        decision
    }

    fn fold(&mut self, decision: &Decision, now: Timestamp) {
        let payload = Payload { headers: b"date: now\r\n", body: b"{}" };
        let mut bytes = Vec::new();
        Record::encode(decision.actor, &decision.events, &decision.callbacks, payload, &mut bytes);
        let record = Record::decode(&bytes).expect("a record that was just written");
        assert_eq!(record.actor, decision.actor);
        assert_eq!(record.events, decision.events);
        assert_eq!(record.callbacks, decision.callbacks);
        assert_eq!(record.payload, payload);
        let seq = self.live.last_seq() + 1;
        for event in &decision.events {
            let prepare_seq = match event {
                Event::TransferPrepared(transfer) => transfer.prepare_seq,
                Event::FxTransferPrepared(fx_transfer) => fx_transfer.prepare_seq,
                Event::BulkReceived(bulk) => bulk.prepare_seq,
                _ => continue,
            };
            assert_eq!(prepare_seq, seq, "the record that keeps the request's headers and body");
        }
        self.live.evolve(seq, now, decision.events.iter().cloned(), &decision.callbacks);
        self.replica.evolve(seq, now, record.events, &record.callbacks);
    }

    fn look_up(&self, command: &Command) -> Archived {
        if let Command::FxTransfer(command) = command {
            let id = command.fx_transfer().expect("only a well-formed id needs the archive");
            let fx_transfer = self.archived_fx_transfers.get(&id).cloned().map(Box::new);
            let transfer = command.determining_transfer();
            let has_transfer = transfer.is_some_and(|transfer| self.archive.contains_key(&transfer));
            return Archived::FxTransfer { fx_transfer, has_transfer };
        }
        if let Command::Bulk(command) = command {
            let id = command.bulk().expect("only a well-formed id needs the archive");
            let bulk = self.archived_bulks.get(&id).cloned().map(Box::new);
            let transfers = command.transfers().filter(|id| self.archive.contains_key(id)).collect();
            return Archived::Bulk { bulk, transfers };
        }
        let id = self.live.archive_id_of(command).expect("only a well-formed id needs the archive");
        let found = self.archive.get(&id).cloned();
        found.map_or(Archived::Absent, |transfer| Archived::Found(Box::new(transfer)))
    }

    /// Moves every finished transfer from memory to the archive.
    pub fn drain(&mut self) {
        let seq = self.live.last_seq();
        for transfer in self.live.drain_finished(seq) {
            let previous = self.archive.insert(transfer.id, transfer);
            assert_eq!(previous, None, "a transfer ends once");
        }
        for (_, fx_transfer) in self.live.take_finished_fx_transfers(seq) {
            let previous = self.archived_fx_transfers.insert(fx_transfer.id, *fx_transfer);
            assert_eq!(previous, None, "a conversion ends once");
        }
        self.replica.drain_finished(seq).for_each(drop);
        for (_, bulk) in self.live.take_finished_bulks(seq) {
            let previous = self.archived_bulks.insert(bulk.id, *bulk);
            assert_eq!(previous, None, "a bulk ends once");
        }
        self.replica.take_finished_fx_transfers(seq).for_each(drop);
        self.replica.take_finished_bulks(seq).for_each(drop);
        self.check();
    }

    /// Continues from a snapshot, as after a restart.
    pub fn restart(&mut self) {
        self.live = Ledger::decode_snapshot(&snapshot(&self.live), self.live.config().clone())
            .expect("a snapshot that was just written");
    }

    /// Checks the invariants, and that snapshot, live state and replay of the records are the same.
    fn check(&self) {
        assert_eq!(audit::check(&self.live), Vec::<String>::new(), "an invariant is broken");
        let bytes = snapshot(&self.live);
        let decoded = Ledger::decode_snapshot(&bytes, self.live.config().clone())
            .expect("a snapshot that was just written");
        assert!(snapshot(&decoded) == bytes, "a decoded snapshot encodes differently");
        assert!(snapshot(&self.replica) == bytes, "a replay of the records leads to another state");
    }
}

pub fn snapshot(ledger: &Ledger) -> Vec<u8> {
    let mut bytes = Vec::new();
    ledger.encode_snapshot(&mut bytes);
    bytes
}
