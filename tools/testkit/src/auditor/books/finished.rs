//! Finished transfers, including the ones that retention removed.

use upesi_types::TransferId;

use super::{Books, Entry, Finished, TransferStage};

impl Books {
    /// Last record whose finished transfers were removed. The archive may still contain them: it removes them after the
    /// journal's record, and the removal may fail.
    pub(in crate::auditor) const fn removed_to(&self) -> u64 {
        self.removed_to
    }

    pub(super) fn finished_removed(&mut self, to_seq: u64) {
        self.removed_to = self.removed_to.max(to_seq);
        self.fx_transfers_removed(to_seq);
        self.bulks_removed(to_seq);
        let leaves = |entry: &Entry| entry.ended_seq > 0 && entry.ended_seq <= to_seq;
        let leaving = self.transfers.iter().filter(|(_, entry)| leaves(entry));
        let leaving: Vec<_> = leaving.map(|(key, entry)| (*key, entry.ended_seq)).collect();
        for (key, ended_seq) in leaving {
            self.transfers.remove(&key);
            if let Some(id) = TransferId::from_bytes(&key) {
                self.left.insert(key, (id, ended_seq));
            }
        }
    }

    /// Whether a transfer was removed. Its id may have been used again.
    pub(in crate::auditor) fn has_left(&self, id: TransferId) -> bool {
        self.left.contains_key(&id.to_bytes())
    }

    /// Transfers that were removed up to a record and whose ids have not been used again.
    pub(in crate::auditor) fn removed(&self, to_seq: u64) -> impl Iterator<Item = TransferId> {
        let is_gone = |key: &[u8; 17]| !self.transfers.contains_key(key);
        let gone = self.left.iter().filter(move |(key, (_, ended_seq))| *ended_seq <= to_seq && is_gone(key));
        gone.map(|(_, (id, _))| *id).collect::<Vec<_>>().into_iter()
    }

    /// Transfers that were removed at any time.
    pub(in crate::auditor) fn left_transfers(&self) -> impl Iterator<Item = [u8; 17]> {
        self.left.keys().copied()
    }

    pub(in crate::auditor) fn finished_within(&self, first_seq: u64, last_seq: u64) -> Vec<Finished> {
        let within =
            self.transfers.iter().filter(|(_, entry)| (first_seq..=last_seq).contains(&entry.ended_seq));
        let mut finished: Vec<_> = within
            .filter_map(|(key, entry)| {
                Some(Finished {
                    prepare_seq: entry.prepare_seq,
                    id: TransferId::from_bytes(key)?,
                    parties: (entry.payer, entry.payee),
                    amount: entry.amount,
                    is_committed: entry.standing == TransferStage::Committed,
                })
            })
            .collect();
        finished.sort_unstable();
        finished
    }

    pub(in crate::auditor) fn has_expired(&self, to_seq: u64) -> bool {
        let mut finished = self.transfers.values().filter(|entry| (1..=to_seq).contains(&entry.ended_seq));
        finished.all(|entry| self.last_time.is_some_and(|last| entry.expires_at < last))
            && self.fx_transfers_have_expired(to_seq)
            && self.bulks_have_expired(to_seq)
    }
}
