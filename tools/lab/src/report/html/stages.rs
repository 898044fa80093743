//! Where time and CPU go: bars by stage, nested bars by process.

use super::markup::Markup;
use crate::report::figures::{ABSENT, microseconds, number, or_absent, percent};
use crate::report::run::{Process, Run};

/// Stages as bars of their mean time, with the tail as a tick, and their figures.
pub(crate) fn table(run: &Run) -> Markup {
    let mut markup = Markup::new();
    if run.stages.is_empty() {
        return markup;
    }
    let longest =
        run.stages.iter().flat_map(|stage| [stage.mean_us, stage.p99_us]).flatten().fold(0.0, f64::max);
    let has_tail = run.stages.iter().any(|stage| stage.p99_us.is_some());
    let note = if has_tail {
        "Bar: mean time of one operation in the stage. Tick: 99 of 100 stay below."
    } else {
        "Bar: mean time of one operation in the stage."
    };
    markup.put("<p class=\"note\">{}</p>", &[&note]);
    markup.raw(
        "<div class=\"scroll\"><table class=\"stages\"><thead><tr><th>stage</th><th class=\"wide\">time</th><th>mean</th><th>p99</th>\
         <th>per second</th><th>batch</th><th>queue</th><th>CPU</th></tr></thead><tbody>",
    );
    // A thread has no operations of its own, only CPU.
    let counted = |value: Option<f64>| value.filter(|value| *value > 0.0);
    for stage in &run.stages {
        let width = |value: f64| {
            format!("{:.2}", if longest > 0.0 { (value / longest * 100.0).clamp(0.0, 100.0) } else { 0.0 })
        };
        markup.put(
            "<tr><th scope=\"row\">{}</th><td class=\"wide\"><span class=\"bar\">",
            &[&stage.stage.replace('_', " ")],
        );
        if let Some(mean) = counted(stage.mean_us) {
            markup.put("<i style=\"width:{}%\"></i>", &[&width(mean)]);
        }
        if let Some(tail) = stage.p99_us {
            markup.put("<u style=\"left:{}%\"></u>", &[&width(tail)]);
        }
        markup.raw("</span></td>");
        for value in [
            or_absent(counted(stage.mean_us), microseconds),
            or_absent(stage.p99_us, microseconds),
            or_absent(counted(stage.per_s), number),
            or_absent(stage.batch_mean, number),
            or_absent(stage.queue_depth, number),
            or_absent(stage.cpu_share, percent),
        ] {
            markup.put("<td>{}</td>", &[&value]);
        }
        markup.raw("</tr>");
    }
    markup.raw("</tbody></table></div>");
    markup
}

/// A piece of the nested bars.
struct Piece {
    name: String,
    /// Microseconds per operation.
    cpu: f64,
    class: &'static str,
}

/// CPU per operation as nested bars: all of it, by process, the hub's by stage.
pub(crate) fn cpu(run: &Run) -> Markup {
    let mut markup = Markup::new();
    let all = run.processes();
    let mut pieces: Vec<Piece> = all.iter().filter_map(process_piece).collect();
    // The hub first: what is below it is its own.
    pieces.sort_by_key(|piece| piece.name != "hub");
    let total: f64 = pieces.iter().map(|piece| piece.cpu).sum();
    if total <= 0.0 {
        return markup;
    }
    let unit = run.unit();
    markup.put(
        "<p class=\"note\">CPU time per {}; each row divides the one above it.</p><div class=\"nested\">",
        &[&unit],
    );
    row(
        &mut markup,
        &[Piece { name: format!("all processes, per {unit}"), cpu: total, class: "whole" }],
        total,
    );
    row(&mut markup, &pieces, total);
    let hub = pieces.iter().find(|piece| piece.name == "hub").map(|piece| piece.cpu);
    let stages = hub.map(|hub| hub_pieces(run, hub)).unwrap_or_default();
    if !stages.is_empty() {
        row(&mut markup, &stages, total);
    }
    markup.raw("</div>");
    markup
}

