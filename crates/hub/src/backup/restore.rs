//! From a backup to a data directory.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;
use upesi_engine::{EngineHandle, Payload};
use upesi_journal::durable;
use upesi_ledger::command::{Act, Deed};
use upesi_ledger::{Attribution, Change, Command};
use upesi_replication::PLACE_FILE;

use super::files::{Entry, Manifest};
use super::{DATA, check_apart, files};
use crate::exit::{Exit, Failure};
use crate::inspect::audit;
use crate::inspect::audit::{AuditOptions, AuditReport};

/// Arguments of `upesi restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreArguments {
    /// The backup, as `upesi backup` made it.
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// The new data directory: absent or empty.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Of a node of a cluster: for a hub of its own, which leaves that cluster. Without it the directory is that of a
    /// node, and goes on where the backup ends.
    #[arg(long)]
    pub alone: bool,
    /// Print one JSON object, the audit's, instead of text.
    #[arg(long)]
    pub json: bool,
}

/// What was restored.
#[derive(Debug)]
pub struct RestoreReport {
    /// Files restored.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What the audit of the restored directory found: nothing.
    pub audit: AuditReport,
}

/// Restores a backup, file by file verified, and audits it before it takes its place.
///
/// # Errors
/// 64 where the data directory lies within the backup or holds it; 66 where there is no backup; 65 where it is
/// damaged, or its audit fails; 73 where the data directory is not empty or cannot be written.
pub fn restore(arguments: &RestoreArguments) -> Result<RestoreReport, Failure> {
    let RestoreArguments { from, data, .. } = arguments;
    check_apart(from, data)?;
    let manifest = Manifest::read(from).map_err(|reason| {
        Failure::new(Exit::NoInput, format!("{} is no whole backup: {reason}", from.display()))
    })?;
    let failed = |error: io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", data.display()));
    if !is_free(data).map_err(failed)? {
        let text = format!("{} is not empty: nothing is restored over data; move it away", data.display());
        return Err(Failure::new(Exit::CannotCreate, text));
    }
    let unfinished = beside(data);
    if unfinished.exists() {
        fs::remove_dir_all(&unfinished).map_err(failed)?;
    }
    durable::create_directory(&unfinished).map_err(failed)?;
    let mut bytes = 0;
    let is_left_out = |entry: &&Entry| arguments.alone && entry.path == PLACE_FILE;
    for entry in manifest.files.iter().filter(|entry| !is_left_out(entry)) {
        let source = from.join(DATA).join(&entry.path);
        let crc = files::copy(&source, &unfinished.join(&entry.path)).map_err(|error| {
            Failure::new(Exit::InputOutput, format!("cannot copy {}: {error}", source.display()))
        })?;
        if crc != entry.crc32c {
            let text = format!("{} is damaged: its checksum is not that of the backup", source.display());
            return Err(Failure::new(Exit::Data, text));
        }
        bytes += entry.bytes;
    }
    let audit = audit_of(&unfinished, &manifest)?;
    leave_mark(&unfinished, manifest.last_record).map_err(failed)?;
    files::sync_directories(&unfinished).map_err(failed)?;
    fs::rename(&unfinished, data).and_then(|()| durable::sync_parent(data)).map_err(failed)?;
    Ok(RestoreReport { files: manifest.files.len() as u64, bytes, audit })
}

fn is_free(data: &Path) -> io::Result<bool> {
    match fs::read_dir(data) {
        Ok(mut files) => Ok(files.next().is_none()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(error),
    }
}

fn beside(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(".restoring");
    name.into()
}

fn audit_of(restored: &Path, manifest: &Manifest) -> Result<AuditReport, Failure> {
    let options = AuditOptions { directory: restored.to_path_buf(), allow_live: false, with_archive: true };
    let report = audit::audit(&options)?;
    let is_whole = report.last_seq == manifest.last_record;
    if report.is_sound() && is_whole {
        return Ok(report);
    }
    let text = if is_whole { String::new() } else { format!("it ends at record {}\n", report.last_seq) };
    Err(Failure::new(
        Exit::Data,
        format!(
            "the restored data is not in order and was left in {}:\n{text}{}",
            restored.display(),
            audit::to_text(&report)
        ),
    ))
}

// The mark of a restore: a file in the restored directory, of which the hub makes an entry in the audit trail when
// it starts there. What was recorded after the backup is not in that trail: whoever reads it sees where it was taken
// back.

/// The file, which has the number of the backup's last record.
const MARK: &str = "restored";

/// Leaves the mark in a directory that was restored up to a record.
pub(super) fn leave_mark(directory: &Path, last_record: u64) -> io::Result<()> {
    let mut file = File::create_new(directory.join(MARK))?;
    writeln!(file, "{last_record}")?;
    file.sync_all()
}

/// Makes the entry, if there is a mark, and then removes that. A crash in between makes a second entry.
pub(crate) async fn enter_in_the_trail(data: &Path, handle: &EngineHandle) {
    let file = data.join(MARK);
    let Ok(text) = fs::read_to_string(&file) else { return };
    // Whoever may write here owns the hub anyhow; a number stays a number.
    let last_record: u64 = text.trim().parse().unwrap_or(0);
    let by = Attribution {
        operator: "restore".into(),
        known_by: "nothing".into(),
        address: None,
        on_behalf_of: None,
        action: "process.restore".into(),
        reason: None,
    };
    let to = format!("restored from a backup that ends with record {last_record}");
    let deed = Deed::Elsewhere(Change::new("data directory", "a later state", to));
    let command = Command::Act(Box::new(Act { by, deed, is_alone: true }));
    let entered = match handle.submit(command, Payload::default()).await {
        Ok(_) => fs::remove_file(&file).and_then(|()| durable::sync_parent(&file)),
        Err(error) => Err(io::Error::other(error.to_string())),
    };
    match entered {
        Ok(()) => tracing::warn!(last_record, "this data directory was restored from a backup"),
        Err(error) => {
            tracing::error!(%error, "the restore is not in the audit trail: the next start tries again")
        }
    }
}
