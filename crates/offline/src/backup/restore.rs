//! Restores a data directory from a backup.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use upesi_journal::durable;
use upesi_process::exit::{Exit, Failure};
use upesi_process::progress::Progress;
use upesi_replication::CHECKPOINT_FILE;

use super::files;
use super::files::FileBelow;
use super::manifest::{DATA, Entry, Manifest};
use crate::apart::check_apart;
use crate::audit;
use crate::audit::{AuditOptions, AuditReport};
use crate::backup::mark::RestoreMark;

/// Arguments of `upesi restore`.
#[derive(Args, Clone, Debug)]
pub struct RestoreArguments {
    /// The backup, created by `upesi backup`.
    #[arg(long, value_name = "DIR")]
    pub from: PathBuf,
    /// The new data directory; it must be missing or empty.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// For the backup of a node of a cluster: restore it as a standalone hub, which leaves the cluster. Otherwise the
    /// directory belongs to a node of the cluster and continues where the backup ends.
    #[arg(long)]
    pub alone: bool,
    /// Accept findings about rules: the hub's decisions differ from the auditor's rules, while data and sums are right.
    /// The next start records this in the audit trail. You can use the flag for a directory that was already restored
    /// from this backup, which is then not copied again.
    #[arg(long)]
    pub accept_findings: bool,
    /// Print the audit as one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Result of a restore.
#[derive(Debug)]
pub struct RestoreReport {
    /// Number of restored files; 0 if the directory had been restored before.
    pub files: u64,
    /// Size of the restored files, in bytes.
    pub bytes: u64,
    /// Audit of the restored directory: no findings, or findings about rules.
    pub audit: AuditReport,
    /// Whether a hub may start on the directory.
    pub is_accepted: bool,
}

/// Restores a backup, verifies each file, and audits the result before it is moved into place.
///
/// Damage and wrong sums end the restore. With findings about rules, the directory is moved into place, and a hub
/// starts on it once they are accepted.
///
/// # Errors
/// 64 if the data directory is within the backup or contains it; 66 if the backup does not exist; 65 if it is damaged,
/// or its sums are wrong; 73 if the data directory is not empty or cannot be written.
pub fn restore(arguments: &RestoreArguments) -> Result<RestoreReport, Failure> {
    let RestoreArguments { from, data, .. } = arguments;
    check_apart(from, data)?;
    let manifest = Manifest::read(from).map_err(|reason| {
        Failure::new(Exit::NoInput, format!("{} is not a complete backup: {reason}", from.display()))
    })?;
    manifest.check_paths().map_err(|reason| {
        Failure::new(Exit::Data, format!("{} is not a backup: {reason}", from.display()))
    })?;
    let failed = |error: io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", data.display()));
    if !is_free(data).map_err(failed)? {
        return accept_restored(arguments, &manifest);
    }
    let unfinished = beside(data);
    let bytes = copy_into(&unfinished, arguments, &manifest)?;
    let audit = audit_of(&unfinished, &manifest)?;
    let is_accepted = audit.is_sound() || arguments.accept_findings;
    RestoreMark::of(&audit, is_accepted).leave(&unfinished).map_err(failed)?;
    files::sync_directories(&unfinished).map_err(failed)?;
    fs::rename(&unfinished, data).and_then(|()| durable::sync_parent(data)).map_err(failed)?;
    Ok(RestoreReport { files: manifest.files.len() as u64, bytes, audit, is_accepted })
}

/// Copies the files of a backup into a new directory, and returns their bytes.
fn copy_into(unfinished: &Path, arguments: &RestoreArguments, manifest: &Manifest) -> Result<u64, Failure> {
    let RestoreArguments { from, data, .. } = arguments;
    let failed = |error: io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", data.display()));
    match fs::remove_dir_all(unfinished) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => other.map_err(failed)?,
    }
    if let Some(parent) = unfinished.parent() {
        durable::create_directory(parent).map_err(failed)?;
    }
    files::create_private_directory(unfinished)
        .and_then(|()| durable::sync_parent(unfinished))
        .map_err(failed)?;
    let mut bytes = 0;
    let total = manifest.files.iter().map(|entry| entry.bytes).fold(0, u64::saturating_add);
    let progress = Progress::bytes("restoring files", total);
    let is_left_out = |entry: &&Entry| arguments.alone && entry.path == CHECKPOINT_FILE;
    for entry in manifest.files.iter().filter(|entry| !is_left_out(entry)) {
        let inner = format!("{DATA}/{}", entry.path);
        let source = FileBelow { root: from, path: &inner };
        let target = FileBelow { root: unfinished, path: &entry.path };
        let crc = files::copy(source, target, entry.bytes, &progress).map_err(|error| {
            let is_wrong = error.kind() == io::ErrorKind::InvalidData;
            let exit = if is_wrong { Exit::Data } else { Exit::InputOutput };
            Failure::new(exit, format!("cannot copy {}: {error}", source.full().display()))
        })?;
        if crc != entry.crc32c {
            let text = format!(
                "{} is damaged: its checksum differs from the backup's manifest",
                source.full().display()
            );
            return Err(Failure::new(Exit::Data, text));
        }
        bytes += entry.bytes;
    }
    Ok(bytes)
}

/// With `--accept-findings`, accepts the findings about rules of a directory that was restored from this backup before.
fn accept_restored(arguments: &RestoreArguments, manifest: &Manifest) -> Result<RestoreReport, Failure> {
    let data = &arguments.data;
    let failed = |error: io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", data.display()));
    let mark = RestoreMark::read(data).map_err(failed)?;
    let is_waiting = mark.is_some_and(|mark| !mark.is_accepted && mark.last_record == manifest.last_record);
    if !arguments.accept_findings || !is_waiting {
        let text =
            format!("{} is not empty: a restore does not overwrite data; move it away", data.display());
        return Err(Failure::new(Exit::CannotCreate, text));
    }
    let audit = audit_of(data, manifest)?;
    RestoreMark::of(&audit, true).replace(data).map_err(failed)?;
    Ok(RestoreReport { files: 0, bytes: 0, audit, is_accepted: true })
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
    let is_complete = report.last_seq == manifest.last_record;
    if report.is_whole() && is_complete {
        return Ok(report);
    }
    let text = if is_complete { String::new() } else { format!("it ends at record {}\n", report.last_seq) };
    Err(Failure::new(
        Exit::Data,
        format!(
            "the restored data failed the audit and was left in {}:\n{text}{}",
            restored.display(),
            audit::to_text(&report)
        ),
    ))
}
