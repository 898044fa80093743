//! The cells of reports and of the bank's files.

use upesi_ledger::Sum;
use upesi_types::text::cell;

/// More rows than a settlement has accounts.
pub(super) const ROWS_MAX: usize = 1_000_100;

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Text(String),
    Number(u64),
    /// In ten-thousandths.
    Amount(i128),
    /// An amount in ten-thousandths. It is printed with commas between thousands, as in the bank's file.
    Grouped(i128),
}

impl Cell {
    pub(super) fn text(text: &str) -> Self {
        Self::Text(text.to_owned())
    }

    /// The text of the cell; a text that a spreadsheet could read as a formula gets an apostrophe in front.
    pub(super) fn to_csv(&self) -> String {
        match self {
            Self::Text(text) => cell(text).into_owned(),
            Self::Number(number) => number.to_string(),
            Self::Amount(units) => decimal(*units),
            Self::Grouped(units) => grouped(&decimal(*units)),
        }
    }
}

/// Ten-thousandths as a decimal text.
pub(super) fn decimal(units: i128) -> String {
    Sum { units, transfers: 0 }.to_string()
}

/// `1234567.5` as `1,234,567.5`.
fn grouped(text: &str) -> String {
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, fraction) = digits.find('.').map_or((digits, ""), |point| digits.split_at(point));
    let mut out = sign.to_owned();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 {
            out.push(',');
        }
        out.push(digit);
    }
    out + fraction
}
