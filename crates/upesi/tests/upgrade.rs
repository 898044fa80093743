//! The binary on what an earlier version wrote: it starts, all is there, the audit holds, and a second start finds the same.

#[path = "../../engine/tests/upgrade/packed.rs"]
#[expect(dead_code, reason = "the fixture is only read here")]
mod packed;
mod support_crash;

use std::fs;
use std::path::Path;

use support_crash::hub::upesi;
use support_crash::scene::block_on;
use support_crash::world::World;
use tempfile::TempDir;
use upesi_types::TransferId;

const FIXTURE: &[u8] = include_bytes!("../../engine/tests/fixtures/data-format-1.bin");
/// Transfers of the fixture by their number, as `engine/tests/upgrade.rs` made them, with what became of each.
/// Those that were reserved are left out: they expire in 2030.
const ENDED: [(u64, &str); 5] =
    [(1, "COMMITTED"), (2, "ABORTED"), (3, "ABORTED"), (4, "ABORTED"), (6, "COMMITTED")];
/// Where versions before b38fa8d had the archive's one store, and where it has been since.
const LAYOUTS: [&str; 2] = ["archive/", "archive/00000000000000000001/"];
/// A table of finished transfers, in that store.
const TABLE: &str = "keyspaces/1/tables/1";

fn id(number: u64) -> TransferId {
    let spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    TransferId::from_random_bytes((u128::from(spread) << 64 | u128::from(number)).to_be_bytes())
}

/// The fixture with the archive as it was before there were divisions.
fn unpack(data: &Path) {
    let [before, since] = LAYOUTS;
    let mut files = packed::decode(FIXTURE);
    for file in &mut files {
        if let Some(rest) = file.path.strip_prefix(since) {
            file.path = format!("{before}{rest}");
        }
    }
    packed::unpack(&files, data);
}

fn starts_and_has_all(world: &World) {
    let mut hub = world.start();
    hub.serves();
    let admin = world.admin();
    for (number, expected) in ENDED {
        let body = block_on(admin.get(&format!("/transfers/{}", id(number)))).unwrap();
        let found: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(found["transferState"], expected, "transfer {number}: {found}");
    }
    assert!(block_on(admin.get(&format!("/transfers/{}", id(99)))).is_err(), "there is no such transfer");
    assert_eq!(hub.stop().0.code(), Some(0));
}

fn audit_holds(data: &Path) {
    let audit = upesi().arg("audit").arg(data).output().unwrap();
    let told = String::from_utf8_lossy(&audit.stdout);
    assert_eq!(audit.status.code(), Some(0), "{told}\n{}", String::from_utf8_lossy(&audit.stderr));
}

#[test]
fn a_data_directory_from_before_divisions_is_served() {
    let directory = TempDir::new().unwrap();
    let data = directory.path().join("data");
    unpack(&data);
    let [before, since] = LAYOUTS.map(|layout| data.join(layout).join(TABLE));
    let table = fs::read(&before).unwrap();
    let world = World::new(&data);
    starts_and_has_all(&world);
    // Taken over as it is, and not made anew from the journal.
    assert!(!before.exists() && fs::read(&since).unwrap() == table, "the archive was not taken over");
    audit_holds(&data);
    starts_and_has_all(&world);
    audit_holds(&data);
}
