//! Changes of files, as the kernel reports them. A test kills a hub at such a change.

use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};

use super::Chance;
use super::hub::PATIENCE;
use super::load::Load;
use super::scene::World;

/// End of a wait for changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The changes occurred.
    Came,
    /// Nothing happened for so long that no further change is expected.
    Quiet,
}

/// Watches a directory and everything below it.
pub struct FileEvents {
    queue: OwnedFd,
    root: PathBuf,
    mask: WatchFlags,
}

impl FileEvents {
    /// Watches files that are created, removed, renamed, or closed after writing: operations that a crash can
    /// interrupt.
    pub fn of_structure(root: &Path) -> Self {
        let moved = WatchFlags::MOVED_FROM | WatchFlags::MOVED_TO;
        Self::new(root, WatchFlags::CREATE | WatchFlags::DELETE | WatchFlags::CLOSE_WRITE | moved)
    }

    /// Also watches every opening of a file, because a recovery opens files.
    pub fn of_recovery(root: &Path) -> Self {
        let mut events = Self::of_structure(root);
        events.mask |= WatchFlags::OPEN | WatchFlags::MODIFY;
        events.watch(&events.root.clone());
        events
    }

    fn new(root: &Path, mask: WatchFlags) -> Self {
        let queue = init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK).expect("inotify");
        let events = Self { queue, root: root.to_owned(), mask };
        events.watch(root);
        events
    }

    /// Watches a directory and those below it. Repeating it is not an error.
    fn watch(&self, directory: &Path) {
        // A directory that was removed in the meantime needs no watch.
        if add_watch(&self.queue, directory, self.mask | WatchFlags::ONLYDIR).is_err() {
            return;
        }
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                self.watch(&entry.path());
            }
        }
    }

    /// Returns at the `count`-th change from now on, or after `quiet` without a change.
    pub fn wait(&self, count: u64, quiet: Timespec) -> Waited {
        let mut seen = 0;
        let mut buffer = [MaybeUninit::uninit(); 4096];
        while seen < count {
            let mut ready = [PollFd::new(&self.queue, PollFlags::IN)];
            if poll(&mut ready, Some(&quiet)).expect("poll") == 0 {
                return Waited::Quiet;
            }
            let mut is_directory = false;
            let mut reader = Reader::new(&self.queue, &mut buffer);
            while seen < count
                && reader.next().is_ok_and(|event| {
                    is_directory |= event.events().contains(ReadFlags::ISDIR | ReadFlags::CREATE);
                    true
                })
            {
                seen += 1;
                if reader.is_buffer_empty() {
                    break;
                }
            }
            if is_directory {
                self.watch(&self.root);
            }
        }
        Waited::Came
    }
}

/// The time limit of all waits in the tests.
pub fn patience() -> Timespec {
    Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 }
}

// Moments to kill a hub.

/// The moment that ends a life of the hub.
#[derive(Clone, Copy, Debug)]
pub enum Moment {
    /// As soon as there is a process.
    Spawned,
    /// At its first log line.
    FirstLine,
    /// At the n-th change or opening of a file since its start: within the recovery, or soon afterwards.
    Recovery(u64),
    /// After n further transfers were answered with 202.
    Accepted(u64),
    /// At the n-th file that is created, removed or renamed under load: segments, snapshots, the archive's tables.
    Files(u64),
}

impl Moment {
    pub fn draw(chance: &mut Chance) -> Self {
        match chance.below(20) {
            0 => Self::Spawned,
            1 => Self::FirstLine,
            2..=6 => Self::Recovery(chance.spread(160)),
            7..=11 => Self::Files(chance.spread(16)),
            _ => Self::Accepted(chance.spread(512)),
        }
    }

    /// One life of a hub under load, up to this moment. Returns whether the hub reached the point of serving.
    pub fn live(self, world: &World, load: &Load) -> bool {
        let mut serves = false;
        let hub = match self {
            Self::Spawned => world.start(),
            Self::FirstLine => {
                let mut hub = world.start();
                assert!(hub.logs(""), "the hub ended without a word");
                hub
            }
            Self::Recovery(count) => {
                let events = FileEvents::of_recovery(&world.data);
                let hub = world.start();
                events.wait(count, patience());
                hub
            }
            Self::Accepted(count) => {
                let mut hub = world.start();
                hub.serves();
                load.wait_for_accepted(count);
                serves = true;
                hub
            }
            Self::Files(count) => {
                let mut hub = world.start();
                hub.serves();
                let events = FileEvents::of_structure(&world.data);
                events.wait(count, patience());
                serves = true;
                hub
            }
        };
        hub.kill();
        serves
    }
}
