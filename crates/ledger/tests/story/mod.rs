//! Stories: tables of steps and their expected results, in a notation for readers who know payment schemes.
//!
//! ```text
//! scheme payments                                    begins the stories of one scheme
//! participant greenbank KES cap 5000 funds 3000      lines before the first story: the scheme of every story
//! story A payment
//! prepare t1 greenbank → bluewallet 125.5 KES        a step
//!   → bluewallet POST t1 forwarded                   a callback that it owes; all of them, in order
//! position greenbank 125.5                           a check
//! commit f1 greenbank
//!   = refused 3303 The withdrawal expired          the reply, if it is not "done"
//! ```
//!
//! A story begins at 12:00:00, and each step takes a second. Transfers expire at 12:01:00 by default.
//! `stories/README.md` lists the steps and checks.

mod actions;
mod admin;
mod bulks;
mod checks;
mod fees;
mod fx_transfers;
mod print;
mod settlement;
mod transfers;
mod words;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use upesi_ledger::command::{Prepare, PrepareBulk, PrepareFxTransfer};
use upesi_ledger::{AdminCommand, Command, FundsOutGuard, LedgerConfig, UnknownTransfer};
use upesi_types::{BulkId, FxTransferId, Timestamp, TransferId};

use self::words::{Parsed, Words};
use crate::support::Twin;

/// The scheme that begins at this line.
pub fn scheme_of(line: &str) -> Option<&str> {
    line.strip_prefix("scheme ")
}

/// Runs every story of a scheme in a file. Returns their number, or the error.
pub fn run_scheme(file: &str, scheme: &str, text: &str) -> Result<usize, String> {
    let (setup, stories) = read(scheme, text);
    let mut failures = Vec::new();
    for (title, steps) in &stories {
        if let Err(failure) = Story::run(&setup, steps) {
            failures.push(format!("{file}: {scheme}: story \"{title}\"\n{failure}"));
        }
    }
    if failures.is_empty() { Ok(stories.len()) } else { Err(failures.join("\n")) }
}

/// A line with its expected results.
struct Step {
    number: usize,
    line: String,
    expected: Vec<String>,
}

type Titled = (String, Vec<Step>);

fn read(scheme: &str, text: &str) -> (Vec<Step>, Vec<Titled>) {
    let mut setup = Vec::new();
    let mut stories = Vec::<Titled>::new();
    let lines = text.lines().enumerate().skip_while(|(_, line)| scheme_of(line) != Some(scheme)).skip(1);
    for (index, line) in lines.take_while(|(_, line)| scheme_of(line).is_none()) {
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some(title) = line.strip_prefix("story ") {
            stories.push((title.to_owned(), Vec::new()));
            continue;
        }
        let steps = stories.last_mut().map_or(&mut setup, |(_, steps)| steps);
        if line.starts_with(['→', '=']) {
            let step: &mut Step = steps.last_mut().expect("an expectation follows a step");
            step.expected.push(line);
        } else {
            steps.push(Step { number: index + 1, line, expected: Vec::new() });
        }
    }
    (setup, stories)
}

struct Story {
    twin: Twin,
    /// Time of the next step.
    clock: Timestamp,
    /// Duration of a step, in milliseconds.
    pace_ms: i64,
    /// The latest prepare of each id, for defaults and repetitions.
    prepares: BTreeMap<TransferId, Prepare>,
    /// The latest request of each FX transfer.
    fx_transfers: BTreeMap<FxTransferId, PrepareFxTransfer>,
    /// The latest request of each bulk transfer.
    bulks: BTreeMap<BulkId, PrepareBulk>,
    /// The story's name for an id.
    names: BTreeMap<String, String>,
}

impl Story {
    fn run(setup: &[Step], steps: &[Step]) -> Result<(), String> {
        let config = configure(setup.iter().chain(steps))?;
        let mut story = Self {
            twin: Twin::new(config),
            clock: words::instant("11:00:00")?,
            pace_ms: 1,
            prepares: BTreeMap::new(),
            fx_transfers: BTreeMap::new(),
            bulks: BTreeMap::new(),
            names: BTreeMap::new(),
        };
        setup.iter().try_for_each(|step| story.step(step))?;
        (story.clock, story.pace_ms) = (words::instant("12:00:00")?, 1_000);
        steps.iter().try_for_each(|step| story.step(step))
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        let place = |text: String| format!("  line {}: {}\n{text}", step.number, step.line);
        let told = catch_unwind(AssertUnwindSafe(|| self.perform(&step.line)))
            .map_err(|_| place("    panicked; see above".to_owned()))?
            .map_err(|error| place(format!("    {error}")))?;
        if told.len() == step.expected.len() && told.iter().zip(&step.expected).all(is_told) {
            return Ok(());
        }
        let mut text = "    - expected, + reported\n".to_owned();
        for index in 0..told.len().max(step.expected.len()) {
            let (wanted, got) = (step.expected.get(index), told.get(index));
            if wanted == got {
                text += &format!("      {}\n", wanted.map_or("", String::as_str));
                continue;
            }
            text.extend(wanted.map(|line| format!("    - {line}\n")));
            text.extend(got.map(|line| format!("    + {line}\n")));
        }
        Err(place(text))
    }

