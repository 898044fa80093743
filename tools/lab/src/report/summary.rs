//! A summary of published figures beside ours, in sentences for a reader who runs a payment scheme and not computers.

use std::path::Path;

use super::ReportError;
use crate::figures::{count, grouped, milliseconds, number, percent, plain};
use crate::observe::machine::IDLE_SHARE_FULL;
use crate::report::input;
use crate::report::published::{Beside, BesideRow, times};
use crate::report::run::Run;
use crate::result::statistics::median;

/// Prefixes of ids of rows that are not about a hub: they show how this machine compares with theirs.
const EQUIPMENT: [&str; 6] = ["forwarder", "http", "rsa", "simulators", "sync", "tigerbeetle"];

/// The sentences: the highest rate that `search` found and its latency, the comparison with the published figure of the
/// row `id`, and the limit of the rate. `looked_into` is a run whose hub was profiled. Fails if a result exists and
/// cannot be read.
pub fn summary(
    beside: &Beside,
    id: &str,
    search: &Path,
    looked_into: Option<&Path>,
) -> Result<String, ReportError> {
    let run = read(Some(search))?;
    let looked_into = read(looked_into)?;
    let sentences = [
        run.as_ref().and_then(highest),
        run.as_ref().and_then(|_| published(beside, id)),
        standing_text(beside),
        run.as_ref().and_then(|run| limit(run, looked_into.as_ref())),
    ];
    Ok(sentences.into_iter().flatten().collect::<Vec<_>>().join(" "))
}

/// A run, if it left a result.
fn read(result: Option<&Path>) -> Result<Option<Run>, ReportError> {
    match result.filter(|result| result.is_file()) {
        Some(result) => Ok(input::load(&[result.to_owned()])?.runs.into_iter().next()),
        None => Ok(None),
    }
}

fn highest(run: &Run) -> Option<String> {
    let cores = run.value("environment.cores").map(plain)?;
    let shares = run.machine.as_ref().is_some_and(|machine| machine.shared);
    let whose = if shares { ", which it shares with the simulated participants and the load," } else { "" };
    let Some(rate) = run.breakpoint.as_ref()?.highest_met_per_s else {
        return Some(format!("On this machine of {cores} cores no rate that was tried held."));
    };
    let latency = match (run.number("latency_ms.p50"), run.number("latency_ms.p99")) {
        (Some(p50), Some(p99)) => {
            format!(
                "Half of them took less than {}, 99 of 100 less than {}",
                milliseconds(p50),
                milliseconds(p99)
            )
        }
        _ => "How long they took is not known".to_owned(),
    };
    let lost = match run.count("lost") {
        Some(0) => "none was lost".to_owned(),
        Some(lost) => format!("{} were lost", count(lost)),
        None => "nobody counted what was lost".to_owned(),
    };
    let audit = match run.audited() {
        Some(audit) if audit.ok => "and in the end the hub's books were those of all participants",
        Some(_) => "but in the end the hub's books were NOT those of all participants",
        None => "but nobody audited the hub's books",
    };
    Some(format!(
        "On this machine of {cores} cores{whose} the hub completes {} whole {} a second: each finds the payee, agrees the terms and \
         moves the money. {latency}; {lost}, {audit}.",
        number(f64::from(rate)),
        run.units()
    ))
}

fn published(beside: &Beside, id: &str) -> Option<String> {
    let row = beside.rows.iter().find(|row| row.row.id == id)?;
    let (theirs, better) = (row.row.figure?, row.times?);
    let vcpus = row.row.vcpus.map_or_else(String::new, |vcpus| format!(" on {} vCPUs", grouped(vcpus, 0)));
    let each = if row.per_vcpu.contains('×') {
        format!(", and {} for each vCPU", row.per_vcpu)
    } else {
        String::new()
    };
    Some(format!(
        "The highest rate that was published for Mojaloop under the same promise is {} a second{vcpus}: ours is {} that{each}.",
        number(theirs),
        times(better)
    ))
}

fn standing_text(beside: &Beside) -> Option<String> {
    let is_of_a_hub =
        |row: &&BesideRow| row.row.id.split('-').next().is_none_or(|first| !EQUIPMENT.contains(&first));
    let hubs = || beside.rows.iter().filter(is_of_a_hub);
    let all: Vec<f64> = hubs().filter_map(|row| row.times).collect();
    let (compared, better) = (all.len(), all.iter().filter(|times| **times > 1.0).count());
    let missed = hubs().filter(|row| row.missed.is_some()).count();
    let middle = median(all)?;
    let missed = match missed {
        0 => String::new(),
        1 => "; one more is not counted, as our run missed what was asked of it".to_owned(),
        missed => format!("; {missed} more are not counted, as our runs missed what was asked of them"),
    };
    Some(format!(
        "Of all {compared} published figures that this machine has its own beside, ours is better in {better}, in the middle by \
         {}{missed}.",
        times(middle)
    ))
}

