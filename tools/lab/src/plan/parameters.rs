//! The names of sweep parameters for people: one table for headings, axes and labels. In files they keep the names of
//! their keys.

use serde_json::Value;

use self::ValueForm::{After, Alone, Counted, Then, Words};
use crate::figures::{count, plain};

/// The form of a value in a label, with the parameter's name.
#[derive(Clone, Copy, Debug)]
enum ValueForm {
    /// A count before the thing in the singular: `2 DFSPs`, `1 DFSP`.
    Counted(&'static str),
    /// The value before these words: `50 % of the highest rate`.
    Then(&'static str),
    /// The value and its unit after these words: `body size 4,096 bytes`.
    After(&'static str),
    /// Other words than the file's: `not durable`.
    Words(&'static [(&'static str, &'static str)]),
    /// The value without a name: `fsync off`.
    Alone,
}

/// The keys, which are the last parts of swept paths; the name; the unit, if the name does not contain it; the form of
/// values.
type Row = (&'static [&'static str], &'static str, &'static str, ValueForm);

/// Rows as keys, name, unit and form of values.
macro_rules! parameters {
    ($($($key:ident)|+: $name:literal, $unit:literal, $told:expr;)*) => {
        const PARAMETERS: &[Row] = &[$((&[$(stringify!($key)),+], $name, $unit, $told)),*];
    };
}

parameters! {
    ablation: "the change", "", Alone;
    arrivals: "pattern of arrivals", "", Words(&[("even", "even arrivals"), ("random", "random arrivals")]);
    batch: "batch size", "", After("batch");
    batches: "batches", "", Counted("batch");
    body_bytes: "body size", "bytes", After("body size");
    connections: "connections", "", Counted("connection");
    count | dfsps: "DFSPs", "", Counted("DFSP");
    delay_ms: "payee's delay", "ms", After("payee's delay");
    durable: "durability", "", Words(&[("yes", "durable"), ("no", "not durable")]);
    existing | existing_rows | existing_transfers | rows: "existing transfers", "", Counted("existing transfer");
    keep_alive: "whether connections are kept", "",
        Words(&[("yes", "connections kept"), ("no", "connections not kept")]);
    messages: "messages", "", Counted("message");
    operation: "kind of operation", "", Alone;
    pairs: "choice of payer and payee", "", Alone;
    parties: "parties of each DFSP", "", Counted("party of each DFSP");
    percent_of_breakpoint: "offered rate", "% of the highest rate", Then("% of the highest rate");
    rate_per_s: "offered rate", "/s", After("offered rate");
    receiver_delay_ms: "receiver's delay", "ms", After("receiver's delay");
    receivers: "kind of receivers", "",
        Words(&[("dfsps", "received by simulated DFSPs"), ("sinks", "received by sinks")]);
    record_bytes: "record size", "bytes", After("record size");
    recorded: "origin of the stream", "", Words(&[("yes", "recorded stream"), ("no", "generated stream")]);
    repetitions: "repetitions", "", Counted("repetition");
    threads: "threads", "", Counted("thread");
    transfers: "transfers", "", Counted("transfer");
    users | vus: "virtual users", "", Counted("virtual user");
    workers: "workers", "", Counted("worker");
    zero_ahead: "zeros written ahead", "", Words(&[("yes", "zeros written ahead"), ("no", "no zeros written ahead")]);
}

/// Units at the ends of keys, for keys that are not in the table.
const UNITS: [(&str, &str); 6] =
    [("_bytes", "bytes"), ("_mb", "MiB"), ("_ms", "ms"), ("_per_s", "/s"), ("_percent", "%"), ("_us", "µs")];

fn known(name: &str) -> Option<&'static Row> {
    let key = last_part(name);
    PARAMETERS.iter().find(|(keys, ..)| keys.contains(&key))
}

fn last_part(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

/// Name and unit of a parameter that is not in the table, from its key.
pub(crate) fn spelled(name: &str) -> (String, &'static str) {
    let key = last_part(name);
    let with_unit = UNITS.iter().find_map(|(ending, unit)| Some((key.strip_suffix(*ending)?, *unit)));
    let (bare, unit) = with_unit.unwrap_or((key, ""));
    (bare.replace('_', " "), unit)
}

/// Whether the table has a name for it.
pub fn is_known(name: &str) -> bool {
    known(name).is_some()
}

/// The name in "throughput by …": `number of DFSPs`, `body size`.
pub fn heading(name: &str) -> String {
    match known(name) {
        Some((_, name, _, Counted(_))) => format!("number of {name}"),
        Some((_, name, ..)) => (*name).to_owned(),
        None => spelled(name).0,
    }
}

/// The name at an axis: `DFSPs`, `body size, bytes`.
pub(crate) fn axis(name: &str) -> String {
    let (name, unit) = match known(name) {
        Some((_, name, unit, _)) => ((*name).to_owned(), *unit),
        None => spelled(name),
    };
    if unit.is_empty() { name } else { format!("{name}, {unit}") }
}

/// A value alone, as at an axis with the name.
pub(crate) fn tick(name: &str, value: &str) -> String {
    let words = match known(name) {
        Some((_, _, _, Words(words))) => *words,
        _ => &[],
    };
    // Files of sweeps contain true and false; files of single stages contain yes and no.
    let file_says = match value {
        "true" => "yes",
        "false" => "no",
        other => other,
    };
    let found = words.iter().find(|(told, _)| *told == file_says);
    found.map_or_else(|| value.to_owned(), |(_, words)| (*words).to_owned())
}

/// A value with its name: `4 DFSPs`, `batch 10`, `not durable`.
pub fn text(name: &str, value: &Value) -> String {
    let number = value.as_u64();
    let shown = number.map_or_else(|| plain(value), count);
    match known(name) {
        Some((_, _, _, Counted(one))) if number == Some(1) => format!("1 {one}"),
        Some((_, many, _, Counted(_))) => format!("{shown} {many}"),
        Some((_, _, _, Then(words))) => format!("{shown} {words}"),
        Some((_, _, unit, After(words))) => format!("{words} {}", with_unit(value, &shown, unit)),
        Some((_, _, _, Alone)) => shown,
        Some((_, is_of, _, Words(_))) => match tick(name, &shown) {
            same if same == shown => format!("{is_of} {shown}"),
            words => words,
        },
        None => {
            let (words, unit) = spelled(name);
            format!("{words} {}", with_unit(value, &shown, unit))
        }
    }
}

/// A value that is not a number, such as a batch that is `natural`, has no unit.
fn with_unit(value: &Value, shown: &str, unit: &str) -> String {
    if unit.is_empty() || !value.is_number() {
        return shown.to_owned();
    }
    let gap = if unit.starts_with('/') { "" } else { " " };
    format!("{shown}{gap}{unit}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn parameter_is_printed_with_its_unit() {
        for (name, value, label, at_axis, by) in [
            ("count", json!(2), "2 DFSPs", "DFSPs", "number of DFSPs"),
            ("dfsps", json!(1), "1 DFSP", "DFSPs", "number of DFSPs"),
            ("users", json!(1000), "1,000 virtual users", "virtual users", "number of virtual users"),
            ("body_bytes", json!(4096), "body size 4,096 bytes", "body size, bytes", "body size"),
            ("delay_ms", json!(10), "payee's delay 10 ms", "payee's delay, ms", "payee's delay"),
            ("rate_per_s", json!(500), "offered rate 500/s", "offered rate, /s", "offered rate"),
            (
                "percent_of_breakpoint",
                json!(50),
                "50 % of the highest rate",
                "offered rate, % of the highest rate",
                "offered rate",
            ),
            ("durable", json!(false), "not durable", "durability", "durability"),
            ("durable", json!("true"), "durable", "durability", "durability"),
            ("durable", json!("often"), "durability often", "durability", "durability"),
            ("operation", json!("quotes"), "quotes", "kind of operation", "kind of operation"),
            ("ablation", json!("fsync off"), "fsync off", "the change", "the change"),
            ("batch", json!("natural"), "batch natural", "batch size", "batch size"),
            ("load.workers", json!(0), "0 workers", "workers", "number of workers"),
            // A parameter without a name is shown by its key.
            ("engine.flush_ms", json!(5), "flush 5 ms", "flush, ms", "flush"),
            ("seed", json!(7), "seed 7", "seed", "seed"),
        ] {
            assert_eq!(text(name, &value), label);
            assert_eq!((axis(name).as_str(), heading(name).as_str()), (at_axis, by), "{name}");
        }
        assert_eq!((tick("durable", "no"), tick("batch", "10")), ("not durable".to_owned(), "10".to_owned()));
        assert!(is_known("dfsps.count") && !is_known("seed"));
    }

    #[test]
    fn every_key_has_one_name() {
        let keys: Vec<&str> = PARAMETERS.iter().flat_map(|(keys, ..)| keys.iter().copied()).collect();
        assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), keys.len());
    }
}