    /// Executes one line. Returns its results.
    fn perform(&mut self, line: &str) -> Parsed<Vec<String>> {
        let mut words = Words::split(line);
        let verb = words.next("a step")?;
        if let Some(command) = self.transfer_command(&verb, &mut words)? {
            words.finish()?;
            return Ok(self.submit(command));
        }
        if let Some(command) = self.fx_transfer_command(&verb, &mut words)? {
            words.finish()?;
            return Ok(self.submit(Command::FxTransfer(command)));
        }
        if let Some(command) = self.bulk_command(&verb, &mut words)? {
            words.finish()?;
            return Ok(self.submit(Command::Bulk(command)));
        }
        if let Some(command) = self.operator_command(&verb, &mut words)? {
            words.finish()?;
            return Ok(self.submit(command));
        }
        if let Some(command) = self.admin_command(&verb, &mut words)? {
            words.finish()?;
            return Ok(self.submit(Command::Admin(command)));
        }
        match verb.as_str() {
            "config" => return Ok(vec![]),
            "at" => {
                let instant = words::instant(&words.next("a time of day")?)?;
                if instant <= self.twin.live.last_time() {
                    return Err("time does not go back".to_owned());
                }
                self.clock = instant;
            }
            "step" => {
                words.finish()?;
                return Ok(self.submit(Command::StepBulk));
            }
            "steps" => {
                words.finish()?;
                return Ok(self.steps());
            }
            "archive" => self.twin.drain(),
            "restart" => self.twin.restart(),
            "participant" => self.onboard(&mut words)?,
            _ => self.check(&verb, &mut words)?,
        }
        words.finish()?;
        Ok(vec![])
    }

    fn submit(&mut self, command: Command) -> Vec<String> {
        let decision = self.twin.submit(command, self.clock);
        self.clock = self.clock.plus_ms(self.pace_ms);
        let shown = |id: &str| self.names.get(id).cloned().unwrap_or_else(|| id.to_owned());
        print::outcome(&self.twin.live, &decision, shown)
    }

    /// An operator's command that a story's scheme needs.
    fn must(&mut self, command: AdminCommand) -> Parsed<()> {
        let told = self.submit(Command::Admin(command));
        match told.first() {
            Some(refusal) if refusal.starts_with("= refused") => Err(refusal.clone()),
            _ => Ok(()),
        }
    }

    fn id(&mut self, name: &str) -> TransferId {
        let id = words::transfer_id(name);
        self.names.insert(id.to_string(), name.to_owned());
        id
    }
}

/// Whether a line is equal to the expected one, or begins with the text before its ellipsis.
fn is_told((told, expected): (&String, &String)) -> bool {
    match expected.strip_suffix('…') {
        Some(start) => told.starts_with(start),
        None => told == expected,
    }
}

/// The scheme's policy. `config` lines may be anywhere.
fn configure<'a>(steps: impl Iterator<Item = &'a Step>) -> Parsed<LedgerConfig> {
    let mut config = LedgerConfig::default();
    for step in steps {
        let Some(policy) = step.line.strip_prefix("config ") else { continue };
        match policy {
            "on-us transfers" => config.on_us_transfers = true,
            "no payee confirmation" => config.payee_confirmation = false,
            "withdrawals ignore positions" => config.funds_out_guard = FundsOutGuard::SettlementAccount,
            "finer amounts are rejected" => config.rejects_finer_amounts = true,
            "unknown transfers are 3208" => config.unknown_transfer = UnknownTransfer::NotFound,
            "transfers last 1 minute at most" => config.transfer_validity_max_ms = 60_000,
            "withdrawals expire after 1 minute" => config.internal_transfer_validity_ms = 60_000,
            "approvals wait 1 minute" => config.proposal_lifetime_ms = 60_000,
            _ => return Err(format!("  line {}: unknown policy", step.number)),
        }
    }
    Ok(config)
}
