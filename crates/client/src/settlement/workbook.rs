//! Workbooks (XLSX): reads files of banks as texts, and writes reports as sheets.

use std::io::{self, Cursor, Read as _};

use calamine::{Data, Reader, Xlsx};
use rust_xlsxwriter::{DocProperties, ExcelDateTime, Workbook, XlsxError};
use upesi_types::text::escape;
use zip::ZipArchive;

use super::cell::{Cell, ROWS_MAX};

/// Maximum total size of a workbook's unpacked files, in bytes.
const UNPACKED_BYTES_MAX: u64 = 256 << 20;
/// Columns A to E; banks may write remarks in others.
const COLUMNS: u32 = 5;

/// The cells of the first sheet, as texts.
pub(super) fn read(bytes: Vec<u8>) -> Result<Vec<Vec<String>>, String> {
    check_unpacked(&bytes, UNPACKED_BYTES_MAX)?;
    let mut workbook = Xlsx::new(Cursor::new(bytes))
        .map_err(|error| format!("the file is a ZIP archive, but not a readable workbook (XLSX): {error}"))?;
    let first = workbook.sheet_names().into_iter().next().ok_or("the workbook has no sheet")?;
    // Cell by cell, because a whole sheet would need memory for the rectangle that its cells span.
    let mut cells = workbook.worksheet_cells_reader(&first).map_err(|error| error.to_string())?;
    let mut rows: Vec<Vec<String>> = Vec::new();
    while let Some(cell) = cells.next_cell().map_err(|error| error.to_string())? {
        let (row, column) = cell.get_position();
        let text = text_of(&Data::from(cell.get_value().clone()));
        if column >= COLUMNS || text.is_empty() {
            continue;
        }
        if row as usize >= ROWS_MAX {
            return Err(format!("the sheet has more than {ROWS_MAX} rows"));
        }
        if rows.len() <= row as usize {
            rows.resize_with(row as usize + 1, Vec::new);
        }
        let row = &mut rows[row as usize];
        if row.len() <= column as usize {
            row.resize_with(column as usize + 1, String::new);
        }
        row[column as usize] = text;
    }
    Ok(rows)
}

/// Unpacks a ZIP archive once without storing it, because the lengths in its directory may be wrong.
pub(super) fn check_unpacked(bytes: &[u8], bytes_max: u64) -> Result<(), String> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| error.to_string())?;
    let mut left = bytes_max;
    for index in 0..archive.len() {
        let file = archive.by_index(index).map_err(|error| error.to_string())?;
        let length =
            io::copy(&mut file.take(left + 1), &mut io::sink()).map_err(|error| error.to_string())?;
        left = left
            .checked_sub(length)
            .ok_or_else(|| format!("the workbook is longer than {bytes_max} bytes when unpacked"))?;
    }
    Ok(())
}

/// The text of a cell. Dates, booleans and errors have texts that are not amounts, regardless of their underlying
/// numbers.
fn text_of(cell: &Data) -> String {
    match cell {
        Data::Float(number) => text_of_number(*number),
        Data::String(text) => text.trim().to_owned(),
        Data::DateTime(instant) if instant.is_duration() => format!("time {instant}"),
        Data::DateTime(instant) => {
            let (year, month, day, ..) = instant.to_ymd_hms_milli();
            format!("date {year:04}-{month:02}-{day:02}")
        }
        Data::DateTimeIso(text) => format!("date {text}"),
        Data::DurationIso(text) => format!("time {text}"),
        Data::Bool(value) => format!("boolean {value}"),
        Data::Error(error) => format!("error {error}"),
        Data::Int(number) => number.to_string(),
        Data::Empty => String::new(),
    }
}

/// A number as a decimal text. Spreadsheets store sums with an error far after the fourth decimal.
fn text_of_number(number: f64) -> String {
    let exact = number.to_string();
    let decimals = exact.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let long = format!("{number:.9}");
    match long.strip_suffix("00000").filter(|_| decimals > 4) {
        Some(text) => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        None => exact,
    }
}

/// Number of digits that a spreadsheet's number represents exactly.
const DIGITS_MAX: usize = 15;

/// One sheet of cells; the same cells produce the same bytes. Amounts are numbers if a number represents them exactly.
/// Longer amounts, and amounts of the bank's file, are texts.
pub(super) fn write(rows: &[Vec<Cell>], as_of: &str) -> Result<Vec<u8>, XlsxError> {
    let mut workbook = Workbook::new();
    let created = ExcelDateTime::parse_from_str(as_of.trim_end_matches('Z'))?;
    workbook.set_properties(&DocProperties::new().set_creation_datetime(&created));
    let sheet = workbook.add_worksheet();
    for (row, cells) in (0..).zip(rows) {
        for (column, cell) in (0..).zip(cells) {
            match cell {
                Cell::Text(text) => sheet.write_string(row, column, escape(text))?,
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

#[cfg(test)]
mod tests {
    use super::text_of_number;

    #[test]
    fn text_of_number_keeps_its_decimals() {
        for (number, text) in [
            (1.0, "1"),
            (-0.5, "-0.5"),
            (0.300_000_000_000_000_04, "0.3"),
            (4_967.75, "4967.75"),
            (1_234_567.000_1, "1234567.0001"),
            (1.234_56, "1.23456"),
            (1e300, &*1e300.to_string()),
        ] {
            assert_eq!(text_of_number(number), text);
        }
    }
}
