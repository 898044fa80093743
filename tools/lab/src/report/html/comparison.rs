//! The comparison on the page: the verdict in words, intervals as a picture, the figures.

use super::axis::{Scale, round_number};
use super::markup::Markup;
use super::tied;
use crate::report::compare::{Comparison, Difference, Judgement, Pair};
use crate::report::text::judged;

/// The whole comparison.
pub(crate) fn section(comparison: &Comparison, heading: &str) -> Markup {
    let mut markup = Markup::new();
    markup.put("<section class=\"verdict\"><h2>{}</h2>", &[&heading]);
    if comparison.pairs.iter().any(|pair| pair.subject.is_some()) {
        markup.add(&overview(comparison));
        markup.raw("<details><summary><b>Every figure of every pair</b></summary>");
        for pair in &comparison.pairs {
            markup.add(&one(pair));
        }
        markup.raw("</details>");
    } else {
        for pair in &comparison.pairs {
            markup.add(&one(pair));
        }
    }
    markup.put("<p class=\"note\">{} ", &[&comparison.method()]);
    markup.raw("The line of a figure is where the true difference lies; one that touches zero may be noise.</p></section>");
    markup
}

/// What a pair is about first: throughput, or the tail where the schedule set the throughput.
fn main_difference(pair: &Pair) -> Option<&Difference> {
    pair.differences.iter().find(|difference| Some(difference.metric) == pair.decided_by)
}

/// Many pairs as one picture: a reader of forty wants to know first how they went.
fn overview(comparison: &Comparison) -> Markup {
    let mut markup = Markup::new();
    let pairs: Vec<(&Pair, &Difference)> =
        comparison.pairs.iter().filter_map(|pair| Some((pair, main_difference(pair)?))).collect();
    let reach = reach(pairs.iter().map(|(_, difference)| *difference));
    head(&mut markup, "base", "other", reach);
    for (pair, difference) in pairs {
        let subject = pair.subject.as_deref().unwrap_or_default();
        // Of one subject the runs' own names tell them apart.
        let same = comparison.pairs.iter().filter(|other| other.subject == pair.subject).count();
        let is_alone = same == 1;
        let name = if is_alone { subject } else { pair.other.as_str() };
        let small = match (is_alone, pair.warnings.is_empty()) {
            (_, false) => "see the warnings below".to_owned(),
            (true, true) => format!("{} against {}", pair.other, pair.base),
            (false, true) => format!("against {}", pair.base),
        };
        row(&mut markup, name, &small, difference, reach);
    }
    markup.raw("</tbody></table></div>");
    markup
}

fn tone(difference: &Difference) -> &'static str {
    match difference.judgement {
        // What was run once each is to be repeated before anybody is glad or sorry.
        Judgement::Real if difference.within_run => "unsure",
        Judgement::Real if difference.is_better() => "better",
        Judgement::Real => "worse",
        _ => "unsure",
    }
}

fn one(pair: &Pair) -> Markup {
    let mut markup = Markup::new();
    markup.raw("<article>");
    if let Some(subject) = &pair.subject {
        markup.put("<h3>{}</h3>", &[subject]);
    }
    markup.put("<p class=\"lead\">{}</p>", &[&tied(&pair.verdict)]);
    if !pair.warnings.is_empty() {
        markup.raw("<ul class=\"findings\">");
        for warning in &pair.warnings {
            markup.put("<li>{}</li>", &[warning]);
        }
        markup.raw("</ul>");
    }
    if pair.differences.is_empty() {
        markup.raw("</article>");
        return markup;
    }
    let reach = reach(pair.differences.iter());
    head(&mut markup, &pair.base, &pair.other, reach);
    for difference in &pair.differences {
        let small = if difference.metric.more_is_better() { "more is better" } else { "less is better" };
        row(&mut markup, difference.metric.name(), small, difference, reach);
    }
    markup.raw("</tbody></table></div></article>");
    markup
}

/// The head of a table of intervals, down to its first row.
fn head(markup: &mut Markup, base: &str, other: &str, reach: f64) {
    let reach = round_number(reach * 100.0);
    markup.put(
        "<div class=\"scroll\"><table class=\"forest\"><thead><tr><th></th><th>{}</th><th>{}</th><th>difference</th>\
         <th class=\"wide\"><span class=\"ends\"><span>−{} %</span><span>0</span><span>+{} %</span></span></th><th></th>\
         </tr></thead><tbody>",
        &[&base, &other, &reach, &reach],
    );
}

/// A difference as figures and as a line about zero.
fn row(markup: &mut Markup, name: &str, small: &str, difference: &Difference, reach: f64) {
    let scale = Scale::Linear { low: -reach, high: reach };
    let mark = if difference.within_run { " †" } else { "" };
    let metric = difference.metric;
    markup.put(
        "<tr class=\"{}\"><th scope=\"row\">{} <small>{}</small></th><td>{}</td><td>{}</td><td><b>{}</b>{}</td>",
        &[
            &tone(difference),
            &name,
            &small,
            &metric.format(difference.base),
            &metric.format(difference.other),
            &difference.text(),
            &mark,
        ],
    );
    markup.raw("<td class=\"wide\"><span class=\"interval\">");
    let percent = |value: f64| format!("{:.2}", scale.place(value) * 100.0);
    if let Some(interval) = &difference.interval {
        let width = (scale.place(interval.high) - scale.place(interval.low)) * 100.0;
        markup.put("<i style=\"left:{}%;width:{}%\"></i>", &[&percent(interval.low), &format!("{width:.2}")]);
    }
    markup.put(
        "<u style=\"left:{}%\"></u></span></td><td>{}</td></tr>",
        &[&percent(difference.relative), &judged(difference)],
    );
}

/// A round difference that all of them are within, unless one is far away from everything.
fn reach<'a>(differences: impl Iterator<Item = &'a Difference>) -> f64 {
    let ends = differences.flat_map(|difference| {
        let interval = difference.interval.map(|interval| [interval.low, interval.high]);
        interval.into_iter().flatten().chain([difference.relative])
    });
    let largest = ends.map(f64::abs).filter(|end| end.is_finite()).fold(0.02, f64::max);
    [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0].into_iter().find(|reach| *reach >= largest).unwrap_or(10.0)
}
