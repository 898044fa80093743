//! What the page says of one run.

use super::plots;
use super::sections::{Objective, breakpoint, drift, objectives};
use super::table::{Cell, Markup, findings, table, terms};
use crate::report::figures::{
    ABSENT, capitalised, count, grouped, microseconds, milliseconds, number, or_absent, percent,
};
use crate::report::html::tied;
use crate::report::run::{Run, plain};
use crate::result::schema::Validity;

/// Headline in words, figures, badges: what must be read if nothing else is.
pub(crate) fn summary(run: &Run) -> Markup {
    let mut markup = Markup::new();
    markup.put("<p class=\"lead\">{}</p>", &[&tied(&headline(run))]);
    markup.add(&tiles(run)).add(&badges(run));
    markup.add(&objectives("Targets", run.targets.iter().map(Objective::from)));
    markup
}

/// Everything measured over time, by distribution, by stage; then where it was and how to repeat it.
pub(crate) fn details(run: &Run, group: &str) -> Markup {
    let mut over_time = Markup::new();
    plots::of_run(run, group).iter().for_each(|plot| {
        over_time.add(&plot.markup());
    });
    let mut latency = Markup::new();
    let mut pair = classes(run);
    if let Some(plot) = plots::percentiles(std::slice::from_ref(run), group) {
        pair.add(&plot.markup());
    }
    if !pair.is_empty() {
        latency.raw("<div class=\"pair\">").add(&pair).raw("</div>");
    }
    latency.add(&latency_table(run));
    let mut cpu = cpu(run);
    cpu.add(&super::sections::shares(run)).add(&super::sections::flame_graph(run)).add(&processes(run));
    let mut markup = Markup::new();
    for (heading, content) in [
        ("Over time", over_time),
        ("Where it breaks", breakpoint(run, group)),
        ("What time does to it", drift(run)),
        ("Latency", latency),
        ("Where the time goes", stages(run)),
        ("Where the CPU goes", cpu),
        ("Loads at the same time", loads(run)),
        ("Load generators", generators(run)),
        ("Integrity", integrity(run)),
        ("Conditions", conditions(run)),
    ] {
        if !content.is_empty() {
            markup.put("<section><h3>{}</h3>", &[&heading]).add(&content).raw("</section>");
        }
    }
    markup
}

/// The result in sentences for people who do not read percentiles.
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
            "of the arrivals it was asked to take, the hub completed"
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
                "; above it the load generator could not keep up, and the hub may hold more"
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
    terms(
        "tiles",
        [
            [
                capitalised(&format!("{} per second", run.units())),
                figure("throughput_per_s", number),
                "completed in the measured time".to_owned(),
            ],
            ["p50 latency".to_owned(), figure("latency_ms.p50", milliseconds), "half were faster".to_owned()],
            [
                "p99 latency".to_owned(),
                figure("latency_ms.p99", milliseconds),
                "99 of 100 were faster".to_owned(),
            ],
            [
                "Longer than 1 s".to_owned(),
                figure("latency_ms.share_over_1s", over),
                "share of all".to_owned(),
            ],
            [
                format!("CPU of the hub per {}", run.unit()),
                run.hub_cpu_us().map(microseconds).unwrap_or_default(),
                "all its threads together".to_owned(),
            ],
            [
                "Memory of the hub".to_owned(),
                peak.map(|peak| format!("{} MiB", number(peak))).unwrap_or_default(),
                "the most it was".to_owned(),
            ],
        ],
    )
}

