//! Reads and validates one scenario file.

use std::time::Duration;

use clap::ValueEnum as _;
use upesi_sim::{BULK_ITEMS_MAX, DfspSettings, PARTIES_PER_DFSP};
use upesi_types::{Amount, Currency};

use super::load_profile::{dfsps, load, parallel};
use super::section::{Mistakes, Node, Section, Value};
use super::sweep::{self, Point};
use super::{Mistake, REPETITIONS_MAX, ScenarioFile, Search, Test, Work};
use crate::plan::load_profile::Load;
use crate::plan::options::{Baseline, FXPS_MAX, Identity, RunOptions, SLICES_MAX, Settlement};
use crate::plan::scenario::Scenario;
use crate::plan::security::Security;
use crate::plan::stage::Stage;
use crate::plan::targets::{Target, TargetKind};

/// Maximum number of transfers that a hub is filled with before a run.
const EXISTING_MAX: u64 = 1_000_000_000;

/// Reads a whole scenario file, with every point of its sweep.
pub(super) fn scenario(
    name: &str,
    text: &str,
    mut node: Node,
    mistakes: Vec<Mistake>,
    changes: &[(String, Node)],
) -> Result<ScenarioFile, Vec<Mistake>> {
    let mistakes = Mistakes::new(mistakes);
    for (path, change) in changes {
        if !node.set(path, change.clone()) {
            let text = format!("{path:?} is not a path of this scenario");
            mistakes.borrow_mut().push(Mistake { line: change.line, text });
        }
    }
    let sections = ["sweep", "ablation", "plot", "claim"].map(|key| node.take(key));
    let [axes, ablations, plots, claims] = sections.each_ref().map(Option::as_ref);
    let mut head = None;
    let variants = sweep::variants(axes, ablations, &mistakes);
    let plots = sweep::plots(plots, &variants, &mistakes);
    let claims = sweep::claims(claims, &variants, &mistakes);
    let mut points = Vec::new();
    for variant in variants {
        let mut changed = node.clone();
        for (path, value) in &variant.changes {
            if !changed.set(path, value.clone()) {
                let text = format!("{path:?} is not a path of this scenario");
                mistakes.borrow_mut().push(Mistake { line: value.line, text });
            }
        }
        let (its_head, mut work) = work(name, &changed, &mistakes);
        head.get_or_insert(its_head);
        if let Work::EndToEnd { options, .. } = &mut work {
            options.identity.parameters.clone_from(&variant.parameters);
        }
        points.push(Point { parameters: variant.parameters, work });
    }
    let mut mistakes = mistakes.into_inner();
    mistakes.sort_by(|one, other| (one.line, &one.text).cmp(&(other.line, &other.text)));
    // A mistake outside of the sweep occurs at each of its points.
    mistakes.dedup();
    if !mistakes.is_empty() {
        return Err(mistakes);
    }
    let Head { title, description, repetitions } = head.unwrap_or_default();
    let (name, text) = (name.to_owned(), text.to_owned());
    Ok(ScenarioFile { name, title, description, text, repetitions, points, plots, claims })
}

/// The common part of all points.
#[derive(Default)]
struct Head {
    title: String,
    description: String,
    /// Number of runs of every point.
    repetitions: usize,
}

/// Reads one run.
fn work(name: &str, node: &Node, mistakes: &Mistakes) -> (Head, Work) {
    let mut file = Section::new("", Some(node), mistakes);
    let head = Head {
        title: file.text_required("title"),
        description: file.text("description").unwrap_or_default().trim().to_owned(),
        repetitions: file.size("repetitions", 1..=REPETITIONS_MAX).unwrap_or(1),
    };
    let kind = file.choice("kind", &["end-to-end", "isolated"]).unwrap_or(0);
    let seed = file.integer("seed", 0..=u64::MAX).unwrap_or(1);
    let hub_arguments = hub_arguments(&mut file.section("hub", "hub"), kind == 0);
    if kind == 1 {
        return (head, isolated_work(&mut file, hub_arguments.0, seed, mistakes));
    }
    let mut options = RunOptions {
        seed,
        hub_arguments: hub_arguments.0,
        existing_transfers: hub_arguments.1,
        ..RunOptions::default()
    };
    operation(&mut file, &mut options);
    times(&mut file.section("time", "time"), &mut options);
    options.security = Security::read(&mut file.section("security", "security"));
    options.behaviour = behaviour(&mut file.section("behaviour", "behaviour"));
    compare(&mut file.section("compare", "compare"), &mut options);
    let targets = targets(&mut file.section("targets", "targets"));
    let test = test(&mut file, &targets);
    if matches!(test, Test::Breakpoint(_)) && options.scenario == Scenario::Parallel {
        file.mistake_at(0, "a breakpoint search needs a single load, without [[parallel]]");
    }
    let (title, description) = (head.title.clone(), head.description.clone());
    options.identity =
        Identity { name: Some(name.to_owned()), title, description, targets, ..Identity::default() };
    if mistakes.borrow().is_empty()
        && let Err(error) = options.validate()
    {
        file.mistake_at(0, error.to_string());
    }
    (head, Work::EndToEnd { options: Box::new(options), test })
}

