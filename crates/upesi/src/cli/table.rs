//! Lists as aligned tables or JSON, sorted by any column.

use std::cmp::Ordering;

use clap::Args;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::terminal::note;
use upesi_types::text::escape;
use upesi_types::{Amount, Timestamp};

/// Text of a cell without a value.
const EMPTY: &str = "-";
/// Space between two columns.
const GAP: &str = "  ";

/// Output options of a list.
#[derive(Args, Clone, Debug, Default)]
pub struct ListArguments {
    /// Print a JSON array of the hub's response instead of a table.
    #[arg(long)]
    pub json: bool,
    /// Sort by this column of the table; with a hyphen before the name, in descending order.
    #[arg(long, value_name = "COLUMN", allow_hyphen_values = true)]
    pub sort: Option<String>,
}

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// In lower case, as in `--sort`.
    name: &'static str,
    is_number: bool,
}

impl Column {
    /// A column of texts or times.
    pub const fn text(name: &'static str) -> Self {
        Self { name, is_number: false }
    }

    /// A column of numbers or amounts.
    pub const fn number(name: &'static str) -> Self {
        Self { name, is_number: true }
    }
}

/// A cell: its text, and its value for sorting.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    key: Key,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// A cell without a value comes first.
    Nothing,
    Number(i64),
    Text(String),
}

impl Cell {
    /// A text, which may come from outside.
    pub fn text(text: &str) -> Self {
        Self { text: escape(text).into_owned(), key: Key::Text(text.to_owned()) }
    }

    /// A text or an empty cell.
    pub fn optional(text: Option<&str>) -> Self {
        text.map_or_else(Self::empty, Self::text)
    }

    /// A number.
    pub fn number(number: i64) -> Self {
        Self { text: number.to_string(), key: Key::Number(number) }
    }

    /// An amount.
    pub fn amount(amount: Amount) -> Self {
        Self { text: amount.to_string(), key: Key::Number(amount.units()) }
    }

    /// An amount or an empty cell.
    pub fn optional_amount(amount: Option<Amount>) -> Self {
        amount.map_or_else(Self::empty, Self::amount)
    }

    /// An instant with its text.
    pub fn instant(at: Timestamp, shown: String) -> Self {
        Self { text: shown, key: Key::Number(at.as_ns()) }
    }

    /// A number with its text, such as a percentage.
    pub fn shown(number: i64, text: String) -> Self {
        Self { text, key: Key::Number(number) }
    }

    /// An empty cell.
    pub fn empty() -> Self {
        Self { text: EMPTY.to_owned(), key: Key::Nothing }
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

struct Row {
    cells: Vec<Cell>,
    /// JSON text of the row.
    json: String,
}

/// A table.
pub struct Table {
    columns: &'static [Column],
    rows: Vec<Row>,
}

impl Table {
    /// An empty table.
    pub const fn new(columns: &'static [Column]) -> Self {
        Self { columns, rows: Vec::new() }
    }

    /// Adds a row with its JSON text.
    pub fn add(&mut self, cells: Vec<Cell>, json: String) {
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(Row { cells, json });
    }

    /// Keeps the first rows of an order.
    ///
    /// # Errors
    /// 64 if the table does not have the column.
    pub fn keep(&mut self, rows_max: usize, order: &str) -> Result<(), Failure> {
        self.sort(order)?;
        self.rows.truncate(rows_max);
        Ok(())
    }

    /// Prints the table in the requested order, or by default in `usual_order`.
    ///
    /// # Errors
    /// 64 if the table does not have the column, 74 if stdout cannot be written to.
    pub fn print(mut self, arguments: &ListArguments, usual_order: &str) -> Outcome {
        self.sort(arguments.sort.as_deref().unwrap_or(usual_order))?;
        if arguments.json {
            let rows: Vec<_> = self.rows.iter().map(|row| row.json.as_str()).collect();
            return write_out(&format!("[{}]\n", rows.join(",\n ")));
        }
        if self.rows.is_empty() {
            note("there is nothing to list");
            return Ok(());
        }
        write_out(&self.to_text())
    }

    fn sort(&mut self, order: &str) -> Outcome {
        let (name, is_reverse) = match order.strip_prefix('-') {
            Some(name) => (name, true),
            None => (order, false),
        };
        let Some(at) = self.columns.iter().position(|column| column.name == name) else {
            let names: Vec<_> = self.columns.iter().map(|column| column.name).collect();
            let text = format!("--sort {order}: unknown column; the columns are {}", names.join(", "));
            return Err(Failure::new(Exit::Usage, text));
        };
        let compare = |a: &Row, b: &Row| -> Ordering { a.cells[at].key.cmp(&b.cells[at].key) };
        self.rows.sort_by(|a, b| if is_reverse { compare(b, a) } else { compare(a, b) });
        Ok(())
    }

    /// A header line, then a line for each row.
    pub fn to_text(&self) -> String {
        let head = self.columns.iter().map(|column| Cell::text(&column.name.to_uppercase()));
        let lines: Vec<Vec<Cell>> =
            std::iter::once(head.collect()).chain(self.rows.iter().map(|row| row.cells.clone())).collect();
        let width = |at: usize| lines.iter().map(|line| line[at].width()).max().unwrap_or(0);
        let widths: Vec<_> = (0..self.columns.len()).map(width).collect();
        let mut text = String::new();
        for line in &lines {
            let mut shown = String::new();
            for ((cell, width), column) in line.iter().zip(&widths).zip(self.columns) {
                let blank = " ".repeat(width - cell.width());
                let (before, after) = if column.is_number { (&*blank, "") } else { ("", &*blank) };
                shown.extend([before, cell.text.as_str(), after, GAP]);
            }
            text.push_str(shown.trim_end());
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[Column::text("name"), Column::number("position"), Column::text("note")];

    fn table() -> Table {
        let mut table = Table::new(COLUMNS);
        for (name, amount, note) in
            [("greenbank", Some("100.5"), "a\u{202e}b"), ("é", Some("-20"), ""), ("c", None, "x\ny")]
        {
            let amount = amount.map(|amount| Amount::parse_decimal(amount).unwrap());
            let cells = vec![Cell::text(name), Cell::optional_amount(amount), Cell::text(note)];
            table.add(cells, format!("{{\"name\":\"{name}\"}}"));
        }
        table
    }

    #[test]
    fn columns_are_aligned_and_cells_escaped() {
        assert_eq!(
            table().to_text(),
            "NAME       POSITION  NOTE\n\
             greenbank     100.5  a\\u202eb\n\
             é               -20\n\
             c                 -  x\\ny\n"
        );
    }

    #[test]
    fn rows_are_sorted_by_value() {
        let order = |order: &str| {
            let mut table = table();
            table
                .sort(order)
                .map(|()| table.rows.iter().map(|row| row.cells[0].text.clone()).collect::<Vec<_>>())
        };
        assert_eq!(order("position").unwrap(), ["c", "é", "greenbank"]);
        assert_eq!(order("-position").unwrap(), ["greenbank", "é", "c"]);
        assert_eq!(order("name").unwrap(), ["c", "greenbank", "é"]);
        let unknown = order("cap").unwrap_err();
        assert_eq!(unknown.exit, Exit::Usage);
        assert_eq!(unknown.message, "--sort cap: unknown column; the columns are name, position, note");
        let mut kept = table();
        kept.keep(1, "-position").unwrap();
        assert_eq!(kept.rows.len(), 1);
        assert_eq!(kept.rows[0].json, "{\"name\":\"greenbank\"}");
    }
}
