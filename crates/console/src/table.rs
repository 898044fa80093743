//! Tables: the one form of every list, as HTML and as CSV.

use askama::Template;
use upesi_types::text::{cell, escape};
use upesi_types::{Amount, Currency, Timestamp};

use crate::show;
use crate::words::Words;

/// Maximum length of a text that is never broken, in characters.
const SHORT_CHARS: usize = 22;

/// A table with its caption. The first cell of a row is its heading.
#[derive(Clone, Debug, Template)]
#[template(path = "table.html", escape = "html")]
pub struct Table {
    /// Name of the table in the page and in the export.
    pub name: &'static str,
    pub caption: String,
    pub columns: Vec<Column>,
    pub rows: Vec<Vec<Cell>>,
    /// Text instead of the rows if there are none.
    pub empty: String,
    /// Text below the table.
    pub note: Option<String>,
    /// What is missing if the rows are only a part. It is also the last line of the export.
    pub part: Option<String>,
    /// URL of the export.
    pub csv: Option<String>,
    pub words: &'static Words,
}

/// A column.
#[derive(Clone, Debug)]
pub struct Column {
    /// Heading of the export, which stays the same in every language.
    pub key: &'static str,
    pub label: &'static str,
    pub is_number: bool,
    /// Whether it has instants. Its heading then names the time zone.
    pub is_time: bool,
    /// URL that sorts by the column, and the current order.
    pub sort: Option<(String, Order)>,
}

/// Current order of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    None,
    Rising,
    Falling,
}

impl Order {
    fn aria(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Rising => "ascending",
            Self::Falling => "descending",
        }
    }

    fn mark(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Rising => " ▲",
            Self::Falling => " ▼",
        }
    }
}

/// Meaning of a cell or a notice. Its mark and its text repeat the meaning of its colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tone {
    #[default]
    Plain,
    Good,
    Busy,
    Warning,
    Bad,
}

impl Tone {
    /// Class of the style sheet.
    pub const fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Good => "good",
            Self::Busy => "busy",
            Self::Warning => "warning",
            Self::Bad => "bad",
        }
    }

    /// A mark whose form differs from all others.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "✓",
            Self::Busy => "◷",
            Self::Warning => "▲",
            Self::Bad => "✕",
        }
    }
}

/// A horizontal bar, in thousandths of its width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bar {
    /// Begin and length of the filled part.
    pub from: u64,
    pub length: u64,
    pub tone: Tone,
    /// Lines across the bar, such as a cap.
    pub marks: Vec<Mark>,
    /// The text for people who do not see it.
    pub text: String,
}

/// A line across a bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub at: u64,
    pub class: &'static str,
}

impl Bar {
    /// Thousandths as a percentage of SVG.
    fn percent(&self, thousandths: &u64) -> String {
        let within = (*thousandths).min(1000);
        format!("{}.{}%", within / 10, within % 10)
    }
}

/// An instant of a cell.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    at: Timestamp,
    has_milliseconds: bool,
    /// The time zone, if the heading of the column does not name it.
    zone: &'static str,
}

impl Time {
    /// The instant for programs.
    pub fn machine(&self) -> String {
        self.at.to_string()
    }

    /// The instant in the language of a page.
    pub fn text(&self, words: &Words) -> String {
        let text = match self.has_milliseconds {
            true => show::instant(self.at, words),
            false => show::second(self.at, words),
        };
        if self.zone.is_empty() { text } else { format!("{text} {}", self.zone) }
    }
}

/// A cell.
#[derive(Clone, Debug, Default)]
pub struct Cell {
    pub text: String,
    /// The value in the export; the text if it is empty.
    pub value: String,
    pub href: Option<String>,
    pub tone: Tone,
    pub is_code: bool,
    pub bar: Option<Bar>,
    /// An instant. Its text is written in the language of the page.
    pub time: Option<Time>,
    /// A number to sort by.
    pub rank: Option<i128>,
}

impl Cell {
    /// A text from anywhere. Hidden characters are shown as escapes, because they could reorder the text next to them.
    pub fn text(text: &str) -> Self {
        Self { text: escape(text).into_owned(), value: text.to_owned(), ..Self::default() }
    }

    /// An identifier.
    pub fn code(text: &str) -> Self {
        Self { is_code: true, ..Self::text(text) }
    }

    /// A count.
    pub fn number(count: u64, words: &Words) -> Self {
        let rank = Some(i128::from(count));
        Self { text: show::number(count, words), value: count.to_string(), rank, ..Self::default() }
    }

