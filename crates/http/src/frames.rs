//! Follows received HTTP/2 frames (RFC 9113): detects whether a head has begun, and limits frames without useful
//! content.
//!
//! The HTTP/2 library limits heads, `CONTINUATION` and small `DATA` frames, and its own memory. It does not limit
//! `PING`, `SETTINGS`, `WINDOW_UPDATE` and `PRIORITY` frames, or how often a peer opens and resets streams, which costs
//! the worker's time. So each connection has a budget of such frames, and earns more by useful traffic.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Maximum budget of frames. A large head or frame counts as several.
pub(crate) const SPARE_MAX: u32 = 1000;
/// Frames that an answered request earns.
pub(crate) const EARNED_BY_REQUEST: u32 = 16;
/// Written bytes that earn one frame: their receiver opens its window as it reads.
const BYTES_WRITTEN_PER_FRAME: usize = 1024;
/// Bytes of a frame that count as one further frame.
const BYTES_READ_PER_FRAME: usize = 4096;

/// Size of the client's connection preface.
const PREFACE_BYTES: usize = 24;
const HEADER_BYTES: usize = 9;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// A peer sent too many frames without useful content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("too many HTTP/2 frames that carry no request and no body")]
pub(crate) struct Flood;

/// A client does not begin with its settings (RFC 9113 §3.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("HTTP/2 does not begin with settings")]
pub(crate) struct NotABegin;

/// Observations shared by the follower of the frames and the user of the connection.
#[derive(Debug, Default)]
pub(crate) struct FrameObservations {
    /// Frames that the connection has earned but not received yet.
    earned: AtomicU32,
    has_farewell: AtomicBool,
}

impl FrameObservations {
    /// Records that a request was answered.
    pub(crate) fn answered(&self) {
        // Frames above the maximum are dropped when the budget is updated.
        if self.earned.load(Ordering::Relaxed) < SPARE_MAX {
            self.earned.fetch_add(EARNED_BY_REQUEST, Ordering::Relaxed);
        }
    }

    /// Whether the peer has announced that it is going away.
    pub(crate) fn has_farewell(&self) -> bool {
        self.has_farewell.load(Ordering::Relaxed)
    }
}

/// Follows one direction of a connection.
#[derive(Debug)]
pub(crate) struct Frames {
    header: [u8; HEADER_BYTES],
    header_bytes: usize,
    /// Bytes before the next frame header.
    left_bytes: usize,
    is_head_open: bool,
    has_begun: bool,
    spare: u32,
    written_bytes: usize,
}

impl Frames {
    /// Follows the frames of a client, at the server.
    pub(crate) const fn of_client() -> Self {
        Self::after(PREFACE_BYTES)
    }

    /// Follows the frames of a server, at the client.
    pub(crate) const fn of_server() -> Self {
        Self::after(0)
    }

    const fn after(left_bytes: usize) -> Self {
        Self {
            header: [0; HEADER_BYTES],
            header_bytes: 0,
            left_bytes,
            is_head_open: false,
            has_begun: false,
            spare: SPARE_MAX,
            written_bytes: 0,
        }
    }

    /// Whether a head has begun and not ended.
    pub(crate) const fn is_head_open(&self) -> bool {
        self.is_head_open
    }