fn isolated_work(file: &mut Section<'_>, hub_arguments: Vec<String>, seed: u64, mistakes: &Mistakes) -> Work {
    let stage = file.text_required("stage");
    let table = file.node("isolated").cloned();
    if !stage.is_empty()
        && let Err(error) = Stage::read(&stage, table.as_ref(), mistakes)
    {
        file.mistake_at(0, error.to_string());
    }
    Work::Isolated { stage, table, hub_arguments, seed }
}

/// The arguments of the started hub, and the number of its existing transfers.
fn hub_arguments(section: &mut Section<'_>, is_filled: bool) -> (Vec<String>, u64) {
    let mut arguments = Vec::new();
    if let Some(settings) = section.node("settings") {
        for (key, node) in settings.entries() {
            match &node.value {
                // Both "engine.durable" = false and [hub.settings.engine] durable = false.
                Value::Table(_) => {
                    for (name, node) in node.entries() {
                        setting(section, &format!("{key}.{name}"), node, &mut arguments);
                    }
                }
                _ => setting(section, key, node, &mut arguments),
            }
        }
    }
    let existing = if is_filled { section.integer("existing_transfers", 0..=EXISTING_MAX) } else { None };
    (arguments, existing.unwrap_or(0))
}

fn setting(section: &Section<'_>, key: &str, node: &Node, arguments: &mut Vec<String>) {
    match node.plain() {
        Some(value) => arguments.push(format!("--set={key}={value}")),
        None => {
            section.mistake_at(node.line, format!("hub.settings.{key}: give a text, a number, true or false"))
        }
    }
}

fn operation(file: &mut Section<'_>, options: &mut RunOptions) {
    let names = Scenario::ALL.map(Scenario::name);
    let found = file.choice("operation", &names);
    options.scenario = found.map_or(Scenario::Transfers, |index| Scenario::ALL[index]);
    loads(file, found.is_some(), options);
    if let Some(amount) = file.text("amount") {
        match Amount::parse_decimal(&amount) {
            Ok(amount) if amount > Amount::ZERO => options.amount = amount,
            _ => file.mistake_at(0, format!("amount: {amount:?} is not an amount above zero")),
        }
    }
    if let Some(currency) = file.text("currency") {
        match Currency::parse(&currency) {
            Some(currency) => options.currency = currency,
            None => file.mistake_at(0, format!("currency: {currency:?} is not an ISO 4217 code")),
        }
    }
    options.parties = file.integer("parties", 1..=PARTIES_PER_DFSP).unwrap_or(options.parties);
    options.bulk_items = file.size("bulk_items", 1..=BULK_ITEMS_MAX).unwrap_or(options.bulk_items);
    options.trace = file.flag("trace").unwrap_or(options.trace);
    let mut section = file.section("dfsps", "dfsps");
    options.fxps = section.size("fxps", 1..=FXPS_MAX).unwrap_or(options.fxps);
    options.payees_convert = section.flag("payees_convert").unwrap_or(options.payees_convert);
    (options.dfsps, options.pairs) = dfsps(&mut section);
    options.settlement = settlement(&mut file.section("settlement", "settlement"));
}

fn settlement(section: &mut Section<'_>) -> Settlement {
    let gross = section.choice("model", &["net", "gross"]) == Some(1);
    let every_ms =
        section.duration("every").map(|every| u64::try_from(every.as_millis()).unwrap_or(u64::MAX));
    Settlement { gross, every_ms }
}

/// One load, or several at the same time, each with its own operation.
fn loads(file: &mut Section<'_>, has_operation: bool, options: &mut RunOptions) {
    let loads = parallel(&mut file.tables("parallel", "parallel"));
    let mut section = file.section("load", "load");
    (options.load, options.percent_of_breakpoint) = load(&mut section);
    if loads.is_empty() {
        return;
    }
    if has_operation || section.is_given() {
        let text = "operation and [load] have no effect beside [[parallel]], whose loads have their own";
        section.mistake(text);
    }
    options.scenario = Scenario::Parallel;
    options.load = Load::Parallel { loads };
}

