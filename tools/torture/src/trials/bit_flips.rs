//! Rot and misdirected writes in whole hubs. They are also tried many times in the journal alone.

use upesi_journal::sim_disk::script::{Script, dynamic};
use upesi_journal::sim_disk::{DiskFault, Random, SimDisk, SurvivingData};
use upesi_journal::{
    Disk, END, JournalError, Options, Reader, SECTOR_BYTES, SnapshotStore, open, segments, verify,
};

use super::{Tally, Trial, table_flips};
use crate::hub::life::Memory;
use crate::hub::{HubRemains, Setup, block_on};
use crate::trials;

const BURSTS: u64 = 16;
/// Number of changes to the data directory of one seed.
const CHANGES: u64 = 100;
/// One change in this many is also tried with the start of a hub.
const STARTED: u64 = 8;
/// Approximate number of disk operations of a life.
const ORDINALS: u64 = 150;

/// Each change is detected or harmless, so that the data that are read equal the written data.
pub(super) const TRIAL: Trial = Trial {
    name: "bit-flips",
    what: "bit flips, and lost, stale and misdirected writes, all detected or harmless",
    goal: 1_000_000,
    build: trials::own_build,
    run,
};

fn run(seed: u64) -> Tally {
    let mut tally = Tally::default();
    let mut random = Random::new(seed ^ 0x666c_6970);
    flip_in_journal(seed, &mut random, &mut tally);
    table_flips::run(seed, &mut random, &mut tally);
    let original = Original::new(seed, &mut random);
    for _ in 0..CHANGES {
        original.change_and_judge(&mut random, &mut tally);
    }
    tally
}

/// The data directory of a finished hub, and its content.
struct Original {
    seed: u64,
    setup: Setup,
    remains: HubRemains,
    files: Vec<(String, Vec<u8>)>,
    early: Vec<(String, Vec<u8>)>,
    records: u64,
    snapshots: Vec<(u64, Vec<u8>)>,
    state: Vec<u8>,
    /// Whether a hub shut down in order. Then a snapshot names the last record of the journal.
    is_closed: bool,
}

impl Original {
    fn new(seed: u64, random: &mut Random) -> Self {
        let setup = Setup::draw(random);
        let is_closed = !random.one_in(4);
        let first = HubRemains::none(seed);
        if !is_closed {
            first.disk.inject(ORDINALS + random.below(ORDINALS), DiskFault::Crash);
        }
        let mut memory = Memory::default();
        let mut early = Vec::new();
        block_on(async {
            let (engine, handle) = first.start(&setup).expect("starts");
            memory.live(&handle, random, BURSTS / 2).await;
            // The hub may still be working, or have ended in a crash.
            early = contents(&first.disk.observer());
            memory.live(&handle, random, BURSTS / 2).await;
            engine.shutdown();
        });
        let remains = first.after_power_loss(SurvivingData::Everything);
        if !is_closed {
            // A start would remove a torn tail, which is not the subject here.
            open(dynamic(&remains.disk), Options::default()).expect("recovers");
        }
        let remains = remains.after_power_loss(SurvivingData::Nothing);
        Self {
            seed,
            files: contents(&remains.disk),
            early,
            records: records(&remains.disk).expect("reads"),
            snapshots: snapshots(&remains.disk),
            state: started(&remains.after_kill(), &setup).expect("starts"),
            setup,
            remains,
            is_closed,
        }
    }

