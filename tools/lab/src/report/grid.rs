//! Rows of cells as text and as Markdown, and paragraphs of Markdown.

use std::fmt::Write as _;

/// Rows of cells, aligned: the first column to the left, figures to the right.
pub(crate) struct Grid {
    head: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Grid {
    /// A table with these columns.
    pub fn new(head: &[&'static str], rows: impl IntoIterator<Item = Vec<String>>) -> Self {
        Self { head: head.to_vec(), rows: rows.into_iter().collect() }
    }

    /// The table, if it has any rows.
    pub fn if_any(self) -> Option<Self> {
        (!self.rows.is_empty()).then_some(self)
    }

    fn widths(&self) -> Vec<usize> {
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            cells.chain([self.head[column].chars().count()]).max().unwrap_or(0)
        };
        (0..self.head.len()).map(width).collect()
    }

    /// The table as text.
    pub fn text(&self) -> String {
        let widths = self.widths();
        let mut text = String::new();
        let mut line = |cells: &[&str]| {
            let mut line = String::new();
            for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
                let gap = " ".repeat(width - cell.chars().count());
                let _ =
                    if column == 0 { write!(line, "  {cell}{gap}") } else { write!(line, "  {gap}{cell}") };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        };
        line(&self.head);
        for row in &self.rows {
            line(&row.iter().map(String::as_str).collect::<Vec<_>>());
        }
        text
    }

    /// The table in Markdown.
    pub fn markdown(&self) -> String {
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let head = self.head.iter().map(|&head| head.to_owned()).collect();
        let rule = (0..self.head.len()).map(|column| if column == 0 { "---" } else { "---:" }.to_owned());
        let rows = self.rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect());
        [head, rule.collect()].into_iter().chain(rows).map(line).collect()
    }
}

/// A text that cannot end a cell of Markdown or start an element of HTML.
pub(crate) fn escaped(cell: &str) -> String {
    let mut text = String::with_capacity(cell.len());
    for letter in cell.chars() {
        match letter {
            '|' | '\\' | '`' | '*' | '_' | '[' | ']' | '<' => {
                text.push('\\');
                text.push(letter);
            }
            '\n' | '\r' => text.push(' '),
            _ => text.push(letter),
        }
    }
    text
}

/// Maximum length of a line outside tables, in characters.
const LINE_MAX: usize = 120;

/// A paragraph or a list item, wrapped at [`LINE_MAX`]; lines after the first are indented by `indent`.
pub(crate) fn wrapped(paragraph: &str, indent: &str) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in paragraph.split_whitespace() {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > LINE_MAX && may_begin_line(word) {
            text.push('\n');
            text.push_str(indent);
            width = indent.chars().count();
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += length;
    }
    text.push('\n');
    text
}

/// Whether a line of Markdown that starts with this word is not a point of a list, heading or rule.
fn may_begin_line(word: &str) -> bool {
    let is_number = word.ends_with(['.', ')']) && word.starts_with(|letter: char| letter.is_ascii_digit());
    !is_number && !word.starts_with(['-', '+', '*', '#', '>', '=', '|'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrapped_lines_keep_their_markdown() {
        let words = "word ".repeat(60);
        let text = wrapped(&format!("- {words}"), "  ");
        assert!(text.lines().all(|line| line.chars().count() <= LINE_MAX), "{text}");
        assert!(text.lines().skip(1).all(|line| line.starts_with("  word")) && text.lines().count() == 3);
        assert_eq!(text.split_whitespace().count(), 61);
        for sign in ["+ 6", "- 6", "2. six", "# six"] {
            let text = wrapped(&format!("{}{sign}", "x ".repeat(LINE_MAX / 2)), "");
            assert!(
                text.lines().all(|line| line.starts_with('x') || line.starts_with('s') || line == "6"),
                "{text}"
            );
        }
        assert_eq!(wrapped("short", ""), "short\n");
    }
}
