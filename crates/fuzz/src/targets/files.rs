//! What operators write.

use std::io::Write;

use upesi::config::{Sources, load};
use upesi::scheme;
use upesi_quoting::Rules;

/// One text, read as a configuration file, as a scheme file and as a file of quote rules.
pub(crate) fn config(input: &[u8]) {
    let mut file = tempfile::NamedTempFile::new_in(memory()).expect("a temporary file");
    file.write_all(input).expect("is written");
    let sources = Sources { file: Some(file.path().to_path_buf()), ..Sources::default() };
    if let Err(mistakes) = load(&sources) {
        assert!(!mistakes.is_empty());
        assert!(mistakes.iter().all(|mistake| !mistake.text.is_empty()));
    }
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(mistakes) = scheme::file::parse("scheme.toml", text) {
        assert!(!mistakes.is_empty());
    }
    let _understood_or_refused = Rules::parse(text);
}

/// Where files cost no disk, if there is such a place.
pub(super) fn memory() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
}
