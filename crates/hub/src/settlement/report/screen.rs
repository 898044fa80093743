//! The matrix for a terminal: who pays whom, in columns.

use std::fmt::Write;

use super::figures::Figures;
use super::tables::{Cell, matrix};

/// Blanks between columns.
const GAP: usize = 2;

/// Per currency: senders in rows, receivers in columns, the nets, and the check value in a line of its own.
pub(super) fn of(figures: &Figures) -> String {
    let rows = matrix(figures);
    let text_of = |cell: &Cell| cell.to_csv();
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(text_of).collect()).collect();
    let mut text = String::new();
    // Each currency has a row of names, a row per account, and two of sums.
    for block in rows.chunk_by(|_, next| !is_head(next)) {
        let Some(((head, rows), check)) = block.split_first().zip(block.last().and_then(|row| row.last()))
        else {
            continue;
        };
        let _ = writeln!(text, "settlement {}, {}", figures.id, head[0]);
        let width = |column: usize| {
            let names = if column == 0 { 0 } else { head[column].len() };
            rows.iter().map(|row| row[column].len()).chain([names]).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        let blank = String::new();
        let named = [&blank].into_iter().chain(&head[1..]);
        write_row(&mut text, named, &widths);
        let Some((nets, rows)) = rows.split_last() else { continue };
        for row in rows {
            write_row(&mut text, row.iter(), &widths);
        }
        write_row(&mut text, nets[..nets.len() - 1].iter(), &widths);
        let _ = writeln!(text, "check value {check}");
    }
    text
}

fn is_head(row: &[String]) -> bool {
    row[0].ends_with(" sender by receiver")
}

fn write_row<'a>(text: &mut String, cells: impl Iterator<Item = &'a String>, widths: &[usize]) {
    let mut line = String::new();
    for (column, (cell, width)) in cells.zip(widths).enumerate() {
        let _ = match column {
            0 => write!(line, "{cell:<width$}"),
            _ => write!(line, "{:GAP$}{cell:>width$}", ""),
        };
    }
    let _ = writeln!(text, "{line}");
}
