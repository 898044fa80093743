//! The hub's CPU time by stage, where a profile lies beside the result: bars upon bars as in a flame graph, and the figures.

use std::collections::BTreeMap;

use super::markup::Markup;
use crate::report::figures::{ABSENT, count, percent};
use crate::report::run::Run;
use crate::report::shares::{Shares, StageShare};

const SHADES: [&str; 4] = ["s0", "s1", "s2", "s3"];

/// Bars and table; nothing without a profile.
pub(crate) fn shares(run: &Run) -> Markup {
    let mut markup = Markup::new();
    let Some(shares) = run.shares.as_ref().filter(|shares| shares.samples > 0) else { return markup };
    markup.put(
        "<p class=\"note\">The hub's CPU time by stage, from {} samples of its stacks. A sample belongs to the innermost stage that it \
         lies in; below each stage is where in it the processor was. ± is half of the share's 95 % interval, if samples are independent.</p>",
        &[&count(shares.samples)],
    );
    markup.raw("<div class=\"nested flame\"><div class=\"level\">");
    piece(&mut markup, "whole", "the hub", 1.0, 1.0);
    markup.raw("</div><div class=\"level\">");
    for (index, stage) in shares.stages.iter().enumerate() {
        markup.put("<div class=\"stack\" style=\"width:{}%\">", &[&width(stage.share, 1.0)]);
        markup.raw("<div class=\"level\">");
        let class = if stage.stage == "other" { "rest" } else { SHADES[index % SHADES.len()] };
        piece(&mut markup, class, &stage.stage, stage.share, stage.share);
        markup.raw("</div><div class=\"level\">");
        for inside in &stage.inside {
            piece(&mut markup, "rest", &inside.what, inside.share, stage.share);
        }
        markup.raw("</div></div>");
    }
    markup.raw("</div></div>");
    table(&mut markup, shares);
    markup
}

/// The flame graph of the same samples, folded; nothing where there is none that a page can hold.
pub(crate) fn flame_graph(run: &Run) -> Markup {
    let mut markup = Markup::new();
    if let Some(graph) = &run.flame_graph {
        // As an image it can run nothing and fetch nothing.
        markup.put(
            "<details><summary>The flame graph of the same samples</summary><img alt=\"Flame graph\" style=\"max-width:100%\" \
             src=\"data:image/svg+xml;base64,{}\"></details>",
            &[graph],
        );
    }
    markup
}

/// A box as wide as its share of what it lies in, both as shares of the whole.
fn piece(markup: &mut Markup, class: &str, name: &str, share: f64, of: f64) {
    let title = format!("{name}: {} of the hub's CPU time", percent(share));
    markup.put(
        "<div class=\"{}\" style=\"width:{}%\" title=\"{}\"><b>{}</b> <span>{}</span></div>",
        &[&class, &width(share, of), &title, &name, &percent(share)],
    );
}

fn width(share: f64, of: f64) -> String {
    let part = if of > 0.0 && share.is_finite() { (share / of).clamp(0.0, 1.0) } else { 0.0 };
    format!("{:.3}", part * 100.0)
}

fn table(markup: &mut Markup, shares: &Shares) {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for inside in shares.stages.iter().flat_map(|stage| &stage.inside) {
        *sums.entry(&inside.what).or_default() += inside.share;
    }
    let mut kinds: Vec<(&str, f64)> = sums.into_iter().collect();
    kinds.sort_by(|first, second| second.1.total_cmp(&first.1));
    markup.raw(
        "<div class=\"scroll\"><table><thead><tr><th>stage</th><th>share</th><th>±</th><th>samples</th>",
    );
    for (kind, _) in &kinds {
        markup.put("<th>{}</th>", &[kind]);
    }
    markup.raw("</tr></thead><tbody>");
    for stage in &shares.stages {
        markup.put(
            "<tr><th scope=\"row\">{}</th><td><b>{}</b></td><td>{}</td><td>{}</td>",
            &[&stage.stage, &percent(stage.share), &percent(stage.error), &count(stage.samples)],
        );
        for (kind, _) in &kinds {
            markup.put("<td>{}</td>", &[&part(stage, kind)]);
        }
        markup.raw("</tr>");
    }
    markup.put(
        "<tr><th scope=\"row\">all</th><td>{}</td><td></td><td>{}</td>",
        &[&percent(1.0), &count(shares.samples)],
    );
    for (_, sum) in &kinds {
        markup.put("<td>{}</td>", &[&percent(*sum)]);
    }
    markup.raw("</tr></tbody></table></div>");
}

fn part(stage: &StageShare, kind: &str) -> String {
    let inside = stage.inside.iter().find(|inside| inside.what == kind);
    inside.map_or_else(|| ABSENT.to_owned(), |inside| percent(inside.share))
}
