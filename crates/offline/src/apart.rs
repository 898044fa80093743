//! Checks that two directories are separate: neither is, or is inside, the other, however their paths are written.

use std::io;
use std::path::{Component, Path, PathBuf};

use upesi_process::exit::{Exit, Failure, Outcome};

/// Rejects a target that is, is inside, or contains a directory.
///
/// # Errors
/// 64 if they are not separate, 73 if a path cannot be followed.
pub(crate) fn check_apart(directory: &Path, target: &Path) -> Outcome {
    let cannot = |path: &Path, error: io::Error| {
        Failure::new(Exit::CannotCreate, format!("{}: {error}", path.display()))
    };
    let real_directory = real(directory).map_err(|error| cannot(directory, error))?;
    let real_target = real(target).map_err(|error| cannot(target, error))?;
    let how = if real_target == real_directory {
        "is the same as"
    } else if real_target.starts_with(&real_directory) {
        "lies within"
    } else if real_directory.starts_with(&real_target) {
        "holds"
    } else {
        return Ok(());
    };
    let (target, directory) = (target.display(), directory.display());
    Err(Failure::new(
        Exit::Usage,
        format!("{target} {how} {directory}: choose a separate path outside of it"),
    ))
}

/// A path without links and dots. The part that does not exist yet remains as written.
fn real(path: &Path) -> io::Result<PathBuf> {
    let mut found = PathBuf::new();
    for component in std::path::absolute(path)?.components() {
        match component {
            Component::ParentDir => {
                found.pop();
            }
            Component::CurDir => {}
            component => {
                found.push(component);
                match found.canonicalize() {
                    Ok(real) => found = real,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn check_apart_follows_links_and_dots() {
        let directory = tempfile::tempdir().unwrap();
        let base = directory.path();
        let data = base.join("data");
        fs::create_dir_all(data.join("journal")).unwrap();
        fs::create_dir(base.join("else")).unwrap();
        symlink(data.join("journal"), base.join("else/link")).unwrap();
        symlink("nowhere", base.join("else/dangling")).unwrap();
        for (target, how) in [
            ("data", "is the same as"),
            ("data/.", "is the same as"),
            ("else/../data", "is the same as"),
            ("data/backup", "lies within"),
            ("data/new/backup", "lies within"),
            ("new/../data/backup", "lies within"),
            ("else/link", "lies within"),
            ("else/link/new", "lies within"),
            (".", "holds"),
            ("", "holds"),
        ] {
            let failure = check_apart(&data, &base.join(target)).expect_err(target);
            assert_eq!(failure.exit, Exit::Usage);
            assert!(failure.message.contains(&format!(" {how} {}", data.display())), "{target}: {failure}");
        }
        for target in ["else", "database", "data-backup/data", "new", "else/dangling", "data/../backup"] {
            assert_eq!(check_apart(&data, &base.join(target)), Ok(()), "{target}");
        }
    }
}
