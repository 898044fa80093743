//! A stream that is recorded for the occasion: simulated DFSPs drive a hub of their own, and the stream is taken from its journal.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::scratch::Scratch;
use super::stream::{MESSAGES_MAX, MessageKind, RecordOptions, Stream, StreamError};
use super::{Context, IsolatedError};
use crate::options::RunOptions;
use crate::run::{DATA_DIRECTORY, run};
use crate::shape::Load;

/// Virtual users that drive the hub.
const USERS: usize = 32;
/// A rate that most machines keep: the load lasts as long as the transfers take at it, and a little.
const PER_S: u64 = 2_000;
const SHORTEST: Duration = Duration::from_millis(300);
/// A load that was too short is tried again for this many times as long, so often.
const LONGER: u32 = 4;
const TRIES: u32 = 4;

/// What is to be recorded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recording {
    /// Transfers at least.
    pub transfers: usize,
    /// Between how many DFSPs.
    pub dfsps: usize,
    /// What is measured: prepares alone, or the fulfils that follow them too.
    pub kind: MessageKind,
}

impl Recording {
    /// Drives a hub and records it. The hub is the one that is shipped: durable, its settings untouched.
    pub fn make(self, context: &Context) -> Result<Stream, IsolatedError> {
        let mut length = SHORTEST + Duration::from_millis(self.transfers as u64 * 1_000 / PER_S);
        let mut found = 0;
        for _ in 0..TRIES {
            let stream = self.attempt(context, length)?;
            let wanted = stream.of_kind(self.kind).count();
            if wanted >= self.transfers {
                return Ok(stream);
            }
            (found, length) = (wanted, length * LONGER);
        }
        let what = match self.kind {
            MessageKind::Prepare => "recorded prepares",
            MessageKind::Fulfil => "recorded fulfils",
        };
        Err(StreamError::TooShort { what, found, needed: self.transfers }.into())
    }

    fn attempt(self, context: &Context, length: Duration) -> Result<Stream, IsolatedError> {
        let scratch = Scratch::new(&context.scratch)?;
        let driven = RunOptions {
            dfsps: self.dfsps,
            load: Load::Closed { users: USERS },
            warm_up: Duration::ZERO,
            duration: length,
            slices: Some(1),
            seed: context.seed,
            binary: context.binary.clone(),
            out: Some(scratch.path().to_owned()),
            keep_data: true,
            ..RunOptions::default()
        };
        run(&driven).map_err(|error| IsolatedError::Recording(Box::new(error)))?;
        let fulfils = self.kind == MessageKind::Fulfil;
        // Fulfils follow their prepares, so all is read where they are wanted.
        let messages_max = if fulfils { MESSAGES_MAX } else { self.transfers };
        let data = data_in(scratch.path())?;
        let (mut stream, _) = Stream::record(&RecordOptions { data, messages_max, fulfils })?;
        stream.header.origin = format!("recorded from a hub that {} simulated DFSPs drove", self.dfsps);
        Ok(stream)
    }
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
