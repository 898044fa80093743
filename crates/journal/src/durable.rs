//! Creates directories and file names that survive a power loss.
//!
//! Syncing a file makes only its bytes durable. The file's name is an entry of its parent directory, and a directory's
//! name is an entry of its own parent. Each name is durable after its parent directory is synced.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

/// Permissions of a new directory: only its owner has access.
const OWNERS: u32 = 0o700;

/// An operation on one path.
type Step<'a> = &'a mut dyn FnMut(&Path) -> io::Result<()>;

/// Creates a directory and its missing ancestors, so that all their names are durable when this returns `Ok`. Only
/// their owner has access to them, whatever the process's `umask` is.
///
/// Directories are created from the top. Each is synced before the next is created in it, so a crash can leave only the
/// lowest one without a durable name. An existing directory is not assumed to be durable; its name is synced.
pub fn create_directory(path: &Path) -> io::Result<()> {
    let mut make = |missing: &Path| fs::DirBuilder::new().mode(OWNERS).create(missing);
    create_by(path, &mut make, &mut sync_parent)
}

/// Makes all names in a directory durable.
pub fn sync_directory(path: &Path) -> io::Result<()> {
    // The empty path stands for the working directory.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    File::open(path)?.sync_all()
}

/// Makes the name of a file or directory durable after it was created, renamed or removed.
pub fn sync_parent(path: &Path) -> io::Result<()> {
    sync_directory(path.parent().unwrap_or(path))
}

