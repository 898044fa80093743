//! The sources of a stage's messages: a file, a hub that is recorded first, or generation.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::stream::{GenerateOptions, RecordOptions, Stream, StreamError};
use super::{Context, IsolatedError, scratch};
use crate::drive::run::run;
use crate::drive::session::DATA_DIRECTORY;
use crate::plan::load_profile::Load;
use crate::plan::options::RunOptions;
use crate::plan::stage::message::MessageKind;
use crate::plan::stage::source::{MESSAGES_MAX, Source};

impl Source {
    /// Reads the file, records a hub, or generates the stream, with as many messages as one repetition needs.
    pub fn load(&self, context: &Context, kind: MessageKind) -> Result<Stream, IsolatedError> {
        self.load_many(context, kind, self.messages)
    }

    /// Loads a stream with another number of messages.
    pub fn load_many(
        &self,
        context: &Context,
        kind: MessageKind,
        transfers: usize,
    ) -> Result<Stream, IsolatedError> {
        if let Some(path) = &self.stream {
            return Ok(Stream::read(path)?);
        }
        let (dfsps, body_bytes) = (self.dfsps, self.body_bytes);
        if self.is_recorded {
            return Recording { transfers, dfsps, body_bytes, kind }.make(context);
        }
        let defaults = GenerateOptions::default();
        Ok(Stream::generate(&GenerateOptions {
            transfers,
            dfsps,
            fulfils: kind == MessageKind::Fulfil,
            body_bytes: body_bytes.unwrap_or(defaults.body_bytes),
            seed: context.seed,
        })?)
    }
}

/// Virtual users that drive the hub.
const USERS: usize = 32;

#[derive(Clone, Copy, Debug)]
pub(super) struct Recording {
    pub transfers: usize,
    pub dfsps: usize,
    /// Approximate length of the bodies of prepares; `None` uses the DFSPs' default.
    pub body_bytes: Option<usize>,
    /// The kind of the measured messages: prepares, or the fulfils that follow them.
    pub kind: MessageKind,
}

impl Recording {
    /// Uses a kept recording of the same kind, or drives a hub and records it. The hub is durable and has its default
    /// settings.
    pub fn make(self, context: &Context) -> Result<Stream, IsolatedError> {
        let kept =
            context.surroundings.recordings.as_ref().map(|kept| kept.join(self.file_name(context.seed)));
        if let Some(stream) = kept.as_ref().and_then(|path| self.kept(path)) {
            return Ok(stream);
        }
        let stream = self.record(context)?;
        if let Some(path) = kept {
            keep(&stream, &path)?;
        }
        Ok(stream)
    }

    fn file_name(self, seed: u64) -> String {
        let kind = self.kind.name();
        let body = self.body_bytes.map_or_else(String::new, |bytes| format!("-of-{bytes}-bytes"));
        format!("{}-{kind}s{body}-{}-dfsps-seed-{seed}.stream", self.transfers, self.dfsps)
    }

    /// The recording at this path, if it is valid and large enough. Any other one is replaced.
    fn kept(self, path: &Path) -> Option<Stream> {
        match Stream::read(path) {
            Ok(stream) => (stream.of_kind(self.kind).count() >= self.transfers).then_some(stream),
            Err(error) if error.missing().is_some() => None,
            Err(error) => {
                tracing::warn!(%error, "the kept recording is not valid; recording again");
                None
            }
        }
    }

    /// Drives one hub after the other, until enough messages were journalled.
    fn record(self, context: &Context) -> Result<Stream, IsolatedError> {
        let (mut stream, mut attempts) = (Stream::default(), Attempts::default());
        let mut found = 0;
        while let Some(length) = attempts.next(self.transfers - found) {
            let part = self.attempt(context, length, self.transfers - found)?;
            let recorded = part.of_kind(self.kind).count();
            attempts.note(length, recorded);
            stream.append(part);
            found += recorded;
            if found >= self.transfers {
                return Ok(stream);
            }
        }
        let what = format!("recorded {}s", self.kind.name());
        Err(StreamError::TooShort { what, found, needed: self.transfers }.into())
    }

    fn attempt(self, context: &Context, length: Duration, missing: usize) -> Result<Stream, IsolatedError> {
        let scratch = scratch(&context.scratch)?;
        let driven = RunOptions {
            dfsps: self.dfsps,
            body_bytes: self.body_bytes,
            load: Load::Closed { users: USERS },
            warm_up: Duration::ZERO,
            duration: length,
            slices: Some(1),
            seed: context.seed,
            out: Some(scratch.path().to_owned()),
            keep_data: true,
            ..RunOptions::default()
        };
        run(&driven).map_err(|error| IsolatedError::Recording(Box::new(error)))?;
        let fulfils = self.kind == MessageKind::Fulfil;
        // Fulfils follow their prepares, so everything is read if fulfils are needed.
        let messages_max = if fulfils { MESSAGES_MAX } else { missing };
        let data = data_in(scratch.path())?;
        let (mut stream, _) = Stream::record(&RecordOptions { data, messages_max, fulfils })?;
        stream.header.origin = format!("recorded from a hub that {} simulated DFSPs drove", self.dfsps);
        Ok(stream)
    }
}

