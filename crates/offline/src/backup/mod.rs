//! Backups of a data directory, with or without a running hub, and their restore.

mod files;
mod manifest;
mod mark;
mod restore;
mod staging;

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use upesi_journal::durable;
use upesi_process::exit::{Exit, Failure};
use upesi_process::progress::Progress;

use self::files::FileBelow;
use self::manifest::{DATA, Entry, Manifest, UNFINISHED_MANIFEST};
use crate::apart::check_apart;

pub use mark::{check_accepted, enter_in_the_trail};
pub use restore::{RestoreArguments, RestoreReport, restore};
pub(crate) use staging::Staging;

/// Arguments of `upesi backup`.
#[derive(Args, Clone, Debug)]
pub struct BackupArguments {
    /// The data directory; a hub may be using it.
    #[arg(long, value_name = "DIR")]
    pub data: PathBuf,
    /// Target directory, outside the data directory. If it already has a backup, only new files are copied.
    #[arg(long, value_name = "DIR")]
    pub to: PathBuf,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Content and cost of a backup.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct BackupReport {
    /// The backup's directory.
    pub to: PathBuf,
    /// The oldest record of the journal in it; 0 if there is none.
    pub first_record: u64,
    /// The last record in it, which is its point in time.
    pub last_record: u64,
    /// Time of the last record.
    pub last_time: String,
    /// Number of files copied by this run.
    pub files_copied: u64,
    /// Number of bytes copied by this run.
    pub bytes_copied: u64,
    /// Number of files that the backup already had.
    pub files_kept: u64,
    /// Number of files of the previous backup that are no longer needed.
    pub files_removed: u64,
}

impl BackupReport {
    /// The report as text.
    pub fn to_text(&self) -> String {
        format!(
            "backup in {}: records {} to {} ({})\n{} files copied ({} bytes), {} unchanged, {} removed\n",
            self.to.display(),
            self.first_record,
            self.last_record,
            self.last_time,
            self.files_copied,
            self.bytes_copied,
            self.files_kept,
            self.files_removed
        )
    }
}

/// Copies a data directory as of one moment, while a hub may be using it.
///
/// # Errors
/// See [`crate::directory::open`]; 64 if the target is within the data directory or contains it; 65 if the data is
/// damaged; 73 if the target cannot be written; 75 if another backup is running.
pub fn backup(arguments: &BackupArguments) -> Result<BackupReport, Failure> {
    let BackupArguments { data, to, .. } = arguments;
    check_apart(data, to)?;
    let staging = Staging::take(data)?;
    staging.cut_free_room()?;
    let failed =
        |error: std::io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", to.display()));
    if to.exists() && !Manifest::is_at(to) && !is_empty_or_unfinished(to).map_err(failed)? {
        let text = format!("{} is neither empty nor a backup: choose a separate directory", to.display());
        return Err(Failure::new(Exit::CannotCreate, text));
    }
    let previous = Manifest::read(to).unwrap_or_default();
    let to_data = to.join(DATA);
    durable::create_directory(&to_data).map_err(failed)?;
    if !to_data.symlink_metadata().map_err(failed)?.is_dir() {
        let text = format!("{} is a link: choose a directory without links", to_data.display());
        return Err(Failure::new(Exit::CannotCreate, text));
    }
    // From here until the new manifest is written this is not a backup.
    Manifest::remove(to).map_err(failed)?;
    let mut report = BackupReport {
        to: to.clone(),
        first_record: staging.first_record,
        last_record: staging.last_record,
        last_time: staging.last_time.to_string(),
        files_copied: 0,
        bytes_copied: 0,
        files_kept: 0,
        files_removed: 0,
    };
    let entries = copy_new(&staging, to, &previous, &mut report).map_err(failed)?;
    let wanted: HashSet<&str> = entries.iter().map(|entry| entry.path.as_str()).collect();
    report.files_removed = files::remove_others(&to.join(DATA), &wanted).map_err(failed)?;
    let manifest = Manifest::new(&staging, entries);
    manifest.write(to).map_err(failed)?;
    Ok(report)
}

/// Whether a directory is empty or has an interrupted backup: its data, possibly part of a manifest, but no manifest.
fn is_empty_or_unfinished(to: &Path) -> std::io::Result<bool> {
    let mut names = std::fs::read_dir(to)?.map(|file| file.map(|file| file.file_name()));
    names.try_fold(true, |is, name| {
        let name = name?;
        Ok(is && (name == DATA || name == UNFINISHED_MANIFEST))
    })
}

fn copy_new(
    staging: &Staging,
    to: &Path,
    previous: &Manifest,
    report: &mut BackupReport,
) -> std::io::Result<Vec<Entry>> {
    let to_data = to.join(DATA);
    let paths = files::below(&staging.path)?;
    let entries = paths.iter().map(|path| Entry::of(path, &staging.path.join(path)));
    let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
    let progress = Progress::bytes("copying files", entries.iter().map(|entry| entry.bytes).sum());
    for entry in &mut entries {
        let path = &*entry.path.clone();
        let (from, target) = (FileBelow { root: &staging.path, path }, FileBelow { root: &to_data, path });
        let kept = previous.entry(path).filter(|kept| kept.is_same_file(entry) && is_as(target, entry));
        if let Some(kept) = kept {
            entry.crc32c = kept.crc32c;
            report.files_kept += 1;
            progress.add(entry.bytes);
        } else {
            entry.crc32c = files::replace(from, target, entry.bytes, &progress)?;
            report.files_copied += 1;
            report.bytes_copied += entry.bytes;
        }
    }
    files::sync_directories(&to_data)?;
    Ok(entries)
}

fn is_as(target: FileBelow<'_>, entry: &Entry) -> bool {
    target.open().and_then(|file| file.metadata()).is_ok_and(|found| found.len() == entry.bytes)
}
