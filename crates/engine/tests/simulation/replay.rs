//! Compares the live state, the snapshots and the published records with a replay of the journal from its beginning.

use std::sync::Arc;

use upesi_engine::{DecodedRecord, Engine, EngineHandle, follow};
use upesi_journal::{Disk, EmbeddedLog, SnapshotStore};
use upesi_ledger::{Callback, Ledger, LedgerConfig};

use super::Run;

impl Run {
    /// Ends an engine in order, and compares its state with its files. While it runs, its archivist changes files.
    pub(super) async fn end_and_compare(&mut self, engine: Engine, handle: &EngineHandle) {
        let (live, last_seq) =
            handle.read(|ledger| (ledger.encode_unfinished(), ledger.last_seq())).await.unwrap();
        engine.shutdown();
        let disk: Arc<dyn Disk> = Arc::new(self.disk.clone());
        let log = EmbeddedLog::for_reading(&disk);
        let first = log.oldest_seq().unwrap().unwrap_or(0);
        assert!(first <= 1 || !self.keep_segments, "the journal begins with {first}");
        let store = SnapshotStore::open_for_reading(Arc::clone(&disk));
        let mut snapshots: Vec<_> =
            store.list().unwrap().iter().map(|info| store.read(info.seq).unwrap()).collect();
        let mut ledger = Ledger::new(LedgerConfig::default());
        if first > 1 {
            // The older segments are removed, so the replay begins with the oldest snapshot.
            self.totals.journals_shortened += 1;
            let oldest = snapshots.remove(0);
            ledger = Ledger::decode_snapshot(&oldest.bytes, LedgerConfig::default()).unwrap();
        }
        let mut callbacks: Vec<(u64, Vec<Callback>)> = Vec::new();
        let mut records = follow(&log, ledger.last_seq() + 1);
        while let Some(DecodedRecord { seq, time, record, .. }) = records.next().unwrap() {
            ledger.evolve(seq, time, record.events, &record.callbacks);
            callbacks.push((seq, record.callbacks));
            for snapshot in snapshots.iter().filter(|snapshot| snapshot.seq == seq) {
                assert!(
                    snapshot.bytes == ledger.encode_unfinished(),
                    "seed {}: snapshot {seq} is not the replay",
                    self.seed
                );
                self.totals.snapshots_compared += 1;
            }
        }
        assert_eq!(ledger.last_seq(), last_seq);
        assert!(live == ledger.encode_unfinished(), "seed {}: the live state is not the replay", self.seed);
        self.compare_published(&callbacks);
        self.compare_archive(&ledger);
    }

    /// The journal has the published records, byte for byte.
    fn compare_published(&mut self, callbacks: &[(u64, Vec<Callback>)]) {
        let published = self.published.0.lock().unwrap();
        let first = callbacks.first().map_or(u64::MAX, |(seq, _)| *seq);
        for record in published.iter().filter(|record| record.seq >= first) {
            let place = callbacks.binary_search_by_key(&record.seq, |(seq, _)| *seq);
            let place = place
                .unwrap_or_else(|_| panic!("seed {}: {} was published and is lost", self.seed, record.seq));
            assert_eq!(callbacks[place].1, record.callbacks, "seed {}: record {}", self.seed, record.seq);
            self.totals.published += 1;
        }
    }

    /// The archive agrees with the journal.
    fn compare_archive(&mut self, replayed: &Ledger) {
        for (id, _) in self.known.values() {
            let Some(archived) = super::archived(&self.archive, id) else { continue };
            if let Some(transfer) = replayed.transfer(*id) {
                assert_eq!(&archived, transfer, "seed {}", self.seed);
            }
            self.totals.archived += 1;
        }
    }
}
