//! Interim responses (1xx, RFC 9110 §15.2): limits the bytes that a peer may send before its final response.
//!
//! The HTTP parser reads interim responses without limit, and without yielding the worker. So they are counted where
//! bytes arrive. If the first response is final, only twelve bytes are examined.

use std::io;

/// Maximum number of interim responses to one request.
pub(super) const RESPONSES_MAX: u32 = 8;
/// Maximum number of their bytes in total.
pub(super) const BYTES_MAX: usize = 16 * 1024;

/// `HTTP/1.1 200`.
const STATUS_END: usize = 12;

/// The peer exceeded one of these limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many interim responses")]
pub(super) struct TooManyInterim;

/// Progress of the responses to one request.
#[derive(Debug)]
pub(super) struct Interim {
    place: ParserState,
    responses: u32,
    bytes: usize,
}

#[derive(Debug)]
enum ParserState {
    /// The beginning of a response, with the known part of its status line.
    Status { line: [u8; STATUS_END], length: usize },
    /// An interim response. `is_line_empty`: whether the current line is empty so far.
    Interim { is_line_empty: bool },
    /// The final response.
    Final,
}

impl Interim {
    /// State before any response.
    pub(super) const fn new() -> Self {
        Self { place: ParserState::START, responses: 0, bytes: 0 }
    }

    /// A request is being written: if the final response to the previous one has begun, counting starts again.
    pub(super) const fn request_begins(&mut self) {
        if matches!(self.place, ParserState::Final) {
            *self = Self::new();
        }
    }

    /// Examines the bytes that were read.
    ///
    /// Errors: of the kind [`TooManyInterim`].
    pub(super) fn read(&mut self, bytes: &[u8]) -> io::Result<()> {
        for byte in bytes {
            if matches!(self.place, ParserState::Final) {
                break;
            }
            self.bytes += 1;
            self.step(*byte);
            if self.bytes > BYTES_MAX || self.responses > RESPONSES_MAX {
                return Err(io::Error::new(io::ErrorKind::InvalidData, TooManyInterim));
            }
        }
        Ok(())
    }

    fn step(&mut self, byte: u8) {
        match &mut self.place {
            // Parsers skip empty lines before a status line.
            ParserState::Status { length: 0, .. } if matches!(byte, b'\r' | b'\n') => {}
            ParserState::Status { line, length } => {
                line[*length] = byte;
                *length += 1;
                if *length == STATUS_END {
                    let is_interim = line[9] == b'1' && &line[9..] != b"101";
                    self.place = if is_interim {
                        ParserState::Interim { is_line_empty: false }
                    } else {
                        ParserState::Final
                    };
                }
            }
            ParserState::Interim { is_line_empty } => match byte {
                b'\n' if *is_line_empty => {
                    self.responses += 1;
                    self.place = ParserState::START;
                }
                b'\n' => *is_line_empty = true,
                b'\r' => {}
                _ => *is_line_empty = false,
            },
            ParserState::Final => {}
        }
    }
}

impl ParserState {
    const START: Self = Self::Status { line: [0; STATUS_END], length: 0 };
}

/// Whether an error of the transport reports too many interim responses.
pub(super) fn is_too_many(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<TooManyInterim>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";
    const HINTS: &str = "HTTP/1.1 103 Early Hints\nlink: </style.css>\n\n";
    const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

    /// Whether all bytes pass, however they are cut.
    fn passes(text: &str) -> bool {
        let results = [1, 5, 13, text.len()].map(|piece_bytes| {
            let mut interim = Interim::new();
            text.as_bytes().chunks(piece_bytes).all(|piece| interim.read(piece).is_ok())
        });
        assert_eq!(results, [results[0]; 4], "{text}");
        results[0]
    }

    #[test]
    fn responses_over_the_limit_are_rejected() {
        for interim in [CONTINUE, HINTS, "\r\n\r\nHTTP/1.0 199 x\r\na: b\r\n\r\n"] {
            assert!(passes(&(interim.repeat(RESPONSES_MAX as usize) + OK)), "{interim}");
            assert!(!passes(&(interim.repeat(RESPONSES_MAX as usize + 1) + OK)), "{interim}");
        }
    }

    #[test]
    fn response_bytes_over_the_limit_are_rejected() {
        let long = |bytes: usize| {
            let rest = "HTTP/1.1 100 x\r\na: \r\n\r\n".len() + STATUS_END;
            format!("HTTP/1.1 100 x\r\na: {}\r\n\r\n{OK}", "y".repeat(bytes - rest))
        };
        assert!(passes(&long(BYTES_MAX)));
        assert!(!passes(&long(BYTES_MAX + 1)));
        assert!(!passes(&"\r\n".repeat(BYTES_MAX)));
    }

    #[test]
    fn content_of_the_final_response_is_not_checked() {
        assert!(passes(&(OK.to_owned() + &CONTINUE.repeat(100))));
        assert!(passes(&("HTTP/1.1 101 Switching Protocols\r\n\r\n".to_owned() + &CONTINUE.repeat(100))));
        assert!(passes(&"x".repeat(100_000)), "the parser rejects it");
    }

    #[test]
    fn counting_restarts_after_each_answered_request() {
        let mut interim = Interim::new();
        let almost = CONTINUE.repeat(RESPONSES_MAX as usize);
        for _ in 0..3 {
            interim.request_begins();
            interim.read(almost.as_bytes()).unwrap();
            // The second call stands for more bytes of the same request.
            interim.request_begins();
            interim.read(OK.as_bytes()).unwrap();
        }
        interim.request_begins();
        interim.read(almost.as_bytes()).unwrap();
        interim.request_begins();
        let error = interim.read(CONTINUE.as_bytes()).unwrap_err();
        assert!(is_too_many(&error), "{error}");
    }
}
