//! Faults of every kind, with the real binary: a clear message, the documented exit code, and no overwritten data.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support_crash::hub::{Hub, SERVING, contents, upesi};
use crate::support_crash::scene::{Scene, block_on};
use crate::support_crash::verdict;
use tempfile::TempDir;
use upesi_process::exit::Exit;

use crate::support_crash::scene::World;

/// Starts a hub that must fail before it serves. Returns its exit code and its stderr.
fn fails(command: Command) -> (i32, String) {
    let mut hub = Hub::spawn(command, None);
    assert!(!hub.logs(SERVING), "it serves: {}", hub.log.join("\n"));
    let status = hub.exit();
    (status.code().expect("an exit code"), hub.log.join("\n"))
}

#[track_caller]
fn assert_fails(command: Command, exit: Exit, texts: &[&str]) {
    let (code, log) = fails(command);
    assert_eq!(code, i32::from(exit.code()), "{log}");
    for text in texts {
        assert!(log.contains(text), "{text:?} is not said in: {log}");
    }
}

#[test]
fn second_process_on_a_directory_is_rejected() {
    let scene = Scene::new();
    let hub = scene.serve();
    let before = scene.contents();
    let second = World::new(&scene.world.data);
    let owner = format!("is in use by process {}", hub.pid());
    assert_fails(second.serve(upesi()), Exit::Temporary, &[&owner, "stop that process first"]);
    assert!(scene.contents() == before, "the second process changed something");
    let admin = scene.world.admin();
    block_on(async { assert!(admin.get("/health").await.is_ok()) });
    assert_eq!(hub.stop().0.code(), Some(0));
}

#[test]
fn path_that_cannot_be_a_directory_is_rejected() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "mine").unwrap();
    for data in [file.clone(), file.join("data")] {
        let world = World::new(&data);
        assert_fails(world.serve(upesi()), Exit::CannotCreate, &["is not a directory", "file"]);
    }
    assert_eq!(contents(directory.path()), [(file, b"mine".to_vec())]);
}

#[test]
fn port_in_use_is_reported_before_any_directory_is_created() {
    let directory = TempDir::new().unwrap();
    let world = World::new(&directory.path().join("data"));
    for (port, setting) in world.ports.into_iter().zip(["fspiop.listen", "admin.listen"]) {
        let _held = TcpListener::bind(port).unwrap();
        let taken = format!("{port} is in use by another process");
        assert_fails(world.serve(upesi()), Exit::Unavailable, &[setting, &taken]);
    }
    assert_eq!(contents(directory.path()), []);
}

#[test]
fn mistakes_of_the_configuration_are_all_reported() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("upesi.toml");
    fs::write(&file, "[fspiop]\nworkers = 1000\n[data]\nkeep_segments = \"some\"\n").unwrap();
    let data = directory.path().join("data");
    let mut command = upesi();
    command.arg("serve").arg("--config").arg(&file).arg("--data").arg(&data).args(["--admin", "nowhere"]);
    command.env("UPESI__ENGINE__DURABLE", "perhaps");
    let mistakes = [
        "4 mistakes; nothing was started",
        "fspiop.workers",
        "data.keep_segments",
        "admin.listen",
        "UPESI__ENGINE__DURABLE",
    ];
    assert_fails(command, Exit::Usage, &mistakes);
    assert!(!data.exists());
}

#[test]
fn failed_start_reports_its_reason_without_log() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    let mut command = World::new(&file).serve(upesi());
    command.args(["--log-level", "off"]);
    assert_fails(command, Exit::CannotCreate, &["is not a directory"]);
}

fn flip(path: &Path, offset: u64) {
    let mut bytes = fs::read(path).unwrap();
    bytes[offset as usize] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn shorten(path: &Path, by: u64) {
    let file = File::options().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - by).unwrap();
}

