//! What the page says of one run.

use super::markup::Markup;
use super::{distribution, generators, limits, profile, stages, timeline};
use crate::report::figures::{
    capitalised, count, grouped, microseconds, milliseconds, number, or_absent, percent,
};
use crate::report::html::tied;
use crate::report::run::{Audit, Run, plain};

/// Headline in words, figures, badges: what must be read if nothing else is.
pub(crate) fn summary(run: &Run) -> Markup {
    let mut markup = Markup::new();
    markup.put("<p class=\"lead\">{}</p>", &[&tied(&headline(run))]);
    markup.add(&tiles(run)).add(&badges(run)).add(&limits::targets("Targets", &run.targets));
    markup
}

/// Everything measured over time, by distribution, by stage; then where it was and how to repeat it.
pub(crate) fn details(run: &Run, group: &str) -> Markup {
    let mut markup = Markup::new();
    section(&mut markup, "Over time", |markup| {
        for plot in timeline::of_run(run, group) {
            markup.add(&plot.markup());
        }
    });
    section(&mut markup, "Where it breaks", |markup| {
        markup.add(&limits::breakpoint(run, group));
    });
    section(&mut markup, "What time does to it", |markup| {
        markup.add(&limits::drift(run));
    });
    section(&mut markup, "Latency", |markup| {
        let mut pair = Markup::new();
        pair.add(&distribution::classes(run));
        if let Some(plot) = distribution::percentiles(&[run], group) {
            pair.add(&plot.markup());
        }
        if !pair.is_empty() {
            markup.raw("<div class=\"pair\">").add(&pair).raw("</div>");
        }
        markup.add(&latency_table(run));
    });
    section(&mut markup, "Where the time goes", |markup| {
        markup.add(&stages::table(run));
    });
    section(&mut markup, "Where the CPU goes", |markup| {
        markup.add(&stages::cpu(run)).add(&profile::shares(run)).add(&profile::flame_graph(run));
        markup.add(&stages::processes(run));
    });
    section(&mut markup, "Loads at the same time", |markup| {
        markup.add(&loads(run));
    });
    section(&mut markup, "Load generators", |markup| {
        markup.add(&generators::table(run));
    });
    section(&mut markup, "Integrity", |markup| {
        if let Some(audit) = run.audited() {
            markup.add(&integrity(audit, run));
        }
    });
    section(&mut markup, "Conditions", |markup| {
        markup.add(&conditions(run));
    });
    markup
}

/// A part with a heading, left out when it has nothing to say.
fn section(markup: &mut Markup, heading: &'static str, content: impl FnOnce(&mut Markup)) {
    let mut inside = Markup::new();
    content(&mut inside);
    if !inside.is_empty() {
        markup.put("<section><h3>{}</h3>", &[&heading]).add(&inside).raw("</section>");
    }
}

