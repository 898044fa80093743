//! A data directory that has lived: segments, snapshots and an archive, and what they hold.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use tempfile::TempDir;

use super::hub::Hub;
use super::load::Accepted;
use super::world::World;

/// Enough for several segments and snapshots.
const TRANSFERS: u64 = 1_200;
const SEED: u64 = 7;

struct Original {
    directory: TempDir,
    accepted: Vec<Accepted>,
}

/// A copy of a data directory, to be damaged.
pub struct Scene {
    /// Goes with this value.
    _directory: TempDir,
    pub world: World,
    /// The transfers that it holds.
    pub accepted: &'static [Accepted],
}

pub fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
}

impl Scene {
    pub fn new() -> Self {
        static ORIGINAL: OnceLock<Original> = OnceLock::new();
        let original = ORIGINAL.get_or_init(Original::new);
        let directory = TempDir::new().unwrap();
        let data = directory.path().join("data");
        copy(original.directory.path(), &data);
        Self { world: World::new(&data), _directory: directory, accepted: &original.accepted }
    }

    /// The files of a subdirectory, sorted by name.
    pub fn files(&self, directory: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.world.data.join(directory)).unwrap();
        let mut files: Vec<_> =
            entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()).collect();
        files.sort();
        files
    }

    /// The journal's segments, oldest first.
    pub fn segments(&self) -> Vec<PathBuf> {
        let mut files = self.files("journal");
        files.retain(|path| path.extension().is_some_and(|extension| extension == "seg"));
        files
    }

    /// The archive's first division.
    pub fn division(&self) -> PathBuf {
        let entries = fs::read_dir(self.world.data.join("archive")).unwrap();
        let divisions = entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        divisions.min().unwrap()
    }

    /// Every file and its contents, but for the lock, which names the last process that held it, and empty segments
    /// that a running hub prepares when it has time.
    pub fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut contents = super::hub::contents(&self.world.data);
        let is_passing = |path: &Path| path.ends_with("lock") || path.ends_with("prepared.tmp");
        contents.retain(|(path, _)| !is_passing(path));
        contents
    }

    /// Starts a hub that must serve.
    pub fn serve(&self) -> Hub {
        let mut hub = self.world.start();
        hub.serves();
        hub
    }
}

impl Original {
    fn new() -> Self {
        let directory = TempDir::new().unwrap();
        let world = World::new(directory.path());
        let mut hub = world.start();
        hub.serves();
        let mut load = block_on(world.load(SEED));
        load.start();
        load.wait_for_accepted(TRANSFERS);
        let (accepted, refused) = load.end();
        assert!(refused.is_empty(), "{refused:?}");
        assert_eq!(hub.stop().0.code(), Some(0));
        Self { directory, accepted }
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}
