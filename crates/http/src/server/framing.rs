//! Follows the bytes of a connection before hyper reads them, to find the beginning and end of each request.
//!
//! If two readers divide one stream of bytes differently, requests can be smuggled past a proxy. hyper accepts three
//! forms that other readers may interpret differently, and does not report them: a line of a head that ends in a bare
//! LF, `Content-Length` beside `Transfer-Encoding`, and a chunked body in a second coding. This module corrupts a head
//! with the first or second form, so that hyper answers 400 and closes (RFC 9112 §2.2, §6.1). The module `strict`
//! handles the third. hyper also skips a chunk's extension unread, so bare LFs and other control characters in it are
//! corrupted, too (§7.1.1).

/// Number of bytes that are remembered of a line that is spread over several reads. No header about framing is longer.
const REMEMBERED_BYTES_MAX: usize = 64;
/// A byte that no head may contain: hyper's parser stops there.
const SPOILER: u8 = 0;
/// A byte that no line of a chunk's size may contain twice in a row.
const CHUNK_SPOILER: u8 = b'\r';

/// Follows one connection.
pub(super) struct Framing {
    state: State,
    /// The beginning of a line whose end has not been read yet.
    begun: Vec<u8>,
    /// The last byte before the end of the line, which decides whether the line ends in CRLF.
    last: u8,
    /// The body that the head announces so far.
    body: Body,
    /// Whether the line of a chunk's size contains a control character.
    has_control: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The state before the first line of a request. Empty lines are skipped (RFC 9112 §2.2).
    Start,
    Head,
    /// Remaining bytes of a body of known length, or of a chunk with the line end after it.
    Data {
        left: u64,
        then_chunk: bool,
    },
    ChunkSize,
    Trailers,
    /// The head was corrupted: hyper rejects it and closes.
    Spoilt,
    /// A chunk was corrupted: following bytes must not look like the rest of a chunk.
    SpoiltChunks,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Body {
    length: Option<u64>,
    chunked: bool,
}

impl Framing {
    pub(super) const fn new() -> Self {
        let body = Body { length: None, chunked: false };
        Self { state: State::Start, begun: Vec::new(), last: 0, body, has_control: false }
    }

    /// Follows the bytes that were read next. Costs nothing per byte of a body.
    pub(super) fn follow(&mut self, mut read: &mut [u8]) {
        while !read.is_empty() && self.state != State::Spoilt {
            if let State::Data { left, then_chunk } = self.state {
                let skipped = usize::try_from(left).map_or(read.len(), |left| left.min(read.len()));
                self.state = match left - skipped as u64 {
                    0 if then_chunk => State::ChunkSize,
                    0 => State::Start,
                    left => State::Data { left, then_chunk },
                };
                read = &mut read[skipped..];
                continue;
            }
            if self.state == State::SpoiltChunks {
                return read.fill(CHUNK_SPOILER);
            }
            let end = memchr::memchr(b'\n', read);
            if self.state == State::ChunkSize {
                self.has_control |= has_control(&read[..end.unwrap_or(read.len())]);
            }
            let Some(end) = end else { return self.remember(read) };
            let is_of_chunk = self.state == State::ChunkSize;
            let is_sound = self.end_line(&read[..end]) && !std::mem::take(&mut self.has_control);
            self.begun.clear();
            if !is_sound && is_of_chunk {
                read = &mut read[end..];
                self.state = State::SpoiltChunks;
                continue;
            }
            if !is_sound {
                read[end] = SPOILER;
                self.state = State::Spoilt;
            }
            read = &mut read[end + 1..];
        }
    }

    fn remember(&mut self, part: &[u8]) {
        let room = REMEMBERED_BYTES_MAX.saturating_sub(self.begun.len());
        self.begun.extend_from_slice(&part[..part.len().min(room)]);
        self.last = part.last().copied().unwrap_or(self.last);
    }

    /// Whether a line ends correctly here; `part` is its last read part without the LF.
    fn end_line(&mut self, part: &[u8]) -> bool {
        let last = part.last().copied().or_else(|| (!self.begun.is_empty()).then_some(self.last));
        if last != Some(b'\r') {
            return false;
        }
        if self.begun.is_empty() {
            return self.take_line(&part[..part.len() - 1]);
        }
        self.remember(part);
        let mut line = std::mem::take(&mut self.begun);
        // If a line is too long to be remembered, its end is unknown and irrelevant.
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        let is_sound = self.take_line(&line);
        self.begun = line;
        is_sound
    }

    fn take_line(&mut self, line: &[u8]) -> bool {
        match (self.state, line.is_empty()) {
            (State::Start, true) => {}
            (State::Start, false) => {
                self.body = Body::default();
                self.state = State::Head;
            }
            (State::Head, false) => return self.take_header(line),
            (State::Head, true) => {
                self.state = match self.body {
                    Body { chunked: true, .. } => State::ChunkSize,
                    Body { length: Some(left @ 1..), .. } => State::Data { left, then_chunk: false },
                    Body { .. } => State::Start,
                };
            }
            (State::ChunkSize, _) => match after_chunk_size(line) {
                Some(state) => self.state = state,
                None => return false,
            },
            (State::Trailers, true) => self.state = State::Start,
            (State::Trailers, false) | (State::Data { .. } | State::Spoilt | State::SpoiltChunks, _) => {}
        }
        true
    }

