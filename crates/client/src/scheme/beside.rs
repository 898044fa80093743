//! Files named in a scheme file: certificates and keys of DFSPs, in its directory or below.

use std::fs;
use std::io;
use std::path::{Component, Path};

use upesi_keys::read_limited_text;

/// Maximum size of such a file, in bytes: a certificate with its intermediates.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// The text of a file beside the scheme file.
///
/// # Errors
/// The reason why it cannot be read, as the rest of a sentence.
pub(super) fn read(directory: &Path, name: &str) -> Result<String, String> {
    let path = Path::new(name);
    let is_below =
        path.components().all(|component| matches!(component, Component::Normal(_) | Component::CurDir));
    if !is_below || name.is_empty() {
        return Err("must be the name of a file in the scheme file's directory or below".to_owned());
    }
    // A path without a directory is in the current one.
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let cannot = |error: io::Error| format!("cannot be read: {error}");
    let (root, file) = (fs::canonicalize(directory), fs::canonicalize(directory.join(path)));
    let (root, file) = (root.map_err(cannot)?, file.map_err(cannot)?);
    if !file.starts_with(&root) {
        return Err("is outside the scheme file's directory".to_owned());
    }
    // Reading a pipe would block.
    if !fs::metadata(&file).map_err(cannot)?.is_file() {
        return Err("is not a file".to_owned());
    }
    read_limited_text(&file, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => format!("is larger than {FILE_BYTES_MAX} bytes"),
        _ => cannot(error),
    })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn read_rejects_files_outside_the_directory() {
        let outer = tempfile::tempdir().unwrap();
        let directory = outer.path().join("scheme");
        fs::create_dir_all(directory.join("keys")).unwrap();
        fs::write(outer.path().join("outside.pem"), "outside").unwrap();
        fs::write(directory.join("inside.pem"), "inside").unwrap();
        fs::write(directory.join("keys/below.pem"), "below").unwrap();
        fs::write(directory.join("large.pem"), vec![b'x'; 64 * 1024 + 1]).unwrap();
        fs::write(directory.join("exact.pem"), vec![b'x'; 64 * 1024]).unwrap();
        symlink(outer.path().join("outside.pem"), directory.join("out.pem")).unwrap();
        symlink("inside.pem", directory.join("in.pem")).unwrap();
        symlink("/dev/zero", directory.join("endless.pem")).unwrap();
        let outside = outer.path().join("outside.pem").display().to_string();
        for (name, expected) in [
            ("inside.pem", Ok("inside")),
            ("./keys/below.pem", Ok("below")),
            ("in.pem", Ok("inside")),
            ("exact.pem", Ok("x")),
            ("../outside.pem", Err("must be the name of a file")),
            ("keys/../../outside.pem", Err("must be the name of a file")),
            (&*outside, Err("must be the name of a file")),
            ("", Err("must be the name of a file")),
            ("out.pem", Err("is outside the scheme file's directory")),
            ("endless.pem", Err("is outside the scheme file's directory")),
            ("keys", Err("is not a file")),
            ("large.pem", Err("is larger than 65536 bytes")),
            ("missing.pem", Err("cannot be read: No such file")),
        ] {
            let read = read(&directory, name);
            let fits = match (&read, expected) {
                (Ok(text), Ok(begins)) => text.starts_with(begins),
                (Err(problem), Err(begins)) => problem.starts_with(begins),
                _ => false,
            };
            assert!(fits, "{name}: {read:?}");
        }
    }
}