    pub fn amount(amount: Amount, currency: Currency, words: &Words) -> Self {
        Self::units(i128::from(amount.units()), currency, words)
    }

    /// An amount in ten-thousandths.
    pub fn units(units: i128, currency: Currency, words: &Words) -> Self {
        let (text, value) = (show::money(units, currency, words), show::plain_money(units, currency));
        Self { text, value, rank: Some(units), ..Self::default() }
    }

    /// Tenths of a percent.
    pub fn share(permille: u64, words: &Words) -> Self {
        let value = format!("{}.{}", permille / 10, permille % 10);
        Self {
            text: show::share(permille, words),
            value,
            rank: Some(i128::from(permille)),
            ..Self::default()
        }
    }

    /// An instant.
    pub fn time(at: Timestamp) -> Self {
        Self {
            value: at.to_string(),
            time: Some(Time { at, has_milliseconds: false, zone: "" }),
            rank: Some(i128::from(at.as_ns())),
            ..Self::default()
        }
    }

    /// An instant to the millisecond.
    pub fn exact_time(at: Timestamp) -> Self {
        Self { time: Some(Time { at, has_milliseconds: true, zone: "" }), ..Self::time(at) }
    }

    /// A time that may be absent.
    pub fn time_or_none(at: Option<Timestamp>) -> Self {
        at.map(Self::time).unwrap_or_default()
    }

    /// The end of a validity. An end before `soon` has a mark.
    pub fn end(at: Option<Timestamp>, soon: Timestamp, now: Timestamp, words: &Words) -> Self {
        let Some(at) = at else { return Self::text(words.ends_never) };
        let tone = match at {
            _ if at <= now => Tone::Bad,
            _ if at < soon => Tone::Warning,
            _ => Tone::Plain,
        };
        Self::time(at).toned(tone)
    }

    /// A duration; empty without one.
    pub fn milliseconds(ms: Option<u64>, words: &Words) -> Self {
        let Some(ms) = ms else { return Self::default() };
        let text = show::duration(i64::try_from(ms).unwrap_or(i64::MAX), words);
        Self { text, value: ms.to_string(), rank: Some(i128::from(ms)), ..Self::default() }
    }

    /// A state in one word.
    pub fn state(tone: Tone, text: &str) -> Self {
        Self { tone, ..Self::text(text) }
    }

    /// A bar. The export has its text.
    pub fn bar(bar: Bar) -> Self {
        Self {
            rank: Some(i128::from(bar.length)),
            value: bar.text.clone(),
            bar: Some(bar),
            ..Self::default()
        }
    }

    #[must_use]
    pub fn link(self, href: String) -> Self {
        Self { href: Some(href), ..self }
    }

    #[must_use]
    pub fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// Whether the text stays on one line.
    fn is_short(&self) -> bool {
        self.text.chars().count() <= SHORT_CHARS
    }

    /// The value in the export. A number keeps its sign, and a text that a spreadsheet could read as a formula gets an
    /// apostrophe in front.
    fn csv(&self) -> String {
        let value = if self.value.is_empty() { &self.text } else { &self.value };
        let escaped = if self.rank.is_some() && self.bar.is_none() { value.into() } else { cell(value) };
        match escaped.contains(['"', ',', '\n', '\r']) {
            true => format!("\"{}\"", escaped.replace('"', "\"\"")),
            false => escaped.into_owned(),
        }
    }
}

impl Column {
    pub const fn text(key: &'static str, label: &'static str) -> Self {
        Self { key, label, is_number: false, is_time: false, sort: None }
    }

    pub const fn number(key: &'static str, label: &'static str) -> Self {
        Self { key, label, is_number: true, is_time: false, sort: None }
    }
}

/// Names the time zone of instants once in the heading of their column, or in each instant of a mixed column.
fn name_time_zone(column: &mut Column, cells: Vec<&mut Cell>, words: &Words) {
    let is_other = |cell: &&mut Cell| cell.time.is_none() && !cell.text.is_empty();
    let is_mixed = cells.iter().any(is_other);
    let instants: Vec<_> = cells.into_iter().filter(|cell| cell.time.is_some()).collect();
    column.is_time = !is_mixed && !instants.is_empty();
    if is_mixed {
        for cell in instants {
            cell.time.iter_mut().for_each(|time| time.zone = words.time_zone);
        }
    }
}

