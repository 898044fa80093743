//! Files from outside, read up to a limit.
//!
//! The length that a file system reports does not limit a read: a device such as `/dev/zero` has length 0 and no end,
//! and a file can grow while it is read.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// The bytes of a file. At most one byte more than the limit is read.
///
/// # Errors
/// The file cannot be read; [`ErrorKind::FileTooLarge`] if it has more than `bytes_max` bytes.
pub fn read_limited(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    read_opened(File::open(path)?, bytes_max)
}

/// The text of a file; see [`read_limited`].
///
/// # Errors
/// As [`read_limited`]; [`ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_limited_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    String::from_utf8(read_limited(path, bytes_max)?)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

pub(crate) fn read_opened(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let problem = format!("it is longer than {bytes_max} bytes");
        return Err(io::Error::new(ErrorKind::FileTooLarge, problem));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_end_is_too_large_and_one_at_the_limit_is_read() {
        for device in ["/dev/zero", "/dev/urandom"] {
            let error = read_limited(Path::new(device), 4_096).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::FileTooLarge, "{device}");
        }
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "four").unwrap();
        assert_eq!(read_limited_text(&path, 4).unwrap(), "four");
        assert_eq!(read_limited(&path, 3).unwrap_err().kind(), ErrorKind::FileTooLarge);
        assert_eq!(read_limited(&directory.path().join("none"), 3).unwrap_err().kind(), ErrorKind::NotFound);
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_limited_text(&path, 4).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