fn process_piece(process: &Process) -> Option<Piece> {
    // One of several processes of the hub is in the row of all of them.
    let is_part = process.name.starts_with("hub, ");
    let cpu = process.cpu_us_per_operation.filter(|cpu| *cpu > 0.0 && cpu.is_finite() && !is_part)?;
    let class = match process.name.as_str() {
        "hub" => "hub",
        // One of several load generators is told by its name.
        name if name == "lab" || name.starts_with("lab, ") => "lab",
        _ => "other",
    };
    Some(Piece { name: process.name.clone(), cpu, class })
}

fn hub_pieces(run: &Run, hub: f64) -> Vec<Piece> {
    let share = |share: Option<f64>| share.filter(|share| *share > 0.0 && share.is_finite());
    let mut shares: Vec<(&str, f64)> =
        run.stages.iter().filter_map(|stage| Some((stage.stage.as_str(), share(stage.cpu_share)?))).collect();
    if shares.is_empty() {
        return Vec::new();
    }
    shares.sort_by(|first, second| second.1.total_cmp(&first.1));
    let sum: f64 = shares.iter().map(|(_, share)| share).sum();
    // Shares of more than the whole are rounding, or overlap: then they are shares of their sum.
    let whole = sum.max(1.0);
    let shades = ["s0", "s1", "s2", "s3"];
    let mut pieces: Vec<Piece> = shares
        .iter()
        .enumerate()
        .map(|(index, (name, share))| Piece {
            name: name.replace('_', " "),
            cpu: share / whole * hub,
            class: shades[index % shades.len()],
        })
        .collect();
    if sum < 0.995 {
        pieces.push(Piece { name: "elsewhere".to_owned(), cpu: (1.0 - sum) * hub, class: "rest" });
    }
    pieces
}

fn row(markup: &mut Markup, pieces: &[Piece], total: f64) {
    markup.raw("<div class=\"level\">");
    for piece in pieces {
        let share = piece.cpu / total;
        let text = format!("{}: {} ({} of all)", piece.name, microseconds(piece.cpu), percent(share));
        markup.put(
            "<div class=\"{}\" style=\"width:{}%\" title=\"{}\"><b>{}</b> <span>{}</span></div>",
            &[&piece.class, &format!("{:.3}", share * 100.0), &text, &piece.name, &microseconds(piece.cpu)],
        );
    }
    markup.raw("</div>");
}

/// CPU, memory, disk and switches of every process.
pub(crate) fn processes(run: &Run) -> Markup {
    let mut markup = Markup::new();
    let mut processes = run.processes();
    for baseline in run.baseline.iter().chain(&run.more_baselines) {
        if let Some(process) = &baseline.process
            && !processes.iter().any(|known| known.name == baseline.name)
        {
            processes.push(Process { name: baseline.name.clone(), ..process.clone() });
        }
    }
    if processes.is_empty() {
        return markup;
    }
    markup.raw(
        "<div class=\"scroll\"><table><thead><tr><th>process</th><th>CPU each</th><th>cores</th><th>memory</th><th>at most</th>\
         <th>written</th><th>switches, voluntary</th><th>involuntary</th></tr></thead><tbody>",
    );
    let megabytes = |value: Option<f64>| {
        value.map_or_else(|| ABSENT.to_owned(), |value| format!("{} MiB", number(value)))
    };
    for process in &processes {
        markup.put("<tr><th scope=\"row\">{}</th>", &[&process.name]);
        for value in [
            or_absent(process.cpu_us_per_operation, microseconds),
            or_absent(process.cores, number),
            megabytes(process.rss_mb),
            megabytes(process.rss_peak_mb),
            megabytes(process.disk_write_mb),
            or_absent(process.context_switches_voluntary, number),
            or_absent(process.context_switches_involuntary, number),
        ] {
            markup.put("<td>{}</td>", &[&value]);
        }
        markup.raw("</tr>");
    }
    markup.raw("</tbody></table></div>");
    markup
}
