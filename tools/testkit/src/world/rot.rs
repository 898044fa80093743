//! A disk that loses or changes written data. Bits flip, in a running hub and between two lives. Writes report success
//! and are lost, go elsewhere, or leave a sector unchanged.
//!
//! A hub must reject such data, skip it, or not need it. One case cannot be detected (docs/reliability.md, "not
//! covered"): the newest frame is lost after it was acknowledged, and no other intact data refer to it. Such a world
//! ends there, and the hub's state must still be one that was once correct.
//!
//! All random numbers of this module come from their own stream, except the flips between two lives.

use std::ops::RangeInclusive;
use std::sync::Arc;

use upesi_journal::sim_disk::{DiskFault, Random, SimDisk};
use upesi_journal::{Disk, Reader, SnapshotStore};
use upesi_tables::archive::Archive as _;

use super::World;
use super::event::Event;
use super::phase::Phase;
use crate::hub::Hub;

/// The phrases of hubs and readers that report damage.
const DAMAGE_IN_WORDS: [&str; 3] = ["is damaged", "holds no record", "no longer holds"];
/// Maximum number of decays in one world while the hub runs.
const DECAYS_MAX: u64 = 3;
/// Files whose writes are false: the most important ones occur most often.
const FILES: [&str; 6] = [".seg", ".seg", ".seg", ".seg", "prepared", "snapshots/"];
/// Maximum number of true writes to such a file before a false one.
const WRITES_AHEAD: u64 = 5;
/// Range, in sectors, of the distance of a misdirected write, and of the sector that stays unchanged.
const SECTORS_MAX: u64 = 6;
/// Maximum time from a false write to the loss of power.
const REVEALED_MOST_US: u64 = 400_000;
/// The first bytes of a frame (crates/journal/README.md).
const FRAME_MAGIC: [u8; 4] = [0xf5, b'U', b'J', 0x00];
const SECTOR_BYTES: usize = upesi_journal::SECTOR_BYTES;

pub(super) fn names_damage(message: &str) -> bool {
    DAMAGE_IN_WORDS.iter().any(|words| message.contains(words))
}

/// Draws a bit of a file of journal or snapshots, mostly one in a used part.
fn draw_bit(disk: &SimDisk, random: &mut Random) -> Option<(String, usize, u64)> {
    let disk = disk.observer();
    let files = ["journal", "snapshots"].map(|directory| {
        let names = disk.list(directory).unwrap_or_default();
        names.into_iter().map(move |name| format!("{directory}/{name}")).collect::<Vec<_>>()
    });
    let files = files.concat();
    if files.is_empty() {
        return None;
    }
    let file = &files[random.below(files.len() as u64) as usize];
    let bytes = disk.contents(file).unwrap_or_default();
    let written = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    let length = if random.one_in(8) { bytes.len() } else { written };
    (length > 0).then(|| (file.clone(), random.below(length as u64) as usize, random.below(8)))
}

/// The records of the frame at the start of these bytes, if there is one.
fn records_of(bytes: &[u8]) -> Option<RangeInclusive<u64>> {
    let count = u32::from_le_bytes(bytes.get(8..12)?.try_into().ok()?);
    let first = u64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
    (bytes[..4] == FRAME_MAGIC && count > 0).then(|| first..=first + u64::from(count) - 1)
}

/// The records of the segment's frame that contains this byte.
fn frame_around(segment: &[u8], at: usize) -> Option<RangeInclusive<u64>> {
    (0..=at / SECTOR_BYTES).rev().find_map(|sector| records_of(segment.get(sector * SECTOR_BYTES..)?))
}

impl World {
    pub(super) fn plan_rot(&mut self) {
        if self.plan.faults.rot {
            for _ in 0..1 + self.mischance.below(DECAYS_MAX) {
                let at_us = self.mischance.below(self.plan.trouble_ms * 1_000);
                self.schedule.add(at_us, Event::Decay);
            }
        }
    }

