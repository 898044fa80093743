//! Cells of CSV files (RFC 4180), written and read.

/// Appends a text, quoted if RFC 4180 requires it, or if a reader with another separator would begin a new cell.
pub fn push_cell(text: &str, line: &mut String) {
    if text.contains([',', ';', '|', '\t', '"', '\r', '\n']) {
        line.push('"');
        line.push_str(&text.replace('"', "\"\""));
        line.push('"');
    } else {
        line.push_str(text);
    }
}

/// The cells of all rows, without the white space around them. Empty lines count, unlike in other CSV readers, because
/// rows are identified by their numbers.
///
/// # Errors
/// If the text has more than `rows_max` rows, or a quotation mark that is not closed.
pub fn rows(text: &str, rows_max: usize) -> Result<Vec<Vec<String>>, String> {
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let mut is_quoted = false;
    let mut chars = text.trim_start_matches('\u{feff}').chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '"' if is_quoted && chars.next_if_eq(&'"').is_some() => cell.push('"'),
            '"' if is_quoted || cell.is_empty() => is_quoted = !is_quoted,
            _ if is_quoted => cell.push(char),
            ',' => row.push(std::mem::take(&mut cell)),
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' if rows.len() >= rows_max => return Err(format!("the file has more than {rows_max} rows")),
            '\n' => {
                row.push(std::mem::take(&mut cell));
                rows.push(std::mem::take(&mut row));
            }
            _ => cell.push(char),
        }
    }
    if is_quoted {
        return Err("a quotation mark is not closed".to_owned());
    }
    if !row.is_empty() || !cell.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    let trimmed = |row: Vec<String>| row.iter().map(|cell| cell.trim().to_owned()).collect();
    Ok(rows.into_iter().map(trimmed).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_if_necessary() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a,b", "\"a,b\""),
            ("a;b", "\"a;b\""),
            ("a|b", "\"a|b\""),
            ("say \"x\"", "\"say \"\"x\"\"\""),
            ("two\nlines", "\"two\nlines\""),
        ] {
            let mut line = String::new();
            push_cell(text, &mut line);
            assert_eq!(line, expected);
        }
    }
}
