use super::*;

const BYTES: u64 = 3 << 20;

fn taken(data: &Path) -> u64 {
    fs::metadata(data.join(FILE)).map_or(0, |found| found.blocks() * BLOCK_BYTES)
}

#[test]
fn its_room_is_taken_once_and_comes_back() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    assert_eq!((bytes(data), release(data).unwrap()), (0, 0), "there is none yet");
    assert_eq!(keep(data, BYTES, 0).unwrap(), Kept::Whole);
    assert_eq!(bytes(data), BYTES);
    assert!(taken(data) >= BYTES, "its blocks are taken: {}", taken(data));
    let file = fs::metadata(data.join(FILE)).unwrap().ino();
    assert_eq!(keep(data, BYTES, u64::MAX).unwrap(), Kept::Whole, "what is there needs no room");
    assert_eq!(fs::metadata(data.join(FILE)).unwrap().ino(), file, "and is left alone");
    assert_eq!(release(data).unwrap(), BYTES);
    assert_eq!(fs::read_dir(data).unwrap().count(), 0);
}

#[test]
fn it_follows_the_setting_if_there_is_room() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    for wanted in [BYTES, 2 * BYTES, BYTES, 0] {
        assert_eq!(keep(data, wanted, 0).unwrap(), Kept::Whole);
        assert_eq!((bytes(data), taken(data) >= wanted), (wanted, true));
    }
    assert!(!data.join(FILE).exists(), "0 is none");
    keep(data, BYTES, 0).unwrap();
    let Kept::NoRoom { free_bytes, needed_bytes } = keep(data, 2 * BYTES, u64::MAX / 2).unwrap() else {
        panic!("there is no such volume")
    };
    assert_eq!(needed_bytes, u64::MAX / 2 + 4 * BYTES);
    assert!(free_bytes > BYTES, "the present reserve counts as room: {free_bytes}");
    assert_eq!(bytes(data), BYTES, "the earlier one stays");
}

#[test]
fn remains_of_a_crash_go_and_a_reserve_too_large_leaves_nothing() {
    let data = tempfile::tempdir().unwrap();
    let data = data.path();
    fs::write(data.join(UNFINISHED), "half").unwrap();
    keep(data, BYTES, 0).unwrap();
    assert_eq!((bytes(data), data.join(UNFINISHED).exists()), (BYTES, false));
    release(data).unwrap();
    let too_large = room(data).unwrap() + (1 << 30);
    assert!(take(data, too_large).is_err());
    assert!(keep(data, u64::MAX / 4, 0).is_ok_and(|kept| kept != Kept::Whole));
    assert_eq!(fs::read_dir(data).unwrap().count(), 0, "what a failure left was removed");
}
