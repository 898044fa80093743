//! The page's section about one run.

use serde_json::Value;

use super::plots::{self, Plot};
use super::sections::{breakpoint, drift, flame_graph, objective, objectives, shares};
use super::table::{Cell, Markup, columns, findings, table, terms};
use crate::figures::{
    ABSENT, capitalised, count, grouped, microseconds, milliseconds, number, or_absent, percent, plain,
};
use crate::report::html::tied;
use crate::report::run::Run;
use crate::result::schema::{ProcessRow, StageResult, Validity};

/// Headline in words, figures, badges: the minimum for a reader.
pub(crate) fn summary(run: &Run) -> Markup {
    let targets = run
        .targets
        .iter()
        .map(|target| objective(&target.name, target.limit, target.measured, Some(target.met), None));
    let headline = Markup::of("<p class=\"lead\">{}</p>", &[&tied(&headline(run))]);
    [headline, tiles(run), badges(run), objectives("Targets", targets)].into_iter().collect()
}

/// All measurements over time, by distribution and by stage; the environment; the command that repeats the run.
pub(crate) fn details(run: &Run, group: &str) -> Markup {
    let percentiles = plots::percentiles(std::slice::from_ref(run), group);
    let pair: Markup = [classes(run)].into_iter().chain(percentiles.iter().map(Plot::markup)).collect();
    let latency = [pair.within("<div class=\"pair\">{}</div>"), latency_table(run)];
    let cpu = [cpu(run), shares(run), flame_graph(run), processes(run)];
    let part = |(heading, content): (&str, Markup)| {
        let section = || Markup::of("<section><h3>{}</h3>{}</section>", &[&heading, &content]);
        (!content.is_empty()).then(section)
    };
    let parts = [
        ("Over time", plots::of_run(run, group).iter().map(Plot::markup).collect()),
        ("Highest rate", breakpoint(run, group)),
        ("Changes over time", drift(run)),
        ("Latency", latency.into_iter().collect()),
        ("Where the time goes", stages(run)),
        ("Where the CPU goes", cpu.into_iter().collect()),
        ("Loads at the same time", loads(run)),
        ("Load generators", generators(run)),
        ("Integrity", integrity(run)),
        ("Conditions", conditions(run)),
    ];
    parts.into_iter().filter_map(part).collect()
}

/// The result in sentences for readers who do not know percentiles.
fn headline(run: &Run) -> String {
    let units = run.units();
    let mut text = String::new();
    if let Some(throughput) = run.number("throughput_per_s") {
        let place = run
            .value("environment.cores")
            .map_or_else(String::new, |cores| format!("On {} cores, ", plain(cores)));
        let what = if run.is_isolated() {
            "this stage alone handled"
        } else if run.is_open_loop() {
            "of the requested arrivals, the hub completed"
        } else {
            "the hub completed"
        };
        text.push_str(&capitalised(&format!("{place}{what} {} {units} per second. ", number(throughput))));
    }
    let latency = |name: &str| run.number(&format!("latency_ms.{name}")).map(milliseconds);
    if let (Some(p50), Some(p99)) = (latency("p50"), latency("p99")) {
        let slowest = latency("max").map_or_else(String::new, |max| format!(", and the slowest {max}"));
        text.push_str(&format!("Half of them took less than {p50}, 99 of 100 less than {p99}{slowest}. "));
    }
    if let Some(found) = &run.breakpoint
        && let Some(rate) = found.highest_met_per_s
    {
        text.push_str(&format!(
            "The highest rate that met every target is {} per second{}. ",
            number(f64::from(rate)),
            if found.is_generators() {
                "; above it the load generator could not keep up, and the hub may handle more"
            } else {
                ""
            }
        ));
    }
    match (run.count("failed"), run.count("lost")) {
        (Some(0), Some(0)) => text.push_str("None failed and none was lost."),
        (failed, lost) => {
            let some = |value: Option<u64>, words: &str| {
                value.filter(|value| *value > 0).map(|value| format!("{} {words}", count(value)))
            };
            let parts: Vec<String> =
                [some(failed, "failed"), some(lost, "have no outcome")].into_iter().flatten().collect();
            if !parts.is_empty() {
                text.push_str(&format!("{}.", parts.join(" and ")));
            }
        }
    }
    text.trim_end().to_owned()
}