    /// Flips a bit on the disk between two lives.
    pub(super) fn rot(&mut self) {
        if self.plan.faults.rot && self.is_troubled() && self.life > 0 && self.random.one_in(2) {
            let drawn = draw_bit(&self.disk, &mut self.random);
            self.flip(drawn);
        }
    }

    fn flip(&mut self, drawn: Option<(String, usize, u64)>) {
        let Some((file, at, bit)) = drawn else { return };
        self.say(format_args!("rot: {file} byte {at} bit {bit}"));
        let bytes = self.disk.contents(&file).unwrap_or_default();
        self.records_rotten.extend(frame_around(&bytes, at));
        self.disk.corrupt(&file, |bytes| bytes[at] ^= 1 << bit);
        self.counts.rotten_bits += 1;
        self.is_rotten = true;
    }

    /// Makes the disk decay under a running hub: now, or at one of its next writes.
    pub(super) fn decay(&mut self) {
        if !self.is_troubled() {
            return;
        }
        self.note_fault();
        let fault = match self.mischance.below(5) {
            0 => {
                let drawn = draw_bit(&self.disk, &mut self.mischance);
                return self.flip(drawn);
            }
            1 | 2 => DiskFault::LostWrite,
            3 => DiskFault::MisdirectedWrite { sectors: 1 + self.mischance.below(SECTORS_MAX) as u32 },
            _ => DiskFault::StaleWrite { sector: self.mischance.below(SECTORS_MAX) as u32 },
        };
        let file = FILES[self.mischance.below(FILES.len() as u64) as usize];
        self.say(format_args!("fault: {fault:?} in {file}"));
        self.disk.inject_into(file, self.mischance.below(WRITES_AHEAD), fault);
    }

    /// Handles a false write: draws the time of its detection.
    pub(super) fn note_deceptions(&mut self) {
        let deceptions = self.disk.deceptions();
        for fault in &deceptions[self.deceptions_seen..] {
            self.is_rotten = true;
            let count = match fault {
                DiskFault::MisdirectedWrite { .. } => &mut self.counts.misdirected_writes,
                DiskFault::StaleWrite { .. } => &mut self.counts.stale_writes,
                _ => &mut self.counts.lost_writes,
            };
            *count += 1;
        }
        if self.deceptions_seen == deceptions.len() {
            return;
        }
        self.deceptions_seen = deceptions.len();
        self.say(format_args!("the disk has lied"));
        match self.mischance.below(5) {
            0 if self.hub.is_some() => self.end_process_so(true),
            1 | 2 => self.disk.evict(),
            3 => {
                let soon = 1 + self.mischance.below(REVEALED_MOST_US);
                self.after(soon, Event::LosePower);
            }
            _ => {}
        }
    }

    pub(super) fn lose_power(&mut self) {
        if self.is_troubled() && self.hub.is_some() {
            self.end_process_so(true);
        }
    }

    /// Records in frames that the medium does not hold as it reported.
    pub(super) fn records_lied_about(&self) -> Vec<RangeInclusive<u64>> {
        let lies = self.disk.lies();
        lies.iter().flat_map(|bytes| bytes.chunks(SECTOR_BYTES)).filter_map(records_of).collect()
    }

    /// Whether the loss of the missing records is undetectable for a hub that has started without them. It is if the
    /// disk lied about the first of them, the others are in such frames or damaged, and neither a snapshot nor the
    /// archive refers to them.
    fn is_without_trace(&self, missing: RangeInclusive<u64>, lies: &[RangeInclusive<u64>]) -> bool {
        let is_known = self.archive.watermark() >= *missing.start()
            || self.snapshots().any(|(seq, is_sound)| is_sound && seq >= *missing.start());
        let is_in = |frames: &[RangeInclusive<u64>], seq| frames.iter().any(|records| records.contains(&seq));
        !is_known
            && is_in(lies, *missing.start())
            && missing.into_iter().all(|seq| is_in(lies, seq) || is_in(&self.records_rotten, seq))
    }

