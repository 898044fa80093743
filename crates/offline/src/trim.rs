//! `upesi trim`: frees space on a full disk. It releases the reserve and removes old segments of the journal.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use upesi_engine::{EngineOptions, StartError, first_needed_record, rehearse};
use upesi_journal::{DataDirectory, Disk, SegmentInfo, delete_segments_below, durable, segments};
use upesi_process::exit::{Exit, Failure};

use crate::directory::{directory_exit, journal_failure, start_exit};
use crate::reserve;

/// Segment size of [`catch_up`], in bytes. It allocates one segment in advance, and the space is needed for the archive
/// and a snapshot.
const SEGMENT_BYTES: u64 = 1 << 20;

/// Arguments of `upesi trim`.
#[derive(Args, Clone, Debug)]
pub struct TrimArguments {
    /// The data directory. Its hub must be stopped.
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    /// Move the segments to this directory, on another volume.
    #[arg(long, value_name = "DIR", conflicts_with = "delete")]
    #[arg(required_unless_present_any = ["delete", "release_reserve"])]
    pub to: Option<PathBuf>,
    /// Delete the segments. Their history can then no longer be audited, and the archive can no longer be rebuilt from
    /// it.
    #[arg(long)]
    pub delete: bool,
    /// First release the space of the file `reserve`, and use it to bring archive and snapshot up to date, so that more
    /// segments can be removed. The next start with enough space allocates the reserve again.
    #[arg(long)]
    pub release_reserve: bool,
    /// Only report the changes, without making them.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Result of a trim.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TrimReport {
    /// First record that a start or an undelivered callback needs.
    pub first_needed_record: u64,
    /// First record that remains.
    pub first_record: u64,
    /// Number of removed segments.
    pub segments: u64,
    /// Size of the removed segments, in bytes.
    pub bytes: u64,
    /// Size of the released reserve, in bytes.
    pub released_bytes: u64,
    /// Reason why archive and snapshot could not be brought up to date.
    pub held_up: Option<String>,
    /// Whether this was a dry run.
    pub dry_run: bool,
}

impl TrimReport {
    /// The report as text.
    pub fn to_text(&self) -> String {
        let done = if self.dry_run { "could be removed" } else { "removed" };
        let mut text = String::new();
        if self.released_bytes > 0 {
            let done = if self.dry_run { "could be released" } else { "released" };
            text += &format!("the reserve {done} ({} bytes)\n", self.released_bytes);
        }
        if let Some(error) = &self.held_up {
            text += &format!("archive and snapshot are not up to date: {error}\n");
        }
        text += &format!(
            "{} segments {done} ({} bytes); the journal begins with record {}; the first needed record is {}\n",
            self.segments, self.bytes, self.first_record, self.first_needed_record
        );
        if self.segments == 0 && self.released_bytes == 0 {
            text += "No segment can be removed: enlarge the volume, or move files of other programs away from it.\n";
        }
        text
    }
}

/// Moves or deletes the segments that neither a start nor an undelivered callback needs, oldest first. It needs no free
/// space on the volume of the data directory. If it is interrupted, the journal has no gap, and the trim can be
/// repeated.
///
/// # Errors
/// 66 if the data directory does not exist, 75 if a hub uses it, 65 if a start would fail, 73 if the target cannot be
/// written, 74 if the disk fails.
pub fn trim(arguments: &TrimArguments) -> Result<TrimReport, Failure> {
    let data = &arguments.data;
    let directory_failure = |error| Failure::new(directory_exit(&error), error);
    // Opening for writing would create a missing directory.
    DataDirectory::open_for_reading(data).map_err(directory_failure)?;
    let mut directory = DataDirectory::open(data).map_err(directory_failure)?;
    let (mut released_bytes, mut held_up) = (0, None);
    if arguments.release_reserve && arguments.dry_run {
        released_bytes = reserve::bytes(data);
    } else if arguments.release_reserve {
        let failed = |error| Failure::new(Exit::InputOutput, format!("{}: {error}", data.display()));
        released_bytes = reserve::release(data).map_err(failed)?;
        // A start locks the directory itself.
        drop(directory);
        held_up = catch_up(data)?;
        directory = DataDirectory::open(data).map_err(directory_failure)?;
    }
    let disk = directory.disk();
    let needed = first_needed_record(&disk).map_err(start_failure)?;
    let all = segments(&*disk).map_err(journal_failure)?;
    let may_go = arguments.delete || arguments.to.is_some();
    let goes = |segment: &&SegmentInfo| may_go && segment.last_seq.is_some_and(|last| last < needed);
    let going: Vec<&SegmentInfo> = all.iter().take_while(goes).collect();
    let report = TrimReport {
        first_needed_record: needed,
        first_record: all.get(going.len()).map_or(0, |segment| segment.first_seq),
        segments: going.len() as u64,
        bytes: going.iter().map(|segment| segment.bytes).sum(),
        released_bytes,
        held_up,
        dry_run: arguments.dry_run,
    };
    if !arguments.dry_run {
        take_away(&going, &disk, arguments)?;
    }
    Ok(report)
}

