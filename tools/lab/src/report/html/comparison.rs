//! The comparison on the page: the verdict in words, intervals as bars, the figures.

use super::markup::Markup;
use super::table::{Bar, Cell, findings, table};
use super::tied;
use crate::report::compare::{Comparison, Difference, Judgement, Pair};
use crate::report::text::judged;

/// The whole comparison.
pub(crate) fn section(comparison: &Comparison, heading: &str) -> Markup {
    let mut markup = Markup::new();
    markup.put("<section class=\"verdict\"><h2>{}</h2>", &[&heading]);
    let has_subjects = comparison.pairs.iter().any(|pair| pair.subject.is_some());
    if has_subjects {
        markup.add(&overview(comparison));
        markup.raw("<details><summary><b>Every figure of every pair</b></summary>");
    }
    comparison.pairs.iter().for_each(|pair| {
        markup.add(&one(pair));
    });
    if has_subjects {
        markup.raw("</details>");
    }
    markup.put("<p class=\"note\">{} ", &[&comparison.method()]);
    markup.raw("The bar of a figure is where the true difference lies; one that touches the middle may be noise.</p></section>");
    markup
}

/// Many pairs in one table: a reader of forty wants to know first how they went.
fn overview(comparison: &Comparison) -> Markup {
    let main = |pair: &Pair| {
        pair.differences.iter().find(|difference| Some(difference.metric) == pair.decided_by).cloned()
    };
    let pairs: Vec<(&Pair, Difference)> =
        comparison.pairs.iter().filter_map(|pair| Some((pair, main(pair)?))).collect();
    let reach = reach(pairs.iter().map(|(_, difference)| difference));
    let rows = pairs.iter().map(|(pair, difference)| {
        let subject = pair.subject.as_deref().unwrap_or_default();
        // Of one subject the runs' own names tell them apart.
        let is_alone = comparison.pairs.iter().filter(|other| other.subject == pair.subject).count() == 1;
        let name = if is_alone { subject } else { pair.other.as_str() };
        let small = match (is_alone, pair.warnings.is_empty()) {
            (_, false) => "see the warnings below".to_owned(),
            (true, true) => format!("{} against {}", pair.other, pair.base),
            (false, true) => format!("against {}", pair.base),
        };
        row(name, &small, difference, reach)
    });
    table(&head("base", "other", reach).each_ref().map(String::as_str), rows)
}

fn one(pair: &Pair) -> Markup {
    let mut markup = Markup::new();
    markup.raw("<article>");
    if let Some(subject) = &pair.subject {
        markup.put("<h3>{}</h3>", &[subject]);
    }
    markup.put("<p class=\"lead\">{}</p>", &[&tied(&pair.verdict)]).add(&findings(&pair.warnings));
    let reach = reach(pair.differences.iter());
    let rows = pair.differences.iter().map(|difference| {
        let small = if difference.metric.more_is_better() { "more is better" } else { "less is better" };
        row(difference.metric.name(), small, difference, reach)
    });
    markup.add(&table(&head(&pair.base, &pair.other, reach).each_ref().map(String::as_str), rows));
    markup.raw("</article>");
    markup
}

fn head(base: &str, other: &str, reach: f64) -> [String; 6] {
    let reach = crate::report::figures::grouped(reach * 100.0, 0);
    ["", base, other, "difference", &format!("−{reach} % …+{reach} %"), ""].map(str::to_owned)
}

/// A difference as figures and as a bar about the middle.
fn row(name: &str, small: &str, difference: &Difference, reach: f64) -> Vec<Cell> {
    let mark = if difference.within_run { " †" } else { "" };
    let place = |value: f64| (value / reach + 1.0) / 2.0;
    let tone = match difference.judgement {
        // What was run once each is to be repeated before anybody is glad or sorry.
        Judgement::Real if difference.within_run => "unsure",
        Judgement::Real if difference.is_better() => "better",
        Judgement::Real => "worse",
        _ => "unsure",
    };
    let interval = difference.interval.map(|interval| (place(interval.low), place(interval.high)));
    vec![
        Cell::from(name).with(small),
        difference.metric.format(difference.base).into(),
        difference.metric.format(difference.other).into(),
        Cell::classed(format!("{}{mark}", difference.text()), tone),
        Cell::bar(Bar { ends: interval, mark: Some(place(difference.relative)), class: tone }),
        judged(difference).into(),
    ]
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