/// Whether the figures may be believed, each with its reason.
fn badges(run: &Run) -> Markup {
    let mut markup = Markup::new();
    markup.raw("<ul class=\"badges\">");
    let mut badge = |class: &'static str, title: &str, reason: &str| {
        markup.put("<li class=\"{}\"><b>{}</b> <span>{}</span></li>", &[&class, &title, &reason]);
    };
    match run.judged() {
        Some(Validity { valid: true, .. }) => {
            badge("good", "Valid", "the load was what was asked for, and passed every gate");
        }
        Some(Validity { findings, .. }) if findings.is_empty() => {
            badge("bad", "Not valid", "the figures do not count");
        }
        Some(Validity { findings, .. }) => badge("bad", "Not valid", &findings.join("; ")),
        None => badge("open", "Validity not checked", "this kind of run has no schedule to keep"),
    }
    match &run.thresholds {
        Some(thresholds) if thresholds.met => {
            badge("good", "Thresholds met", "few failed, nothing was slow, and what was due was completed");
        }
        Some(thresholds) => badge("bad", "Thresholds not met", &thresholds.findings.join("; ")),
        None => {}
    }
    if let Some(machine) = run.machine.as_ref().filter(|machine| machine.full) {
        badge("open", "Cores full", &machine.words);
    }
    match run.audited() {
        Some(audit) if audit.ok => badge(
            "good",
            "Audit holds",
            "every accepted request has one outcome, and all balances agree with the participants' own books",
        ),
        Some(audit) => badge("bad", "Audit failed", &audit.findings.join("; ")),
        None if run.is_isolated() => badge("open", "Not audited", "a stage alone moves no money to audit"),
        None => badge("open", "Not audited", "no books were kept beside this run"),
    }
    match run.durable {
        Some(true) => {
            badge("good", "Durable", "nothing was acknowledged before it was safe from a power cut")
        }
        Some(false) => badge(
            "bad",
            "Not durable",
            "a power cut may lose what was acknowledged: not a figure for production",
        ),
        None => {
            badge("open", "Durability unknown", "the lab could not see how the hub stores what it accepts")
        }
    }
    markup.raw("</ul>");
    markup
}

/// Which share of the operations took how long, in classes of 1, 2, 5, 10 … milliseconds.
fn classes(run: &Run) -> Markup {
    let total = run.buckets().iter().fold(0_u64, |sum, (_, count)| sum.saturating_add(*count));
    let Some(&(smallest, _)) = run.buckets().first().filter(|_| total > 0) else { return Markup::new() };
    let above = |bound: u64| {
        [2_u64, 5, 10]
            .map(|step| step.saturating_mul(10_u64.pow(bound.ilog10())))
            .into_iter()
            .find(|next| *next > bound)
    };
    let decade = 10_u64.pow(smallest.max(1).ilog10());
    let first = [5_u64, 2, 1]
        .map(|step| step.saturating_mul(decade))
        .into_iter()
        .find(|bound| *bound <= smallest.max(1));
    let mut bounds = vec![first.unwrap_or(decade)];
    while let Some(next) = bounds.last().and_then(|bound| above(*bound))
        && bounds.last().is_some_and(|bound| run.buckets().iter().any(|(upper, _)| upper > bound))
    {
        bounds.push(next);
    }
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
    let mut markup = Markup::new();
    markup.put("<figure><figcaption><b>How long {} took</b></figcaption>", &[&run.units()]);
    markup.add(&table(&["time", " … ", "share of all"], rows)).raw("</figure>");
    markup
}

fn latency_table(run: &Run) -> Markup {
    // A payment's phases in the order in which they happen.
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
    let mut markup = table(&["stage", "time … ", "mean", "p99", "per second", "batch", "queue", "CPU"], rows);
    if !markup.is_empty() {
        let ticks = run.stages.iter().any(|stage| stage.p99_us.is_some());
        let tick = if ticks { " Tick: 99 of 100 stay below." } else { "" };
        markup.put("<p class=\"note\">Bar: mean time of one operation in the stage.{}</p>", &[&tick]);
    }
    markup
}

/// CPU per operation: of each process, and below the hub of its stages.
fn cpu(run: &Run) -> Markup {
    // One of several processes of the hub is in the row of all of them.
    let own = run.processes.iter().filter(|process| !process.name.starts_with("hub, "));
    let mut all: Vec<(String, f64)> = own
        .filter_map(|process| {
            Some((process.name.clone(), process.cpu_us_per_operation.filter(|cpu| *cpu > 0.0)?))
        })
        .collect();
    all.sort_by_key(|(name, _)| name != "hub");
    let total: f64 = all.iter().map(|(_, cpu)| cpu).sum();
    let shares = |stage: &crate::result::schema::StageResult| stage.cpu_share.filter(|share| *share > 0.0);
    let sum: f64 = run.stages.iter().filter_map(shares).sum();
    let mut pieces: Vec<(String, f64)> = Vec::new();
    for (name, cpu) in all {
        let is_hub = name == "hub";
        pieces.push((name, cpu));
        if is_hub && sum > 0.0 {
            // Shares of more than the whole are rounding, or overlap: then they are shares of their sum.
            let whole = sum.max(1.0);
            let mut stages: Vec<(String, f64)> = (run.stages.iter())
                .filter_map(|stage| {
                    Some((format!("hub: {}", stage.stage.replace('_', " ")), shares(stage)? / whole * cpu))
                })
                .collect();
            stages.sort_by(|one, other| other.1.total_cmp(&one.1));
            pieces.append(&mut stages);
            if sum < 0.995 {
                pieces.push(("hub: elsewhere".to_owned(), (1.0 - sum) * cpu));
            }
        }
    }
    let rows = pieces.into_iter().map(|(name, cpu)| {
        vec![
            name.into(),
            Cell::share(cpu / total, None),
            microseconds(cpu).into(),
            percent(cpu / total).into(),
        ]
    });
    table(&["CPU time by process and stage", " … ", &format!("per {}", run.unit()), "of all"], rows)
}

