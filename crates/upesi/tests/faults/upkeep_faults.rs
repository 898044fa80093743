//! Maintenance on disks that report errors, with the shipped binary. Transfers are removed only when their export is
//! durable. A failed backup or restore is not usable, and can be repeated.

#[allow(dead_code, reason = "each test uses a part")]
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support_crash::hub::{Hub, contents, upesi};
use crate::support_crash::keeping::settle;
use crate::support_crash::scene::block_on;
use crate::support_crash::verdict;
use crate::support_faults::{Fault, INPUT_OUTPUT, NO_SPACE, Shim};
use tempfile::TempDir;
use upesi_engine::{Clock, Engine, EngineMetrics, EngineOptions, NoEffects, Payload, SystemClock};
use upesi_ledger::CallbackKey;
use upesi_offline::backup::{BackupArguments, RestoreArguments, backup, restore};
use upesi_process::exit::Exit;
use upesi_tables::archive::first_seq_of;
use upesi_tables::store::{Store, StoreOptions};
use upesi_testsupport::scheme;

use crate::support_crash::scene::World;

const DFSPS: [&str; 2] = ["greenbank", "bluewallet"];
/// Transfers of [`past_life`].
const TRANSFERS: u64 = 12;
/// Age of these transfers, in milliseconds; longer than the retention time of [`keeping`].
const AGO_MS: i64 = 40 * 86_400_000;

/// A fault of all calls from the first one on.
const fn at(calls: &'static str, path: &'static str, errno: i32) -> Fault {
    Fault { calls, path, from: 1, count: 0, errno, loses: false }
}

/// A data directory with transfers that finished long ago and are all archived, and with a store.
fn past_life(data: &Path) {
    let began = SystemClock.now().plus_ms(-AGO_MS);
    let options = EngineOptions {
        segment_bytes: 64 * 1024,
        batch_bytes_max: 16 * 1024,
        fold_every_records: 1,
        clock: scheme::TestClock::starting_at(began.as_ms()) as _,
        ..EngineOptions::new(data)
    };
    let (engine, handle) =
        Engine::start(options, EngineMetrics::default(), Box::new(NoEffects)).expect("starts");
    block_on(async {
        scheme::onboard(&handle, &DFSPS).await;
        let [payer, payee] = DFSPS;
        for id in (1..=TRANSFERS).map(scheme::id) {
            let prepare = scheme::prepare(id, payer, payee, "1.5", began.plus_ms(1_000_000));
            for command in [prepare, scheme::fulfil(id, payer, payee)] {
                handle.submit(command, Payload::default()).await.unwrap();
            }
        }
        let owed =
            handle.read(|ledger| ledger.outbox().iter().map(|(key, _)| key).collect::<Vec<CallbackKey>>());
        let delivered = upesi_ledger::Command::Delivered(owed.await.unwrap());
        handle.submit(delivered, Payload::default()).await.unwrap();
    });
    drop(handle);
    engine.shutdown();
    let options = StoreOptions { segment_bytes: 64 << 10, free_bytes_min: 0, ..StoreOptions::default() };
    let store = Store::open(data.join("store"), &options).unwrap();
    let table = store.table("test").unwrap();
    let put = store.update_blocking(move |transaction| transaction.put(&table, b"26097", b"greenbank"));
    put.unwrap();
    store.close();
}

/// The directory of [`past_life`] in a temporary directory, and the library that makes calls fail.
struct Scene {
    directory: TempDir,
    shim: Shim,
    data: PathBuf,
}

/// End of a command.
struct Ended {
    code: Option<i32>,
    /// Number of its calls that failed.
    met: u64,
    said: String,
}

