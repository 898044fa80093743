//! `upesi trim`: makes room on a full disk by taking old segments of the journal away.

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use upesi_engine::{StartError, first_needed_record};
use upesi_journal::{DataDirectory, Disk, SegmentInfo, delete_segments_below, durable, segments};

use crate::exit::{Exit, Failure};
use crate::inspect::{directory_exit, journal_failure};

/// Arguments of `upesi trim`.
#[derive(Args, Clone, Debug)]
pub struct TrimArguments {
    /// The data directory; its hub must be stopped.
    #[arg(value_name = "DIR")]
    pub data: PathBuf,
    /// Directory, on another volume, that the segments are moved to.
    #[arg(long, value_name = "DIR", conflicts_with = "delete", required_unless_present = "delete")]
    pub to: Option<PathBuf>,
    /// Delete the segments. The history in them can then no longer be audited, nor the archive rebuilt.
    #[arg(long)]
    pub delete: bool,
    /// Only report what would be done.
    #[arg(long)]
    pub dry_run: bool,
    /// Print one JSON object instead of text.
    #[arg(long)]
    pub json: bool,
}

/// What was taken away.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct TrimReport {
    /// The first record that a start or an undelivered callback needs.
    pub first_needed_record: u64,
    /// The first record that is left.
    pub first_record: u64,
    /// Segments taken away.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Whether nothing was done yet.
    pub dry_run: bool,
}

impl TrimReport {
    /// For people.
    pub fn to_text(&self) -> String {
        let done = if self.dry_run { "could be taken away" } else { "taken away" };
        let mut text = format!(
            "{} segments {done} ({} bytes); the journal begins with record {}, and record {} is needed\n",
            self.segments, self.bytes, self.first_record, self.first_needed_record
        );
        if self.segments == 0 {
            text += "Nothing can go: enlarge the volume, or move what is not the hub's away from it.\n";
        }
        text
    }
}

/// Moves or deletes the segments that neither a start nor an undelivered callback needs, the oldest first. Needs no
/// room on the volume of the data directory. Interrupted, it leaves a journal without a gap, and can be repeated.
///
/// # Errors
/// 66 where there is no data directory, 75 where a hub uses it, 65 where its snapshot is damaged, 73 where the
/// target cannot be written, 74 where the disk fails.
pub fn trim(arguments: &TrimArguments) -> Result<TrimReport, Failure> {
    let directory_failure = |error| Failure::new(directory_exit(&error), error);
    // Opening for writing makes a directory where there is none.
    DataDirectory::open_for_reading(&arguments.data).map_err(directory_failure)?;
    let directory = DataDirectory::open(&arguments.data).map_err(directory_failure)?;
    let disk = directory.disk();
    let needed = first_needed_record(&disk).map_err(start_failure)?;
    let all = segments(&*disk).map_err(journal_failure)?;
    let goes = |segment: &&SegmentInfo| segment.last_seq.is_some_and(|last| last < needed);
    let going: Vec<&SegmentInfo> = all.iter().take_while(goes).collect();
    let report = TrimReport {
        first_needed_record: needed,
        first_record: all.get(going.len()).map_or(0, |segment| segment.first_seq),
        segments: going.len() as u64,
        bytes: going.iter().map(|segment| segment.bytes).sum(),
        dry_run: arguments.dry_run,
    };
    if arguments.dry_run {
        return Ok(report);
    }
    for segment in going {
        if let Some(to) = &arguments.to {
            copy(&arguments.data.join(&segment.file), to)
                .map_err(|error| Failure::new(Exit::CannotCreate, format!("{}: {error}", to.display())))?;
        }
        remove(&disk, segment)?;
    }
    Ok(report)
}

fn remove(disk: &Arc<dyn Disk>, segment: &SegmentInfo) -> Result<(), Failure> {
    let below = segment.last_seq.map_or(0, |last| last + 1);
    delete_segments_below(&**disk, below).map(drop).map_err(journal_failure)
}

/// Copies a file into a directory, durably, bytes and name, so that the original may go.
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
        other => Failure::new(Exit::Data, other),
    }
}
