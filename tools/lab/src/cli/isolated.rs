//! `upesi lab isolated`: one stage of the hub alone.

use std::path::PathBuf;

use crate::isolated::{self, Context, IsolatedError, KINDS};
use clap::Args;
use clap::builder::PossibleValuesParser;
use toml::{Table, Value};

use upesi_hub::exit::{Exit, Failure, Outcome};
use upesi_hub::output::write_out;

/// Arguments of `upesi lab isolated`.
#[derive(Args, Clone, Debug)]
pub struct IsolatedArguments {
    /// Which stage.
    #[arg(value_name = "STAGE", value_parser = PossibleValuesParser::new(KINDS.map(|(kind, _)| kind)))]
    pub kind: String,
    /// A key of the stage, such as --with batch=10. May be repeated.
    #[arg(long = "with", value_name = "KEY=VALUE", value_parser = key_value)]
    pub with: Vec<(String, Value)>,
    /// Keep result.json, and the hub's log where there is one, in this directory.
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Directory on the disk to measure; what is made there is removed. By default that of --out, or else the system's
    /// for temporary files, which may be memory.
    #[arg(long, value_name = "DIR")]
    pub scratch: Option<PathBuf>,
    /// An argument for the hub that is started for prepare and fulfil. May be repeated.
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub hub_argument: Vec<String>,
    /// Decides what is made up.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Print result.json to stdout instead of the table.
    #[arg(long)]
    pub json: bool,
}

/// Measures it and prints the figures.
pub fn run(arguments: &IsolatedArguments) -> Outcome {
    let out = arguments.out.as_ref();
    if let Some(out) = out {
        let failed =
            |error| Failure::new(Exit::CannotCreate, format!("cannot create {}: {error}", out.display()));
        std::fs::create_dir_all(out).map_err(failed)?;
    }
    let context = Context {
        scratch: arguments.scratch.clone().or_else(|| out.cloned()).unwrap_or_else(std::env::temp_dir),
        hub_arguments: arguments.hub_argument.clone(),
        logs: out.cloned(),
        seed: arguments.seed,
        commit: upesi_hub::version::commit().map(str::to_owned),
        ..Context::default()
    };
    let table: Table = arguments.with.iter().cloned().collect();
    let result = isolated::run(&arguments.kind, &table, &context)
        .map_err(|error| Failure::new(isolated_exit(&error), error))?;
    if let Some(out) = out {
        let failed =
            |error| Failure::new(Exit::CannotCreate, format!("cannot write into {}: {error}", out.display()));
        result.write(out).map_err(failed)?;
    }
    write_out(&if arguments.json { result.to_json() } else { result.table() })?;
    if result.validity.valid {
        Ok(())
    } else {
        Err(Failure::new(Exit::Failure, "the figures do not count: see the findings above"))
    }
}

/// Words are texts, numbers and true and false what they look like.
fn key_value(text: &str) -> Result<(String, Value), String> {
    let (key, value) = text.split_once('=').ok_or("give KEY=VALUE")?;
    let parsed = format!("v = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("v"));
    Ok((key.trim().to_owned(), parsed.unwrap_or_else(|| Value::String(value.to_owned()))))
}

/// The exit code of a stage that could not be measured.
pub(super) fn isolated_exit(error: &IsolatedError) -> Exit {
    if error.missing_stream().is_some() {
        return Exit::NoInput;
    }
    match error {
        IsolatedError::Kind { .. } | IsolatedError::Settings(_) => Exit::Usage,
        IsolatedError::Stream(_) => Exit::Data,
        IsolatedError::Child(_) | IsolatedError::Workers(_) | IsolatedError::Bind(_) => Exit::Unavailable,
        IsolatedError::Refused { .. } | IsolatedError::Stuck { .. } => Exit::Failure,
        _ => Exit::InputOutput,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_what_they_look_like() {
        for (text, value) in [
            ("batch=10", Value::Integer(10)),
            ("batch=natural", Value::String("natural".to_owned())),
            ("batch=\"natural\"", Value::String("natural".to_owned())),
            ("durable=false", Value::Boolean(false)),
            ("stream=/tmp/a=b", Value::String("/tmp/a=b".to_owned())),
        ] {
            assert_eq!(key_value(text).unwrap().1, value, "{text}");
        }
        assert!(key_value("batch").is_err());
    }
}
