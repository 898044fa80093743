//! Backups and restores of directories that the engine filled, also while the directory is in use.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;

use upesi_engine::{Engine, EngineMetrics, EngineOptions, LedgerFold, NoEffects};
use upesi_journal::{Access, Disk, EmbeddedLog, RealDisk};
use upesi_ledger::{Ledger, LedgerConfig};

use upesi_lab::fill::{self, FillArguments};
use upesi_offline::backup::{
    BackupArguments, BackupReport, RestoreArguments, RestoreReport, backup, restore,
};
use upesi_process::exit::{Exit, Failure};

fn fill(data: &Path, transfers: u64, keep_segments: bool) {
    let data = data.to_path_buf();
    fill::run(&FillArguments { transfers, dfsps: 3, keep_segments, ..FillArguments::new(data) }).unwrap();
}

fn back_up(data: &Path, to: &Path) -> Result<BackupReport, Failure> {
    backup(&BackupArguments { data: data.to_path_buf(), to: to.to_path_buf(), json: false })
}

fn bring_back(from: &Path, data: &Path) -> Result<RestoreReport, Failure> {
    restore(&RestoreArguments {
        from: from.to_path_buf(),
        data: data.to_path_buf(),
        alone: false,
        accept_findings: false,
        json: false,
    })
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

/// The state after a record, computed from the journal alone, without archived transfers.
fn state_after(data: &Path, seq: u64) -> Vec<u8> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new(data, Access::Read));
    let mut fold = LedgerFold::new(&EmbeddedLog::for_reading(&disk), Ledger::new(LedgerConfig::default()), 0);
    while fold.next(seq).unwrap() {}
    fold.ledger.encode_unfinished()
}

#[test]
fn backup_of_a_busy_hub_is_a_moment_of_its_past() {
    let directory = tempfile::tempdir().unwrap();
    let (data, to) = (directory.path().join("data"), directory.path().join("backup"));
    fill(&data, 100, true);
    let mut moments = Vec::new();
    thread::scope(|scope| {
        let filling = scope.spawn(|| fill(&data, 6_000, true));
        while !filling.is_finished() {
            let report = back_up(&data, &to).unwrap();
            let restored = directory.path().join(format!("restored-{}", moments.len()));
            let restored_report = bring_back(&to, &restored).unwrap();
            assert_eq!(restored_report.audit.last_seq, report.last_record);
            moments.push((report.last_record, restored, restored_report.audit.ledger.encode_unfinished()));
        }
    });
    assert!(!moments.is_empty());
    for (last_record, restored, found) in &moments {
        assert!(found == &state_after(&data, *last_record), "the state after record {last_record}");
        let (engine, _) =
            Engine::start(EngineOptions::new(restored), EngineMetrics::default(), Box::new(NoEffects))
                .unwrap();
        engine.shutdown();
    }
}

/// A hub continues from a backup, which has no free space in its segments, several times.
#[test]
fn backups_are_small_and_a_hub_continues_from_each() {
    let directory = tempfile::tempdir().unwrap();
    let mut data = directory.path().join("data");
    for round in 1..=3 {
        fill(&data, 300, true);
        let to = directory.path().join(format!("backup-{round}"));
        let report = back_up(&data, &to).unwrap();
        let bytes: u64 = files_below(&to).iter().map(|file| file.metadata().unwrap().len()).sum();
        assert!(bytes < 8 << 20, "{bytes} bytes in {report:?}");
        data = directory.path().join(format!("restored-{round}"));
        assert_eq!(bring_back(&to, &data).unwrap().audit.totals.committed, 300 * round);
    }
}

#[test]
fn backup_works_while_the_hub_removes_segments() {
    let directory = tempfile::tempdir().unwrap();
    let (data, to) = (directory.path().join("data"), directory.path().join("backup"));
    fill(&data, 100, false);
    let mut count = 0;
    thread::scope(|scope| {
        let filling = scope.spawn(|| fill(&data, 6_000, false));
        while !filling.is_finished() {
            back_up(&data, &to).unwrap();
            count += 1;
        }
    });
    assert!(count > 0);
    let last = back_up(&data, &to).unwrap();
    let restored = bring_back(&to, &directory.path().join("restored")).unwrap();
    assert_eq!(restored.audit.last_seq, last.last_record);
    assert_eq!(restored.audit.totals.committed, 6_100);
}

