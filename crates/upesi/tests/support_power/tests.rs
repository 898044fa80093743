//! Small logs, written by hand, and the files that remain.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use tempfile::TempDir;

use super::Loss;
use super::disk::{Lost, cut};

/// Enough that each outcome of a draw among a few occurs, and always the same.
const SEEDS: std::ops::Range<u64> = 0..200;

/// A directory in the state that a process has left, and the log of its changes.
struct Scene {
    directory: TempDir,
    log: String,
}

impl Scene {
    fn new() -> Self {
        let scene = Self { directory: TempDir::new().unwrap(), log: String::new() };
        fs::create_dir(scene.path("")).unwrap();
        fs::create_dir(scene.kept()).unwrap();
        scene
    }

    fn kept(&self) -> PathBuf {
        self.directory.path().join("kept")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join("data").join(name)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> u64 {
        fs::write(self.path(name), bytes).unwrap();
        self.inode(name)
    }

    /// The data directory itself has the empty name.
    fn inode(&self, name: &str) -> u64 {
        fs::metadata(self.path(name)).unwrap().ino()
    }

    fn read(&self, name: &str) -> String {
        String::from_utf8(fs::read(self.path(name)).unwrap()).unwrap()
    }

    /// The names there, sorted.
    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("")).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn did(&mut self, line: &str) {
        self.log.push_str(line);
        self.log.push('\n');
    }

    fn synced(&mut self, name: &str) {
        let inode = self.inode(name);
        self.did(&format!("sync 1 {inode}"));
        self.did("synced 1");
    }

    fn cut(&self, loss: Loss, seed: u64) -> Lost {
        cut(&self.log, &self.path(""), &self.kept(), loss, seed)
    }
}

