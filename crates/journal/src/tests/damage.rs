//! Bit rot: every change of the disk is detected.

use crate::frame::{SECTOR_BYTES, is_unwritten};
use crate::segment::path;
use crate::sim_disk::script::{Script, dynamic, time};
use crate::sim_disk::{Random, SimDisk};
use crate::{Batch, Damage, JournalError, Options, Reader, open, segments, verify};

/// A finished journal, and the used length of each of its segments.
fn journal(seed: u64) -> (Script, SimDisk, Vec<(String, usize)>) {
    let script = Script::new(seed);
    let disk = SimDisk::new(seed);
    assert!(script.run(&disk).error.is_none());
    let files = segments(&disk).expect("lists").into_iter().map(|info| {
        let contents = disk.contents(&info.file).expect("is there");
        let used = contents.chunks(SECTOR_BYTES).rposition(|sector| !is_unwritten(sector));
        (info.file, (used.expect("has frames") + 1) * SECTOR_BYTES)
    });
    let files = files.collect();
    (script, disk, files)
}

fn changed(disk: &SimDisk, file: &str, change: impl FnOnce(&mut Vec<u8>)) -> SimDisk {
    let copy = disk.after_kill();
    copy.corrupt(file, change);
    copy
}

fn damage_of<T>(result: Result<T, JournalError>) -> Damage {
    match result {
        Err(JournalError::Damaged { reason, .. }) => reason,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the damage was not noticed"),
    }
}

#[test]
fn every_flipped_bit_in_use_is_reported_and_changes_nothing() {
    let mut flips = 0;
    for seed in [3, 4] {
        let (script, disk, files) = journal(seed);
        for (file, used) in &files {
            for at in 0..*used {
                let bit = (at as u64 ^ seed) % 8;
                let rotten = changed(&disk, file, |bytes| bytes[at] ^= 1 << bit);
                let before = rotten.contents(file);
                damage_of(verify(dynamic(&rotten)));
                // Opening verifies the last segment. It does not change the segments that it does not read.
                let opened = open(dynamic(&rotten), script.options.clone());
                if file == &files[files.len() - 1].0 {
                    damage_of(opened);
                }
                assert!(rotten.contents(file) == before, "{file} was changed after a flip at {at}");
                flips += 1;
            }
        }
    }
    assert!(flips > 20_000, "{flips} flips");
}

#[test]
fn damage_in_free_space_is_reported_and_loses_no_record() {
    let mut in_closed_segments = 0;
    for seed in 5..15 {
        let (script, disk, files) = journal(seed);
        for (index, (file, used)) in files.iter().enumerate() {
            let length = disk.contents(file).map_or(0, |contents| contents.len());
            for at in (*used..length).step_by(23) {
                let rotten = changed(&disk, file, |bytes| bytes[at] ^= 0x10);
                match verify(dynamic(&rotten)) {
                    Err(error) => {
                        if index + 1 < files.len() {
                            let sector = (at / SECTOR_BYTES * SECTOR_BYTES) as u64;
                            assert!(
                                matches!(&error, JournalError::Damaged { file: found, offset, .. }
                                    if found == file && *offset == sector),
                                "{error}, not at {sector}"
                            );
                            in_closed_segments += 1;
                        }
                        damage_of::<()>(Err(error));
                    }
                    Ok(recovered) => {
                        assert!(index + 1 == files.len() && recovered.torn.is_some());
                        assert_eq!(recovered.last_seq, script.last_seq());
                    }
                }
                // With the known durable position, everything can still be read.
                let mut reader = Reader::new(dynamic(&rotten), 1);
                while reader.next_record(script.last_seq()).expect("reads").is_some() {}
                assert_eq!(reader.next_seq(), script.last_seq() + 1);
            }
        }
    }
    assert!(in_closed_segments > 100);
}

#[test]
fn every_overwritten_sector_is_noticed() {
    let (_, disk, files) = journal(6);
    let mut random = Random::new(6);
    for (file, used) in &files {
        for sector in 0..used / SECTOR_BYTES {
            let start = sector * SECTOR_BYTES;
            let random_bytes = changed(&disk, file, |bytes| {
                bytes[start..start + SECTOR_BYTES].fill_with(|| random.bits() as u8);
            });
            damage_of(verify(dynamic(&random_bytes)));
            let other = (sector + 1) % (used / SECTOR_BYTES) * SECTOR_BYTES;
            let misplaced =
                changed(&disk, file, |bytes| bytes.copy_within(other..other + SECTOR_BYTES, start));
            damage_of(verify(dynamic(&misplaced)));
        }
    }
}