/// Does the work of a start and its archivist before the first command, up to a snapshot. Returns the reason if there
/// was not enough space for it.
fn catch_up(data: &Path) -> Result<Option<String>, Failure> {
    let options = EngineOptions { segment_bytes: SEGMENT_BYTES, ..EngineOptions::new(data) };
    match rehearse(&options) {
        Err(error) if error.is_lack_of_room() => Ok(Some(error.to_string())),
        Err(error) => Err(start_failure(error)),
        Ok(_) => Ok(None),
    }
}

fn take_away(going: &[&SegmentInfo], disk: &Arc<dyn Disk>, arguments: &TrimArguments) -> Result<(), Failure> {
    for segment in going {
        if let Some(to) = &arguments.to {
            copy(&arguments.data.join(&segment.file), to)
                .map_err(|error| Failure::new(Exit::CannotCreate, format!("{}: {error}", to.display())))?;
        }
        remove(disk, segment)?;
    }
    Ok(())
}

fn remove(disk: &Arc<dyn Disk>, segment: &SegmentInfo) -> Result<(), Failure> {
    let below = segment.last_seq.map_or(0, |last| last + 1);
    delete_segments_below(&**disk, below).map(drop).map_err(journal_failure)
}

/// Copies a file into a directory, and syncs content and name, so that the original can be removed.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    durable::create_directory(to)?;
    let name = from.file_name().ok_or_else(|| io::Error::other("a segment without a name"))?;
    let (target, mut unfinished) = (to.join(name), to.join(name));
    unfinished.set_extension("tmp");
    fs::copy(from, &unfinished)?;
    File::open(&unfinished)?.sync_all()?;
    fs::rename(&unfinished, &target)?;
    durable::sync_directory(to)
}

fn start_failure(error: StartError) -> Failure {
    match error {
        StartError::Journal(error) => journal_failure(error),
        other => Failure::new(start_exit(&other), other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(data: &Path) -> TrimArguments {
        TrimArguments {
            data: data.to_owned(),
            to: None,
            delete: true,
            release_reserve: false,
            dry_run: false,
            json: false,
        }
    }

    #[test]
    fn trim_of_another_directory_creates_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let missing = directory.path().join("missing");
        assert_eq!(trim(&arguments(&missing)).unwrap_err().exit, Exit::NoInput);
        assert!(!missing.exists());
        assert_eq!(trim(&arguments(directory.path())).unwrap_err().exit, Exit::Data);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn trim_without_snapshot_removes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        drop(DataDirectory::open(directory.path()).unwrap());
        let report = trim(&arguments(directory.path())).unwrap();
        assert_eq!((report.segments, report.first_needed_record), (0, 1));
        assert!(report.to_text().contains("No segment can be removed"), "{}", report.to_text());
    }

    #[test]
    fn trim_of_a_directory_in_use_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let _hub = DataDirectory::open(directory.path()).unwrap();
        assert_eq!(trim(&arguments(directory.path())).unwrap_err().exit, Exit::Temporary);
    }

    #[test]
    fn trim_needs_a_target_or_permission_to_delete() {
        use clap::Parser;

        #[derive(Parser)]
        struct Trim {
            #[command(flatten)]
            _arguments: TrimArguments,
        }

        let parsed = |words: &str| Trim::try_parse_from(words.split(' ').skip(1)).is_ok();
        assert!(parsed("upesi trim data --to old"));
        assert!(parsed("upesi trim data --to old --dry-run --json"));
        assert!(parsed("upesi trim data --delete --dry-run"));
        assert!(parsed("upesi trim data --release-reserve --to old"));
        assert!(parsed("upesi trim data --release-reserve"));
        for words in ["trim data", "trim --delete", "trim data --dry-run", "trim data --delete --to old"] {
            assert!(!parsed(&format!("upesi {words}")), "{words}");
        }
    }
}