/// The limit of the hub's rate, and the main uses of its processor time.
fn limit(run: &Run, looked_into: Option<&Run>) -> Option<String> {
    let found = run.breakpoint.as_ref()?;
    let missed = found.lowest_missed();
    let idle = missed.and_then(|probe| probe.idle_share);
    let limit = match (missed, idle) {
        (None, _) => "No rate was tried that the hub did not hold".to_owned(),
        (Some(probe), Some(idle)) if idle < IDLE_SHARE_FULL => format!(
            "What limits it here is the processor: at {} a second the cores were idle for only {} of the time",
            number(f64::from(probe.rate_per_s)),
            percent(idle)
        ),
        (Some(probe), _) => format!(
            "At {} a second it did not hold: {}",
            number(f64::from(probe.rate_per_s)),
            if probe.reasons.is_empty() { "no reason given".to_owned() } else { probe.reasons.join("; ") }
        ),
    };
    let stage = looked_into.and_then(|run| {
        let stage = run.shares.as_ref()?.stages.first()?;
        Some(format!(
            "; of the hub's processor time for {} the largest part, {}, is \"{}\"",
            run.units(),
            percent(stage.share),
            stage.stage
        ))
    });
    Some(format!("{limit}{}.", stage.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::report::published::PublishedRow;

    fn beside() -> Beside {
        let row = |id: &str, times: Option<f64>, missed: Option<&str>| BesideRow {
            row: PublishedRow {
                id: id.to_owned(),
                figure: Some(650.0),
                vcpus: Some(48.0),
                unit: "/s".to_owned(),
                ..PublishedRow::default()
            },
            times,
            missed: missed.map(str::to_owned),
            per_vcpu: "42.8 ×".to_owned(),
            ..BesideRow::default()
        };
        let rows = vec![
            row("dqt-2026", Some(1.78), None),
            row("other", Some(0.5), None),
            // Not a hub, so it does not count.
            row("tigerbeetle-8", Some(9.0), None),
            row("lookup-8", None, Some("a quarter failed")),
        ];
        Beside { rows, ..Beside::default() }
    }

    fn search(idle: f64) -> Value {
        json!({
            "schema_version": 2, "scenario": "payments", "unit": "payment", "lost": 0,
            "environment": { "cores": 2 }, "latency_ms": { "p50": 15.5, "p99": 57.7 },
            "audit": { "ok": true }, "machine": { "shared": true, "full": true },
            "breakpoint": {
                "highest_met_per_s": 1160, "lowest_missed_per_s": 1250,
                "probes": [
                    { "rate_per_s": 1160, "met": true },
                    { "rate_per_s": 1250, "met": false, "idle_share": idle, "reasons": ["p99_ms 1500 instead of 1000"] },
                ],
            },
        })
    }

    #[test]
    fn a_run_is_told_in_four_sentences_with_its_own_figures() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, value: &Value| {
            let path = directory.path().join(name).join("result.json");
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, value.to_string()).unwrap();
            path
        };
        let (full, spare) = (file("full", &search(0.03)), file("spare", &search(0.4)));
        let looked = file("looked", &json!({ "unit": "payment", "scenario": "payments" }));
        let shares = json!({ "samples": 9, "stages": [{ "stage": "journal", "share": 0.4, "samples": 4 }] });
        std::fs::write(looked.with_file_name("shares.json"), shares.to_string()).unwrap();
        let text = summary(&beside(), "dqt-2026", &full, Some(&looked)).unwrap();
        for expected in [
            "of 2 cores, which it shares",
            "completes 1,160 whole payments a second",
            "Half of them took less than 15.5 ms, 99 of 100 less than 57.7 ms; none was lost, and in the end",
            "is 650 a second on 48 vCPUs: ours is 1.78 × that, and 42.8 × for each vCPU.",
            "Of all 2 published figures that this machine has its own beside, ours is better in 1, in the middle by",
            "; one more is not counted",
            "limits it here is the processor: at 1,250 a second the cores were idle for only 3.0 % of the time",
            "the largest part, 40 %, is \"journal\".",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        let text = summary(&beside(), "dqt-2026", &spare, None).unwrap();
        assert!(text.ends_with("At 1,250 a second it did not hold: p99_ms 1500 instead of 1000."), "{text}");
        let text = summary(&beside(), "dqt-2026", &directory.path().join("none"), None).unwrap();
        assert!(text.starts_with("Of all 2 published figures"), "{text}");
    }
}