/// A kind of damage to a data directory, and the messages of the next start.
type Damage = (&'static str, fn(&Scene), &'static [&'static str]);

const DAMAGES: &[Damage] = &[
    (
        "a bit in the middle of the last segment",
        |scene| flip(scene.segments().last().unwrap(), 20_000),
        &[".seg is damaged at byte ", "nothing was overwritten"],
    ),
    (
        "a bit in the head of the first segment",
        |scene| flip(&scene.segments()[0], 30),
        &["journal/00000000000000000001.seg is damaged at byte 0", "file header"],
    ),
    (
        "a last segment that is too short",
        |scene| shorten(scene.segments().last().unwrap(), 4096),
        &[".seg is damaged at byte ", "bytes long instead of 1048576"],
    ),
    (
        "a segment too few, in the middle",
        |scene| fs::remove_file(&scene.segments()[1]).unwrap(),
        &["journal/", "is missing"],
    ),
    (
        "a segment too few, at the end",
        |scene| fs::remove_file(scene.segments().last().unwrap()).unwrap(),
        &["is damaged at byte ", "is missing"],
    ),
    (
        "no journal at all",
        |scene| scene.segments().iter().for_each(|path| fs::remove_file(path).unwrap()),
        &["record 1 is missing"],
    ),
    (
        "a format of the future",
        |scene| fs::write(scene.world.data.join("FORMAT"), "upesi-data 3\n").unwrap(),
        &["upesi-data 3", "use the version that wrote it"],
    ),
    (
        "no statement of the format",
        |scene| fs::remove_file(scene.world.data.join("FORMAT")).unwrap(),
        &["has no file FORMAT"],
    ),
    (
        "an old segment that an archive must be rebuilt from",
        |scene| {
            flip(&scene.segments()[0], 20_000);
            fs::remove_dir_all(scene.world.data.join("archive")).unwrap();
        },
        &["journal/00000000000000000001.seg is damaged at byte "],
    ),
    (
        "an archive without its tables",
        |scene| {
            let divisions = fs::read_dir(scene.world.data.join("archive")).unwrap();
            let names = divisions.map(|entry| entry.unwrap()).filter(|entry| entry.path().is_dir());
            for division in names.map(|entry| entry.file_name().into_string().unwrap()) {
                let tables = scene.files(&format!("archive/{division}/keyspaces/1/tables"));
                tables.iter().for_each(|path| fs::remove_file(path).unwrap());
            }
        },
        &["archive is damaged", "delete that directory and start again", "rebuilt from the journal"],
    ),
    (
        "a bit in the archive's list of tables",
        |scene| flip_list(&scene.division().join("keyspaces/1")),
        &[
            "archive is damaged",
            "does not match its checksum in current",
            "delete that directory and start again",
        ],
    ),
    (
        "a bit in the store's list of tables",
        |scene| flip_list(&scene.world.data.join("store/tables/keyspaces/1")),
        &["store is damaged", "does not match its checksum in current", "restore it from a backup"],
    ),
    (
        "a store of another version",
        |scene| flip(&scene.world.data.join("store/tables/version"), 3),
        &["store has a format this version cannot read", "use the version that wrote it"],
    ),
    (
        "a directory where the embedded store expects its own",
        |scene| fs::create_dir(scene.division().join("keyspaces/lost+found")).unwrap(),
        &["keyspaces/lost+found: does not belong there", "delete that directory and start again"],
    ),
    (
        "an archive's list of tables that makes the embedded store panic",
        |scene| forge_list(&scene.division().join("keyspaces/1")),
        &["is damaged: the embedded store cannot read its files", "delete the whole archive directory"],
    ),
];

/// Writes another number of levels, with the correct checksum.
fn forge_list(keyspace: &Path) {
    let list = list(keyspace);
    let mut bytes = fs::read(&list).unwrap();
    // One byte for the format, six for the version of the library, one for the kind of tree, then the number of levels.
    assert_eq!(bytes[8], 7);
    bytes[8] = 6;
    fs::write(&list, &bytes).unwrap();
    let mut current = fs::read(keyspace.join("current")).unwrap();
    current[8..24].copy_from_slice(&xxhash_rust::xxh3::xxh3_128(&bytes).to_le_bytes());
    fs::write(keyspace.join("current"), current).unwrap();
}

/// Flips a bit in the middle of the list of tables of a keyspace of the embedded store.
fn flip_list(keyspace: &Path) {
    let list = list(keyspace);
    flip(&list, fs::metadata(&list).unwrap().len() / 2);
}

fn list(keyspace: &Path) -> PathBuf {
    let current = fs::read(keyspace.join("current")).unwrap();
    keyspace.join(format!("v{}", u64::from_le_bytes(current[..8].try_into().unwrap())))
}

#[test]
fn damage_stops_the_start_and_is_not_changed() {
    for (what, damage, texts) in DAMAGES {
        let scene = Scene::new();
        damage(&scene);
        let before = scene.contents();
        let (code, log) = fails(scene.world.serve(upesi()));
        assert_eq!(code, 65, "{what}: {log}");
        for text in *texts {
            assert!(log.contains(text), "{what}: {text:?} is not said in: {log}");
        }
        let of_the_journal = |path: &Path| !path.starts_with(scene.world.data.join("archive"));
        let mut after = scene.contents();
        after.retain(|(path, _)| of_the_journal(path));
        let mut before = before;
        before.retain(|(path, _)| of_the_journal(path));
        assert!(after == before, "{what}: something was overwritten");
    }
}

#[test]
fn damage_outside_a_start_is_found_by_the_audit() {
    let scene = Scene::new();
    flip(&scene.segments()[0], 20_000);
    let output = upesi().arg("audit").arg(&scene.world.data).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(65), "{text}");
    assert!(text.contains("journal/00000000000000000001.seg is damaged at byte "), "{text}");
}

/// Starts a hub, which must log `texts` before it serves, and checks that it has lost nothing.
#[track_caller]
fn assert_recovers(scene: &Scene, texts: &[&str]) {
    let mut hub = scene.serve();
    let log = hub.log.join("\n");
    for text in texts {
        assert!(log.contains(text), "{text:?} is not said in: {log}");
    }
    let admin = scene.world.admin();
    block_on(verdict::answers_agree(&admin, scene.accepted));
    hub.log.clear();
    let (status, log) = hub.stop();
    assert_eq!(status.code(), Some(0), "{}", log.join("\n"));
    verdict::audit_is_clean(&scene.world.data);
    verdict::journal_agrees(&scene.world.data, scene.accepted);
    verdict::archive_agrees(&scene.world.data);
}

#[test]
fn damaged_snapshot_is_skipped() {
    let scene = Scene::new();
    flip(scene.files("snapshots").last().unwrap(), 500);
    let mut hub = scene.serve();
    let log = hub.log.join("\n");
    assert!(log.contains("skipped a damaged snapshot") && log.contains(".snap is damaged"), "{log}");
    block_on(verdict::answers_agree(&scene.world.admin(), scene.accepted));
    hub.log.clear();
    assert_eq!(hub.stop().0.code(), Some(0));
    verdict::journal_agrees(&scene.world.data, scene.accepted);
}

#[test]
fn start_without_sound_snapshot_replays_the_whole_journal() {
    let scene = Scene::new();
    scene.files("snapshots").iter().for_each(|path| fs::remove_file(path).unwrap());
    assert_recovers(&scene, &["snapshot=0"]);
}

#[test]
fn lost_archive_is_rebuilt() {
    let scene = Scene::new();
    fs::remove_dir_all(scene.world.data.join("archive")).unwrap();
    assert_recovers(&scene, &["the archive is older than the snapshot; rebuilding it"]);
}
