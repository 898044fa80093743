//! The mistakes in a scheme file, with their lines.

use std::fmt;

use super::file::SourceLine;

/// The mistakes in a text.
pub(super) struct Mistakes<'a> {
    path: &'a str,
    text: &'a str,
    /// Position and text of each.
    found: Vec<(usize, String)>,
}

impl<'a> Mistakes<'a> {
    pub(super) fn new(path: &'a str, text: &'a str) -> Self {
        Self { path, text, found: Vec::new() }
    }

    /// Records a mistake, once.
    pub(super) fn add(&mut self, start: usize, text: impl fmt::Display) {
        let mistake = (start, text.to_string());
        if !self.found.contains(&mistake) {
            self.found.push(mistake);
        }
    }

    /// The file and line of a position.
    pub(super) fn place(&self, start: usize) -> SourceLine {
        let line = 1 + self.text.bytes().take(start).filter(|byte| *byte == b'\n').count();
        format!("{}:{line}", self.path)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// A text for each, with file and line, in the order of the file.
    pub(super) fn into_texts(mut self) -> Vec<String> {
        self.found.sort();
        self.found.iter().map(|(start, text)| format!("{}: {text}", self.place(*start))).collect()
    }
}
