//! What operators write.

use std::io::Write;

use upesi_hub::config::{Sources, load};
use upesi_hub::scheme;
use upesi_parties::import::{Chunk, Columns, Conflict};
use upesi_quoting::Rules;

/// A configuration file.
pub(crate) fn config(input: &[u8]) {
    let mut file = tempfile::NamedTempFile::new_in(memory()).expect("a temporary file");
    file.write_all(input).expect("is written");
    let sources = Sources { file: Some(file.path().to_path_buf()), ..Sources::default() };
    if let Err(mistakes) = load(&sources) {
        assert!(!mistakes.is_empty());
        assert!(mistakes.iter().all(|mistake| !mistake.text.is_empty()));
    }
}

/// A scheme file.
pub(crate) fn scheme_file(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Err(mistakes) = scheme::file::parse("scheme.toml", text) {
        assert!(!mistakes.is_empty());
    }
}

/// A file of quote rules.
pub(crate) fn quote_rules(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let _understood_or_refused = Rules::parse(text);
}

/// A file of parties with a header or without one.
pub(crate) fn party_file(input: &[u8]) {
    let header = input.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
    let columns = std::str::from_utf8(header).map(Columns::parse);
    let (columns, lines) = match columns {
        Ok(Ok(columns)) => (columns, &input[header.len()..]),
        _ => (Columns::default(), input),
    };
    let _understood_or_refused = Chunk::read(lines, 1, &columns, Conflict::Refuse, |_| true);
}

/// Where files cost no disk, if there is such a place.
pub(super) fn memory() -> std::path::PathBuf {
    let memory = std::path::Path::new("/dev/shm");
    if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() }
}
