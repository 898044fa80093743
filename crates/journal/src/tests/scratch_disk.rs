//! A disk on top of another one: after any changes it has the same content as the other one would have.

use std::io::ErrorKind;
use std::sync::Arc;

use crate::sim_disk::{Random, SimDisk};
use crate::{Access, Disk, ScratchDisk};

const FILES: [&str; 3] = ["journal/a", "journal/b", "c"];
const BYTES_MAX: u64 = 20_000;

fn bytes(random: &mut Random, length: u64) -> Vec<u8> {
    // Zeros are written before other data, and use no memory.
    let zeros = random.one_in(3);
    (0..length).map(|_| if zeros { 0 } else { random.bits() as u8 }).collect()
}

/// A change or a read, drawn from the seed. Returns its result.
fn step(disk: &dyn Disk, random: &mut Random) -> Result<Vec<u8>, ErrorKind> {
    let path = FILES[random.below(3) as usize];
    let other = FILES[random.below(2) as usize];
    let (kind, offset, length) = (random.below(9), random.below(BYTES_MAX), random.below(BYTES_MAX));
    let content = bytes(random, length);
    let fail = |error: std::io::Error| error.kind();
    match kind {
        0 => disk.create(path).map(|_| Vec::new()).map_err(fail),
        1 => disk.remove(path).map(|()| Vec::new()).map_err(fail),
        2 if path != other && path.contains('/') => {
            disk.rename(path, other).map(|()| Vec::new()).map_err(fail)
        }
        3 => {
            disk.open(path, Access::Write).map_err(fail)?.allocate(offset).map(|()| Vec::new()).map_err(fail)
        }
        4 | 5 => {
            let file = disk.open(path, Access::Write).map_err(fail)?;
            file.write_at(offset, &content).map(|()| Vec::new()).map_err(fail)
        }
        6 => {
            let names = ["journal", ""].map(|directory| disk.list(directory).map_err(fail));
            Ok(format!("{names:?}").into_bytes())
        }
        _ => {
            let access = if random.one_in(2) { Access::Read } else { Access::Write };
            let file = disk.open(path, access).map_err(fail)?;
            let mut found = vec![7; content.len()];
            let count = file.read_at(offset, &mut found).map_err(fail)?;
            assert!(found[count..].iter().all(|byte| *byte == 7), "bytes after the read ones");
            found.truncate(count);
            found.extend(file.length().map_err(fail)?.to_le_bytes());
            Ok(found)
        }
    }
}

#[test]
fn scratch_changes_have_the_same_result_as_real_changes() {
    for seed in 0..40 {
        let (below, mut random) = (SimDisk::new(seed), Random::new(seed));
        below.create_directory("journal").expect("makes");
        for _ in 0..20 {
            let _ = step(&below, &mut random);
        }
        let (expected, before) = (below.after_kill(), below.fingerprint());
        let scratch = ScratchDisk::new(Arc::new(below.clone()));
        for number in 0..120 {
            let mut same = random.clone();
            let found = step(&scratch, &mut same);
            assert!(found == step(&expected, &mut random), "seed {seed}, step {number}");
        }
        assert_eq!(below.fingerprint(), before, "seed {seed}: the disk below was changed");
    }
}

#[test]
fn directory_only_in_scratch_lists_its_files() {
    let scratch = ScratchDisk::new(Arc::new(SimDisk::new(0)));
    scratch.create_directory("journal").expect("makes");
    assert_eq!(scratch.list("journal").expect("lists"), [""; 0]);
    scratch.create("journal/a").expect("creates");
    assert_eq!(scratch.list("journal").expect("lists"), ["a"]);
    scratch.sync_directory("journal").expect("syncs");
    let broken = SimDisk::new(0);
    broken.inject_read_error(0);
    let error = ScratchDisk::new(Arc::new(broken)).list("journal").expect_err("is broken");
    assert_ne!(error.kind(), ErrorKind::NotFound);
}

/// Writing the same content uses no memory.
#[test]
fn write_of_the_same_content_uses_no_memory() {
    let below = SimDisk::new(0);
    let file = below.create("file").expect("creates");
    file.write_at(0, &[1; 8192]).expect("writes");
    let scratch = ScratchDisk::new(Arc::new(below.clone()));
    let own = scratch.open("file", Access::Write).expect("opens");
    own.write_at(4_000, &[1; 200]).expect("writes");
    own.write_at(8_192, &[0; 5_000]).expect("writes");
    // Pages that are not stored show the pages below, also after changes.
    file.write_at(0, &[2; 8192]).expect("writes");
    let mut found = [0; 8192];
    assert_eq!(own.read_at(0, &mut found).expect("reads"), 8192);
    assert_eq!(found, [2; 8192]);
    assert_eq!(own.length().expect("is known"), 13_192);
}
