//! Files from outside, read up to a limit.
//!
//! The length that a file system reports does not limit a read: a device such as `/dev/zero` has length 0 and no end,
//! and a file can grow while it is read.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;

/// The bytes of a file. Reads at most one byte more than the limit.
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
    let bytes = read_limited(path, bytes_max)?;
    if let Some(form) = OtherForm::of(&bytes) {
        return Err(io::Error::new(ErrorKind::InvalidData, form));
    }
    String::from_utf8(bytes).map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8"))
}

/// A form of file other than UTF-8 text, as its first bytes show.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OtherForm {
    /// Text in UTF-16, as some editors and spreadsheets save it.
    #[error("it is text in UTF-16: save it as UTF-8")]
    Utf16,
    /// A workbook of current spreadsheets.
    #[error("it is a workbook (XLSX) or another ZIP archive, not a text")]
    Workbook,
    /// A workbook of spreadsheets before 2007.
    #[error("it is a workbook of an old form (XLS), not a text")]
    OldWorkbook,
}

impl OtherForm {
    /// The form of a file that begins with these bytes; `None` if it may be text in UTF-8.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        match bytes {
            // Without a byte-order mark, every second byte of ASCII letters is 0.
            [0xff, 0xfe, ..]
            | [0xfe, 0xff, ..]
            | [1..=0xff, 0, 1..=0xff, 0, ..]
            | [0, 1..=0xff, 0, 1..=0xff, ..] => Some(Self::Utf16),
            [b'P', b'K', 3, 4, ..] => Some(Self::Workbook),
            [0xd0, 0xcf, 0x11, 0xe0, ..] => Some(Self::OldWorkbook),
            _ => None,
        }
    }

    /// The problem and the remedy if a table is expected.
    pub fn instead_of_csv(self) -> String {
        match self {
            Self::Utf16 => self.to_string(),
            Self::Workbook | Self::OldWorkbook => format!("{self}: save its sheet as CSV"),
        }
    }
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
    fn file_above_the_limit_is_rejected() {
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
        for (bytes, problem) in [
            (&b"\xff\xfea\0"[..], "it is text in UTF-16: save it as UTF-8"),
            (b"\xfe\xff\0a", "it is text in UTF-16: save it as UTF-8"),
            (b"a\0b\0", "it is text in UTF-16: save it as UTF-8"),
            (b"\0a\0b", "it is text in UTF-16: save it as UTF-8"),
            (b"PK\x03\x04", "it is a workbook (XLSX) or another ZIP archive, not a text"),
            (b"\xd0\xcf\x11\xe0", "it is a workbook of an old form (XLS), not a text"),
            (b"a\0\xff\0", "it is text in UTF-16: save it as UTF-8"),
            (b"\xffabc", "it is not UTF-8"),
        ] {
            std::fs::write(&path, bytes).unwrap();
            let error = read_limited_text(&path, 4).unwrap_err();
            assert_eq!((error.kind(), &*error.to_string()), (ErrorKind::InvalidData, problem));
        }
        std::fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_limited_text(&path, 4).unwrap_err().kind(), ErrorKind::InvalidData);
    }
}