/// CPU, memory, disk and switches of every process.
fn processes(run: &Run) -> Markup {
    let megabytes = |value: Option<f64>| {
        value.map_or_else(|| ABSENT.to_owned(), |value| format!("{} MiB", number(value)))
    };
    let counted = |value: Option<u64>| value.map_or_else(|| ABSENT.to_owned(), count);
    let rows = run.processes.iter().map(|process| {
        vec![
            process.name.as_str().into(),
            or_absent(process.cpu_us_per_operation, microseconds).into(),
            or_absent(process.cores, number).into(),
            megabytes(process.rss_mb).into(),
            megabytes(process.rss_peak_mb).into(),
            megabytes(process.disk_write_mb).into(),
            counted(process.context_switches_voluntary).into(),
            counted(process.context_switches_involuntary).into(),
        ]
    });
    let head = [
        "process",
        "CPU each",
        "cores",
        "memory",
        "at most",
        "written",
        "switches, voluntary",
        "involuntary",
    ];
    table(&head, rows)
}

/// Each of several loads by itself.
fn loads(run: &Run) -> Markup {
    let rows = run.loads.iter().map(|part| {
        vec![
            part.operation.name().into(),
            part.load.to_string().into(),
            number(part.throughput_per_s).into(),
            count(part.failed).into(),
            milliseconds(part.latency_ms.p50).into(),
            milliseconds(part.latency_ms.p99).into(),
            or_absent(part.schedule.map(|schedule| schedule.lag_ms_p99), milliseconds).into(),
        ]
    });
    table(&["load", "asked for", "per second", "failed", "p50", "p99", "sent late, p99"], rows)
}

/// What each of several load generators did alone.
fn generators(run: &Run) -> Markup {
    let all = run.raw.get("generators").and_then(serde_json::Value::as_array).into_iter().flatten();
    let rows = all.map(|generator| {
        let figure = |pointer: &str, format: fn(f64) -> String| -> Cell {
            or_absent(generator.pointer(pointer).and_then(serde_json::Value::as_f64), format).into()
        };
        let valid = generator.pointer("/validity/valid").and_then(serde_json::Value::as_bool);
        vec![
            generator.get("name").map(plain).unwrap_or_default().into(),
            figure("/environment/cores", number),
            figure("/throughput_per_s", number),
            figure("/failed", number),
            figure("/latency_ms/p50", milliseconds),
            figure("/latency_ms/p99", milliseconds),
            figure("/schedule/lag_ms_p99", milliseconds),
            figure("/window/stolen_share", percent),
            valid.map_or(ABSENT, |valid| if valid { "yes" } else { "NO" }).into(),
        ]
    });
    let mut markup = table(
        &[
            "load generator",
            "cores",
            "per second",
            "failed",
            "p50",
            "p99",
            "sent late, p99",
            "taken by other machines",
            "valid",
        ],
        rows,
    );
    if !markup.is_empty() {
        markup.raw("<p class=\"note\">Several machines drove the hub at once; the figures of this page are of all of them together.</p>");
    }
    markup
}

fn integrity(run: &Run) -> Markup {
    let mut markup = Markup::new();
    let Some(audit) = run.audited() else { return markup };
    if run.value("audit.accepted").is_some() {
        markup.put(
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
        );
    }
    markup.add(&findings(&audit.findings));
    let rows = audit.positions.iter().map(|position| {
        let verdict = if position.ok { "agree" } else { "DIFFER" };
        vec![
            position.participant.as_str().into(),
            position.currency.as_str().into(),
            position.hub.as_str().into(),
            position.books.as_str().into(),
            verdict.into(),
        ]
    });
    markup.add(&table(&["participant", "currency", "position at the hub", "its own books", ""], rows));
    markup
}

/// The machine, what was asked for, and the seed: what it takes to repeat the run.
fn conditions(run: &Run) -> Markup {
    let named = |(name, value): (&String, &serde_json::Value)| (name.replace('_', " "), plain(value));
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