/// The result in sentences for people who do not read percentiles.
fn headline(run: &Run) -> String {
    let units = run.units();
    let mut text = String::new();
    if let Some(throughput) = run.throughput_per_s {
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
    let latency = &run.latency_ms;
    if let (Some(p50), Some(p99)) = (latency.p50, latency.p99) {
        text.push_str(&format!(
            "Half of them took less than {}, 99 of 100 less than {}",
            milliseconds(p50),
            milliseconds(p99)
        ));
        let slowest =
            latency.max.map_or_else(String::new, |max| format!(", and the slowest {}", milliseconds(max)));
        text.push_str(&format!("{slowest}. "));
    }
    if let Some(found) = &run.breakpoint
        && let Some(rate) = found.highest_met_per_s
    {
        text.push_str(&format!("The highest rate that met every target is {} per second", number(rate)));
        text.push_str(if found.is_generators() {
            "; above it the load generator could not keep up, and the hub may hold more. "
        } else {
            ". "
        });
    }
    match (run.failed, run.lost) {
        (Some(0), Some(0)) => text.push_str("None failed and none was lost."),
        (failed, lost) => {
            let failed =
                failed.filter(|failed| *failed > 0).map(|failed| format!("{} failed", count(failed)));
            let lost = lost.filter(|lost| *lost > 0).map(|lost| format!("{} have no outcome", count(lost)));
            let parts: Vec<_> = failed.into_iter().chain(lost).collect();
            if !parts.is_empty() {
                text.push_str(&format!("{}.", parts.join(" and ")));
            }
        }
    }
    text.trim_end().to_owned()
}

fn tiles(run: &Run) -> Markup {
    let latency = &run.latency_ms;
    let over =
        latency.share_over_1s.map(|share| if share == 0.0 { "none".to_owned() } else { percent(share) });
    let tiles = [
        (
            capitalised(&format!("{} per second", run.units())),
            run.throughput_per_s.map(number),
            "completed in the measured time",
        ),
        ("p50 latency".to_owned(), latency.p50.map(milliseconds), "half were faster"),
        ("p99 latency".to_owned(), latency.p99.map(milliseconds), "99 of 100 were faster"),
        ("Longer than 1 s".to_owned(), over, "share of all"),
        (
            format!("CPU of the hub per {}", run.unit()),
            run.hub_cpu_us().map(microseconds),
            "all its threads together",
        ),
        (
            "Memory of the hub".to_owned(),
            run.hub().and_then(|hub| hub.rss_peak_mb).map(|peak| format!("{} MiB", number(peak))),
            "the most it was",
        ),
    ];
    let mut markup = Markup::new();
    markup.raw("<dl class=\"tiles\">");
    for (name, value, meaning) in tiles {
        let Some(value) = value else { continue };
        markup.put(
            "<div><dt>{}</dt><dd>{}</dd><dd class=\"meaning\">{}</dd></div>",
            &[&name, &value, &meaning],
        );
    }
    markup.raw("</dl>");
    markup
}

/// Whether the figures may be believed, each with its reason.
pub(crate) fn badges(run: &Run) -> Markup {
    let mut markup = Markup::new();
    markup.raw("<ul class=\"badges\">");
    let mut badge = |class: &'static str, title: &str, reason: &str| {
        markup.put("<li class=\"{}\"><b>{}</b> <span>{}</span></li>", &[&class, &title, &reason]);
    };
    let (valid, findings) = run.validity();
    let found = findings.join("; ");
    match valid {
        Some(true) => badge("good", "Valid", "the load was what was asked for, and passed every gate"),
        Some(false) => {
            badge("bad", "Not valid", if found.is_empty() { "the figures do not count" } else { &found })
        }
        None => badge("open", "Validity not checked", "this kind of run has no schedule to keep"),
    }
    match run.thresholds.as_ref().map(|thresholds| (thresholds.met, thresholds.findings.join("; "))) {
        Some((Some(true), _)) => {
            badge("good", "Thresholds met", "few failed, nothing was slow, and what was due was completed");
        }
        Some((Some(false), found)) => badge("bad", "Thresholds not met", &found),
        Some((None, _)) | None => {}
    }
    if let Some(machine) = run.machine.as_ref().filter(|machine| machine.full == Some(true)) {
        badge("open", "Cores full", &machine.words);
    }
    match (run.audited(), &run.audit) {
        (Some(audit), _) if audit.ok => {
            badge(
                "good",
                "Audit holds",
                "every accepted request has one outcome, and all balances agree with the participants' own books",
            );
        }
        (Some(audit), _) => badge("bad", "Audit failed", &audit.findings.join("; ")),
        (None, _) if run.is_isolated() => {
            badge("open", "Not audited", "a stage alone moves no money to audit")
        }
        (None, _) => badge("open", "Not audited", "no books were kept beside this run"),
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

fn latency_table(run: &Run) -> Markup {
    let several = run.phases.len() > 1;
    let mut rows = vec![(if several { "end to end" } else { run.unit() }, run.latency_ms)];
    if several {
        // A payment's phases in the order in which they happen; others by name.
        let order = ["discovery", "agreement", "transfer"];
        let mut phases: Vec<_> =
            run.phases.iter().map(|(name, phase)| (name.as_str(), phase.latency_ms)).collect();
        phases.sort_by_key(|(name, _)| order.iter().position(|known| known == name).unwrap_or(order.len()));
        rows.extend(phases);
    }
    let mut markup = Markup::new();
    markup.raw(
        "<div class=\"scroll\"><table><thead><tr><th>milliseconds</th><th>mean</th><th>p50</th><th>p90</th><th>p95</th><th>p99</th>\
         <th>p99.9</th><th>p99.99</th><th>slowest</th></tr></thead><tbody>",
    );
    for (name, latency) in rows {
        markup.put("<tr><th scope=\"row\">{}</th>", &[&name]);
        let values = [
            latency.mean,
            latency.p50,
            latency.p90,
            latency.p95,
            latency.p99,
            latency.p999,
            latency.p9999,
            latency.max,
        ];
        for value in values {
            markup.put("<td>{}</td>", &[&or_absent(value, |value| grouped(value, 3))]);
        }
        markup.raw("</tr>");
    }
    markup.raw("</tbody></table></div>");
    markup
}

fn integrity(audit: &Audit, run: &Run) -> Markup {
    let mut markup = Markup::new();
    if let (Some(accepted), Some(finished)) = (audit.accepted, audit.finished) {
        markup.put(
            "<p>{} accepted = {} finished + {} in flight. {} lost, {} doubled, {} contradicted, {} later than a user waits.</p>",
            &[
                &count(accepted),
                &count(finished),
                &count(audit.in_flight.unwrap_or(0)),
                &count(audit.lost.or(run.lost).unwrap_or(0)),
                &count(audit.doubled.unwrap_or(0)),
                &count(audit.contradictions.unwrap_or(0)),
                &count(run.late.unwrap_or(0)),
            ],
        );
    }
    if !audit.findings.is_empty() {
        markup.raw("<ul class=\"findings\">");
        for finding in &audit.findings {
            markup.put("<li>{}</li>", &[finding]);
        }
        markup.raw("</ul>");
    }
    if !audit.positions.is_empty() {
        markup.raw(
            "<div class=\"scroll\"><table><thead><tr><th>participant</th><th>position at the hub</th><th>its own books</th><th></th></tr>\
             </thead><tbody>",
        );
        for position in &audit.positions {
            let verdict = if position.ok { "agree" } else { "DIFFER" };
            markup.put(
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
                &[&position.participant, &position.hub, &position.books, &verdict],
            );
        }
        markup.raw("</tbody></table></div>");
    }
    markup
}

/// Each of several loads by itself; nothing where there was one.
fn loads(run: &Run) -> Markup {
    let mut markup = Markup::new();
    if run.loads.is_empty() {
        return markup;
    }
    markup.raw(
        "<div class=\"scroll\"><table><thead><tr><th>load</th><th>asked for</th><th>per second</th><th>failed</th><th>p50</th>\
         <th>p99</th><th>sent late, p99</th></tr></thead><tbody>",
    );
    for part in &run.loads {
        let late = part.schedule.as_ref().and_then(|schedule| schedule.lag_ms_p99);
        markup.put(
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            &[
                &part.operation,
                &crate::report::load::load(&part.load).unwrap_or_default(),
                &or_absent(part.throughput_per_s, number),
                &count(part.failed.unwrap_or(0)),
                &or_absent(part.latency_ms.p50, milliseconds),
                &or_absent(part.latency_ms.p99, milliseconds),
                &or_absent(late, milliseconds),
            ],
        );
    }
    markup.raw("</tbody></table></div>");
    markup
}

/// The machine, what was asked for, and the seed: what it takes to repeat the run.
fn conditions(run: &Run) -> Markup {
    let mut rows: Vec<(String, String)> = Vec::new();
    rows.push(("varied".to_owned(), run.parameters_text()));
    for (name, value) in &run.environment {
        rows.push((name.replace('_', " "), plain(value)));
    }
    for (name, value) in &run.options {
        rows.push((name.replace('_', " "), plain(value)));
    }
    rows.push(("seed".to_owned(), run.seed.map(|seed| seed.to_string()).unwrap_or_default()));
    rows.push(("target".to_owned(), run.target.clone().unwrap_or_default()));
    rows.push((
        "machine".to_owned(),
        run.machine.as_ref().map(|machine| machine.words.clone()).unwrap_or_default(),
    ));
    if let Some(window) = &run.window {
        let seconds = |value: Option<f64>| number(value.unwrap_or(0.0));
        let text = format!(
            "{} s, after the first {} s and before the last {} s",
            seconds(window.seconds),
            seconds(window.trimmed_start_s),
            seconds(window.trimmed_end_s)
        );
        rows.push(("figures are of".to_owned(), text));
        if let Some(share) = window.stolen_share {
            rows.push((
                "taken by other machines".to_owned(),
                format!("{} of the cores' time", percent(share)),
            ));
        }
    }
    let mut markup = Markup::new();
    markup.raw("<dl class=\"conditions\">");
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        markup.put("<div><dt>{}</dt><dd>{}</dd></div>", &[name, value]);
    }
    markup.raw("</dl>");
    markup
}
