//! `upesi lab isolated`: one stage of the hub alone.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{ArgGroup, Args};
use upesi_engine::FollowError;
use upesi_journal::JournalError;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};

use super::run::commit;
use crate::RunContext;
use crate::drive::output::{create, write};
use crate::isolated::stream::{GenerateOptions, RecordOptions, SkippedCounts, Stream, StreamError};
use crate::isolated::{self, Context, IsolatedError};
use crate::plan::section::{Node, Value};
use crate::plan::stage::KINDS;

/// Arguments of `upesi lab isolated`.
#[derive(Args, Clone, Debug)]
pub struct IsolatedArguments {
    /// The stage to measure.
    #[arg(value_name = "STAGE", value_parser = PossibleValuesParser::new(KINDS.map(|(kind, _)| kind)))]
    pub kind: String,
    /// Key of the stage with a value, such as --with batch=10. May be repeated.
    #[arg(long = "with", value_name = "KEY=VALUE", value_parser = key_value)]
    pub with: Vec<(String, Node)>,
    /// Write result.json, and the hub's log if there is one, to this directory.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Directory on the disk to measure; files created there are removed. By default the directory of --out, or else
    /// the system's directory for temporary files, which may be in memory.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// Argument for the hub that is started for prepare and fulfil. May be repeated.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub hub_argument: Vec<String>,
    /// Seed of the generated data.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print result.json to stdout instead of the table.
    #[arg(long)]
    pub json: bool,
}

/// Measures the stage, and prints the figures. Fails with 1 if they are not valid.
pub fn run(arguments: &IsolatedArguments) -> Outcome {
    let out = arguments.out.as_ref();
    create(out.map(PathBuf::as_path))?;
    let context = Context {
        surroundings: RunContext { out: out.cloned(), commit: commit(), ..RunContext::default() },
        scratch: arguments.scratch.clone().or_else(|| out.cloned()).unwrap_or_else(std::env::temp_dir),
        hub_arguments: arguments.hub_argument.clone(),
        seed: arguments.seed,
    };
    let table = Node { line: 0, value: Value::Table(arguments.with.iter().cloned().collect()) };
    let result = isolated::run(&arguments.kind, Some(&table), &context)
        .map_err(|error| Failure::new(isolated_exit(&error), error))?;
    write(&result, out.map(PathBuf::as_path))?;
    write_out(&if arguments.json { result.to_json() } else { result.table() })?;
    if result.validity.valid {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failure, "the figures are not valid: see the findings above"))
    }
}

/// Parses KEY=VALUE. Numbers, true and false become values of their type; anything else is a text.
fn key_value(text: &str) -> Result<(String, Node), String> {
    let (key, value) = text.split_once('=').ok_or("give KEY=VALUE")?;
    let (mut table, mistakes) = Node::parse(&format!("v = {value}"));
    let parsed = table.take("v").filter(|_| mistakes.is_empty());
    let text = || Node { line: 0, value: Value::Text(value.to_owned()) };
    Ok((key.trim().to_owned(), parsed.unwrap_or_else(text)))
}

/// The exit code of a stage that could not be measured.
fn isolated_exit(error: &IsolatedError) -> Exit {
    if error.missing_stream().is_some() {
        return Exit::NoInput;
    }
    match error {
        IsolatedError::Kind(_) | IsolatedError::Settings(_) => Exit::Usage,
        IsolatedError::Stream(_) => Exit::Data,
        IsolatedError::Child(_) | IsolatedError::Workers(_) | IsolatedError::Bind(_) => Exit::Unavailable,
        IsolatedError::Refused { .. } | IsolatedError::Stuck { .. } => Exit::Failure,
        _ => Exit::InputOutput,
    }
}

/// Arguments of `upesi lab record`.
#[derive(Args, Clone, Debug)]
#[command(group(ArgGroup::new("source").required(true).args(["data", "generate"])))]
pub struct RecordArguments {
    /// Output file.
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Record from the journal in this data directory; a hub may be using it.
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Generate this many transfers instead.
    #[arg(long, value_name = "N")]
    pub generate: Option<usize>,
    /// Also record the fulfils of the transfers.
    #[arg(long)]
    pub fulfils: bool,
    /// Record at most this many messages.
    #[arg(long, value_name = "N", default_value_t = 500_000, conflicts_with = "generate")]
    pub limit: usize,
    /// Number of generated DFSPs.
    #[arg(long, value_name = "N", default_value_t = 2, conflicts_with = "data")]
    pub dfsps: usize,
    /// Length of a generated prepare's body, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 860, conflicts_with = "data")]
    pub body_bytes: usize,
    /// Seed of the generated ids and payees.
    #[arg(long, value_name = "N", default_value_t = 1, conflicts_with = "data")]
    pub seed: u64,
}

/// Writes the stream to a file. Fails if there is nothing to record.
pub fn record(arguments: &RecordArguments) -> Outcome {
    let (stream, skipped) = make(arguments).map_err(|error| Failure::new(stream_exit(&error), error))?;
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

fn make(arguments: &RecordArguments) -> Result<(Stream, SkippedCounts), StreamError> {
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
    Ok((stream, SkippedCounts::default()))
}

fn summary(stream: &Stream, skipped: SkippedCounts, arguments: &RecordArguments) -> String {
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
    if skipped != SkippedCounts::default() {
        text += &format!(
            "left out: {} other events (refusals, aborts, operators' commands), {} unreadable requests, {} fulfils \
             without their prepare\n",
            skipped.others, skipped.unreadable, skipped.orphans
        );
    }
    text
}

fn stream_exit(error: &StreamError) -> Exit {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_value_gets_its_type_from_the_text() {
        for (text, value) in [
            ("batch=10", Value::Integer(10)),
            ("batch=natural", Value::Text("natural".to_owned())),
            ("batch=\"natural\"", Value::Text("natural".to_owned())),
            ("durable=false", Value::Flag(false)),
            ("stream=/tmp/a=b", Value::Text("/tmp/a=b".to_owned())),
        ] {
            assert_eq!(key_value(text).unwrap().1.value, value, "{text}");
        }
        assert!(key_value("batch").is_err());
    }
}
