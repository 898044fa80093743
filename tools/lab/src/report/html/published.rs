//! Published figures beside ours on the page: how they went by kind, then every row.

use super::markup::Markup;
use super::table::{Bar, Cell, table};
use super::tied;
use crate::report::published::{
    Beside, BesideRow, PublishedRow, Standing, conditions_in_full, spelled, times,
};
use crate::report::statistics::median;

/// So many rows that are worse are named in the headline.
const WORSE_NAMED_MAX: usize = 3;

/// What rows are about, in the order in which they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    EndToEnd,
    Latency,
    Questions,
    Stages,
    Positions,
    Callbacks,
    Resources,
    Settings,
    Equipment,
}

impl Kind {
    const ALL: [Self; 9] = [
        Self::EndToEnd,
        Self::Latency,
        Self::Questions,
        Self::Stages,
        Self::Positions,
        Self::Callbacks,
        Self::Resources,
        Self::Settings,
        Self::Equipment,
    ];

    const fn heading(self) -> &'static str {
        match self {
            Self::EndToEnd => "Payments and transfers, end to end",
            Self::Latency => "Latency, end to end",
            Self::Questions => "Lookups and quotes",
            Self::Stages => "One stage alone",
            Self::Positions => "Positions alone",
            Self::Callbacks => "Callbacks alone",
            Self::Resources => "What it takes of a machine",
            Self::Settings => "Gained or lost by a setting",
            Self::Equipment => "Other programs and the machine itself, no hubs",
        }
    }

    /// By the words of the row's name, so that the file of published figures need not say it twice.
    fn of(row: &PublishedRow) -> Self {
        let id = row.id.as_str();
        let has = |words: &[&str]| id.split('-').any(|part| words.contains(&part));
        let begins = |words: &[&str]| id.split('-').next().is_some_and(|part| words.contains(&part));
        if begins(&["forwarder", "http", "rsa", "simulators", "sync", "tigerbeetle"]) {
            Self::Equipment
        } else if begins(&["audit", "caching", "logging", "mysql", "others", "payee"]) {
            Self::Settings
        } else if begins(&["lookup", "quote"]) {
            Self::Questions
        } else if has(&["notification"]) {
            Self::Callbacks
        } else if has(&["position"]) {
            Self::Positions
        } else if has(&["fulfil", "post", "prepare", "put", "streaming"]) {
            Self::Stages
        } else if has(&["cpu", "memory"]) {
            Self::Resources
        } else if row.less_is_better() {
            Self::Latency
        } else {
            Self::EndToEnd
        }
    }
}

/// A row with what it says of itself in full.
struct Full<'beside> {
    beside: &'beside BesideRow,
    kind: Kind,
    what: String,
    conditions: String,
}

/// The rows by kind; what says "the same" as the row above it is spelled out, as it may stand elsewhere here.
fn in_full(beside: &Beside) -> Vec<Full<'_>> {
    let mut what = String::new();
    let rows = beside.rows.iter().zip(conditions_in_full(beside)).map(|(beside, conditions)| Full {
        beside,
        kind: Kind::of(&beside.row),
        what: spelled(&beside.row.what, &mut what),
        conditions,
    });
    rows.collect()
}

/// How the figures of hubs stand: what is no hub tells how this machine stands beside theirs, not how this hub does.
pub(crate) fn standing(beside: &Beside) -> Standing {
    let hubs = || beside.rows.iter().filter(|row| Kind::of(&row.row) != Kind::Equipment);
    let all: Vec<f64> = hubs().filter_map(|row| row.times).collect();
    Standing {
        published: hubs().filter(|row| row.row.figure.is_some()).count(),
        compared: all.len(),
        better: all.iter().filter(|times| **times > 1.0).count(),
        missed: hubs().filter(|row| row.missed.is_some()).count(),
        middle: median(&all),
    }
}

