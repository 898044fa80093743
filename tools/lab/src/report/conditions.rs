//! The conditions and settings of runs: those that are common, and for each run only the differences.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::figures::{count, grouped, number, plain};
use crate::report::run::Run;

/// A name and its text, in the order of the report.
pub(crate) type Conditions = Vec<(&'static str, String)>;

const SHARING: &str = "sharing";
/// The names, in that order.
const NAMES: [&str; 9] =
    ["cores", SHARING, "processor", "memory", "kernel", "storage", "durability", "version", "commit"];

pub(crate) fn of(run: &Run) -> Conditions {
    let member = |name: &str| run.environment.get(name).map(plain).filter(|text| !text.is_empty());
    let durable = run.durable.map(|durable| if durable { "durable" } else { "NOT durable" }.to_owned());
    let texts = [
        member("cores").map(|cores| format!("{cores} cores")),
        sharing(run),
        member("cpu"),
        member("memory_mb").map(|memory| format!("{memory} MiB")),
        member("kernel").map(|kernel| format!("Linux {kernel}")),
        member("storage").map(|storage| format!("storage {storage}")),
        member("durability").or(durable),
        member("version").map(|version| format!("version {version}")),
        member("commit").map(|commit| format!("commit {commit}")),
    ];
    NAMES.into_iter().zip(texts).filter_map(|(name, text)| Some((name, text?))).collect()
}

/// The sharing of the cores, and whether any capacity was left; without figures, so that most runs have the same text.
fn sharing(run: &Run) -> Option<String> {
    let machine = run.machine.as_ref()?;
    let whose =
        if machine.shared { "shared by hub and load generator" } else { "of the load generator alone" };
    Some(format!("{whose}, {}", if machine.full { "full" } else { "not full" }))
}

/// The common conditions: for each name the most frequent text, or the first one if two are equally frequent.
pub(crate) fn shared<'a>(all: impl Iterator<Item = &'a Conditions> + Clone) -> Conditions {
    let usual = |name: &'static str| {
        let mut counts: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
        let texts = all.clone().flatten().filter(|(known, _)| *known == name);
        for (place, (_, text)) in texts.enumerate() {
            counts.entry(text).or_insert((0, place)).0 += 1;
        }
        let most = counts.into_iter().max_by_key(|(_, (count, place))| (*count, usize::MAX - place));
        most.map(|(text, _)| (name, text.to_owned()))
    };
    NAMES.into_iter().filter_map(usual).collect()
}

pub(crate) fn differing(own: &Conditions, shared: &Conditions) -> Vec<String> {
    let find = |conditions: &Conditions, name: &str| {
        conditions.iter().find(|(known, _)| *known == name).map(|(_, text)| text.clone())
    };
    let differs = |name: &&str| find(own, name) != find(shared, name);
    // A stage alone shares the cores with nothing, and its own text says so.
    let said =
        |name: &str| find(own, name).or_else(|| (name != SHARING).then(|| format!("{name} does not apply")));
    NAMES.into_iter().filter(differs).filter_map(said).collect()
}

/// The conditions in one line.
pub(crate) fn text(conditions: &Conditions) -> String {
    conditions.iter().map(|(_, text)| text.as_str()).collect::<Vec<_>>().join(" · ")
}

/// Users or arrivals, seconds, DFSPs, existing transfers, and the number of operations. For a stage alone, its settings
/// replace the first ones.
pub(crate) fn driven_with(run: &Run) -> String {
    let mut parts = if run.is_isolated() { isolated(run) } else { end_to_end(run) };
    let completed =
        run.number("completed").map(|completed| format!("{} {}", grouped(completed, 0), run.units()));
    parts.extend(completed);
    parts.join(", ")
}

fn isolated(run: &Run) -> Vec<String> {
    let settings = Some(run.parameters_text()).filter(|text| !text.is_empty());
    settings.into_iter().chain(time(run)).collect()
}

