//! `torture note` and `torture next`: the evidence of programs that count by themselves.

use std::path::PathBuf;

use clap::Args;
use upesi_torture::evidence::Subject;
use upesi_torture::noted::{self, Report};

#[derive(Debug, Args)]
pub struct Note {
    /// What was run: `fuzz`.
    name: String,
    /// The seed that it was run with; that of `torture next`, when it is left out.
    #[arg(long)]
    seed: Option<u64>,
    /// How long it took.
    #[arg(long, default_value_t = 1)]
    seconds: u64,
    /// How it was built.
    #[arg(long)]
    build: String,
    /// What it counted: `routes=125000`.
    #[arg(long = "count", value_name = "NAME=NUMBER", value_parser = count)]
    counts: Vec<(String, u64)>,
    /// A broken promise, in words.
    #[arg(long = "violation", value_name = "TEXT")]
    violations: Vec<String>,
    /// The directory of the evidence.
    #[arg(long, value_name = "DIR", default_value = "docs/evidence")]
    report: PathBuf,
}

#[derive(Debug, Args)]
pub struct Next {
    /// What is to be run: `fuzz`.
    name: String,
    /// The directory of the evidence.
    #[arg(long, value_name = "DIR", default_value = "docs/evidence")]
    report: PathBuf,
}

fn count(text: &str) -> Result<(String, u64), String> {
    let (name, number) = text.split_once('=').ok_or("is not NAME=NUMBER")?;
    Ok((name.to_owned(), number.parse().map_err(|error| format!("{number:?}: {error}"))?))
}

fn subject(name: &str) -> Result<Subject, String> {
    noted::named(name).ok_or_else(|| {
        let names: Vec<_> = noted::subjects().map(|subject| subject.name).collect();
        format!("{name:?} is not noted; what is: {}", names.join(", "))
    })
}

impl Note {
    pub fn run(self) -> Result<bool, String> {
        let subject = subject(&self.name)?;
        let seed = self.seed.map_or_else(|| noted::next_seed(&self.report, &subject), Ok);
        let report = Report {
            seed: seed.map_err(|error| error.to_string())?,
            build: self.build,
            duration_s: self.seconds,
            counts: self.counts.into_iter().collect(),
            violations: self.violations,
        };
        noted::note(&self.report, &subject, report).map_err(|error| error.to_string())?;
        Ok(true)
    }
}

impl Next {
    #[expect(clippy::print_stdout, reason = "this is a command, and this is its result")]
    pub fn run(self) -> Result<bool, String> {
        let seed = noted::next_seed(&self.report, &subject(&self.name)?);
        println!("{}", seed.map_err(|error| error.to_string())?);
        Ok(true)
    }
}