    /// Whether a header is compatible with the previous ones.
    fn take_header(&mut self, line: &[u8]) -> bool {
        match line.first() {
            Some(b'c' | b'C') => {
                let Some(value) = value_of(line, b"content-length:") else { return true };
                self.body.length = decimal(value);
                self.body.length.is_some() && !self.body.chunked
            }
            Some(b't' | b'T') if value_of(line, b"transfer-encoding:").is_some() => {
                self.body.chunked = true;
                self.body.length.is_none()
            }
            _ => true,
        }
    }
}

fn value_of<'line>(line: &'line [u8], name: &[u8]) -> Option<&'line [u8]> {
    let (found, value) = line.split_at_checked(name.len())?;
    found.eq_ignore_ascii_case(name).then(|| value.trim_ascii())
}

fn decimal(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits).ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

/// Whether there are control characters other than line ends and tabs.
fn has_control(part: &[u8]) -> bool {
    part.iter().any(|byte| byte.is_ascii_control() && !matches!(byte, b'\t' | b'\r'))
}

fn after_chunk_size(line: &[u8]) -> Option<State> {
    let digits = line.split(|&byte| byte == b';').next().unwrap_or_default().trim_ascii();
    match u64::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()? {
        0 => Some(State::Trailers),
        size => size.checked_add(2).map(|left| State::Data { left, then_chunk: true }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The result for these bytes, read in parts of `part` bytes.
    fn followed(text: &str, part: usize) -> String {
        let mut bytes = text.as_bytes().to_vec();
        let mut framing = Framing::new();
        for read in bytes.chunks_mut(part) {
            framing.follow(read);
        }
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn valid_requests_pass_in_reads_of_any_size() {
        let long = "x".repeat(300);
        for requests in [
            "GET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\na\nb\n\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length:0\r\n\r\nGET / HTTP/1.1\r\nhost: a\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n3;a=b\r\n\n\n\n\r\nA \r\n\n23456789\n\r\n0\r\nt: 1\r\n\r\n\
             GET / HTTP/1.1\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 2\r\ncontent-length: 2\r\ncontent-lengthy: 9\r\n\r\n\n\nGET / HTTP/1.1\r\n\r\n",
            &format!(
                "GET /{long} HTTP/1.1\r\nx: {long}\r\ncontent-length: 1\r\n\r\n\nGET / HTTP/1.1\r\n\r\n"
            ),
        ] {
            for part in [1, 2, 3, 7, 64, 1000] {
                assert_eq!(followed(requests, part), requests, "{part}");
            }
        }
    }

    #[test]
    fn bare_lf_in_a_head_is_rejected() {
        let body = "POST / HTTP/1.1\r\ncontent-length: 3\r\n\r\n\n\n\n";
        let chunks = "POST / HTTP/1.1\r\nTRANSFER-ENCODING: chunked\r\n\r\n1\r\n\n\r\n0\r\n\r\n";
        let long = format!("GET /{} HTTP/1.1", "x".repeat(200));
        for before in ["", body, chunks, "GET / HTTP/1.1\r\n\r\n"] {
            for head in [
                "\n",
                "GET / HTTP/1.1\n",
                "GET / HTTP/1.1\r\nhost: a\n",
                "GET / HTTP/1.1\r\nhost: a\r\n\n",
                "GET / HTTP/1.1\r\nhost: \r a\n",
                &format!("{long}\n"),
            ] {
                for part in [1, 2, 5, 64, 1000] {
                    let sound = &head[..head.len() - 1];
                    let spoilt = format!("{before}{sound}\0GET /next");
                    assert_eq!(followed(&format!("{before}{head}GET /next"), part), spoilt, "{part}");
                }
            }
        }
    }

    #[test]
    fn invalid_length_is_corrupted() {
        for length in ["x", "", "-1", "99999999999999999999"] {
            for part in [1, 1000] {
                let head = format!("POST / HTTP/1.1\r\ncontent-length: {length}\r");
                assert_eq!(followed(&format!("{head}\n\r\n"), part), format!("{head}\0\r\n"));
                let chunk = format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{length}\r");
                assert_eq!(followed(&format!("{chunk}\n\n"), part), format!("{chunk}\r\r"));
            }
        }
    }

    #[test]
    fn control_characters_in_a_chunk_extension_are_rejected() {
        let head = "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1\r\n\n\r\n";
        let long = "x".repeat(100);
        for (size, end) in [
            ("2;a", "\n"),
            ("2;a\0", "\r\n"),
            ("2;a=\"\0\"", "\r\n"),
            ("2;a\x7f", "\r\n"),
            (&*format!("2;a\0{long}"), "\r\n"),
            (&*format!("2;{long}"), "\n"),
        ] {
            for part in [1, 2, 5, 64, 1000] {
                let spoilt = end.replace('\n', "\r");
                let rest = "\n\n\r\n0\r\n\r\n";
                let found = followed(&format!("{head}{size}{end}{rest}"), part);
                assert_eq!(found, format!("{head}{size}{spoilt}{}", "\r".repeat(rest.len())), "{part}");
            }
        }
    }

    #[test]
    fn content_length_with_transfer_encoding_is_rejected() {
        for (first, second) in [
            ("content-length: 5", "transfer-encoding: chunked"),
            ("transfer-encoding: chunked", "content-length: 5"),
            ("Transfer-Encoding: gzip", "Content-Length: 0"),
        ] {
            for part in [1, 4, 1000] {
                let found =
                    followed(&format!("POST / HTTP/1.1\r\n{first}\r\nx: y\r\n{second}\r\n\r\n"), part);
                assert_eq!(found, format!("POST / HTTP/1.1\r\n{first}\r\nx: y\r\n{second}\r\0\r\n"));
            }
        }
    }
}
