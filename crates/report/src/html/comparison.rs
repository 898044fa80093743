//! The comparison on the page: the verdict in words, intervals as a picture, the figures.

use super::axis::{Scale, round_number};
use super::markup::Markup;
use super::tied;
use crate::compare::{Comparison, Difference, Judgement, Metric, Pair};
use crate::text::judgement;

/// The whole comparison.
pub(crate) fn section(comparison: &Comparison) -> Markup {
    let mut markup = Markup::new();
    markup.raw("<section class=\"verdict\"><h2>Verdict</h2>");
    let by_subject = comparison.pairs.iter().any(|pair| pair.subject.is_some());
    if by_subject && comparison.pairs.len() > 3 {
        markup.add(&overview(comparison));
    }
    for pair in &comparison.pairs {
        markup.add(&one(pair));
    }
    markup.put("<p class=\"note\">{} ", &[&comparison.method()]);
    markup.raw("The line of a figure is where the true difference lies; one that crosses nothing may be noise.</p></section>");
    markup
}

/// Counts of suites: a reader of forty pairs wants to know first how they went.
fn overview(comparison: &Comparison) -> Markup {
    let main = comparison.pairs.iter().filter_map(|pair| pair.differences.first());
    let (mut better, mut worse, mut other) = (0, 0, 0);
    for difference in main {
        match difference.judgement {
            Judgement::Real if difference.is_better() => better += 1,
            Judgement::Real => worse += 1,
            _ => other += 1,
        }
    }
    let mut markup = Markup::new();
    markup.put(
        "<p class=\"lead\">{} runs in common: {} really better in throughput, {} really worse, {} the same, within noise or measured once.</p>",
        &[&comparison.pairs.len(), &better, &worse, &other],
    );
    markup
}

fn tone(difference: &Difference) -> &'static str {
    match difference.judgement {
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
    let reach = reach(&pair.differences);
    let scale = Scale::Linear { low: -reach, high: reach };
    markup.put(
        "<div class=\"scroll\"><table class=\"forest\"><thead><tr><th></th><th>{}</th><th>{}</th><th>difference</th>\
         <th class=\"wide\"><span class=\"ends\"><span>−{} %</span><span>0</span><span>+{} %</span></span></th><th></th></tr></thead><tbody>",
        &[&pair.base, &pair.other, &round_number(reach * 100.0), &round_number(reach * 100.0)],
    );
    for difference in &pair.differences {
        let mark = if difference.within_run { " †" } else { "" };
        let metric = difference.metric;
        markup.put(
            "<tr class=\"{}\"><th scope=\"row\">{} <small>{}</small></th><td>{}</td><td>{}</td><td><b>{}</b>{}</td>",
            &[
                &tone(difference),
                &metric.name(),
                &if metric == Metric::Throughput { "more is better" } else { "less is better" },
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
            markup.put(
                "<i style=\"left:{}%;width:{}%\"></i>",
                &[&percent(interval.low), &format!("{width:.2}")],
            );
        }
        markup.put(
            "<u style=\"left:{}%\"></u></span></td><td>{}</td></tr>",
            &[&percent(difference.relative), &judgement(difference.judgement)],
        );
    }
    markup.raw("</tbody></table></div></article>");
    markup
}

/// A round difference that all of them are within, unless one is far away from everything.
fn reach(differences: &[Difference]) -> f64 {
    let ends = differences.iter().flat_map(|difference| {
        let interval = difference.interval.map(|interval| [interval.low, interval.high]);
        interval.into_iter().flatten().chain([difference.relative])
    });
    let largest = ends.map(f64::abs).filter(|end| end.is_finite()).fold(0.02, f64::max);
    [0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0].into_iter().find(|reach| *reach >= largest).unwrap_or(10.0)
}
