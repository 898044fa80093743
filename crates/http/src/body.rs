//! Reads a request body within limits of size and time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body::Body;
use http_body_util::Full;
use tokio::time::{Instant, sleep_until};

/// Reason why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// The announced or received length exceeds the limit.
    #[error("the body is larger than allowed")]
    TooLarge,
    /// The body was not complete at the deadline, or it stalled.
    #[error("the body was not received in time")]
    TimedOut,
    /// The peer closed the connection or broke the framing.
    #[error("the body ended before it was complete")]
    Broken,
}

/// Limit of discarded bytes of a body that is too large, as a multiple of its size limit. A client that writes its
/// whole request before it reads the answer would otherwise see a reset connection instead of the error.
pub const DISCARD_FACTOR: usize = 4;

/// A body with more bytes than this must grow by this number in each [`PROGRESS_INTERVAL`], so that a stalled client
/// cannot hold memory.
pub const PROGRESS_BYTES_MIN: usize = 64 * 1024;
/// Interval of this check.
pub const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// Reads a body of at most `bytes_max` bytes by `deadline`, or until it stalls ([`PROGRESS_BYTES_MIN`]). A body that
/// arrives in one piece is not copied.
///
/// Some more bytes of a body that is too large are read and discarded ([`DISCARD_FACTOR`], until the deadline), so that
/// the error reaches its sender.
pub async fn read<B>(body: B, bytes_max: usize, deadline: Instant) -> Result<Bytes, BodyError>
where
    B: Body<Data = Bytes>,
{
    let mut body = pin!(body);
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    let announced = body.size_hint().lower();
    let too_large = announced > bytes_max as u64;
    let mut reading = Reading {
        pieces: Pieces::announced(if too_large { 0 } else { announced as usize }),
        bytes_max,
        discarded: 0,
        too_large,
        seen: 0,
    };
    // A body that has already arrived needs no timer.
    if let Some(done) = poll_fn(|context| Poll::Ready(reading.poll(body.as_mut(), context))).await.ready() {
        return done;
    }
    let next_look = || deadline.min(Instant::now() + PROGRESS_INTERVAL);
    let mut look = pin!(sleep_until(next_look()));
    let mut seen = reading.seen;
    poll_fn(|context| {
        loop {
            let polled = reading.poll(body.as_mut(), context);
            if polled.is_ready() || look.as_mut().poll(context).is_pending() {
                return polled;
            }
            let is_stalled = reading.seen > PROGRESS_BYTES_MIN && reading.seen - seen < PROGRESS_BYTES_MIN;
            if is_stalled || Instant::now() >= deadline {
                let error = if reading.too_large { BodyError::TooLarge } else { BodyError::TimedOut };
                return Poll::Ready(Err(error));
            }
            seen = reading.seen;
            look.as_mut().reset(next_look());
        }
    })
    .await
}

/// Whether a body has another content coding than `identity` (RFC 9110 §8.4).
pub fn is_encoded(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    let mut codings =
        lines.flat_map(|line| line.as_bytes().split(|&byte| byte == b',')).map(<[u8]>::trim_ascii);
    // Elements of a list may be empty (§5.6.1).
    codings.any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"))
}

/// The bytes of a body in memory.
pub(crate) fn bytes_of(mut body: Full<Bytes>) -> Bytes {
    match Pin::new(&mut body).poll_frame(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Some(Ok(frame))) => frame.into_data().unwrap_or_default(),
        _ => Bytes::new(),
    }
}

/// Collects the pieces of a body. A single piece is not copied.
#[derive(Default)]
pub(crate) struct Pieces {
    first: Bytes,
    /// Used from the second piece on; it then begins with the first one.
    rest: BytesMut,
    announced: usize,
}

impl Pieces {
    /// For a body whose announced length is `bytes`.
    fn announced(bytes: usize) -> Self {
        Self { announced: bytes, ..Self::default() }
    }

    /// Number of bytes received so far.
    pub(crate) fn len(&self) -> usize {
        self.first.len().max(self.rest.len())
    }

    pub(crate) fn add(&mut self, piece: Bytes) {
        let held = self.len();
        if held == 0 {
            self.first = piece;
            return;
        }
        if self.rest.is_empty() {
            self.rest.reserve(self.announced.max(held + piece.len()));
            self.rest.extend_from_slice(&std::mem::take(&mut self.first));
        }
        self.rest.extend_from_slice(&piece);
    }