fn tiles(run: &Run) -> Markup {
    let figure = |path: &str, format: fn(f64) -> String| run.number(path).map(format).unwrap_or_default();
    let over = |share: f64| if share == 0.0 { "none".to_owned() } else { percent(share) };
    let peak = run.hub().and_then(|hub| hub.rss_peak_mb);
    let throughput = capitalised(&format!("{} per second", run.units()));
    let cpu = format!("CPU of the hub per {}", run.unit());
    let tiles = [
        (throughput.as_str(), figure("throughput_per_s", number), "completed in the measured time"),
        ("p50 latency", figure("latency_ms.p50", milliseconds), "half were faster"),
        ("p99 latency", figure("latency_ms.p99", milliseconds), "99 of 100 were faster"),
        ("Longer than 1 s", figure("latency_ms.share_over_1s", over), "share of all"),
        (&cpu, run.hub_cpu_us().map(microseconds).unwrap_or_default(), "all its threads together"),
        ("Memory of the hub", peak.map(mebibytes).unwrap_or_default(), "maximum"),
    ];
    terms("tiles", tiles.map(|(name, value, meaning)| [name.to_owned(), value, meaning.to_owned()]))
}

fn mebibytes(value: f64) -> String {
    format!("{} MiB", number(value))
}

/// Whether the figures are valid, with the reasons.
fn badges(run: &Run) -> Markup {
    let badge = |class: &str, title: &str, reason: &str| {
        Markup::of("<li class=\"{}\"><b>{}</b> <span>{}</span></li>", &[&class, &title, &reason])
    };
    let validity = match run.judged() {
        Some(Validity { valid: true, .. }) => {
            badge("good", "Valid", "the load followed the request, and the run passed every gate")
        }
        Some(Validity { findings, .. }) if findings.is_empty() => {
            badge("bad", "Not valid", "the figures are not valid")
        }
        Some(Validity { findings, .. }) => badge("bad", "Not valid", &findings.join("; ")),
        None => badge("open", "Validity not checked", "this kind of run has no schedule to keep"),
    };
    let thresholds = run.thresholds.as_ref().map(|thresholds| match thresholds.met {
        true => badge(
            "good",
            "Thresholds met",
            "few operations failed, few were slow, and the due ones completed",
        ),
        false => badge("bad", "Thresholds not met", &thresholds.findings.join("; ")),
    });
    let full = run.machine.as_ref().filter(|machine| machine.full);
    let full = full.map(|machine| badge("open", "Cores full", &machine.words));
    let audit = match run.audited() {
        Some(audit) if audit.ok => badge(
            "good",
            "Audit holds",
            "every accepted request has one outcome, and all balances agree with the participants' own books",
        ),
        Some(audit) => badge("bad", "Audit failed", &audit.findings.join("; ")),
        None if run.is_isolated() => badge("open", "Not audited", "an isolated stage moves no money"),
        None => badge("open", "Not audited", "the DFSPs kept no books in this run"),
    };
    let durable = match run.durable {
        Some(true) => badge(
            "good",
            "Durable",
            "the hub acknowledged transfers only after they were safe from a power failure",
        ),
        Some(false) => badge(
            "bad",
            "Not durable",
            "a power failure may lose acknowledged transfers: the figures do not apply to production",
        ),
        None => badge("open", "Durability unknown", "the lab does not know how the hub stores transfers"),
    };
    let all = [Some(validity), thresholds, full, Some(audit), Some(durable)];
    all.into_iter().flatten().collect::<Markup>().within("<ul class=\"badges\">{}</ul>")
}

