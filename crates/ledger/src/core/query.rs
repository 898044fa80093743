//! Queries about the ledger as a whole: its progress, its deadlines and its outbox.

use upesi_types::Timestamp;

use crate::core::config::LedgerConfig;
use crate::core::outbox::Outbox;
use crate::core::state::{Ledger, Totals};

impl Ledger {
    /// The scheme's policy.
    pub const fn config(&self) -> &LedgerConfig {
        &self.config
    }

    /// Journal sequence number of the last applied record; 0 before the first.
    pub const fn last_seq(&self) -> u64 {
        self.last_seq
    }

    /// Time of the last applied record.
    pub const fn last_time(&self) -> Timestamp {
        self.last_time
    }

    /// Totals of transfers since the ledger began.
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// The last record whose finished transfers retention has removed; 0 if it has removed none.
    pub const fn removed_to(&self) -> u64 {
        self.removed_to
    }

    /// The last record up to `to_seq` that ends an existing division of the archive.
    pub fn division_up_to(&self, to_seq: u64) -> Option<u64> {
        self.divisions.iter().rev().find(|end| **end <= to_seq).copied()
    }

    /// The earliest deadline of a transfer, FX transfer, withdrawal or proposal.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        let funds = self.withdrawals.deadlines().next().map(|(deadline, _)| deadline);
        let fx_transfers = self.fx_transfers.next_deadline();
        let proposals = self.approvals.next_deadline();
        [self.transfers.next_deadline(), funds, fx_transfers, proposals].into_iter().flatten().min()
    }

    /// The undelivered callbacks.
    pub const fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    /// The nodes that deliver callbacks, in order. The list is empty while the leader delivers all callbacks.
    pub fn couriers(&self) -> &[u32] {
        &self.couriers
    }
}