#[test]
fn repeated_backup_copies_only_new_files() {
    let directory = tempfile::tempdir().unwrap();
    let (data, to) = (directory.path().join("data"), directory.path().join("backup"));
    fill(&data, 300, true);
    let first = back_up(&data, &to).unwrap();
    assert_eq!((first.files_kept, first.files_removed), (0, 0));
    let second = back_up(&data, &to).unwrap();
    assert!(second.files_kept > 0 && second.files_copied < first.files_copied, "{second:?}");
    assert_eq!(second.last_record, first.last_record);
    // A file that is missing in the backup is copied again.
    let snapshot = fs::read_dir(to.join("data/snapshots")).unwrap().next().unwrap().unwrap().path();
    fs::remove_file(&snapshot).unwrap();
    fill(&data, 300, true);
    let third = back_up(&data, &to).unwrap();
    assert!(third.last_record > second.last_record);
    assert_eq!(bring_back(&to, &directory.path().join("restored")).unwrap().audit.totals.committed, 600);
    assert!(!data.join("backup.staging").exists(), "the second names are gone");
}

#[test]
fn restore_rejects_incomplete_backups() {
    let directory = tempfile::tempdir().unwrap();
    let (data, to, target) =
        (directory.path().join("data"), directory.path().join("backup"), directory.path().join("target"));
    let exit = |result: Result<RestoreReport, Failure>| result.unwrap_err().exit;
    assert_eq!(exit(bring_back(&to, &target)), Exit::NoInput);
    fill(&data, 300, true);
    assert_eq!(back_up(&directory.path().join("none"), &to).unwrap_err().exit, Exit::NoInput);
    let other = directory.path().join("other");
    fs::create_dir(&other).unwrap();
    fs::write(other.join("file"), "mine").unwrap();
    assert_eq!(back_up(&data, &other).unwrap_err().exit, Exit::CannotCreate, "a directory with other things");
    back_up(&data, &to).unwrap();

    fs::create_dir(&target).unwrap();
    fs::write(target.join("file"), "mine").unwrap();
    assert_eq!(exit(bring_back(&to, &target)), Exit::CannotCreate);
    fs::remove_file(target.join("file")).unwrap();

    let manifest = fs::read(to.join("backup.json")).unwrap();
    fs::remove_file(to.join("backup.json")).unwrap();
    assert_eq!(exit(bring_back(&to, &target)), Exit::NoInput, "interrupted");
    fs::write(to.join("backup.json"), &manifest).unwrap();

    for path in files_below(&to.join("data")) {
        let whole = fs::read(&path).unwrap();
        if whole.is_empty() {
            continue;
        }
        let mut hurt = whole.clone();
        hurt[whole.len() / 2] ^= 4;
        fs::write(&path, hurt).unwrap();
        assert_eq!(exit(bring_back(&to, &target)), Exit::Data, "{}", path.display());
        assert!(fs::read_dir(&target).unwrap().next().is_none(), "nothing takes the place of data");
        fs::write(&path, whole).unwrap();
    }
    bring_back(&to, &target).unwrap();
}

#[test]
fn backup_and_data_directory_must_be_separate() {
    let directory = tempfile::tempdir().unwrap();
    let (data, to) = (directory.path().join("data"), directory.path().join("backup"));
    fill(&data, 100, true);
    let link = directory.path().join("link");
    std::os::unix::fs::symlink(&data, &link).unwrap();
    for inside in [data.clone(), data.join("backup"), link.join("new/backup"), directory.path().to_path_buf()]
    {
        let failure = back_up(&data, &inside).expect_err(&inside.display().to_string());
        assert_eq!(failure.exit, Exit::Usage, "{failure}");
        assert!(failure.message.ends_with("choose a separate path outside of it"), "{failure}");
    }
    assert!(!data.join("backup").exists() && !data.join("new").exists());
    back_up(&data, &to).unwrap();
    let failure = bring_back(&to, &to.join("restored")).unwrap_err();
    assert_eq!(failure.exit, Exit::Usage, "{failure}");
    bring_back(&to, &directory.path().join("restored")).unwrap();
}