    pub(crate) fn whole(self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.rest.freeze() }
    }
}

trait ReadyOption<T> {
    fn ready(self) -> Option<T>;
}

impl<T> ReadyOption<T> for Poll<T> {
    fn ready(self) -> Option<T> {
        match self {
            Self::Ready(value) => Some(value),
            Self::Pending => None,
        }
    }
}

struct Reading {
    pieces: Pieces,
    bytes_max: usize,
    discarded: usize,
    too_large: bool,
    seen: usize,
}

impl Reading {
    fn poll<B>(&mut self, mut body: Pin<&mut B>, context: &mut Context<'_>) -> Poll<Result<Bytes, BodyError>>
    where
        B: Body<Data = Bytes>,
    {
        loop {
            match body.as_mut().poll_frame(context) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(None) => return Poll::Ready(self.finish()),
                Poll::Ready(Some(Err(_))) => {
                    return Poll::Ready(Err(if self.too_large {
                        BodyError::TooLarge
                    } else {
                        BodyError::Broken
                    }));
                }
                Poll::Ready(Some(Ok(frame))) => {
                    // FSPIOP uses no trailers.
                    let Ok(piece) = frame.into_data() else { continue };
                    self.seen += piece.len();
                    self.take(piece);
                    if self.discarded > self.bytes_max.saturating_mul(DISCARD_FACTOR) {
                        return Poll::Ready(Err(BodyError::TooLarge));
                    }
                }
            }
        }
    }

    fn take(&mut self, piece: Bytes) {
        if self.too_large || self.pieces.len() + piece.len() > self.bytes_max {
            self.too_large = true;
            self.pieces = Pieces::default();
            self.discarded += piece.len();
        } else {
            self.pieces.add(piece);
        }
    }

    fn finish(&mut self) -> Result<Bytes, BodyError> {
        if self.too_large { Err(BodyError::TooLarge) } else { Ok(std::mem::take(&mut self.pieces).whole()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body::Frame;
    use std::collections::VecDeque;
    use tokio::time::{Sleep, sleep};

    /// A body in pieces with delays between them.
    struct Slow(VecDeque<(Duration, usize)>, Option<Pin<Box<Sleep>>>);

    impl Body for Slow {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
            let Some(&(wait, length)) = self.0.front() else { return Poll::Ready(None) };
            let coming = self.1.get_or_insert_with(|| Box::pin(sleep(wait)));
            std::task::ready!(coming.as_mut().poll(context));
            self.1 = None;
            self.0.pop_front();
            Poll::Ready(Some(Ok(Frame::data(Bytes::from(vec![b'x'; length])))))
        }
    }

    /// The result and the time of reading pieces of these sizes, after these delays in milliseconds.
    async fn outcome(pieces: &[(u64, usize)]) -> (Result<usize, BodyError>, Duration) {
        let start = Instant::now();
        let pieces = pieces.iter().map(|(ms, length)| (Duration::from_millis(*ms), *length)).collect();
        let read = read(Slow(pieces, None), 10_000_000, start + Duration::from_secs(30)).await;
        (read.map(|bytes| bytes.len()), start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn stalled_large_body_is_given_up_before_its_deadline() {
        let s = Duration::from_secs;
        // After a large piece, nothing arrives.
        let (read, took) = outcome(&[(0, 70_000), (60_000, 1)]).await;
        assert_eq!((read, took), (Err(BodyError::TimedOut), s(5)));
        // After a large piece, single bytes arrive from time to time.
        let (read, took) = outcome(&[&[(0, 70_000)][..], &[(1_000, 1); 60]].concat()).await;
        assert_eq!((read, took), (Err(BodyError::TimedOut), s(5)));
        // The body is slow, but arrives continuously.
        let (read, took) = outcome(&[(4_000, 66_000); 7]).await;
        assert_eq!((read, took), (Ok(462_000), s(28)));
        // Small bodies have the whole time.
        let (read, took) = outcome(&[(0, 10), (29_000, 20)]).await;
        assert_eq!((read, took), (Ok(30), s(29)));
        let (read, took) = outcome(&[(0, 10), (31_000, 20)]).await;
        assert_eq!((read, took), (Err(BodyError::TimedOut), s(30)));
    }
}
