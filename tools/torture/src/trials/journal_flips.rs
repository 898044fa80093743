//! Rot in the journal alone, many times: a bit anywhere in what is in use, or in free room.

use upesi_journal::sim_disk::script::{Script, dynamic};
use upesi_journal::sim_disk::{Random, SimDisk};
use upesi_journal::{JournalError, SECTOR_BYTES, open, segments};

use crate::tally::Tally;

/// Flips in the journal of one seed.
const FLIPS: u64 = 400;

/// Flips bits of a finished journal, one at a time.
pub fn run(seed: u64, random: &mut Random, tally: &mut Tally) {
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
    match upesi_journal::verify(dynamic(rotten)) {
        Err(JournalError::Damaged { .. }) => {}
        Err(error) => panic!("{what}: {error}"),
        Ok(found) => {
            assert!(is_free && found.torn.is_some(), "{what}: not noticed");
            assert_eq!(found.last_seq, script.last_seq(), "{what}: costs records");
        }
    }
    tally.add("detected", 1);
    // What a start reads, it refuses, and leaves as it is.
    if is_last && !is_free {
        let opened = open(dynamic(rotten), script.options.clone());
        assert!(matches!(opened, Err(JournalError::Damaged { .. })), "{what}: a start does not notice");
        assert_eq!(rotten.fingerprint(), before, "{what}: a start changed it");
        tally.add("refused starts", 1);
    }
}
