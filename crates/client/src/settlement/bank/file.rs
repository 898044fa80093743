//! The file from the settlement bank, as CSV or XLSX: its cells as texts, and their meaning.

use std::fmt;
use std::path::Path;

use sha2::{Digest, Sha256};
use upesi_keys::{OtherForm, read_limited};
use upesi_process::csv;
use upesi_process::exit::{Exit, Failure};
use upesi_types::{Amount, hex};

use crate::settlement::cell::ROWS_MAX;
use crate::settlement::workbook;

/// Maximum size of a file that a hub could have written, in bytes.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// The row of the headings, counted from 1.
const HEADINGS_ROW: usize = 6;
/// First bytes of an XLSX file, which is a ZIP archive.
const ZIP: &[u8] = b"PK\x03\x04";

/// Words in the headings of the columns. Mojaloop's portals add the name of the scheme.
const COLUMN_WORDS: [(usize, &str); 3] = [(0, "Participant"), (2, "Balance"), (3, "Transfer")];
/// The column of currencies, which is missing in files of Mojaloop's portals.
const CURRENCY_COLUMN: (usize, &str) = (4, "Currency");

/// The readable contents of the file.
#[derive(Debug)]
pub(super) struct BankFile {
    pub(super) settlement: Option<u32>,
    pub(super) rows: Vec<Row>,
    pub(super) mistakes: Vec<Mistake>,
}

/// A fault of a file.
#[derive(Debug)]
pub(super) struct Mistake {
    /// Counted from 1, as in spreadsheets; absent if it concerns the whole file.
    pub(super) row: Option<usize>,
    pub(super) text: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row {
            Some(row) => write!(f, "row {row}: {}", self.text),
            None => f.write_str(&self.text),
        }
    }
}

/// The readable parts of a row about one account.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) number: usize,
    /// Participant, account and name.
    pub(super) owner: Option<(u32, u32, String)>,
    pub(super) balance: Option<Amount>,
    pub(super) net: Option<Amount>,
    /// Absent if the file has no column of currencies.
    pub(super) currency: Option<String>,
}

/// A row without faults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) row: usize,
    pub(super) account: u32,
    pub(super) name: String,
    /// The balance of the DFSP's liquidity account after the settlement.
    pub(super) balance: Amount,
    /// The amount that the DFSP has paid (positive) or received.
    pub(super) net: Amount,
    pub(super) currency: String,
}

/// The cells of a file, and the SHA-256 of its bytes.
pub(super) fn read(path: &Path) -> Result<(Vec<Vec<String>>, String), Failure> {
    let shown = path.display();
    let cannot =
        |error: std::io::Error| Failure::new(Exit::NoInput, format!("{shown} cannot be read: {error}"));
    let bytes = read_limited(path, FILE_BYTES_MAX).map_err(|error| match error.kind() {
        std::io::ErrorKind::FileTooLarge => {
            Failure::new(Exit::Data, format!("{shown} is longer than {FILE_BYTES_MAX} bytes"))
        }
        _ => cannot(error),
    })?;
    let digest = hex(&Sha256::digest(&bytes));
    let cells = if bytes.starts_with(ZIP) { workbook::read(bytes) } else { cells_of_csv(&bytes) };
    cells.map(|cells| (cells, digest)).map_err(|text| Failure::new(Exit::Data, format!("{shown}: {text}")))
}

/// The cells of a CSV file. Empty lines count, too.
pub(crate) fn cells_of_csv(bytes: &[u8]) -> Result<Vec<Vec<String>>, String> {
    if let Some(form) = OtherForm::of(bytes) {
        return Err(form.instead_of_csv());
    }
    let text =
        std::str::from_utf8(bytes).map_err(|_| "the file is neither XLSX nor CSV in UTF-8".to_owned())?;
    if text.lines().next().is_some_and(|line| line.contains(';') && !line.contains(',')) {
        return Err("the columns are separated by semicolons: save the file with commas".to_owned());
    }
    csv::rows(text, ROWS_MAX)
}

impl BankFile {
    /// The contents of the cells, with all faults.
    pub(super) fn parse(cells: &[Vec<String>]) -> Self {
        let cell = |row: usize, column: usize| {
            let cells = cells.get(row - 1);
            cells.and_then(|cells| cells.get(column)).map_or("", String::as_str)
        };
        let mut mistakes = Vec::new();
        let is_labelled = has_words(cell(1, 0), "Settlement ID");
        let settlement = cell(1, 1).parse().ok().filter(|_| is_labelled);
        if settlement.is_none() {
            let text = "there must be \"Settlement ID\" and its number".to_owned();
            mistakes.push(Mistake { row: Some(1), text });
        }
        for (column, words) in COLUMN_WORDS {
            if !has_words(cell(HEADINGS_ROW, column), words) {
                let text = format!("the heading \"{words}\" is not in its place");
                mistakes.push(Mistake { row: Some(HEADINGS_ROW), text });
            }
        }
        let has_currencies = has_words(cell(HEADINGS_ROW, CURRENCY_COLUMN.0), CURRENCY_COLUMN.1);
        let mut rows = Vec::new();
        for row in HEADINGS_ROW + 1..=last_row(cells) {
            if !cell(row, 0).is_empty() {
                let currency = has_currencies.then(|| cell(row, CURRENCY_COLUMN.0).to_owned());
                rows.push(Row::parse(
                    row,
                    [0, 2, 3].map(|column| cell(row, column)),
                    currency,
                    &mut mistakes,
                ));
            } else if !cell(row - 1, 0).is_empty() {
                let text = "empty, but accounts follow".to_owned();
                mistakes.push(Mistake { row: Some(row), text });
            }
        }
        Self { settlement, rows, mistakes }
    }
}

