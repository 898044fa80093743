//! Output of commands: hidden characters in texts from outside are escaped on their way to a terminal, a pipe or a log.

use std::fmt::Display;
use std::io::{self, BufRead as _, IsTerminal as _, Read as _, Write};

use upesi_types::text::escape_lines;

/// Stands for bytes that are not UTF-8.
const REPLACEMENT: &str = "\u{fffd}";

/// Longest answer to a question, in bytes.
const ANSWER_BYTES_MAX: u64 = 64;

/// Prints a line on stderr.
pub fn note(text: impl Display) {
    let _ = writeln!(Escaping::new(io::stderr()), "upesi: {text}");
}

/// Asks a question at the terminal; every answer but yes is a no. Returns `None` without a terminal.
///
/// # Errors
/// The terminal cannot be read.
pub fn confirm(question: impl Display) -> io::Result<Option<bool>> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(None);
    }
    let _ = write!(Escaping::new(io::stderr()), "{question} [y/N] ");
    let mut line = String::new();
    io::stdin().lock().take(ANSWER_BYTES_MAX).read_line(&mut line)?;
    Ok(Some(["y", "yes"].contains(&&*line.trim().to_ascii_lowercase())))
}

/// A writer that escapes hidden characters except line breaks and tabs. Bytes that are not UTF-8 are replaced.
#[derive(Debug)]
pub struct Escaping<W: Write> {
    inner: W,
    /// The incomplete character or line break at the end of the previous write.
    beginning: Vec<u8>,
}

impl<W: Write> Escaping<W> {
    /// Escapes what goes to a writer.
    pub const fn new(inner: W) -> Self {
        Self { inner, beginning: Vec::new() }
    }

    fn write_text(&mut self, bytes: &[u8]) -> io::Result<()> {
        for chunk in bytes.utf8_chunks() {
            let mut valid = chunk.valid();
            // The next bytes decide whether it is part of a line break.
            if let (Some(rest), []) = (valid.strip_suffix('\r'), chunk.invalid()) {
                valid = rest;
                self.beginning = b"\r".to_vec();
            }
            self.inner.write_all(escape_lines(valid).as_bytes())?;
            match std::str::from_utf8(chunk.invalid()) {
                Ok(_) => {}
                // The next bytes may complete the character.
                Err(error) if error.error_len().is_none() => self.beginning = chunk.invalid().to_vec(),
                Err(_) => self.inner.write_all(REPLACEMENT.as_bytes())?,
            }
        }
        Ok(())
    }
}

impl<W: Write> Write for Escaping<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.beginning.is_empty() {
            self.write_text(bytes)?;
        } else {
            let mut joined = std::mem::take(&mut self.beginning);
            joined.extend_from_slice(bytes);
            self.write_text(&joined)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn split_characters_are_escaped() {
        let text = "a\u{202e}b\u{1b}[2K\r\n日本\t\u{e0041}";
        for size in 1..text.len() {
            let mut output = Escaping::new(Vec::new());
            for part in text.as_bytes().chunks(size) {
                output.write_all(part).unwrap();
            }
            let written = String::from_utf8(output.inner).unwrap();
            assert_eq!(written, "a\\u202eb\\u001b[2K\r\n日本\t\\udb40\\udc41", "by {size}");
        }
        let mut output = Escaping::new(Vec::new());
        output.write_all(b"a\xff\xfeb\xc3").unwrap();
        output.write_all(b"\xa9\r").unwrap();
        output.write_all(b"c").unwrap();
        assert_eq!(String::from_utf8(output.inner).unwrap(), "a\u{fffd}\u{fffd}bé\\rc");
    }
}
