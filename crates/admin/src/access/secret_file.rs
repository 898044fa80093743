//! Files of the data directory with the digest of a secret: whoever may write there owns the hub anyhow.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Longest file that is read.
const BYTES_MAX: u64 = 256;

/// The text of such a file.
pub(super) fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    fs::File::open(file)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Writes a file anew that only its owner reads: it has the new text, or the old one.
///
/// # Errors
/// Its directory cannot be written to.
pub fn replace_private(file: &Path, text: &str) -> io::Result<()> {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".new");
    match fs::remove_file(&beside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
    opened.write_all(text.as_bytes())?;
    opened.sync_all()?;
    fs::rename(&beside, file)
}

/// Whether what is good until a second, as it is written, is good now. More than its lifetime ahead, the clock was
/// wrong, then or now.
pub(super) fn is_good(until_s: &str, now_s: u64, lifetime_s: u64) -> bool {
    let left_s = until_s.parse().ok().and_then(|until_s: u64| until_s.checked_sub(now_s));
    left_s.is_some_and(|left_s| (1..=lifetime_s).contains(&left_s))
}

/// Seconds since 1970, by the machine's clock: the commands that write such files run without a hub.
pub(super) fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
