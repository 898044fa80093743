//! `upesi audit verify`: an export of the audit trail, verified without the journal.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::path::PathBuf;

use upesi_admin::ExportedEntry;

use super::trail::{Verifier, read_checkpoints};
use crate::exit::{Exit, Failure};

/// Longest line of an export: an entry has ten texts of 512 bytes, of which JSON may write each byte as six.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// What to verify, and by what.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// The lines of `upesi audit trail --json`.
    pub export: PathBuf,
    /// The entry that it begins with.
    pub first: u64,
    /// A file with checkpoints, and the public key that signed them.
    pub checkpoints: Option<(PathBuf, PathBuf)>,
}

/// Verifies the chain of an export, and the checkpoints. `tell` gets the result in words.
///
/// # Errors
/// 65 if the export is not what the hub wrote, 66 if a file cannot be read.
pub fn verify_export(options: &ExportOptions, tell: &mut dyn Write) -> Result<(), Failure> {
    let mut verifier = Verifier::new(std::collections::BTreeMap::new());
    let checkpoints = match &options.checkpoints {
        None => 0,
        Some((file, key)) => read_checkpoints(file, key, &mut verifier)?,
    };
    let shown = options.export.display();
    let refuse = |error: io::Error| Failure::new(Exit::NoInput, format!("{shown}: {error}"));
    let mut lines = BufReader::new(File::open(&options.export).map_err(refuse)?);
    let mut record = 0;
    for number in 1_u64.. {
        let mut line = String::new();
        if lines.by_ref().take(LINE_BYTES_MAX).read_line(&mut line).map_err(refuse)? == 0 {
            break;
        }
        let place = format!("line {number}");
        let Some(text) = line.strip_suffix('\n') else {
            verifier.breaks_at(format!("{place} does not end: the export was cut off"));
            break;
        };
        match ExportedEntry::parse(text) {
            Err(error) => verifier.breaks_at(format!("{place} is no entry of an export: {error}")),
            Ok(row) => {
                if row.record <= record {
                    verifier.breaks_at(format!("{place}: record {} follows record {record}", row.record));
                }
                record = row.record;
                verifier.link_exported(&place, &row.entry, &row.effects, options.first.max(1));
            }
        }
    }
    verifier.finish();
    let _ = writeln!(tell, "{}", verifier.summary(None, checkpoints));
    verifier.outcome()
}
