//! Published figures beside ours on the page: the rows of the Markdown table, each with what its notes say.

use super::markup::Markup;
use super::table::{Cell, table};
use super::tied;
use crate::report::published::{Beside, conditions_in_full};

/// The whole part.
pub(crate) fn section(beside: &Beside) -> Markup {
    let mut markup = Markup::new();
    if !beside.summary.is_empty() {
        markup.put("<p class=\"lead\">{}</p>", &[&tied(&beside.summary)]);
    }
    markup.raw(
        "<p class=\"note\">Theirs are figures of other machines and of other years, most of them with more hardware and with relaxed \
         durability: what stands here is an order of magnitude, not a race. Hub, simulated participants and load generator of ours \
         shared one machine.</p>",
    );
    if !beside.conditions.is_empty() {
        markup.put("<p class=\"note\">Ours, unless a row says otherwise: {}.</p>", &[&beside.conditions]);
    }
    let joined = |texts: [&str; 2], by: &str| {
        texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(by)
    };
    let rows = beside.rows.iter().zip(conditions_in_full(beside)).map(|(row, conditions)| {
        let theirs = joined([&conditions, &row.row.source], " · ");
        let ours = joined([&row.load, &row.remark], "; ");
        let ours = if ours.is_empty() { ours } else { format!("Ours: {ours}") };
        vec![
            Cell::from(row.row.what.as_str()).with(theirs).with(ours),
            row.shown(row.row.figure).into(),
            row.shown(row.ours).into(),
            Cell::classed(row.times_text(), if row.missed.is_some() { "alarm" } else { "" }),
            row.per_vcpu.as_str().into(),
        ]
    });
    markup
        .add(&table(&["what, and their conditions", "published", "ours", "times better", "per vCPU"], rows));
    markup
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::published::{BesideRow, PublishedRow};

    #[test]
    fn rows_say_in_full_how_they_were_reached() {
        let row = |what: &str, conditions: &str, missed: Option<&str>| BesideRow {
            row: PublishedRow {
                what: what.into(),
                conditions: conditions.into(),
                unit: "/s".into(),
                figure: Some(100.0),
                ..PublishedRow::default()
            },
            ours: Some(150.0),
            times: missed.is_none().then_some(1.5),
            missed: missed.map(str::to_owned),
            load: "32 users".into(),
            ..BesideRow::default()
        };
        let rows = vec![row("transfers", "24 pods", None), row("lookups", "the same; mesh", Some("lost 3"))];
        let beside = Beside { rows, conditions: "2 cores".into(), summary: "It went well.".into() };
        let page = section(&beside).into_string();
        for text in [
            "<p class=\"lead\">It went well.</p>",
            "Ours, unless a row says otherwise: 2 cores.",
            "transfers<small>24 pods</small><small>Ours: 32 users</small>",
            "<small>24 pods; mesh</small>",
            ">100/s</td><td class=\"\">150/s</td><td class=\"\">1.50 ×</td>",
            "<td class=\"alarm\">missed: lost 3</td>",
        ] {
            assert!(page.contains(text), "{text}: {page}");
        }
    }
}
