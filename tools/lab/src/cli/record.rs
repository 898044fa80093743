//! `upesi lab record`: a stream of requests in a file, from a hub's journal or made up, to feed isolated stages with.

use std::path::PathBuf;

use crate::isolated::stream::{GenerateOptions, RecordOptions, Skipped, Stream, StreamError};
use clap::{ArgGroup, Args};
use upesi_engine::FollowError;
use upesi_hub::exit::{Exit, Failure, Outcome};
use upesi_hub::output::write_out;
use upesi_journal::JournalError;

/// Arguments of `upesi lab record`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("source").required(true).args(["data", "generate"])))]
pub struct RecordArguments {
    /// The file to write.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Record from the journal in this data directory; a hub may be using it.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Make this many transfers up instead.
    #[arg(long, value_name = "N")]
    pub generate: Option<usize>,
    /// Also the fulfils of the transfers.
    #[arg(long)]
    pub fulfils: bool,
    /// Record at most this many messages.
    #[arg(long, value_name = "N", default_value_t = 500_000, conflicts_with = "generate")]
    pub limit: usize,
    /// Between this many made-up DFSPs.
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "data")]
    pub dfsps: usize,
    /// Length of a made-up prepare's body.
    #[arg(long, value_name = "BYTES", default_value_t = 860, conflicts_with = "data")]
    pub body_bytes: usize,
    /// Decides the ids and payees that are made up.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "data")]
    pub seed: u64,
}

/// Writes the file and tells what is in it.
pub fn run(arguments: &RecordArguments) -> Outcome {
    let (stream, skipped) = make(arguments).map_err(|error| Failure::new(exit_of(&error), error))?;
    if stream.messages.is_empty() {
        let reason = format!(
            "nothing to record: the journal holds no accepted prepare whose request can be replayed ({} cannot be read)",
            skipped.unreadable
        );
        return Err(Failure::new(Exit::Data, reason));
    }
    stream.write(&arguments.out).map_err(|error| Failure::new(Exit::CannotCreate, error))?;
    write_out(&summary(&stream, skipped, arguments))
}

fn make(arguments: &RecordArguments) -> Result<(Stream, Skipped), StreamError> {
    if let Some(data) = &arguments.data {
        return Stream::record(&RecordOptions {
            data: data.clone(),
            messages_max: arguments.limit,
            fulfils: arguments.fulfils,
        });
    }
    let stream = Stream::generate(&GenerateOptions {
        transfers: arguments.generate.unwrap_or_default(),
        dfsps: arguments.dfsps,
        fulfils: arguments.fulfils,
        body_bytes: arguments.body_bytes,
        seed: arguments.seed,
    })?;
    Ok((stream, Skipped::default()))
}

fn summary(stream: &Stream, skipped: Skipped, arguments: &RecordArguments) -> String {
    let header = &stream.header;
    let bytes: usize = stream.messages.iter().map(|message| message.headers.len() + message.body.len()).sum();
    let mut text = format!(
        "{}: {} prepares, {} fulfils, {} DFSPs, {bytes} bytes of requests, {}\n",
        arguments.out.display(),
        header.prepares,
        header.fulfils,
        header.dfsps.len(),
        header.origin,
    );
    if skipped != Skipped::default() {
        text += &format!(
            "left out: {} other events (refusals, aborts, operators' commands), {} unreadable requests, {} fulfils \
             without their prepare\n",
            skipped.others, skipped.unreadable, skipped.orphans
        );
    }
    text
}

fn exit_of(error: &StreamError) -> Exit {
    match error {
        StreamError::Options(_) => Exit::Usage,
        StreamError::Data(_) => Exit::NoInput,
        StreamError::Journal(
            FollowError::Journal(JournalError::Damaged { .. })
            | FollowError::Record { .. }
            | FollowError::Gone { .. },
        )
        | StreamError::Message { .. }
        | StreamError::Damaged { .. }
        | StreamError::Version { .. }
        | StreamError::TooShort { .. } => Exit::Data,
        StreamError::Journal(_) | StreamError::Io { .. } => Exit::InputOutput,
    }
}