fn create_by(path: &Path, make: Step<'_>, sync: Step<'_>) -> io::Result<()> {
    let is_missing = |above: &&Path| !above.as_os_str().is_empty() && !above.exists();
    let missing: Vec<&Path> = path.ancestors().take_while(is_missing).collect();
    // This module did not create the names of the root and the working directory, so it does not sync them.
    let present = path.ancestors().nth(missing.len()).filter(|present| present.parent().is_some());
    if let Some(present) = present {
        match sync(present) {
            // A process without access to the parent did not create the directory. Some file systems cannot sync
            // directories.
            Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::InvalidInput) => {}
            other => other?,
        }
    }
    for directory in missing.iter().rev() {
        match make(directory) {
            // Another process created it first.
            Err(error) if error.kind() == ErrorKind::AlreadyExists && directory.is_dir() => {}
            other => other?,
        }
        sync(directory)?;
    }
    // The path may already have existed, and may not be a directory.
    fs::create_dir_all(path)
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    /// The type of [`create_by`].
    type Create = fn(&Path, Step<'_>, Step<'_>) -> io::Result<()>;

    const PATH: &str = "a/b/c";

    /// Stops before a step, begins again, and returns the names below `root` that a power loss could then destroy;
    /// `None` if fewer steps are needed.
    fn loses_after(create: Create, steps: u64) -> Option<BTreeSet<PathBuf>> {
        let directory = tempfile::tempdir().unwrap();
        let (root, synced) = (directory.path(), RefCell::new(BTreeSet::new()));
        let left = Cell::new(steps);
        let step = || match left.get() {
            0 => Err(io::Error::other("the process was killed")),
            more => {
                left.set(more - 1);
                Ok(())
            }
        };
        let mut make = |path: &Path| step().and_then(|()| fs::create_dir(path));
        let mut sync = |path: &Path| -> io::Result<()> {
            step()?;
            synced.borrow_mut().insert(path.to_path_buf());
            Ok(())
        };
        let path = root.join(PATH);
        if create(&path, &mut make, &mut sync).is_ok() {
            return None;
        }
        left.set(u64::MAX);
        create(&path, &mut make, &mut sync).unwrap();
        assert!(path.is_dir());
        let made = path.ancestors().take_while(|above| *above != root);
        let synced = synced.borrow();
        Some(made.filter(|name| !synced.contains(*name)).map(Path::to_path_buf).collect())
    }

    /// Creates all of them, then syncs the created ones.
    fn make_all_first(path: &Path, make: Step<'_>, sync: Step<'_>) -> io::Result<()> {
        let missing: Vec<&Path> = path.ancestors().take_while(|above| !above.exists()).collect();
        missing.iter().rev().try_for_each(|directory| make(directory))?;
        missing.iter().try_for_each(|directory| sync(directory))
    }

    #[test]
    fn interrupted_creation_that_is_repeated_is_durable() {
        // One directory exists, and three are created.
        let steps = 1 + 3 * 2;
        for stop in 0..steps {
            assert_eq!(loses_after(create_by, stop), Some(BTreeSet::new()), "before step {stop}");
        }
        assert_eq!(loses_after(create_by, steps), None);
        let lost = (0..6).filter_map(|stop| loses_after(make_all_first, stop)).map(|names| names.len());
        assert_eq!(lost.max(), Some(3), "directories that are synced too late are lost");
    }

    #[test]
    fn directory_is_durable_before_its_subdirectory_is_created() {
        let directory = tempfile::tempdir().unwrap();
        let (root, steps) = (directory.path(), RefCell::new(Vec::new()));
        let note = |what: &str, path: &Path| {
            let below = path.strip_prefix(root).unwrap().display().to_string();
            steps.borrow_mut().push(format!("{what} {below}"));
        };
        let mut make = |path: &Path| {
            note("make", path);
            fs::create_dir(path)
        };
        let mut sync = |path: &Path| -> io::Result<()> {
            note("sync", path);
            Ok(())
        };
        create_by(&root.join(PATH), &mut make, &mut sync).unwrap();
        assert_eq!(
            *steps.borrow(),
            ["sync ", "make a", "sync a", "make a/b", "sync a/b", "make a/b/c", "sync a/b/c"]
        );
        steps.borrow_mut().clear();
        create_by(&root.join(PATH), &mut make, &mut sync).unwrap();
        assert_eq!(
            *steps.borrow(),
            ["sync a/b/c"],
            "the existing directory may be the only one that survived a crash"
        );
    }

    #[test]
    fn only_the_owner_may_enter_a_new_directory() {
        use std::os::unix::fs::PermissionsExt as _;
        let directory = tempfile::tempdir().unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        let present = directory.path().join("present");
        fs::create_dir(&present).unwrap();
        fs::set_permissions(&present, fs::Permissions::from_mode(0o755)).unwrap();
        let path = present.join(PATH);
        create_directory(&path).unwrap();
        let made: Vec<_> = path.ancestors().take(3).map(mode).collect();
        assert_eq!(made, [0o700; 3]);
        assert_eq!(mode(&present), 0o755, "a present directory keeps its permissions");
    }

    #[test]
    fn existing_file_and_failed_sync_are_errors() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("file");
        fs::write(&file, "mine").unwrap();
        assert!(create_directory(&file).is_err());
        assert!(create_directory(&file.join("below")).is_err());
        assert_eq!(fs::read(&file).unwrap(), b"mine");
        let made = directory.path().join(PATH);
        create_directory(&made).unwrap();
        create_directory(&made).unwrap();
        assert!(made.is_dir());
        assert!(sync_parent(&directory.path().join("none/file")).is_err());

        let mut make = |path: &Path| fs::create_dir(path);
        let fails_with = |kind: ErrorKind| {
            let mut sync = |_: &Path| -> io::Result<()> { Err(io::Error::from(kind)) };
            create_by(&made, &mut |_: &Path| unreachable!("it is there"), &mut sync)
        };
        assert!(fails_with(ErrorKind::StorageFull).is_err());
        assert!(fails_with(ErrorKind::PermissionDenied).is_ok(), "another process created it");
        let new = directory.path().join("new");
        let denied = create_by(&new, &mut make, &mut |path: &Path| {
            let is_new = path == new;
            if is_new { Err(io::Error::from(ErrorKind::PermissionDenied)) } else { Ok(()) }
        });
        assert!(denied.is_err(), "a new directory must be durable");
    }

    #[test]
    fn directory_of_a_faster_process_is_not_an_error() {
        let root = tempfile::tempdir().unwrap();
        let fails_with = |error: ErrorKind, is_there: bool| {
            let (path, steps) = (root.path().join(format!("{error} {is_there}")), Cell::new(0));
            let mut make = |path: &Path| {
                // Two moments: it did not exist when it was checked.
                if is_there {
                    fs::create_dir(path).unwrap()
                } else {
                    fs::write(path, "a file").unwrap()
                }
                Err(io::Error::from(error))
            };
            let created = create_by(&path, &mut make, &mut |_: &Path| {
                steps.set(steps.get() + 1);
                Ok(())
            });
            (created.map_err(|error| error.kind()), steps.get())
        };
        // The parent is synced first.
        assert_eq!(fails_with(ErrorKind::AlreadyExists, true), (Ok(()), 2));
        assert_eq!(fails_with(ErrorKind::AlreadyExists, false), (Err(ErrorKind::AlreadyExists), 1));
        assert_eq!(fails_with(ErrorKind::StorageFull, true), (Err(ErrorKind::StorageFull), 1));
    }

    #[test]
    fn the_working_directory_is_not_made() {
        let asked = RefCell::new(Vec::new());
        let mut make = |path: &Path| {
            asked.borrow_mut().push(path.to_owned());
            Err(io::Error::from(ErrorKind::StorageFull))
        };
        let made = create_by(Path::new("not there/below"), &mut make, &mut |path: &Path| {
            unreachable!("{}", path.display())
        });
        assert_eq!(made.map_err(|error| error.kind()), Err(ErrorKind::StorageFull));
        assert_eq!(*asked.borrow(), [Path::new("not there")]);
    }
}
