//! Reports as XLSX, for spreadsheets. The same settlement gives the same bytes.

use rust_xlsxwriter::{DocProperties, ExcelDateTime, Workbook, XlsxError};

use super::tables::Cell;

/// Digits that a spreadsheet's number holds exactly.
const DIGITS_MAX: usize = 15;

/// One sheet of cells. Amounts that a number holds are numbers; longer ones, and those of the bank's file, are texts.
pub(super) fn to_xlsx(rows: &[Vec<Cell>], as_of: &str) -> Result<Vec<u8>, XlsxError> {
    let mut workbook = Workbook::new();
    let created = ExcelDateTime::parse_from_str(as_of.trim_end_matches('Z'))?;
    workbook.set_properties(&DocProperties::new().set_creation_datetime(&created));
    let sheet = workbook.add_worksheet();
    for (row, cells) in (0..).zip(rows) {
        for (column, cell) in (0..).zip(cells) {
            match cell {
                Cell::Text(text) => sheet.write_string(row, column, text)?,
                Cell::Number(_) | Cell::Amount(_) => match number(&cell.to_csv()) {
                    Some(number) => sheet.write_number(row, column, number)?,
                    None => sheet.write_string(row, column, cell.to_csv())?,
                },
                Cell::Grouped(_) => sheet.write_string(row, column, cell.to_csv())?,
            };
        }
    }
    workbook.save_to_buffer()
}

fn number(text: &str) -> Option<f64> {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    (digits <= DIGITS_MAX).then(|| text.parse().ok()).flatten()
}