    fn change_and_judge(&self, random: &mut Random, tally: &mut Tally) {
        let change = Change::draw(random);
        // Data that nothing else refers to can be lost without a trace. Only a hub that shut down in order has recorded
        // the last record.
        if !self.is_closed && change != Change::Flip {
            return;
        }
        let (name, bytes) = &self.files[random.below(self.files.len() as u64) as usize];
        let early = self.early.iter().find(|(early, _)| early == name).map(|(_, bytes)| &bytes[..]);
        let Some(changed) = change.apply(bytes, early, &self.files, random) else { return };
        let what = format!("seed {}, {} in {name}", self.seed, change.name());
        let remains = self.remains.after_kill();
        remains.disk.corrupt(name, |bytes| *bytes = changed);
        let is_detected = self.detected(&remains.disk, &what);
        tally.unit(change.name());
        let is_journal = name.ends_with(".seg");
        let must_start = matches!(change, Change::Lost | Change::Misdirected | Change::Stale);
        if must_start || random.one_in(STARTED) {
            let is_refused = self.start_and_judge(&remains, is_detected, &what);
            tally.add("starts", 1);
            tally.add("refused starts", u64::from(is_refused));
        }
        tally.add(if is_journal { "in the journal" } else { "in snapshots" }, 1);
        tally.add(if is_detected { "detected" } else { "harmless" }, 1);
    }

    /// Reads everything. Returns whether damage was detected; panics if other data were read than were written.
    fn detected(&self, disk: &SimDisk, what: &str) -> bool {
        let mut is_detected = false;
        match verify(dynamic(disk)) {
            Ok(found) => {
                is_detected |= found.torn.is_some();
                let read = records(disk).unwrap_or_else(|error| panic!("{what}: verified, then {error}"));
                // The snapshot knows of a missing last frame, and the start checks the snapshot.
                let is_known = found.last_seq < self.last_known();
                assert!(read == self.records || is_known, "{what}: other records are read");
                is_detected |= is_known;
            }
            Err(JournalError::Damaged { .. }) => is_detected = true,
            Err(error) => panic!("{what}: {error}"),
        }
        let store = SnapshotStore::open_for_reading(dynamic(disk));
        for (seq, bytes) in &self.snapshots {
            match store.read(*seq) {
                Ok(snapshot) => assert!(snapshot.bytes == *bytes, "{what}: the snapshot differs"),
                Err(JournalError::Damaged { .. }) => is_detected = true,
                Err(error) => panic!("{what}: {error}"),
            }
        }
        is_detected
    }

    fn last_known(&self) -> u64 {
        if self.is_closed { self.snapshots.last().map_or(0, |(seq, _)| *seq) } else { 0 }
    }

    /// Starts a hub on the changed data. The hub must either refuse to start and change nothing, or reach exactly the
    /// same state. Returns whether it refused.
    fn start_and_judge(&self, remains: &HubRemains, is_detected: bool, what: &str) -> bool {
        let segments = |disk: &SimDisk| {
            let names = names(disk).into_iter().filter(|name| name.ends_with(".seg"));
            names.map(|name| disk.contents(&name)).collect::<Vec<_>>()
        };
        let before = segments(&remains.disk);
        match started(remains, &self.setup) {
            Some(state) => {
                assert!(state == self.state, "{what}: a hub starts with another state");
                false
            }
            None => {
                assert!(is_detected, "{what}: a hub refuses data that can be read");
                assert!(
                    segments(&remains.disk) == before,
                    "{what}: a hub that refuses to start changed something"
                );
                true
            }
        }
    }
}

/// Segments and snapshots.
fn names(disk: &SimDisk) -> Vec<String> {
    let mut names = Vec::new();
    for directory in ["journal", "snapshots"] {
        let files = disk.list(directory).expect("lists").into_iter();
        let files = files.filter(|name| name.ends_with(".seg") || name.ends_with(".snap"));
        names.extend(files.map(|name| format!("{directory}/{name}")));
    }
    names
}

/// Segments and snapshots with their contents.
fn contents(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    names(disk).into_iter().filter_map(|name| disk.contents(&name).map(|bytes| (name, bytes))).collect()
}