#[test]
fn zeroed_sectors_are_damage_unless_nothing_follows() {
    let (script, disk, files) = journal(7);
    let last = files.len() - 1;
    for (index, (file, used)) in files.iter().enumerate() {
        for sector in 0..used / SECTOR_BYTES {
            let start = sector * SECTOR_BYTES;
            let zeroed = changed(&disk, file, |bytes| bytes[start..start + SECTOR_BYTES].fill(0));
            let Ok(recovered) = verify(dynamic(&zeroed)) else { continue };
            assert!(index == last, "{file} lost sector {sector} silently");
            assert!(recovered.torn.is_some() || recovered.last_seq < script.last_seq());
            // The last frame looks like a write that never happened, unless the durable position is known.
            let options = Options { known_durable_seq: script.last_seq(), ..script.options.clone() };
            assert!(matches!(damage_of(open(dynamic(&zeroed), options)), Damage::Missing(_)));
        }
    }
}

#[test]
fn files_that_are_missing_or_have_another_length_are_noticed() {
    let (script, disk, files) = journal(8);
    assert!(files.len() >= 3);
    for (index, (file, _)) in files.iter().enumerate() {
        for length in [0, 100, SECTOR_BYTES, 1500] {
            damage_of(open(
                dynamic(&changed(&disk, file, |bytes| bytes.truncate(length))),
                script.options.clone(),
            ));
        }
        let longer = changed(&disk, file, |bytes| bytes.push(0));
        assert!(matches!(damage_of(open(dynamic(&longer), script.options.clone())), Damage::Length { .. }));
        let missing = disk.after_kill();
        crate::Disk::remove(&missing, file).expect("removes");
        let options = Options { known_durable_seq: script.last_seq(), ..script.options.clone() };
        match index {
            // Retention deletes the first segments, so the engine must check this with its snapshot.
            0 => assert!(open(dynamic(&missing), options).is_ok()),
            _ => assert!(matches!(damage_of(open(dynamic(&missing), options)), Damage::Missing(_))),
        }
    }
}

#[test]
fn a_segment_of_another_journal_is_noticed() {
    let (script, disk, files) = journal(9);
    let (_, first_used) = &files[0];
    let mut stranger = Script::new(9);
    stranger.options.identity = 1;
    let other = SimDisk::new(9);
    assert!(stranger.run(&other).error.is_none());
    let foreign = other.contents(&files[0].0).expect("the same names");
    assert_ne!(foreign[..*first_used], disk.contents(&files[0].0).expect("is there")[..*first_used]);
    let mixed = changed(&disk, &files[0].0, |bytes| *bytes = foreign);
    assert_eq!(damage_of(open(dynamic(&mixed), script.options.clone())), Damage::Foreign);
    let renamed = changed(&disk, &files[1].0, |bytes| *bytes = disk.contents(&files[0].0).expect("is there"));
    assert_eq!(damage_of(open(dynamic(&renamed), script.options)), Damage::FileHeader);
}

#[test]
fn a_newer_format_is_named() {
    let (script, disk, files) = journal(10);
    let newer = changed(&disk, &files[0].0, |bytes| {
        bytes[8] = 2;
        let crc = crc32c::crc32c(&bytes[..SECTOR_BYTES - 4]);
        bytes[SECTOR_BYTES - 4..SECTOR_BYTES].copy_from_slice(&crc.to_le_bytes());
    });
    assert_eq!(damage_of(open(dynamic(&newer), script.options)), Damage::UnknownVersion(2));
    let disk = SimDisk::new(0);
    let mut writer = open(dynamic(&disk), Options::default()).expect("opens").writer;
    let mut batch = Batch::new(1);
    for seq in 1..3 {
        batch.reset(seq);
        batch.push(time(seq), |_| {});
        writer.append(&mut batch).expect("appends");
    }
    let newer = changed(&disk, &path(1), |bytes| {
        let frame = &mut bytes[2 * SECTOR_BYTES..];
        frame[4] = 9;
        let crc = crc32c::crc32c_append(crc32c::crc32c(&[0; 8]), &frame[..60]);
        frame[60..64].copy_from_slice(&crc.to_le_bytes());
    });
    assert_eq!(damage_of(verify(dynamic(&newer))), Damage::UnknownVersion(9));
}
