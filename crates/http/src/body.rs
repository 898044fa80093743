//! Reading a request body within a size and a time.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::Body;
use tokio::time::{Instant, sleep_until};

/// Why a body could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    /// More bytes than allowed, announced or sent.
    #[error("the body is larger than allowed")]
    TooLarge,
    /// Not complete by the deadline.
    #[error("the body was not received in time")]
    TimedOut,
    /// The peer closed the connection or broke the framing.
    #[error("the body ended before it was complete")]
    Broken,
}

/// What is thrown away of a body that is too large, as a multiple of the limit. A client that writes its whole request
/// before it looks for the answer would otherwise see a reset connection instead of the refusal.
pub const DISCARD_FACTOR: usize = 4;

/// Reads a body of at most `bytes_max` bytes by `deadline`. A body that arrives in one piece is not copied.
///
/// Of a body that is too large some more is read and thrown away ([`DISCARD_FACTOR`], and never past the deadline), so
/// that the refusal reaches its sender.
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
        first: Bytes::new(),
        rest: BytesMut::new(),
        announced: if too_large { 0 } else { announced as usize },
        bytes_max,
        discarded: 0,
        too_large,
    };
    // What is already here needs no timer.
    if let Some(done) = poll_fn(|context| Poll::Ready(reading.poll(body.as_mut(), context))).await.ready() {
        return done;
    }
    let mut late = pin!(sleep_until(deadline));
    poll_fn(|context| match reading.poll(body.as_mut(), context) {
        Poll::Pending if late.as_mut().poll(context).is_ready() => {
            Poll::Ready(Err(if reading.too_large { BodyError::TooLarge } else { BodyError::TimedOut }))
        }
        other => other,
    })
    .await
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
    first: Bytes,
    /// Used from the second piece on; then it begins with the first.
    rest: BytesMut,
    announced: usize,
    bytes_max: usize,
    discarded: usize,
    too_large: bool,
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
                    // Trailers carry nothing that FSPIOP knows.
                    let Ok(piece) = frame.into_data() else { continue };
                    self.take(piece);
                    if self.discarded > self.bytes_max.saturating_mul(DISCARD_FACTOR) {
                        return Poll::Ready(Err(BodyError::TooLarge));
                    }
                }
            }
        }
    }

    fn take(&mut self, piece: Bytes) {
        let held = if self.rest.is_empty() { self.first.len() } else { self.rest.len() };
        if self.too_large || held + piece.len() > self.bytes_max {
            self.too_large = true;
            self.first = Bytes::new();
            self.rest = BytesMut::new();
            self.discarded += piece.len();
        } else if held == 0 {
            self.first = piece;
        } else {
            if self.rest.is_empty() {
                self.rest.reserve(self.announced.max(held + piece.len()));
                self.rest.extend_from_slice(&self.first);
                self.first = Bytes::new();
            }
            self.rest.extend_from_slice(&piece);
        }
    }

    fn finish(&mut self) -> Result<Bytes, BodyError> {
        if self.too_large {
            Err(BodyError::TooLarge)
        } else if self.rest.is_empty() {
            Ok(std::mem::take(&mut self.first))
        } else {
            Ok(std::mem::take(&mut self.rest).freeze())
        }
    }
}
