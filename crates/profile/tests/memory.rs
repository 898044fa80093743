//! The memory of a process, according to kernel and allocator. This test has a process of its own, because both count
//! the memory of all threads. A profile by another test would use many times the memory of the block that this test
//! looks for.

use serde_json::Value;
use upesi_profile::{Holder, memory};

fn summary(holders: &[Holder]) -> Value {
    serde_json::from_str(&memory::summary(holders).to_json()).unwrap()
}

fn bytes(summary: &Value, pointer: &str) -> u64 {
    summary.pointer(pointer).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {pointer} in {summary}"))
}

#[test]
fn summary_shows_a_large_block_and_its_release() {
    let block = vec![1_u8; 8 << 20];
    let holder = Holder { what: "a block".to_owned(), count: Some(1), bytes: Some(block.len() as u64) };
    let held = summary(&[holder]);
    assert!(bytes(&held, "/process/resident") >= 8 << 20, "{held}");
    assert!(bytes(&held, "/process/residentPeak") >= bytes(&held, "/process/resident"), "{held}");
    assert_eq!(bytes(&held, "/holders/0/bytes"), 8 << 20);
    assert!(bytes(&held, "/threads") >= 1);
    assert!(bytes(&held, "/allocator/inUse") >= 8 << 20, "{held}");
    assert!(bytes(&held, "/allocator/bookkeeping") > 0, "{held}");
    drop(block);
    let after = summary(&[]);
    assert!(
        bytes(&after, "/allocator/inUse") + (4 << 20) < bytes(&held, "/allocator/inUse"),
        "{held} {after}"
    );
}