/// The last row of the table. Texts below an empty row are remarks, but accounts belong to the table.
fn last_row(cells: &[Vec<String>]) -> usize {
    let mut firsts = cells.iter().map(|cells| cells.first().map_or("", String::as_str));
    let until_empty = firsts.clone().skip(HEADINGS_ROW).take_while(|first| !first.is_empty()).count();
    let last_account = firsts.rposition(|first| identified(first).is_some());
    last_account.map_or(0, |index| index + 1).max(HEADINGS_ROW + until_empty)
}

/// Whether a label or heading contains words, in any letter case.
fn has_words(cell: &str, words: &str) -> bool {
    cell.to_ascii_lowercase().contains(&words.to_ascii_lowercase())
}

/// `2 3 greenbank`: participant, account, name.
fn identified(text: &str) -> Option<(u32, u32, &str)> {
    let mut parts = text.splitn(3, ' ');
    let number = |part: Option<&str>| part?.parse().ok();
    Some((number(parts.next())?, number(parts.next())?, parts.next().filter(|name| !name.is_empty())?))
}

impl Row {
    fn parse(
        number: usize,
        [account, balance, net]: [&str; 3],
        currency: Option<String>,
        mistakes: &mut Vec<Mistake>,
    ) -> Self {
        let mut note = |text: String| mistakes.push(Mistake { row: Some(number), text });
        let owner =
            identified(account).map(|(participant, account, name)| (participant, account, name.to_owned()));
        if owner.is_none() {
            note(format!("{account:?} is not an account in the hub's form"));
        }
        let mut read = |name: &str, text: &str| match amount(text) {
            Ok(amount) => Some(amount),
            Err(_) if text.is_empty() => {
                note(format!("the {name} is empty"));
                None
            }
            Err(error) => {
                note(format!("the {name} {text:?} {error}"));
                None
            }
        };
        let (balance, net) = (read("balance", balance), read("settlement transfer", net));
        Self { number, owner, balance, net, currency }
    }
}

/// `1234.5`, `1,234.50`, `-1,234.50` or `(1,234.50)`.
pub(super) fn amount(text: &str) -> Result<Amount, String> {
    let in_brackets = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    let (is_negative, digits) = match (in_brackets, text.strip_prefix('-')) {
        (Some(digits), _) | (None, Some(digits)) => (true, digits),
        (None, None) => (false, text),
    };
    if !digits.starts_with(|first: char| first.is_ascii_digit()) || !is_grouped(digits) {
        return Err("is not an amount".to_owned());
    }
    let amount = Amount::parse_decimal(&digits.replace(',', "")).map_err(|error| error.to_string())?;
    Ok(if is_negative { amount.negated() } else { amount })
}

/// Whether commas, if there are any, precede each group of three digits of the whole part.
fn is_grouped(digits: &str) -> bool {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut groups = whole.split(',');
    let first = groups.next().unwrap_or("");
    let mut rest = groups.peekable();
    !fraction.contains(',')
        && (rest.peek().is_none() || first.len() <= 3)
        && rest.all(|group| group.len() == 3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_in_formats_of_banks_are_parsed() {
        for (text, expected) in [
            ("0", "0"),
            ("1234.5", "1234.5"),
            ("1,234.50", "1234.5"),
            ("-1,234.50", "-1234.5"),
            ("(1,234.50)", "-1234.5"),
            ("12,345,678.0001", "12345678.0001"),
        ] {
            assert_eq!(amount(text).map(|amount| amount.to_string()), Ok(expected.to_owned()), "{text}");
        }
        for text in [
            "", "x", "KES 5", "1.00001", "1,23", "1234,567", "1,234,56", "1.0,00", "--1", "(-1)", "(1", "+1",
            ",100", "1e3",
        ] {
            assert!(amount(text).is_err(), "{text}");
        }
    }

    #[test]
    fn csv_cells_include_empty_lines() {
        let read = |text: &str| cells_of_csv(text.as_bytes()).unwrap();
        let bytes = "\u{feff}a,b\r\n\r\n\"c, \"\"d\"\" \", \n\"e\r\nf\",g\r\n";
        assert_eq!(read(bytes), [vec!["a", "b"], vec![""], vec!["c, \"d\"", ""], vec!["e\r\nf", "g"]]);
        assert_eq!(read("a\nb"), [["a"], ["b"]]);
        assert!(cells_of_csv(b"\xff\xfe").is_err());
        assert!(cells_of_csv(b"\"a,b\r\n").is_err());
    }
}