impl Scene {
    /// `None` if the library cannot be built.
    fn new() -> Option<Self> {
        let directory = TempDir::new().unwrap();
        let shim = Shim::build(directory.path())?;
        let data = directory.path().join("data");
        fs::create_dir(&data).unwrap();
        past_life(&data);
        Some(Self { directory, shim, data })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// All files that a backup must not change.
    fn source(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut source = contents(&self.data);
        source.retain(|(path, _)| !path.ends_with("backup.lock"));
        source
    }

    /// Runs a command with a fault that is armed from the beginning.
    fn run(&self, mut command: Command, fault: Fault) -> Ended {
        self.shim.load(&mut command, fault);
        let before = self.shim.met();
        self.shim.arm();
        let output = command.output().expect("the binary that was built with this test");
        self.shim.disarm();
        Ended {
            code: output.status.code(),
            met: self.shim.met() - before,
            said: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn back_up(&self, to: &Path, fault: Fault) -> Ended {
        let mut command = upesi();
        command.arg("backup").arg("--data").arg(&self.data).arg("--to").arg(to);
        self.run(command, fault)
    }

    /// A backup without a fault.
    fn back_up_well(&self, to: &Path) {
        backup(&BackupArguments { data: self.data.clone(), to: to.to_owned(), json: false }).unwrap();
    }
}

fn bring_back(from: &Path, data: &Path) -> Result<(), upesi_process::exit::Failure> {
    restore(&RestoreArguments {
        from: from.to_owned(),
        data: data.to_owned(),
        alone: false,
        accept_findings: false,
        json: false,
    })
    .map(|_| ())
}

fn expect_no_backup(copy: &Path, what: &str) {
    let nowhere = copy.with_extension("nowhere");
    let refused = bring_back(copy, &nowhere).expect_err(what);
    assert_eq!(refused.exit, Exit::NoInput, "{what}: {refused}");
    assert!(refused.message.contains("is not a complete backup"), "{what}: {refused}");
    assert!(!nowhere.exists(), "{what}");
}

/// A hub that exports and removes transfers after a month.
fn keeping(world: &World, export: &Path) -> Command {
    let mut command = world.serve(upesi());
    let export = format!("archive.export_dir={}", export.display());
    command.args(["--set", "archive.keep_days=30", "--set", &export]);
    command
}

/// Whether a hub has logged this text, or logs it before it ends.
fn says(hub: &mut Hub, text: &str) -> bool {
    hub.log.iter().any(|line| line.contains(text)) || hub.logs(text)
}

/// The exported files with their final names.
fn exported(export: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(export) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|ending| ending == "csv")).collect()
}

/// Checks whether the hub knows the transfers of [`past_life`].
fn expect_known(world: &World, are_known: bool, what: &str) {
    let admin = world.admin();
    for id in [1, TRANSFERS].map(scheme::id) {
        let answer = block_on(admin.get(&format!("/transfers/{id}")));
        assert_eq!(answer.is_ok(), are_known, "{what}, transfer {id}: {answer:?}");
        if let Ok(body) = answer {
            let found: serde_json::Value = serde_json::from_slice(&body).unwrap();
            assert_eq!(found["transferState"], "COMMITTED", "{what}, transfer {id}");
        }
    }
}

/// Faults of consecutive exports into the same directory, and whether the file has its final name afterwards.
const EXPORT_FAULTS: &[(Fault, bool)] = &[
    // The name of the directory, which is created first, within a directory that is also created.
    (at("fsync", "/kept", INPUT_OUTPUT), false),
    (at("write", "/kept/export/", INPUT_OUTPUT), false),
    (at("write", "/kept/export/", NO_SPACE), false),
    (at("fsync", "/kept/export/", INPUT_OUTPUT), false),
    (at("fsync", "/kept/export/", NO_SPACE), false),
    (at("rename", "/kept/export/", INPUT_OUTPUT), false),
    (at("rename", "/kept/export/", NO_SPACE), false),
    // After the file's own sync comes the sync of its name.
    (Fault { from: 2, ..at("fsync", "/kept/export", INPUT_OUTPUT) }, true),
    // The next start that finds the file syncs its name.
    (at("fsync", "/kept/export", INPUT_OUTPUT), true),
];

#[test]
#[allow(clippy::print_stdout, reason = "a failure must say which fault it was")]
fn transfers_stay_until_their_export_is_durable() {
    let Some(scene) = Scene::new() else { return };
    let export = scene.path("kept/export");
    let world = World { log: Some(scene.path("hub.log")), ..World::new(&scene.data) };
    let archive = scene.data.join("archive");
    // The transfers are old enough to be removed, but stay until their window is settled.
    let mut hub = Hub::spawn(keeping(&world, &export), world.log.clone());
    hub.serves();
    assert!(says(&mut hub, "old transfers are retained"));
    settle(&world, "day-1");
    assert_eq!(hub.stop().0.code(), Some(0));
    for (fault, is_named) in EXPORT_FAULTS {
        println!("{fault:?}");
        let what = format!("{fault:?}");
        let mut command = keeping(&world, &export);
        scene.shim.load(&mut command, *fault);
        let before = scene.shim.met();
        scene.shim.arm();
        let mut hub = Hub::spawn(command, world.log.clone());
        hub.serves();
        assert!(says(&mut hub, "cannot remove old transfers"), "{what}");
        scene.shim.disarm();
        assert!(scene.shim.met() > before, "{what}: no call met it");
        assert_eq!(!exported(&export).is_empty(), *is_named, "{what}");
        expect_known(&world, true, &what);
        let (status, log) = hub.stop();
        assert_eq!(status.code(), Some(0), "{what}: {}", log.join("\n"));
        assert_eq!(first_seq_of(&archive), Some(1), "{what}: they have left");
    }
    let mut hub = Hub::spawn(keeping(&world, &export), world.log.clone());
    hub.serves();
    assert!(says(&mut hub, "old transfers were removed from the archive"));
    expect_known(&world, false, "without a fault");
    assert_eq!(hub.stop().0.code(), Some(0));
    assert!(first_seq_of(&archive) > Some(1));
    let files = exported(&export);
    let [file] = &files[..] else { panic!("{files:?}") };
    let text = fs::read_to_string(file).unwrap();
    assert_eq!(text.lines().count() as u64, 1 + TRANSFERS, "{text}");
    assert!((1..=TRANSFERS).all(|number| text.contains(&scheme::id(number).to_string())), "{text}");
    verdict::audit_is_clean(&scene.data);
}

/// Faults with an odd index affect a repeated backup. For failed syncs of the manifest see the test below.
const BACKUP_FAULTS: &[(Fault, Exit)] = &[
    (at("write", "/copy/data/", INPUT_OUTPUT), Exit::CannotCreate),
    (at("write", "/copy/data/", NO_SPACE), Exit::CannotCreate),
    (at("fsync", "/copy/data/", INPUT_OUTPUT), Exit::CannotCreate),
    (at("fsync", "/copy/data/", NO_SPACE), Exit::CannotCreate),
    (at("rename", "/copy/backup.json", INPUT_OUTPUT), Exit::CannotCreate),
    (at("rename", "/copy/backup.json", NO_SPACE), Exit::CannotCreate),
    (at("write", "/copy/backup.json", NO_SPACE), Exit::CannotCreate),
    // The command collects the files of the source a second time, and repeats this for a second.
    (at("rename", "/backup.staging/journal/", NO_SPACE), Exit::InputOutput),
];

#[test]
#[allow(clippy::print_stdout, reason = "a failure must say which fault it was")]
fn failed_backup_is_unusable_and_the_next_one_complete() {
    let Some(scene) = Scene::new() else { return };
    let source = scene.source();
    for (number, (fault, exit)) in BACKUP_FAULTS.iter().enumerate() {
        println!("{fault:?}");
        let what = format!("{fault:?}");
        let place = scene.path(&number.to_string());
        let copy = place.join("copy");
        let is_repeated = number % 2 == 1;
        if is_repeated {
            scene.back_up_well(&copy);
        }
        let ended = scene.back_up(&copy, *fault);
        assert!(ended.met > 0, "{what}: no call met it");
        assert_eq!(ended.code, Some(i32::from(exit.code())), "{what}: {}", ended.said);
        if is_repeated && copy.join("backup.json").exists() {
            // The backup failed before anything was changed.
            bring_back(&copy, &place.join("former")).unwrap();
        } else {
            expect_no_backup(&copy, &what);
        }
        assert!(scene.source() == source, "{what}: the source was changed");
        scene.back_up_well(&copy);
        bring_back(&copy, &place.join("restored")).unwrap();
    }
}

/// The last sync makes the manifest's name durable. The test finds this sync by bisection.
#[test]
fn backup_with_a_failed_sync_is_unusable() {
    const MORE_THAN_THERE_ARE: u64 = 256;
    let Some(scene) = Scene::new() else { return };
    let (mut met, mut unmet) = (0, MORE_THAN_THERE_ARE);
    while unmet - met > 1 {
        let from = (met + unmet) / 2;
        let copy = scene.path(&from.to_string()).join("copy");
        let ended = scene.back_up(&copy, Fault { from, ..at("fsync", "/copy", INPUT_OUTPUT) });
        let what = format!("sync {from}");
        if ended.met > 0 {
            met = from;
            assert_eq!(ended.code, Some(i32::from(Exit::CannotCreate.code())), "{what}: {}", ended.said);
            expect_no_backup(&copy, &what);
        } else {
            unmet = from;
            assert_eq!(ended.code, Some(0), "{what}: {}", ended.said);
        }
    }
    assert!(0 < met && unmet < MORE_THAN_THERE_ARE, "{met} and {unmet}");
}

const RESTORE_FAULTS: &[(Fault, Exit)] = &[
    (at("write", "/restored.restoring/", NO_SPACE), Exit::InputOutput),
    (at("fsync", "/restored.restoring/", INPUT_OUTPUT), Exit::InputOutput),
    (at("rename", "/restored", NO_SPACE), Exit::CannotCreate),
];

#[test]
#[allow(clippy::print_stdout, reason = "a failure must say which fault it was")]
fn failed_restore_leaves_no_data_and_can_be_repeated() {
    let Some(scene) = Scene::new() else { return };
    let copy = scene.path("copy");
    scene.back_up_well(&copy);
    for (number, (fault, exit)) in RESTORE_FAULTS.iter().enumerate() {
        println!("{fault:?}");
        // Its directory also does not exist.
        let restored = scene.path(&number.to_string()).join("restored");
        let mut command = upesi();
        command.arg("restore").arg("--from").arg(&copy).arg("--data").arg(&restored);
        let ended = scene.run(command, *fault);
        assert!(ended.met > 0, "{fault:?}: no call met it");
        assert_eq!(ended.code, Some(i32::from(exit.code())), "{fault:?}: {}", ended.said);
        assert!(!restored.exists(), "{fault:?}");
        bring_back(&copy, &restored).unwrap();
        verdict::audit_is_clean(&restored);
    }
}