    /// The snapshots, oldest first, and whether each can be read.
    fn snapshots(&self) -> impl Iterator<Item = (u64, bool)> + use<> {
        let store = SnapshotStore::open_for_reading(Arc::new(self.disk.observer()));
        let snapshots = store.list().unwrap_or_default();
        snapshots.into_iter().map(move |one| (one.seq, store.read(one.seq).is_ok()))
    }

    /// Judges the start of a hub in a world that may have damage. The hub must have all records, or lack only records
    /// with an undetectable loss. Its state must be correct.
    pub(super) fn judge_start(&mut self, hub: &Hub, known: u64, lies: &[RangeInclusive<u64>]) {
        let seq = hub.durable_seq();
        if seq < known {
            if self.is_rotten && self.is_without_trace(seq + 1..=known, lies) {
                self.say(format_args!("records {} to {known} are lost without a trace", seq + 1));
                self.counts.rot_unseen = 1;
                self.phase = Phase::Over;
            } else {
                self.auditor.findings.add(format!("I2: durable records {} to {known} are lost", seq + 1));
            }
        }
        if self.is_rotten {
            let is_passed_over = self.snapshots().last().is_some_and(|(_, is_sound)| !is_sound);
            self.counts.snapshots_passed_over += u64::from(is_passed_over);
            self.auditor.compare_truth(hub.ledger());
        }
    }

    /// A start has refused damaged data. Reading does not repair it, so the next start must refuse it, too.
    pub(super) fn refused(&mut self) {
        self.counts.rot_found = 1;
        self.phase = Phase::Over;
        let again = self.disk.after_kill();
        again.set_capacity(u64::MAX);
        self.archive.heal();
        match self.start_on(Arc::new(again)) {
            Err(error) if names_damage(&error.to_string()) => {}
            Err(error) => {
                self.auditor.findings.add(format!("after damage, a start fails with another error: {error}"))
            }
            Ok(_) => {
                self.auditor.findings.add("a start refused damage, but the next one accepted it".to_owned())
            }
        }
    }

    /// Removes findings that only report the injected damage. Returns whether there were such findings and no others.
    pub(super) fn pardon_rot(&mut self) -> bool {
        let findings = &mut self.auditor.findings.0;
        let is_rot = self.is_rotten && !findings.is_empty() && findings.iter().all(|one| names_damage(one));
        if is_rot {
            findings.clear();
            self.counts.rot_met += 1;
        }
        is_rot
    }

    /// The auditor cannot read further. A start from this disk must refuse it, or reach a correct state.
    pub(super) fn judge_by_start(&mut self) {
        self.phase = Phase::Over;
        let (known, lies) = (self.auditor.last_seq(), self.records_lied_about());
        self.hub = None;
        self.auditor.process_ended();
        self.disk = self.disk.after_kill();
        self.disk.set_capacity(u64::MAX);
        self.archive.heal();
        match self.start_on(self.disk()) {
            Err(error) if names_damage(&error.to_string()) => self.refused(),
            Err(error) => self.auditor.findings.add(format!("the hub ends without a fault: {error}")),
            Ok(hub) => {
                let disk: Arc<dyn Disk> = Arc::new(self.disk.observer());
                self.auditor.read_journal(&disk, hub.durable_seq());
                self.pardon_rot();
                self.judge_start(&hub, known, &lies);
            }
        }
    }

    /// Number of owed callbacks with a damaged request. They stay owed, and operators see them.
    pub(super) fn withheld(&self) -> usize {
        if !self.is_rotten {
            return 0;
        }
        let disk: Arc<dyn Disk> = Arc::new(self.disk.observer());
        let is_lost = |seq: u64| {
            let read = Reader::new(Arc::clone(&disk), seq).read_record(seq).map(drop);
            read.is_err_and(|error| names_damage(&error.to_string()))
        };
        self.auditor.owed_keys().filter(|key| is_lost(key.seq)).count()
    }
}