/// The shares of the operations by duration, in classes of 1, 2, 5, 10 … milliseconds.
fn classes(run: &Run) -> Markup {
    let total = run.buckets().iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let Some(&(smallest, _)) = run.buckets().first().filter(|_| total > 0) else { return Markup::default() };
    // 1, 2, 5, 10, 20 … microseconds.
    let decade = |power| [1_u64, 2, 5].map(|step| step.saturating_mul(10_u64.pow(power)));
    let steps: Vec<u64> = (0..20).flat_map(decade).collect();
    let largest = run.buckets().iter().map(|(upper, _)| *upper).max().unwrap_or(smallest);
    let first = steps.partition_point(|step| *step <= smallest.max(1)) - 1;
    let last = steps.partition_point(|step| *step < largest).clamp(first, steps.len() - 1);
    let bounds = &steps[first..=last];
    let mut counts = vec![0; bounds.len()];
    for (upper, count) in run.buckets() {
        let place = bounds.iter().position(|bound| upper <= bound).unwrap_or(bounds.len() - 1);
        counts[place] = u64::saturating_add(counts[place], *count);
    }
    let most = counts.iter().copied().max().unwrap_or(1) as f64;
    let bound = |place: usize| milliseconds(bounds[place] as f64 / 1e3);
    let rows =
        counts.iter().enumerate().filter(|(place, count)| *place > 0 || **count > 0).map(|(place, count)| {
            let name = match place.checked_sub(1) {
                Some(below) => format!("{} to {}", bound(below), bound(place)),
                None => format!("up to {}", bound(place)),
            };
            let share = *count as f64 / total as f64;
            let shown = if *count > 0 { percent(share) } else { "none".to_owned() };
            vec![name.into(), Cell::share(*count as f64 / most, None), shown.into()]
        });
    Markup::of(
        "<figure><figcaption><b>How long {} took</b></figcaption>{}</figure>",
        &[&run.units(), &table(&["time", " … ", "share of all"], rows)],
    )
}

fn latency_table(run: &Run) -> Markup {
    // The phases of a payment in their order.
    let phases = ["discovery", "agreement", "conversion", "transfer"];
    let has = |phase: &&str| run.raw.pointer(&format!("/phases/{phase}")).is_some();
    let several = phases.iter().filter(|phase| has(phase)).count() > 1;
    let whole = if several { "end to end" } else { run.unit() };
    let of_phases = phases.into_iter().filter(|phase| several && has(phase));
    let rows = [(whole, "latency_ms".to_owned())]
        .into_iter()
        .chain(of_phases.map(|phase| (phase, format!("phases.{phase}.latency_ms"))));
    let members = ["mean", "p50", "p90", "p95", "p99", "p999", "p9999", "max"];
    let figure = |path: &str| or_absent(run.number(path), |value| grouped(value, 3)).into();
    table(
        &["milliseconds", "mean", "p50", "p90", "p95", "p99", "p99.9", "p99.99", "slowest"],
        rows.map(|(name, path)| {
            let figures = members.iter().map(|member| figure(&format!("{path}.{member}")));
            [name.into()].into_iter().chain(figures).collect()
        }),
    )
}

/// Stages as bars of their mean time, with the tail as a tick, and their figures.
fn stages(run: &Run) -> Markup {
    let longest =
        run.stages.iter().flat_map(|stage| [Some(stage.mean_us), stage.p99_us]).flatten().fold(0.0, f64::max);
    let part = |value: f64| if longest > 0.0 { value / longest } else { 0.0 };
    // A thread has no operations of its own, only CPU.
    let counted = |value: f64| Some(value).filter(|value| *value > 0.0);
    let rows = run.stages.iter().map(|stage| {
        vec![
            stage.stage.replace('_', " ").into(),
            Cell::share(part(stage.mean_us), stage.p99_us.map(part)),
            or_absent(counted(stage.mean_us), microseconds).into(),
            or_absent(stage.p99_us, microseconds).into(),
            or_absent(counted(stage.per_s), number).into(),
            or_absent(stage.batch_mean, number).into(),
            or_absent(stage.queue_depth, number).into(),
            or_absent(stage.cpu_share, percent).into(),
        ]
    });
    let has_ticks = run.stages.iter().any(|stage| stage.p99_us.is_some());
    table(&["stage", "time … ", "mean", "p99", "per second", "batch", "queue", "CPU"], rows).within(
        if has_ticks {
            "{}<p class=\"note\">Bar: mean time of one operation in the stage. Tick: 99 of 100 stay below.</p>"
        } else {
            "{}<p class=\"note\">Bar: mean time of one operation in the stage.</p>"
        },
    )
}