fn times(section: &mut Section<'_>, options: &mut RunOptions) {
    let measured = section.duration("measured");
    options.warm_up = section.duration("warm_up").unwrap_or(options.warm_up);
    options.cool_down = section.duration("cool_down").unwrap_or_default();
    options.slices = section.size("slices", 1..=SLICES_MAX);
    options.expiry = section.duration("expiry").unwrap_or(options.expiry);
    options.callback_timeout = section.duration("callback_timeout").unwrap_or(options.callback_timeout);
    options.quiesce_timeout = section.duration("quiesce_timeout").unwrap_or(options.quiesce_timeout);
    match (options.load.stages_length(), measured) {
        (Some(_), Some(_)) => {
            section.mistake("time.measured: the stages of the load determine the duration");
        }
        (Some(length), None) => {
            options.duration = length.saturating_sub(options.warm_up + options.cool_down);
        }
        (None, Some(measured)) => options.duration = measured,
        (None, None) => options.duration = Duration::from_secs(20),
    }
}

fn behaviour(section: &mut Section<'_>) -> DfspSettings {
    const PER_MILLE: std::ops::RangeInclusive<u64> = 0..=1000;
    const MS: std::ops::RangeInclusive<u64> = 0..=600_000;
    DfspSettings {
        flavour: section.value("flavour").unwrap_or_default(),
        delay_ms: section.small("delay_ms", MS).unwrap_or(0),
        drop_per_mille: section.small("drop_per_mille", PER_MILLE).unwrap_or(0),
        duplicate_per_mille: section.small("duplicate_per_mille", PER_MILLE).unwrap_or(0),
        repeat_prepare_per_mille: section.small("repeat_prepare_per_mille", PER_MILLE).unwrap_or(0),
        wrong_fulfilment_per_mille: section.small("wrong_fulfilment_per_mille", PER_MILLE).unwrap_or(0),
        abort_per_mille: section.small("abort_per_mille", PER_MILLE).unwrap_or(0),
        http_error_per_mille: section.small("http_error_per_mille", PER_MILLE).unwrap_or(0),
        http_error_status: section.small("http_error_status", 400..=599).unwrap_or(0),
        slow_read_per_mille: section.small("slow_read_per_mille", PER_MILLE).unwrap_or(0),
        slow_read_ms: section.small("slow_read_ms", MS).unwrap_or(1000),
        fee_per_mille: section.small("fee_per_mille", PER_MILLE).unwrap_or(0),
        // The default.
        fx_rate_per_mille: 0,
        owns_every_party: false,
    }
}

fn compare(section: &mut Section<'_>, options: &mut RunOptions) {
    let given = section.texts("baselines").unwrap_or_default();
    let alone = section.text("alone");
    let parse = |text: &String| {
        let found = Baseline::from_str(text, false);
        if found.is_err() {
            section.mistake(format!("{text:?}: the baselines are sims-only and forwarder"));
        }
        found.ok()
    };
    options.baselines = given.iter().filter_map(parse).collect();
    options.alone = alone.as_ref().and_then(parse);
}

fn targets(section: &mut Section<'_>) -> Vec<Target> {
    let target = |kind: TargetKind| section.number(kind.key()).map(|limit| Target { kind, limit });
    TargetKind::ALL.into_iter().filter_map(target).collect()
}

fn test(file: &mut Section<'_>, targets: &[Target]) -> Test {
    let index = file.choice("test", &Test::NAMES).unwrap_or(1);
    let mut section = file.section("breakpoint", "breakpoint");
    let usual = Search::default();
    let search = Search {
        start_per_s: section.small("start_per_s", 1..=1_000_000).unwrap_or(usual.start_per_s),
        factor_percent: section.small("factor_percent", 105..=1_000).unwrap_or(usual.factor_percent),
        precision_percent: section.small("precision_percent", 1..=50).unwrap_or(usual.precision_percent),
        probes_max: section.small("probes_max", 2..=100).unwrap_or(usual.probes_max),
    };
    if section.is_given() && Test::NAMES[index] != "breakpoint" {
        section.mistake("[breakpoint] requires test = \"breakpoint\"");
    }
    match Test::NAMES[index] {
        "smoke" => Test::Smoke,
        "stress" => Test::Stress,
        "spike" => Test::Spike,
        "soak" => Test::Soak,
        "breakpoint" => {
            if targets.is_empty() {
                file.mistake_at(0, "a breakpoint search needs [targets]: give at least one");
            }
            Test::Breakpoint(search)
        }
        _ => Test::Average,
    }
}
