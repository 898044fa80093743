//! Where the messages of a stage come from: a file, a hub that is recorded first, or made up.

use std::path::PathBuf;

use super::recorded::Recording;
use super::settings::Keys;
use super::stream::{BODY_BYTES_MIN, DFSPS_MAX, GenerateOptions, MessageKind, Stream};
use super::{Context, IsolatedError};
use crate::result::schema::Parameter;

/// Most messages of one repetition.
const MESSAGES_MAX: usize = 5_000_000;

/// Which messages a stage is fed with.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// A recorded stream; `None` makes one up, or records one.
    pub stream: Option<PathBuf>,
    /// Whether a hub is driven and recorded first.
    pub is_recorded: bool,
    pub messages: usize,
    /// Between how many DFSPs, where they are made up or recorded first.
    pub dfsps: usize,
    /// About how long a prepare's body is, in bytes; `None` leaves that to whoever makes them.
    pub body_bytes: Option<usize>,
}

impl Source {
    pub fn read(keys: &mut Keys<'_>, messages: usize) -> Self {
        let stream = keys.text("stream").map(PathBuf::from);
        if stream.is_some() && (keys.has("dfsps") || keys.has("body_bytes")) {
            keys.contradiction(
                "a recorded stream has its own DFSPs and bodies: leave dfsps and body_bytes out, or the stream"
                    .to_owned(),
            );
        }
        let is_recorded = keys.flag("recorded", false);
        if is_recorded && stream.is_some() {
            keys.contradiction(
                "what is recorded for the occasion comes from no file: leave stream out, or recorded"
                    .to_owned(),
            );
        }
        let given = keys.has("body_bytes");
        let defaults = GenerateOptions::default();
        let body_bytes = keys.size("body_bytes", BODY_BYTES_MIN..=32_768, defaults.body_bytes);
        Self {
            stream,
            is_recorded,
            messages: keys.size("messages", 1..=MESSAGES_MAX, messages),
            dfsps: keys.size("dfsps", 2..=DFSPS_MAX, 2),
            body_bytes: given.then_some(body_bytes),
        }
    }

    /// Reads the file, records a hub, or makes the stream up: as many messages as one repetition is fed.
    pub fn load(&self, context: &Context, kind: MessageKind) -> Result<Stream, IsolatedError> {
        self.load_many(context, kind, self.messages)
    }

    /// The same with another number of messages.
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

    /// What a result tells of it.
    pub fn parameters(&self, stream: &Stream) -> Vec<(&'static str, Parameter)> {
        let mut parameters =
            vec![("messages", number(self.messages)), ("dfsps", number(stream.header.dfsps.len()))];
        if let Some(path) = &self.stream {
            parameters.push(("stream", Parameter::Text(path.display().to_string())));
        } else if self.is_recorded {
            parameters.push(("recorded", yes_no(true)));
        }
        parameters.extend(self.body_bytes.map(|bytes| ("body_bytes", number(bytes))));
        parameters
    }
}

/// A number as results hold it.
pub(super) fn number(value: usize) -> Parameter {
    Parameter::Number(i64::try_from(value).unwrap_or(i64::MAX))
}

/// Yes or no as results hold it.
pub(super) fn yes_no(value: bool) -> Parameter {
    Parameter::Text(if value { "yes" } else { "no" }.to_owned())
}