/// Adds an entry with the checksum of `content` to the manifest of a backup.
fn list_in_manifest(backup: &Path, path: &str, content: &[u8]) {
    let file = backup.join("backup.json");
    let mut manifest: serde_json::Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    let entry = serde_json::json!({
        "path": path,
        "bytes": content.len(),
        "modified_ns": 0,
        "crc32c": crc32c::crc32c(content),
    });
    manifest["files"].as_array_mut().unwrap().push(entry);
    fs::write(file, serde_json::to_vec(&manifest).unwrap()).unwrap();
}

#[test]
fn restore_writes_nothing_outside_the_new_directory() {
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path();
    let (data, to, target) = (base.join("data"), base.join("backup"), base.join("target"));
    fill(&data, 50, true);
    back_up(&data, &to).unwrap();
    let manifest = fs::read(to.join("backup.json")).unwrap();
    let victim = base.join("victim");
    fs::write(&victim, "mine").unwrap();
    let outside = base.join("outside");
    // The targets of the paths, inside the backup.
    for source in [to.join("outside"), to.join("data/restored"), to.join("data/journal/a.txt")] {
        fs::write(source, "theirs").unwrap();
    }
    let absolute = victim.to_str().unwrap();
    for path in ["../outside", "journal/../../outside", "archive/../../outside", "restored", "journal/a.txt"]
    {
        list_in_manifest(&to, path, b"theirs");
        let failure = bring_back(&to, &target).expect_err(path);
        assert_eq!(failure.exit, Exit::Data, "{path}: {failure}");
        assert!(failure.message.contains("is not a file of a data directory"), "{failure}");
        fs::write(to.join("backup.json"), &manifest).unwrap();
    }
    list_in_manifest(&to, absolute, b"mine");
    assert_eq!(bring_back(&to, &target).unwrap_err().exit, Exit::Data);
    fs::write(to.join("backup.json"), &manifest).unwrap();
    list_in_manifest(&to, "FORMAT", &fs::read(to.join("data/FORMAT")).unwrap());
    assert!(bring_back(&to, &target).unwrap_err().message.contains("lists a file twice"));
    fs::write(to.join("backup.json"), &manifest).unwrap();
    assert_eq!(fs::read(&victim).unwrap(), b"mine");
    assert!(!outside.exists() && !target.exists());
    bring_back(&to, &target).unwrap();
}

#[test]
fn links_in_a_backup_are_not_followed() {
    use std::os::unix::fs::symlink;
    let directory = tempfile::tempdir().unwrap();
    let base = directory.path();
    let (data, to, target) = (base.join("data"), base.join("backup"), base.join("target"));
    fill(&data, 50, true);
    back_up(&data, &to).unwrap();
    let exit = |result: Result<RestoreReport, Failure>| result.unwrap_err().exit;
    for inner in ["data/journal", "data"] {
        let (path, moved) = (to.join(inner), base.join("moved"));
        fs::rename(&path, &moved).unwrap();
        symlink(&moved, &path).unwrap();
        assert_eq!(exit(bring_back(&to, &target)), Exit::Data, "{inner}");
        // The next backup also does not write or remove anything behind the link.
        fs::write(moved.join("theirs"), "theirs").unwrap();
        let before = files_below(&moved);
        assert_eq!(back_up(&data, &to).unwrap_err().exit, Exit::CannotCreate, "{inner}");
        assert_eq!(files_below(&moved), before, "{inner}");
        fs::remove_file(&path).unwrap();
        fs::rename(&moved, &path).unwrap();
        back_up(&data, &to).unwrap();
    }
    let (path, other) = (to.join("data/FORMAT"), base.join("other"));
    fs::copy(&path, &other).unwrap();
    fs::remove_file(&path).unwrap();
    symlink(&other, &path).unwrap();
    assert_eq!(exit(bring_back(&to, &target)), Exit::Data, "a link to a file with the right content");
    back_up(&data, &to).unwrap();
    assert!(other.is_file() && !path.is_symlink(), "a file takes the place of the link");
    fs::remove_file(to.join("data/FORMAT")).unwrap();
    symlink("/dev/zero", to.join("data/FORMAT")).unwrap();
    assert_eq!(exit(bring_back(&to, &target)), Exit::Data, "a device without an end");
    let content = fs::read(data.join("FORMAT")).unwrap();
    fs::remove_file(to.join("data/FORMAT")).unwrap();
    fs::write(to.join("data/FORMAT"), [content, b"more".to_vec()].concat()).unwrap();
    assert_eq!(exit(bring_back(&to, &target)), Exit::Data, "longer than the manifest says");
    assert!(!target.exists());
}