fn hexadecimal(text: &str) -> String {
    text.bytes().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn writes_are_undone_to_the_last_sync() {
    // A file with "hello world" became "HELLO world", then "HELLO world, more". A sync comes before, between or after
    // the changes.
    for (synced_after, left) in
        [(None, "hello world"), (Some(1), "HELLO world"), (Some(2), "HELLO world, more")]
    {
        let mut scene = Scene::new();
        let inode = scene.file("a", "HELLO world, more");
        let lines =
            [format!("write {inode} 0 5 11 {}", hexadecimal("hello")), format!("write {inode} 11 6 11 -")];
        for (line, number) in lines.iter().zip(1..) {
            scene.did(line);
            if synced_after == Some(number) {
                scene.synced("a");
            }
        }
        let lost = scene.cut(Loss::Everything, 0);
        assert_eq!(scene.read("a"), left);
        assert_eq!(lost.durable, synced_after.unwrap_or(0), "{lost:?}");
        assert_eq!((lost.unsynced, lost.sectors), (2 - lost.durable, 2 - lost.durable), "{lost:?}");
    }
}

#[test]
fn sync_covers_earlier_changes_if_it_succeeded() {
    let mut scene = Scene::new();
    let inode = scene.file("a", "DCBA");
    scene.did(&format!("write {inode} 3 1 4 {}", hexadecimal("a")));
    scene.did(&format!("sync 1 {inode}"));
    scene.did(&format!("write {inode} 2 1 4 {}", hexadecimal("b")));
    scene.did("synced 1");
    scene.did(&format!("write {inode} 1 1 4 {}", hexadecimal("c")));
    scene.did(&format!("sync 2 {inode}"));
    scene.cut(Loss::Everything, 0);
    assert_eq!(scene.read("a"), "DcbA");
}

#[test]
fn incomplete_line_means_no_change() {
    let mut scene = Scene::new();
    let inode = scene.file("a", "new");
    scene.log = format!("write {inode} 0 3 3 {}", hexadecimal("old"));
    scene.cut(Loss::Everything, 0);
    assert_eq!(scene.read("a"), "new");
}

#[test]
fn truncations_and_extensions_are_undone() {
    let mut scene = Scene::new();
    let inode = scene.file("a", "new");
    scene.did(&format!("resize {inode} 9 2 2:{},6:{}", hexadecimal("234"), hexadecimal("678")));
    scene.did(&format!("resize {inode} 2 100 -"));
    scene.did(&format!("resize {inode} 100 0 0:{}", hexadecimal("01")));
    scene.did(&format!("write {inode} 0 3 0 -"));
    scene.cut(Loss::Everything, 0);
    assert_eq!(scene.read("a"), "01234\x00678");
}

#[test]
fn names_are_undone_unless_their_directory_was_synced() {
    for is_synced in [false, true] {
        let mut scene = Scene::new();
        let root = scene.inode("");
        fs::create_dir(scene.path("made")).unwrap();
        scene.file("made/within", "goes with it");
        let inode = scene.file("current", "new");
        fs::write(scene.kept().join("1"), "old").unwrap();
        fs::write(scene.kept().join("2"), "gone").unwrap();
        fs::create_dir(scene.kept().join("4")).unwrap();
        fs::write(scene.kept().join("3"), "in a directory that is gone").unwrap();
        let removed = fs::metadata(scene.kept().join("4")).unwrap().ino();
        scene.did(&format!("create {root} made"));
        let made = scene.inode("made");
        scene.did(&format!("create {made} within"));
        scene.did(&format!("create {root} temporary"));
        scene.did(&format!("rename {inode} {root} temporary {root} current 1"));
        scene.did(&format!("unlink {root} gone 2"));
        scene.did(&format!("unlink {removed} file 3"));
        scene.did(&format!("rmdir {root} removed 4"));
        if is_synced {
            scene.synced("");
        }
        let lost = scene.cut(Loss::Everything, 0);
        if is_synced {
            // Names inside a directory belong to that directory.
            assert_eq!(scene.names(), ["current", "made"]);
            assert_eq!(scene.read("current"), "new");
            assert!(!scene.path("made/within").exists());
            assert_eq!((lost.durable, lost.names), (5, 2));
        } else {
            assert_eq!(scene.names(), ["current", "gone", "removed"]);
            assert_eq!(scene.read("current"), "old");
            assert_eq!(scene.read("gone"), "gone");
            assert_eq!(scene.read("removed/file"), "in a directory that is gone");
            assert_eq!((lost.durable, lost.names), (0, 7));
        }
    }
}

/// A process may be killed between a line of the log and its change.
#[test]
fn change_that_never_began_is_not_undone() {
    let mut scene = Scene::new();
    let root = scene.inode("");
    scene.file("current", "old");
    let inode = scene.file("temporary", "new");
    fs::hard_link(scene.path("current"), scene.kept().join("1")).unwrap();
    scene.did(&format!("rename {inode} {root} temporary {root} current 1"));
    scene.did(&format!("create {root} next"));
    fs::create_dir(scene.path("directory")).unwrap();
    scene.did(&format!("rmdir {root} directory 2"));
    fs::hard_link(scene.path("current"), scene.kept().join("3")).unwrap();
    scene.did(&format!("unlink {root} current 3"));
    scene.cut(Loss::Everything, 0);
    assert_eq!(scene.names(), ["current", "directory", "temporary"]);
    assert_eq!(scene.read("current"), "old");
    assert_eq!(scene.read("temporary"), "new");
}

/// All outcomes, over many seeds, for a new scene each time.
fn outcomes<T: Ord>(loss: Loss, scene: impl Fn() -> Scene, look: impl Fn(&Scene) -> T) -> BTreeSet<T> {
    let outcome = |seed| {
        let scene = scene();
        scene.cut(loss, seed);
        look(&scene)
    };
    SEEDS.map(outcome).collect()
}

/// The scene has two sectors, which are written alternately, twice each.
fn sectors() -> Scene {
    let mut scene = Scene::new();
    let inode = scene.file("a", [b'2'; 1024]);
    for before in ["0", "1"] {
        for sector in [0, 1] {
            let bytes = hexadecimal(&before.repeat(512));
            scene.did(&format!("write {inode} {} 512 1024 {bytes}", sector * 512));
        }
    }
    scene
}

#[test]
fn latest_changes_of_a_file_are_lost_from_one_moment_on() {
    let look = |scene: &Scene| {
        let text = scene.read("a");
        let (first, second) = text.split_at(512);
        assert!([first, second].iter().all(|sector| sector.bytes().all(|byte| byte == sector.as_bytes()[0])));
        format!("{}{}", &first[..1], &second[..1])
    };
    let found = outcomes(Loss::Latest, sectors, look);
    assert_eq!(found, BTreeSet::from(["00", "10", "11", "21", "22"].map(str::to_owned)));
}

#[test]
fn any_order_undoes_sectors_separately_and_tears_some() {
    let torn = std::cell::Cell::new(0);
    let look = |scene: &Scene| {
        let text = scene.read("a");
        let (first, second) = text.split_at(512);
        for sector in [first, second].map(str::as_bytes) {
            let beginning = sector.iter().take_while(|byte| **byte == sector[0]).count();
            // The beginning is from a later change and the rest from an earlier one. The last eight bytes are from one
            // change.
            assert!(sector[beginning..].iter().all(|byte| *byte + 1 == sector[0]), "{text}");
            assert!(beginning == 512 || beginning <= 504, "{text}");
            torn.set(torn.get() + u64::from(beginning < 512));
        }
        format!("{}{}", &first[511..], &second[511..])
    };
    let found = outcomes(Loss::AnyOrder, sectors, look);
    assert_eq!(found.len(), 9, "{found:?}");
    assert!((10..200).contains(&torn.get()), "{} of 400 sectors were torn", torn.get());
}

/// Two files that were created one after the other. The second one was renamed.
fn two_names() -> Scene {
    let mut scene = Scene::new();
    let root = scene.inode("");
    scene.file("a", "");
    let inode = scene.file("c", "");
    scene.did(&format!("create {root} a"));
    scene.did(&format!("create {root} b"));
    scene.did(&format!("rename {inode} {root} b {root} c -"));
    scene
}

#[test]
fn names_are_undone_in_order_or_by_chain() {
    let look = |scene: &Scene| scene.names().concat();
    let in_order = outcomes(Loss::Latest, two_names, look);
    assert_eq!(in_order, BTreeSet::from(["", "a", "ab", "ac"].map(str::to_owned)));
    let in_any = outcomes(Loss::AnyOrder, two_names, look);
    assert_eq!(in_any, BTreeSet::from(["", "a", "ab", "ac", "b", "c"].map(str::to_owned)));
}

#[test]
fn same_seed_loses_the_same_changes() {
    let lost = |seed| {
        let scene = two_names();
        scene.cut(Loss::AnyOrder, seed);
        scene.names()
    };
    for seed in SEEDS {
        assert_eq!(lost(seed), lost(seed));
    }
}

#[test]
#[should_panic(expected = "has inode 1234567")]
fn missing_file_of_the_log_is_an_error() {
    let mut scene = Scene::new();
    scene.did("write 1234567 0 1 0 -");
    scene.cut(Loss::Everything, 0);
}