/// A hash of all records, in order.
fn records(disk: &SimDisk) -> Result<u64, JournalError> {
    let mut reader = Reader::new(dynamic(disk), 1);
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    while let Some(record) = reader.next_record(END)? {
        let header = record.seq.to_le_bytes().into_iter().chain(record.time_ns.to_le_bytes());
        for byte in header.chain(record.bytes.iter().copied()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
    Ok(hash)
}

fn snapshots(disk: &SimDisk) -> Vec<(u64, Vec<u8>)> {
    let store = SnapshotStore::open_for_reading(dynamic(disk));
    let infos = store.list().expect("lists");
    infos.iter().map(|info| (info.seq, store.read(info.seq).expect("reads").bytes)).collect()
}

/// The state of a hub after its start; `None` if it refuses to start.
fn started(remains: &HubRemains, setup: &Setup) -> Option<Vec<u8>> {
    block_on(async {
        let (engine, handle) = remains.start(setup).ok()?;
        let found = handle.read(upesi_ledger::Ledger::encode_unfinished).await.ok();
        engine.shutdown();
        found
    })
}

/// Number of flips in the journal of one seed.
const FLIPS: u64 = 400;

/// Flips bits of a finished journal, one at a time.
fn flip_in_journal(seed: u64, random: &mut Random, tally: &mut Tally) {
    let script = Script::new(seed);
    let disk = SimDisk::new(seed);
    assert!(script.run(&disk).error.is_none(), "seed {seed}: without a fault");
    let files: Vec<(String, usize, usize)> = segments(&disk)
        .expect("lists")
        .into_iter()
        .map(|info| {
            let bytes = disk.contents(&info.file).expect("is there");
            let used = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
            (info.file, used.next_multiple_of(SECTOR_BYTES), bytes.len())
        })
        .collect();
    for _ in 0..FLIPS {
        let place = random.below(files.len() as u64) as usize;
        let (file, used, length) = &files[place];
        let range = if random.one_in(8) { *length } else { *used };
        let at = random.below(range as u64) as usize;
        let bit = random.below(8);
        let rotten = disk.after_kill();
        rotten.corrupt(file, |bytes| bytes[at] ^= 1 << bit);
        let what = format!("journal, seed {seed}, bit {bit} of byte {at} of {file}");
        judge(&script, &rotten, at >= *used, place + 1 == files.len(), &what, tally);
        tally.unit("one bit");
        tally.add("in the journal", 1);
    }
}

fn judge(script: &Script, rotten: &SimDisk, is_free: bool, is_last: bool, what: &str, tally: &mut Tally) {
    let before = rotten.fingerprint();
    match verify(dynamic(rotten)) {
        Err(JournalError::Damaged { .. }) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(found) => {
            assert!(is_free && found.torn.is_some(), "{what}: not detected");
            assert_eq!(found.last_seq, script.last_seq(), "{what}: records were lost");
        }
    }
    tally.add("detected", 1);
    // A start rejects damaged data that it reads, and does not change it.
    if is_last && !is_free {
        let opened = open(dynamic(rotten), script.options.clone());
        assert!(matches!(opened, Err(JournalError::Damaged { .. })), "{what}: a start does not detect it");
        assert_eq!(rotten.fingerprint(), before, "{what}: a start changed it");
        tally.add("refused starts", 1);
    }
}

/// A change of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Flip,
    Flips,
    /// Another sector's contents, of the same file or another: a misdirected write.
    Misdirected,
    /// Bytes from elsewhere.
    Foreign,
    /// Zeros: a write that never arrived.
    Lost,
    /// The sector's contents halfway through the life: a later write that never arrived.
    Stale,
}

impl Change {
    /// All changes larger than a single bit.
    pub const LARGER: [Self; 5] = [Self::Flips, Self::Misdirected, Self::Foreign, Self::Lost, Self::Stale];

    /// Draws a change; mostly a single bit.
    pub fn draw(random: &mut Random) -> Self {
        Self::LARGER.get(random.below(13) as usize).copied().unwrap_or(Self::Flip)
    }

    /// The name in the evidence.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Flip => "one bit",
            Self::Flips => "several bits",
            Self::Misdirected => "misdirected",
            Self::Foreign => "foreign",
            Self::Lost => "lost",
            Self::Stale => "stale",
        }
    }

    /// A file with one changed sector; `None` if the sector keeps its contents. `early` is the file halfway through the
    /// life. A write may be misdirected to one of `files`; none of them is empty.
    pub fn apply<N>(
        self,
        bytes: &[u8],
        early: Option<&[u8]>,
        files: &[(N, Vec<u8>)],
        random: &mut Random,
    ) -> Option<Vec<u8>> {
        let mut changed = bytes.to_vec();
        // Most of a segment is free space, so the draw prefers the used part.
        let used = bytes.len() - bytes.iter().rev().take_while(|byte| **byte == 0).count();
        let range = if random.one_in(8) { bytes.len() } else { used.max(1) };
        let at = random.below(range as u64) as usize;
        let start = at / SECTOR_BYTES * SECTOR_BYTES;
        let end = bytes.len().min(start + SECTOR_BYTES);
        match self {
            Self::Flip => changed[at] ^= 1 << random.below(8),
            Self::Flips => {
                for _ in 0..2 + random.below(30) {
                    changed[start + random.below((end - start) as u64) as usize] ^= 1 << random.below(8);
                }
            }
            Self::Foreign => changed[start..end].fill_with(|| random.bits() as u8),
            Self::Lost => changed[start..end].fill(0),
            Self::Stale => changed[start..end].copy_from_slice(early?.get(start..end)?),
            Self::Misdirected => {
                let (_, other) = &files[random.below(files.len() as u64) as usize];
                let from = random.below(other.len().div_ceil(SECTOR_BYTES) as u64) as usize * SECTOR_BYTES;
                let length = (end - start).min(other.len() - from);
                changed[start..start + length].copy_from_slice(&other[from..from + length]);
            }
        }
        (changed != bytes).then_some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE_BYTES: usize = 5 * SECTOR_BYTES / 2;

    /// Numbers of the sectors that differ between two files of the same length.
    fn differing(one: &[u8], other: &[u8]) -> usize {
        assert_eq!(one.len(), other.len());
        one.chunks(SECTOR_BYTES).zip(other.chunks(SECTOR_BYTES)).filter(|(one, other)| one != other).count()
    }

    #[test]
    fn change_affects_a_single_sector() {
        let file = |byte| (byte, vec![byte; FILE_BYTES]);
        let (files, early) = ([file(1), file(2), file(3)], file(9).1);
        for change in [Change::Flip].into_iter().chain(Change::LARGER) {
            let mut random = Random::new(7);
            let changes =
                (0..100).filter_map(|_| change.apply(&files[0].1, Some(&early), &files, &mut random));
            let changes: Vec<_> = changes.collect();
            assert!(changes.len() > 30, "{change:?}: {}", changes.len());
            for changed in changes {
                assert_eq!(differing(&changed, &files[0].1), 1, "{change:?}");
                let is_as = match change {
                    Change::Stale => changed.contains(&9),
                    Change::Lost => changed.contains(&0),
                    Change::Misdirected => changed.contains(&2) || changed.contains(&3),
                    Change::Flip | Change::Flips | Change::Foreign => true,
                };
                assert!(is_as, "{change:?}");
            }
        }
    }

    #[test]
    fn change_without_effect_is_none() {
        let (files, mut random) = ([((), vec![0; FILE_BYTES])], Random::new(7));
        let bytes = files[0].1.as_slice();
        for (change, early) in [
            (Change::Lost, None),
            (Change::Misdirected, None),
            (Change::Stale, Some(bytes)),
            (Change::Stale, Some(&bytes[..10])),
            (Change::Stale, None),
        ] {
            assert_eq!(change.apply(bytes, early, &files, &mut random), None, "{change:?}");
        }
    }

    /// Evidence refers to seeds. So the meaning of a seed must never change.
    #[test]
    fn draws_of_a_seed_never_change() {
        let mut random = Random::new(1);
        let drawn: Vec<_> = (0..50).map(|_| random.below(13)).collect();
        let mut random = Random::new(1);
        for number in drawn {
            let expected = match number {
                0 => Change::Flips,
                1 => Change::Misdirected,
                2 => Change::Foreign,
                3 => Change::Lost,
                4 => Change::Stale,
                _ => Change::Flip,
            };
            assert_eq!(Change::draw(&mut random), expected);
        }
    }
}