impl Table {
    pub fn new(
        name: &'static str,
        caption: &str,
        mut columns: Vec<Column>,
        mut rows: Vec<Vec<Cell>>,
        words: &'static Words,
    ) -> Self {
        for (index, column) in columns.iter_mut().enumerate() {
            name_time_zone(column, rows.iter_mut().filter_map(|row| row.get_mut(index)).collect(), words);
        }
        let empty = words.table_empty.to_owned();
        Self {
            name,
            caption: caption.to_owned(),
            columns,
            rows,
            empty,
            note: None,
            part: None,
            csv: None,
            words,
        }
    }

    /// Another text for a table without rows.
    #[must_use]
    pub fn or_else(self, empty: &str) -> Self {
        Self { empty: empty.to_owned(), ..self }
    }

    #[must_use]
    pub fn noted(self, note: Option<String>) -> Self {
        Self { note, ..self }
    }

    /// Removes the links to the page itself: the export, and the orders.
    pub fn remove_links_of_page(&mut self) {
        self.csv = None;
        for column in &mut self.columns {
            column.sort = None;
        }
    }

    /// The rows as CSV (RFC 4180), with the keys of the columns as headings.
    pub fn to_csv(&self) -> String {
        let mut text = String::new();
        let heads: Vec<_> = self.columns.iter().map(|column| column.key.to_owned()).collect();
        let rows = self.rows.iter().map(|row| row.iter().map(Cell::csv).collect());
        for line in std::iter::once(heads).chain(rows) {
            text.push_str(&line.join(","));
            text.push_str("\r\n");
        }
        if let Some(part) = &self.part {
            text.push_str(&Cell::text(part).csv());
            text.push_str("\r\n");
        }
        text
    }

    /// Sorts by a column: `name`, or `-name` for falling order. Unknown names change nothing.
    pub fn sort(&mut self, order: Option<&str>) {
        let Some(order) = order else { return };
        let (key, is_falling) = order.strip_prefix('-').map_or((order, false), |key| (key, true));
        let Some(index) = self.columns.iter().position(|column| column.key == key) else { return };
        self.rows.sort_by(|one, other| {
            let [one, other] = [one, other].map(|row| row.get(index).map(|cell| (cell.rank, &cell.text)));
            if is_falling { other.cmp(&one) } else { one.cmp(&other) }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::words::ENGLISH;

    fn table() -> Table {
        let kes = Currency::parse("KES").unwrap();
        let row = |name: &str, units| vec![Cell::text(name), Cell::units(units, kes, &ENGLISH)];
        let columns = vec![Column::text("name", "Name"), Column::number("amount", "Amount")];
        let rows = vec![row("=cmd|'/c calc'!A1", -5_000), row("a,\"b\"", 10_000), row("\u{202e}c", 0)];
        Table::new("names", "Names", columns, rows, &ENGLISH)
    }

    #[test]
    fn csv_cells_are_quoted_and_never_formulas() {
        let expected = "name,amount\r\n'=cmd|'/c calc'!A1,-0.50\r\n\"a,\"\"b\"\"\",1.00\r\n\\u202ec,0.00\r\n";
        assert_eq!(table().to_csv(), expected);
    }

    #[test]
    fn end_is_marked_before_a_moment_and_after_it_has_passed() {
        let now = Timestamp::parse_iso("2031-04-01T10:00:00.000Z").unwrap();
        let end = |ms| Cell::end(Some(now.plus_ms(ms)), now.plus_ms(100), now, &ENGLISH).tone;
        assert_eq!(
            [end(0), end(1), end(99), end(100)],
            [Tone::Bad, Tone::Warning, Tone::Warning, Tone::Plain]
        );
        assert_eq!(Cell::end(None, now, now, &ENGLISH).text, ENGLISH.ends_never);
    }

    #[test]
    fn table_sorts_by_value_in_both_orders() {
        let names = |order| {
            let mut table = table();
            table.sort(Some(order));
            table.rows.iter().map(|row| row[1].text.clone()).collect::<Vec<_>>()
        };
        assert_eq!(names("amount"), ["−0.50", "0.00", "1.00"]);
        assert_eq!(names("-amount"), ["1.00", "0.00", "−0.50"]);
        assert_eq!(names("unknown"), ["−0.50", "1.00", "0.00"]);
    }

    #[test]
    fn html_escapes_cells_and_shows_hidden_characters() {
        let mut table = table();
        table.rows.push(vec![Cell::text("<script>&"), Cell::default()]);
        let html = table.to_string();
        assert!(html.contains("&#60;script&#62;&#38;") && !html.contains("<script>"), "{html}");
        assert!(html.contains("\\u202ec"), "{html}");
        assert!(
            html.contains("<caption") && html.contains("scope=\"col\"") && html.contains("scope=\"row\"")
        );
    }
}
