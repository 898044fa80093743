//! Runs one seed event by event and shows the state in between: first the whole state, then the changes of each event.

use std::collections::BTreeMap;
use std::io;
use std::ops::Range;

use crate::plan::Plan;
use crate::world::World;

/// An event and its effects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number; the first is 1.
    pub number: u64,
    pub event: String,
    pub log: Vec<String>,
    /// Changed lines of the state: removed ones behind `- `, added ones behind `+ `. The new form of a line follows its
    /// old form.
    pub changes: Vec<String>,
}

/// A world, and its state before the next event.
#[derive(Debug)]
pub struct Stepper {
    world: World,
    state: Vec<String>,
}

impl Stepper {
    /// A world directly before the event with this number, or at its end if it ends earlier.
    pub fn at(seed: u64, plan: Plan, number: u64) -> Self {
        let mut world = World::new(seed, Plan { keep_log: true, ..plan });
        while world.events() + 1 < number && world.step() {}
        let state = world.describe();
        Self { world, state }
    }

    pub const fn next_number(&self) -> u64 {
        self.world.events() + 1
    }

    /// The state before the next event, which is the state after the last one. There is one line for each item.
    pub fn state(&self) -> &[String] {
        &self.state
    }

    pub const fn world(&self) -> &World {
        &self.world
    }

    /// Runs the next event. Returns `None` if the world has ended.
    pub fn step(&mut self) -> Option<Step> {
        let (number, event) = (self.next_number(), self.world.next_event());
        let logged = self.world.log().len();
        if !self.world.step() {
            return None;
        }
        let state = self.world.describe();
        let changes = changes(&self.state, &state);
        self.state = state;
        Some(Step { number, event, log: self.world.log()[logged..].to_vec(), changes })
    }
}

/// Writes the state before the first of these events. For each event it then writes the event, its log lines and its
/// changes. Returns the auditor's findings so far.
pub fn write_steps(
    out: &mut impl io::Write,
    seed: u64,
    plan: Plan,
    events: Range<u64>,
) -> io::Result<Vec<String>> {
    let mut stepper = Stepper::at(seed, plan, events.start);
    writeln!(out, "seed {seed}, before event {}", stepper.next_number())?;
    for line in stepper.state() {
        writeln!(out, "  {line}")?;
    }
    while stepper.next_number() < events.end {
        let Some(step) = stepper.step() else {
            writeln!(out, "the world has ended")?;
            break;
        };
        writeln!(out, "event {}: {}", step.number, step.event.trim_start())?;
        for line in &step.log {
            writeln!(out, "  log {}", line.trim_start())?;
        }
        for change in &step.changes {
            writeln!(out, "  {change}")?;
        }
    }
    Ok(stepper.world.outcome().findings)
}

/// The lines to remove from the first state, and those to add, to get the second one.
pub fn changes(before: &[String], after: &[String]) -> Vec<String> {
    let mut come = lacking(after, before);
    let mut changes = Vec::new();
    for gone in lacking(before, after) {
        changes.push(format!("- {gone}"));
        if let Some(place) = come.iter().position(|line| subject(line) == subject(gone)) {
            changes.push(format!("+ {}", come.remove(place)));
        }
    }
    changes.extend(come.into_iter().map(|line| format!("+ {line}")));
    changes
}

fn subject(line: &str) -> &str {
    line.split_once(": ").map_or(line, |(subject, _)| subject)
}

/// The lines that are absent from `others`. Each line of `others` matches only one line.
fn lacking<'a>(lines: &'a [String], others: &[String]) -> Vec<&'a str> {
    let mut left = BTreeMap::<&str, usize>::new();
    for line in others {
        *left.entry(line).or_default() += 1;
    }
    let mut lacking = Vec::new();
    for line in lines {
        match left.get_mut(line.as_str()) {
            Some(count) if *count > 0 => *count -= 1,
            _ => lacking.push(line.as_str()),
        }
    }
    lacking
}