/// CPU per operation: of each process, and below the hub of its stages.
fn cpu(run: &Run) -> Markup {
    let is_used = |cpu: &f64| *cpu > 0.0;
    // If the hub has several processes, the row of all of them includes each one.
    let own = run.processes.iter().filter(|process| !process.name.starts_with("hub, "));
    let of_process =
        |process: &ProcessRow| Some((process.name.clone(), process.cpu_us_per_operation.filter(is_used)?));
    let mut pieces: Vec<(String, f64)> = own.filter_map(of_process).collect();
    pieces.sort_by_key(|(name, _)| name != "hub");
    let total: f64 = pieces.iter().map(|(_, cpu)| cpu).sum();
    let of_stage = |stage: &StageResult| {
        Some((format!("hub: {}", stage.stage.replace('_', " ")), stage.cpu_share.filter(is_used)?))
    };
    let mut stages: Vec<(String, f64)> = run.stages.iter().filter_map(of_stage).collect();
    stages.sort_by(|one, other| other.1.total_cmp(&one.1));
    let sum: f64 = stages.iter().map(|(_, share)| share).sum();
    if sum > 0.0
        && let Some(hub) = pieces.first().filter(|(name, _)| name == "hub").map(|(_, cpu)| *cpu)
    {
        // Shares of more than the whole are due to rounding or overlap. Then they are shares of their sum.
        let whole = sum.max(1.0);
        let elsewhere = (sum < 0.995).then(|| ("hub: elsewhere".to_owned(), 1.0 - sum));
        let of_hub = stages.into_iter().chain(elsewhere).map(|(name, share)| (name, share / whole * hub));
        drop(pieces.splice(1..1, of_hub));
    }
    let rows = pieces.into_iter().map(|(name, cpu)| {
        let share = cpu / total;
        vec![name.into(), Cell::share(share, None), microseconds(cpu).into(), percent(share).into()]
    });
    table(&["CPU time by process and stage", " … ", &format!("per {}", run.unit()), "of all"], rows)
}

/// CPU, memory, disk and switches of every process.
fn processes(run: &Run) -> Markup {
    let counted = |value: Option<u64>| Cell::from(value.map_or_else(|| ABSENT.to_owned(), count));
    columns(
        &run.processes,
        &[
            ("process", &|process| process.name.as_str().into()),
            ("CPU each", &|process| or_absent(process.cpu_us_per_operation, microseconds).into()),
            ("cores", &|process| or_absent(process.cores, number).into()),
            ("memory", &|process| or_absent(process.rss_mb, mebibytes).into()),
            ("at most", &|process| or_absent(process.rss_peak_mb, mebibytes).into()),
            ("written", &|process| or_absent(process.disk_write_mb, mebibytes).into()),
            ("switches, voluntary", &|process| counted(process.context_switches_voluntary)),
            ("involuntary", &|process| counted(process.context_switches_involuntary)),
        ],
    )
}

/// Each of several parallel loads.
fn loads(run: &Run) -> Markup {
    columns(
        &run.loads,
        &[
            ("load", &|part| part.operation.name().into()),
            ("asked for", &|part| part.load.to_string().into()),
            ("per second", &|part| number(part.throughput_per_s).into()),
            ("failed", &|part| count(part.failed).into()),
            ("p50", &|part| milliseconds(part.latency_ms.p50).into()),
            ("p99", &|part| milliseconds(part.latency_ms.p99).into()),
            ("sent late, p99", &|part| {
                or_absent(part.schedule.map(|schedule| schedule.lag_ms_p99), milliseconds).into()
            }),
        ],
    )
}