fn end_to_end(run: &Run) -> Vec<String> {
    let option = |name: &str| run.options.get(name);
    let whole = |name: &str| option(name).and_then(Value::as_u64);
    let ablation = run.parameters.get("ablation").and_then(Value::as_str).map(str::to_owned);
    [
        ablation,
        option("load").and_then(load),
        time(run),
        whole("dfsps").map(|dfsps| format!("{} DFSPs", count(dfsps))),
        option("pairs").and_then(Value::as_str).filter(|pairs| *pairs != "uniform").map(str::to_owned),
        whole("existing_transfers")
            .filter(|existing| *existing > 0)
            .map(|existing| format!("{} existing transfers", count(existing))),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn time(run: &Run) -> Option<String> {
    let seconds = Some(run.window.seconds).filter(|seconds| *seconds > 0.0)?;
    let is_whole = seconds.fract().abs() < f64::EPSILON;
    Some(format!("{} s", if is_whole { grouped(seconds, 0) } else { number(seconds) }))
}

/// The load shape, in the form of `options.load`.
pub(crate) fn load(load: &Value) -> Option<String> {
    let (shape, of) = load.as_object()?.iter().next()?;
    let whole = |name: &str| of.get(name).and_then(Value::as_u64).map(count);
    let path = |start: &str| {
        let stages = of.get("stages").and_then(Value::as_array).into_iter().flatten();
        let levels = stages.filter_map(|stage| stage.get("level").and_then(Value::as_u64)).map(count);
        whole(start).into_iter().chain(levels).collect::<Vec<_>>().join(" → ")
    };
    match shape.as_str() {
        "closed" => {
            let users = whole("users")?;
            Some(if users == "1" { "1 user".to_owned() } else { format!("{users} users") })
        }
        "ramping_users" => Some(format!("{} users", path("start"))),
        "open" => Some(format!("{} arrivals/s", whole("rate_per_s")?)),
        "arrivals" => {
            let random = of.get("poisson").and_then(Value::as_bool).unwrap_or(false);
            Some(format!("{}{} arrivals/s", path("start_per_s"), if random { " random" } else { "" }))
        }
        "parallel" => {
            let loads = of.get("loads").and_then(Value::as_array).into_iter().flatten();
            let part = |part: &Value| {
                let operation = part.get("operation").and_then(Value::as_str)?;
                Some(format!("{operation} {}", self::load(part.get("load")?)?))
            };
            Some(loads.filter_map(part).collect::<Vec<_>>().join(" + "))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn conditions(cores: &str, durability: Option<&str>) -> Conditions {
        let durability = durability.map(|text| ("durability", text.to_owned()));
        [("cores", cores.to_owned())].into_iter().chain(durability).collect()
    }

    #[test]
    fn who_shares_with_nobody_is_not_said() {
        let alone = conditions("2 cores", None);
        let mut beside = alone.clone();
        beside.push((SHARING, "shared".to_owned()));
        assert_eq!(differing(&alone, &beside), Vec::<String>::new());
        assert_eq!(differing(&beside, &alone), ["shared"]);
    }

    #[test]
    fn what_most_have_is_said_once_and_the_rest_where_it_differs() {
        let all = [
            conditions("2 cores", None),
            conditions("2 cores", Some("synced")),
            conditions("2 cores", Some("synced")),
            conditions("4 cores", Some("none")),
        ];
        let shared = shared(all.iter());
        assert_eq!(text(&shared), "2 cores · synced");
        let texts: Vec<_> = all.iter().map(|own| differing(own, &shared).join("; ")).collect();
        assert_eq!(texts, ["durability does not apply", "", "", "4 cores; none"]);
        assert_eq!(
            super::shared([conditions("a", None), conditions("b", None)].iter()),
            [("cores", "a".to_owned())]
        );
    }

    fn said(result: &Value) -> String {
        driven_with(&Run::of(result.clone()).unwrap())
    }

    #[test]
    fn a_run_says_what_drove_it() {
        let run = |load: Value| {
            json!({
                "unit": "transfer", "completed": 25_613, "window": { "seconds": 6.0 },
                "options": { "load": load, "dfsps": 8, "existing_transfers": 60_000 }
            })
        };
        let rest = "6 s, 8 DFSPs, 60,000 existing transfers, 25,613 transfers";
        let stages = json!([{ "level": 600, "ms": 1 }, { "level": 1000, "ms": 1 }]);
        for (load, words) in [
            (json!({ "closed": { "users": 32 } }), "32 users"),
            (json!({ "closed": { "users": 1 } }), "1 user"),
            (json!({ "ramping_users": { "start": 5, "stages": stages } }), "5 → 600 → 1,000 users"),
            (json!({ "open": { "rate_per_s": 40, "outstanding_max": 9 } }), "40 arrivals/s"),
            (
                json!({ "arrivals": { "start_per_s": 1000, "stages": [], "poisson": true } }),
                "1,000 random arrivals/s",
            ),
            (
                json!({ "parallel": { "loads": [
                    { "operation": "lookups", "load": { "open": { "rate_per_s": 40 } } },
                    { "operation": "quotes", "load": { "arrivals": { "start_per_s": 3, "stages": stages } } },
                ] } }),
                "lookups 40 arrivals/s + quotes 3 → 600 → 1,000 arrivals/s",
            ),
        ] {
            assert_eq!(said(&run(load)), format!("{words}, {rest}"));
        }
    }

    #[test]
    fn who_pays_whom_is_said_where_it_is_not_everybody() {
        let result = |pairs: &str| json!({ "options": { "dfsps": 2, "pairs": pairs } });
        assert_eq!(said(&result("unidirectional")), "2 DFSPs, unidirectional");
        assert_eq!(said(&result("uniform")), "2 DFSPs");
    }

    #[test]
    fn a_stage_alone_says_its_settings_and_not_the_usual_load() {
        let result = json!({
            "kind": "isolated", "unit": "prepare", "completed": 25_000, "window": { "seconds": 0.644 },
            "parameters": { "batch": 10, "dfsps": 2 },
            "options": { "load": { "closed": { "users": 32 } }, "dfsps": 8 }
        });
        assert_eq!(said(&result), "batch 10, 2 DFSPs, 0.64 s, 25,000 prepares");
    }
}
