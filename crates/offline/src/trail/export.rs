//! `upesi trail verify`: verifies an export of the audit trail without the journal.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::path::PathBuf;

use upesi_admin::ExportedEntry;
use upesi_process::exit::{Exit, Failure};

use super::{Verifier, read_checkpoints};

/// Maximum length of a line of an export. An entry has ten texts of 512 bytes, and JSON may encode each byte as six.
const LINE_BYTES_MAX: u64 = 64 * 1024;

/// Options of the verification.
#[derive(Clone, Debug)]
pub struct ExportOptions {
    /// The lines of `upesi trail --json`.
    pub export: PathBuf,
    /// Number of its first entry.
    pub first: u64,
    /// A file with checkpoints, and the public key that verifies them.
    pub checkpoints: Option<(PathBuf, PathBuf)>,
}

/// Verifies the chain of an export, and the checkpoints. Writes the result as text to `tell`.
///
/// # Errors
/// 65 if the export was changed, 66 if a file cannot be read.
pub fn verify_export(options: &ExportOptions, tell: &mut dyn Write) -> Result<(), Failure> {
    let mut verifier = Verifier::new(BTreeMap::new());
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
            verifier.breaks_at(format!("{place} is incomplete: the export was cut off"));
            break;
        };
        match ExportedEntry::parse(text) {
            Err(error) => verifier.breaks_at(format!("{place} is not an entry of an export: {error}")),
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