/// The own figures of each of several load generators.
fn generators(run: &Run) -> Markup {
    let all = run.raw.get("generators").and_then(Value::as_array).into_iter().flatten();
    let figure = |one: &Value, pointer: &str, format: fn(f64) -> String| -> Cell {
        or_absent(one.pointer(pointer).and_then(Value::as_f64), format).into()
    };
    let validity = |one: &Value| match one.pointer("/validity/valid").and_then(Value::as_bool) {
        Some(true) => "yes",
        Some(false) => "NO",
        None => ABSENT,
    };
    let rows = columns(
        all,
        &[
            ("load generator", &|one| one.get("name").map(plain).unwrap_or_default().into()),
            ("cores", &|one| figure(one, "/environment/cores", number)),
            ("per second", &|one| figure(one, "/throughput_per_s", number)),
            ("failed", &|one| figure(one, "/failed", number)),
            ("p50", &|one| figure(one, "/latency_ms/p50", milliseconds)),
            ("p99", &|one| figure(one, "/latency_ms/p99", milliseconds)),
            ("sent late, p99", &|one| figure(one, "/schedule/lag_ms_p99", milliseconds)),
            ("taken by other machines", &|one| figure(one, "/window/stolen_share", percent)),
            ("valid", &|one| validity(one).into()),
        ],
    );
    rows.within(
        "{}<p class=\"note\">Several machines drove the hub at once; this page combines their figures.</p>",
    )
}

fn integrity(run: &Run) -> Markup {
    let Some(audit) = run.audited() else { return Markup::default() };
    let counts = run.value("audit.accepted").map(|_| {
        Markup::of(
            "<p>{} accepted = {} finished + {} in flight. {} lost, {} doubled, {} contradicted, {} later than a user waits.</p>",
            &[
                &count(audit.accepted),
                &count(audit.finished),
                &count(audit.in_flight),
                &count(audit.lost),
                &count(audit.doubled),
                &count(audit.contradictions),
                &count(run.late),
            ],
        )
    });
    let positions = columns(
        &audit.positions,
        &[
            ("participant", &|position| position.participant.as_str().into()),
            ("currency", &|position| position.currency.as_str().into()),
            ("position at the hub", &|position| position.hub.as_str().into()),
            ("its own books", &|position| position.books.as_str().into()),
            ("", &|position| if position.ok { "agree" } else { "DIFFER" }.into()),
        ],
    );
    counts.into_iter().chain([findings(&audit.findings), positions]).collect()
}

/// The machine, the options and the seed: all that is needed to repeat the run.
fn conditions(run: &Run) -> Markup {
    let named = |(name, value): (&String, &Value)| (name.replace('_', " "), plain(value));
    let mut rows: Vec<(String, String)> = vec![("varied".to_owned(), run.parameters_text())];
    rows.extend(run.environment.iter().chain(&run.options).map(named));
    let mut row = |name: &str, value: String| rows.push((name.to_owned(), value));
    row("seed", run.value("seed").map(plain).unwrap_or_default());
    row("target", run.target.clone());
    row("machine", run.machine.as_ref().map(|machine| machine.words.clone()).unwrap_or_default());
    if run.value("window").is_some() {
        let [seconds, start, end] =
            [run.window.seconds, run.window.trimmed_start_s, run.window.trimmed_end_s].map(number);
        row("figures are of", format!("{seconds} s, after the first {start} s and before the last {end} s"));
    }
    if let Some(share) = run.window.stolen_share {
        row("taken by other machines", format!("{} of the cores' time", percent(share)));
    }
    terms("conditions", rows.into_iter().map(|(name, value)| [name, value, String::new()]))
}