    /// Records the number of bytes that were written to the peer.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.written_bytes += bytes;
        let earned = self.written_bytes / BYTES_WRITTEN_PER_FRAME;
        self.written_bytes %= BYTES_WRITTEN_PER_FRAME;
        self.spare = self.spare.saturating_add(u32::try_from(earned).unwrap_or(u32::MAX)).min(SPARE_MAX);
    }

    /// Follows the bytes that were read next.
    ///
    /// Errors: of the kind [`Flood`] or [`NotABegin`].
    pub(crate) fn follow(&mut self, mut read: &[u8], noted: &FrameObservations) -> io::Result<()> {
        let earned = noted.earned.swap(0, Ordering::Relaxed);
        self.spare = self.spare.saturating_add(earned).min(SPARE_MAX);
        while !read.is_empty() {
            if self.left_bytes > 0 {
                let skipped = self.left_bytes.min(read.len());
                self.left_bytes -= skipped;
                read = &read[skipped..];
                self.end_frame();
                continue;
            }
            let taken = (HEADER_BYTES - self.header_bytes).min(read.len());
            self.header[self.header_bytes..self.header_bytes + taken].copy_from_slice(&read[..taken]);
            self.header_bytes += taken;
            read = &read[taken..];
            if self.header_bytes == HEADER_BYTES {
                self.begin_frame()?;
                if self.header[3] == GOAWAY {
                    noted.has_farewell.store(true, Ordering::Relaxed);
                }
                self.end_frame();
            }
        }
        Ok(())
    }

    fn begin_frame(&mut self) -> io::Result<()> {
        let [high, middle, low, kind, ..] = self.header;
        self.left_bytes = usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
        if !self.has_begun && kind != SETTINGS {
            return Err(io::Error::new(io::ErrorKind::InvalidData, NotABegin));
        }
        self.has_begun = true;
        if kind == HEADERS {
            self.is_head_open = true;
        }
        if kind != DATA {
            let cost = u32::try_from(1 + self.left_bytes / BYTES_READ_PER_FRAME).unwrap_or(u32::MAX);
            let Some(left) = self.spare.checked_sub(cost) else {
                (self.header_bytes, self.left_bytes) = (0, 0);
                return Err(io::Error::new(io::ErrorKind::InvalidData, Flood));
            };
            self.spare = left;
        }
        Ok(())
    }

    /// Ends a frame whose payload is complete.
    const fn end_frame(&mut self) {
        if self.left_bytes > 0 {
            return;
        }
        // The preface is not followed by a complete header yet.
        if self.header_bytes == HEADER_BYTES
            && matches!(self.header[3], HEADERS | CONTINUATION)
            && self.header[4] & END_HEADERS != 0
        {
            self.is_head_open = false;
        }
        self.header_bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PING: u8 = 6;
    const RST_STREAM: u8 = 3;

    fn frame(kind: u8, flags: u8, length: usize) -> Vec<u8> {
        let [.., high, middle, low] = length.to_be_bytes();
        let mut frame = vec![high, middle, low, kind, flags, 0, 0, 0, 1];
        frame.resize(HEADER_BYTES + length, 7);
        frame
    }

    #[test]
    fn head_is_open_from_its_first_to_its_last_frame() {
        let parts = [
            (vec![0x50; PREFACE_BYTES], false),
            (frame(SETTINGS, 0, 6), false),
            (frame(DATA, 1, 300), false),
            (frame(HEADERS, 0, 40), true),
            (frame(CONTINUATION, 0, 0), true),
            (frame(CONTINUATION, END_HEADERS, 20), false),
            (frame(HEADERS, END_HEADERS, 20), false),
            (frame(PING, END_HEADERS, 8), false),
        ];
        for piece_bytes in [1, 2, 5, 9, 64, 1000] {
            let mut frames = Frames::of_client();
            for (part, is_open) in &parts {
                for piece in part.chunks(piece_bytes) {
                    frames.follow(piece, &FrameObservations::default()).unwrap();
                }
                assert_eq!(frames.is_head_open(), *is_open, "{part:?} by {piece_bytes}");
            }
            let head = frame(HEADERS, END_HEADERS, 20);
            frames.follow(&head[..head.len() - 1], &FrameObservations::default()).unwrap();
            assert!(frames.is_head_open(), "a byte is missing");
        }
    }

    /// A connection after its first frame.
    fn begun(noted: &FrameObservations) -> Frames {
        let mut frames = Frames::of_server();
        frames.follow(&frame(SETTINGS, 0, 0), noted).unwrap();
        frames
    }

    #[test]
    fn connection_without_settings_first_is_rejected() {
        for kind in [DATA, HEADERS, PING] {
            let bytes = [vec![0x50; PREFACE_BYTES], frame(kind, END_HEADERS, 8)].concat();
            assert!(Frames::of_client().follow(&bytes, &FrameObservations::default()).is_err(), "{kind}");
        }
    }

    /// The number of frames of this kind up to the limit.
    fn passes(frames: &mut Frames, noted: &FrameObservations, one: &[u8]) -> u32 {
        (0..10_000).take_while(|_| frames.follow(one, noted).is_ok()).count() as u32
    }

    #[test]
    fn frames_without_content_are_limited_per_request_and_answer() {
        let noted = FrameObservations::default();
        let mut frames = begun(&noted);
        assert_eq!(passes(&mut frames, &noted, &frame(RST_STREAM, 0, 4)), SPARE_MAX - 1);
        noted.answered();
        assert_eq!(passes(&mut frames, &noted, &frame(PING, 0, 8)), EARNED_BY_REQUEST);
        frames.wrote(BYTES_WRITTEN_PER_FRAME - 1);
        assert_eq!(passes(&mut frames, &noted, &frame(PING, 0, 8)), 0);
        frames.wrote(1);
        assert_eq!(passes(&mut frames, &noted, &frame(PING, 0, 8)), 1);
        for _ in 0..SPARE_MAX {
            noted.answered();
            frames.wrote(BYTES_WRITTEN_PER_FRAME);
        }
        assert_eq!(passes(&mut frames, &noted, &frame(PING, 0, 8)), SPARE_MAX, "the budget has a maximum");
    }

    #[test]
    fn large_heads_count_as_several_and_bodies_not_at_all() {
        let noted = FrameObservations::default();
        let mut frames = begun(&noted);
        for _ in 0..5000 {
            frames.follow(&frame(DATA, 0, 100), &noted).unwrap();
        }
        let large = frame(CONTINUATION, 0, 4 * BYTES_READ_PER_FRAME);
        assert_eq!(passes(&mut frames, &noted, &large), (SPARE_MAX - 1) / 5);
    }
}