/// The whole part.
pub(crate) fn section(beside: &Beside) -> Markup {
    let mut markup = Markup::new();
    let rows = in_full(beside);
    let scale = scale(&rows);
    if !beside.summary.is_empty() {
        markup.put("<p class=\"lead\">{}</p>", &[&tied(&beside.summary)]);
    }
    markup.put("<p class=\"lead\">{}</p>", &[&tied(&headline(beside, &rows))]);
    markup.raw(
        "<p class=\"note\">Theirs are figures of other machines and of other years, most of them with more hardware and with relaxed \
         durability: what stands here is an order of magnitude, not a race. Hub, simulated participants and load generator of ours \
         shared one machine. Bars are logarithmic and begin at 1 ×, where both are equal.</p>",
    );
    markup.add(&by_kind(&rows, scale));
    if !beside.conditions.is_empty() {
        markup.put("<p class=\"note\">Ours, unless a row says otherwise: {}.</p>", &[&beside.conditions]);
    }
    markup.add(&every_row(&rows, scale));
    markup
}

/// How it went, in a sentence.
fn headline(beside: &Beside, rows: &[Full<'_>]) -> String {
    let Standing { published, compared, missed, middle, .. } = standing(beside);
    let without = match missed {
        0 => String::new(),
        1 => " One has no ratio, as our run missed what was asked of it.".to_owned(),
        _ => format!(" {missed} have no ratio, as our runs missed what was asked of them."),
    };
    let Some(middle) = middle else {
        return format!("None of {published} published figures stands beside one of ours.{without}");
    };
    let worse: Vec<String> =
        rows.iter().filter(|row| row.kind != Kind::Equipment).filter_map(behind).collect();
    let verdict = match compared - worse.len() {
        better if better == compared => "all of them".to_owned(),
        better => format!("{better} of them"),
    };
    let but = match worse.len() {
        0 => String::new(),
        1..=WORSE_NAMED_MAX => format!(" Not in {}.", worse.join("; ")),
        _ => " The red bars are those where it is not.".to_owned(),
    };
    format!(
        "{compared} of {published} published figures stand beside one that this machine measured. Ours is better in {verdict}; in the \
         middle by {}.{but}{without}",
        times(middle)
    )
}

/// A row in which ours is not better, by its name; with what it is for each vCPU, as the machines differ.
fn behind(row: &Full<'_>) -> Option<String> {
    let found = row.beside.times.filter(|found| *found <= 1.0)?;
    let per_vcpu = &row.beside.per_vcpu;
    let per_vcpu =
        if per_vcpu.contains('×') { format!(", {per_vcpu} for each vCPU") } else { String::new() };
    Some(format!("{} ({}{per_vcpu})", row.what, times(found)))
}

/// The ends of the bars' column: from one, or a tenth if something of ours is worse, to the power of ten above the
/// best.
fn scale(rows: &[Full<'_>]) -> (f64, f64) {
    let all =
        || rows.iter().filter_map(|row| row.beside.times).filter(|times| *times > 0.0 && times.is_finite());
    (all().fold(1.0, f64::min).log10().floor(), all().fold(10.0, f64::max).log10().ceil())
}

/// What the ends of the bars' column stand for.
fn scale_head((low, high): (f64, f64)) -> String {
    let bound = |power: f64| {
        let value = 10_f64.powf(power);
        // A power of ten without digits that say nothing.
        if value < 1.0 { format!("{value}") } else { crate::report::figures::grouped(value, 0) }
    };
    format!("{} ×…{} ×", bound(low), bound(high))
}

/// From 1 ×, to the right if ours is better.
fn bar((low, high): (f64, f64), times: Option<f64>) -> Cell {
    let place = |times: f64| (times.log10() - low) / (high - low);
    let class = if times.is_some_and(|times| times < 1.0) { "worse" } else { "" };
    Cell::bar(Bar { ends: times.map(|times| (place(1.0), place(times))), mark: Some(place(1.0)), class })
}

/// One bar for each kind: the middle of its rows, and from where to where they go.
fn by_kind(rows: &[Full<'_>], scale: (f64, f64)) -> Markup {
    let row = |kind: Kind| {
        let mut all: Vec<f64> =
            rows.iter().filter(|row| row.kind == kind).filter_map(|row| row.beside.times).collect();
        all.sort_by(f64::total_cmp);
        let (middle, low, high) = (median(&all)?, all.first()?, all.last()?);
        Some(vec![
            kind.heading().into(),
            bar(scale, Some(middle)),
            times(middle).into(),
            times(*low).into(),
            times(*high).into(),
            all.len().to_string().into(),
        ])
    };
    let head = ["", &scale_head(scale), "times better, in the middle", "from", "to", "figures"];
    table(&head, Kind::ALL.into_iter().filter_map(row))
}

/// Every row below its kind, with both figures and what is to be known of them.
fn every_row(rows: &[Full<'_>], scale: (f64, f64)) -> Markup {
    let of_kind = |kind: Kind| {
        let rows: Vec<Vec<Cell>> =
            rows.iter().filter(|row| row.kind == kind).map(|row| every_row_one(row, scale)).collect();
        let heading = (!rows.is_empty()).then(|| vec![Cell::from(kind.heading())]);
        heading.into_iter().chain(rows)
    };
    let head =
        ["what, and their conditions", "published", "ours", &scale_head(scale), "times better", "per vCPU"];
    table(&head, Kind::ALL.into_iter().flat_map(of_kind))
}

fn every_row_one(row: &Full<'_>, scale: (f64, f64)) -> Vec<Cell> {
    let beside = row.beside;
    let joined = |texts: [&str; 2], by: &str| {
        texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(by)
    };
    let theirs = joined([&row.conditions, &beside.row.source], " · ");
    let ours = joined([&beside.load, &beside.remark], "; ");
    let ours = if ours.is_empty() { ours } else { format!("Ours: {ours}") };
    let times = if beside.missed.is_some() { "alarm" } else { "" };
    vec![
        Cell::from(row.what.as_str()).with(theirs).with(ours),
        beside.shown(beside.row.figure).into(),
        beside.shown(beside.ours).into(),
        bar(scale, beside.times),
        Cell::classed(beside.times_text(), times),
        beside.per_vcpu.as_str().into(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(id: &str, what: &str, conditions: &str, unit: &str, times: Option<f64>) -> BesideRow {
        let row = PublishedRow {
            id: id.into(),
            what: what.into(),
            conditions: conditions.into(),
            unit: unit.into(),
            figure: Some(100.0),
            ..PublishedRow::default()
        };
        BesideRow { row, ours: times.map(|times| 100.0 * times), times, ..BesideRow::default() }
    }

    #[test]
    fn rows_go_by_their_kind_and_say_in_full_what_they_are() {
        let beside = Beside {
            rows: vec![
                row("e2e-2020", "transfers end to end", "24 pods", "/s", Some(15.0)),
                row("e2e-2020-mean", "the same, mean latency", "the same", "ms", Some(0.5)),
                row("notification-best", "callbacks alone", "desktop", "/s", None),
                row("dqt-iso", "discovery, quote and transfer", "the same; mesh", "/s", Some(3.0)),
            ],
            conditions: "2 cores".into(),
            summary: "It went well.".into(),
        };
        let kinds: Vec<Kind> = beside.rows.iter().map(|row| Kind::of(&row.row)).collect();
        assert_eq!(kinds, [Kind::EndToEnd, Kind::Latency, Kind::Callbacks, Kind::EndToEnd]);
        let page = section(&beside).into_string();
        assert!(page.starts_with("<p class=\"lead\">It went well.</p>"), "{page}");
        assert!(page.contains("3 of 4 published figures"), "{page}");
        assert!(page.contains("Ours is better in 2 of them; in the middle by 3.00\u{a0}×. Not in transfers end to end, mean latency (0.50\u{a0}×)."), "{page}");
        assert!(page.contains("transfers end to end, mean latency<small>24 pods</small>"), "{page}");
        assert!(page.contains("<small>desktop; mesh</small>"), "{page}");
        // Something is worse, so the bars begin in the middle of a scale from a tenth to a hundred.
        assert!(page.contains("<span>0.1 ×</span><span>100 ×</span>"), "{page}");
        assert!(page.contains("class=\"worse\" style=\"left:23.30%;width:10.03%\""), "{page}");
        assert!(page.contains("Ours, unless a row says otherwise: 2 cores."), "{page}");
    }

    #[test]
    fn nothing_of_ours_is_said_to_be_that() {
        let beside = Beside { rows: vec![row("e2e", "transfers", "", "/s", None)], ..Beside::default() };
        let page = section(&beside).into_string();
        assert!(page.contains("None of 1 published figures stands beside one of ours."), "{page}");
    }
}