/// Chooses the duration of the next drive. The speed of this machine is only known after a first drive.
#[derive(Debug)]
struct Attempts {
    per_s: u64,
    made: u32,
}

impl Default for Attempts {
    fn default() -> Self {
        Self { per_s: Self::PER_S, made: 0 }
    }
}

impl Attempts {
    /// A rate that most machines reach.
    const PER_S: u64 = 2_000;
    const SHORTEST: Duration = Duration::from_millis(300);
    /// Maximum length of the first attempt, which measures the speed of the machine.
    const FIRST_MAX: Duration = Duration::from_secs(10);
    /// Maximum number of hubs that are driven.
    const MAX: u32 = 8;

    /// Length of the next drive if this many messages are missing; `None` after the maximum number of attempts.
    fn next(&mut self, missing: usize) -> Option<Duration> {
        if self.made == Self::MAX {
            return None;
        }
        self.made += 1;
        let length = Self::SHORTEST + Duration::from_millis(missing as u64 * 1_000 / self.per_s);
        Some(if self.made == 1 { length.min(Self::FIRST_MAX) } else { length })
    }

    /// Notes the number of messages recorded in this time. The next drive is assumed to be a little slower.
    fn note(&mut self, length: Duration, recorded: usize) {
        let ms = u64::try_from(length.as_millis()).unwrap_or(u64::MAX).max(1);
        let found = recorded as u64 * 900 / ms;
        // If nothing was recorded, only a longer drive can help.
        self.per_s = if found == 0 { (self.per_s / 4).max(1) } else { found };
    }
}

/// Writes a recording beside its place and moves it there, so that it is complete or missing.
fn keep(stream: &Stream, path: &Path) -> Result<(), IsolatedError> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory).map_err(IsolatedError::io("create", directory))?;
    }
    let unfinished = path.with_extension("new");
    stream.write(&unfinished)?;
    std::fs::rename(&unfinished, path).map_err(IsolatedError::io("keep the recording", path))
}

/// The data directory that a run left.
fn data_in(out: &Path) -> Result<PathBuf, IsolatedError> {
    let entries = std::fs::read_dir(out).map_err(IsolatedError::io("read", out))?;
    let mut found = entries.flatten().map(|entry| entry.path());
    let is_data = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(DATA_DIRECTORY))
    };
    let none = || std::io::Error::other("the hub left no data directory");
    found.find(is_data).ok_or_else(none).map_err(IsolatedError::io("record from", out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::isolated::stream::GenerateOptions;
    use crate::plan::surroundings::RunContext;

    #[test]
    fn next_drive_is_planned_by_the_speed_of_the_first() {
        let mut attempts = Attempts::default();
        assert_eq!(attempts.next(5_000), Some(Duration::from_millis(2_800)));
        // Half a million messages start with ten seconds; 4,000 per second were recorded, and the rest is planned at a
        // slightly lower rate.
        let mut attempts = Attempts::default();
        let first = attempts.next(500_000).unwrap();
        assert_eq!(first, Duration::from_secs(10));
        attempts.note(first, 40_000);
        let rest = attempts.next(460_000).unwrap();
        assert_eq!(rest, Duration::from_millis(300 + 460_000 * 1_000 / 3_600));
        // An attempt without messages requests more time, with a limit.
        attempts.note(rest, 0);
        assert!(attempts.next(460_000).unwrap() > rest);
        let left = std::iter::from_fn(|| attempts.next(1)).count();
        assert_eq!(left, 5, "eight in all");
    }

    #[test]
    fn kept_recording_is_used_if_valid_and_large_enough() {
        let directory = tempfile::tempdir().unwrap();
        let recording = Recording { transfers: 40, dfsps: 3, body_bytes: None, kind: MessageKind::Prepare };
        let stream =
            Stream::generate(&GenerateOptions { transfers: 40, dfsps: 3, ..GenerateOptions::default() });
        let stream = stream.unwrap();
        let recordings = directory.path().join("recordings");
        let path = recordings.join(recording.file_name(7));
        keep(&stream, &path).unwrap();
        // A hub could not be driven here, because this test is not `upesi`.
        let surroundings = RunContext { recordings: Some(recordings), ..RunContext::default() };
        let scratch = directory.path().to_owned();
        let context = Context { surroundings, scratch, hub_arguments: Vec::new(), seed: 7 };
        assert_eq!(recording.make(&context).unwrap(), stream);
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
        assert!(Recording { transfers: 41, ..recording }.kept(&path).is_none(), "too few");
        assert!(
            Recording { kind: MessageKind::Fulfil, ..recording }.kept(&path).is_none(),
            "of another kind"
        );
        std::fs::write(&path, b"UPSTREAM and no more").unwrap();
        assert!(recording.kept(&path).is_none(), "damaged");

        let names: std::collections::BTreeSet<String> = [
            recording.file_name(1),
            recording.file_name(2),
            Recording { transfers: 41, ..recording }.file_name(1),
            Recording { dfsps: 4, ..recording }.file_name(1),
            Recording { body_bytes: Some(900), ..recording }.file_name(1),
            Recording { kind: MessageKind::Fulfil, ..recording }.file_name(1),
        ]
        .into();
        assert_eq!(names.len(), 6, "what differs has a file of its own: {names:?}");
    }
}
