//! What a reader must know before believing a figure or a comparison.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::report::run::{Run, plain};

/// Members of the environment that say when, with what and at which hub the run was made: these may differ, they are
/// what is compared.
const MAY_DIFFER: [&str; 6] = ["started_at", "version", "commit", "build", "durability", "hub"];

pub(crate) fn of_run(run: &Run) -> Vec<String> {
    let thresholds = thresholds(run);
    let thresholds =
        thresholds.map(|findings| format!("{}: the hub did not meet the thresholds: {findings}", run.label));
    validity(run).into_iter().chain(thresholds).chain(integrity(run)).collect()
}

/// The same without what the hub did not reach, which is a result.
pub(crate) fn doubts(run: &Run) -> Vec<String> {
    validity(run).into_iter().chain(integrity(run)).collect()
}

/// Which thresholds the hub did not meet.
pub(crate) fn thresholds(run: &Run) -> Option<String> {
    let missed = run.thresholds.as_ref().filter(|thresholds| !thresholds.met)?;
    Some(said(&missed.findings))
}

fn validity(run: &Run) -> Option<String> {
    let (valid, findings) = run.validity();
    (valid == Some(false)).then(|| format!("{}: the run is not valid: {}", run.label, said(&findings)))
}

fn integrity(run: &Run) -> Vec<String> {
    let mut warnings = Vec::new();
    match run.audited() {
        Some(audit) if !audit.ok => {
            let findings = said(&audit.findings);
            warnings.push(format!("{}: the integrity audit failed: {findings}", run.label));
        }
        None if !run.is_isolated() && run.value("audit").is_none() => {
            warnings.push(format!("{}: no integrity audit was made", run.label));
        }
        _ => {}
    }
    if let Some(lost) = Some(run.lost).filter(|lost| *lost > 0) {
        warnings.push(format!(
            "{}: {} of what was accepted has no outcome",
            run.label,
            crate::report::figures::count(lost)
        ));
    }
    warnings
}

fn said(findings: &[String]) -> String {
    if findings.is_empty() { "no reason given".to_owned() } else { findings.join("; ") }
}

/// What speaks against comparing two runs.
pub(crate) fn of_pair(base: &Run, other: &Run) -> Vec<String> {
    let mut warnings = of_run(base);
    warnings.extend(of_run(other));
    if base.name() != other.name() {
        warnings.push(format!("the scenarios differ: {} is not {}", base.name(), other.name()));
    }
    let durability = |run: &Run| {
        let settings = run.environment.get("durability").filter(|settings| !settings.is_null()).map(plain);
        let durable = run.durable.map(|durable| if durable { "durable" } else { "not durable" }.to_owned());
        settings.or(durable)
    };
    if let (Some(first), Some(second)) = (durability(base), durability(other))
        && first != second
    {
        warnings
            .push(format!("durability differs: {} has {first}, {} has {second}", base.label, other.label));
    }
    let (first, second) = (machine(base), machine(other));
    for (name, value) in &first {
        if let Some(there) = second.get(name).filter(|there| *there != value) {
            warnings.push(format!(
                "the machines differ in {name}: {} has {value}, {} has {there}",
                base.label, other.label
            ));
        }
    }
    for (name, value) in options(base) {
        if let Some(there) = options(other).get(&name).filter(|there| **there != value) {
            warnings.push(format!("the load differs in {name}: {value} and {there}"));
        }
    }
    warnings
}

/// What the figures depend on of where a run took place.
fn machine(run: &Run) -> BTreeMap<String, String> {
    let members = run
        .environment
        .iter()
        .filter(|(name, value)| !MAY_DIFFER.contains(&name.as_str()) && !value.is_null());
    members.map(|(name, value)| (name.clone(), plain(value))).collect()
}

/// What was asked for and shapes the figures, but for what the parameters name: that is varied on purpose.
fn options(run: &Run) -> BTreeMap<String, String> {
    let shaping = ["load", "dfsps", "parties", "unidirectional", "trace"];
    let members = run.options.iter().filter(|(name, value): &(&String, &Value)| {
        shaping.contains(&name.as_str()) && !run.parameters.contains_key(*name) && !value.is_null()
    });
    members.map(|(name, value)| (name.clone(), plain(value))).collect()
}
