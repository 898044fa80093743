//! A bound on the memory of all large bodies together.
//!
//! A limit per body is none for the hub: ten thousand connections with a body of the limit each would be 50 GB. Messages
//! about transfers are small (their longest member has 32 KiB), so only a few bodies may be larger at a time.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;
use upesi_http::{BodyError, body};

/// Bodies up to this many bytes need no permit.
pub(crate) const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;

/// Hands out the permits.
#[derive(Debug)]
pub(crate) struct LargeBodies(Semaphore);

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// It could not be.
    Failed(BodyError),
    /// Too many large bodies are in the hub.
    Busy,
}

/// A body, and the permit that it needs as long as it is in the hub.
#[derive(Debug)]
pub(crate) struct HeldBody<'a> {
    pub(crate) bytes: Bytes,
    pub(crate) permit: Option<SemaphorePermit<'a>>,
}

impl LargeBodies {
    pub(crate) fn new(bodies_max: usize) -> Self {
        Self(Semaphore::new(bodies_max.min(Semaphore::MAX_PERMITS)))
    }

    /// Reads a body of at most `bytes_max` bytes by `deadline`; it waits for no permit.
    pub(crate) async fn read<B>(
        &self,
        body: B,
        bytes_max: usize,
        deadline: Instant,
    ) -> Result<HeldBody<'_>, Unread>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let hint = body.size_hint();
        let is_small = hint.upper().is_some_and(|bytes| bytes <= SMALL_BODY_BYTES_MAX as u64);
        // Of what is too large nothing is kept.
        if is_small || hint.lower() > bytes_max as u64 {
            let bytes = body::read(body, bytes_max, deadline).await.map_err(Unread::Failed)?;
            return Ok(HeldBody { bytes, permit: None });
        }
        let (mut permit, mut is_refused) = (None, false);
        let metered = Metered {
            body,
            bytes_seen: 0,
            permits: &self.0,
            permit: &mut permit,
            is_refused: &mut is_refused,
        };
        match body::read(metered, bytes_max, deadline).await {
            Ok(bytes) => Ok(HeldBody { bytes, permit }),
            Err(_) if is_refused => Err(Unread::Busy),
            Err(error) => Err(Unread::Failed(error)),
        }
    }
}

/// Passes a body on, up to the byte that needs a permit and cannot have one.
struct Metered<'a, 'permits, B> {
    body: B,
    bytes_seen: usize,
    permits: &'permits Semaphore,
    permit: &'a mut Option<SemaphorePermit<'permits>>,
    is_refused: &'a mut bool,
}

impl<B: Body<Data = Bytes> + Unpin> Body for Metered<'_, '_, B> {
    type Data = Bytes;
    /// What went wrong is in `is_refused`, or of no interest.
    type Error = ();

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ()>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            self.bytes_seen += frame.data_ref().map_or(0, Bytes::len);
            if self.bytes_seen > SMALL_BODY_BYTES_MAX && self.permit.is_none() {
                *self.permit = self.permits.try_acquire().ok();
                *self.is_refused = self.permit.is_none();
            }
        }
        if *self.is_refused {
            return Poll::Ready(Some(Err(())));
        }
        Poll::Ready(frame.map(|frame| frame.map_err(|_| ())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::time::Duration;

    /// A body of unknown length in given pieces.
    struct Pieces(VecDeque<usize>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
            Poll::Ready(self.0.pop_front().map(|length| Ok(Frame::data(Bytes::from(vec![b'x'; length])))))
        }
    }

    async fn read<'a>(bodies: &'a LargeBodies, pieces: &[usize]) -> Result<HeldBody<'a>, Unread> {
        let deadline = Instant::now() + Duration::from_secs(30);
        bodies.read(Pieces(pieces.iter().copied().collect()), 1_000_000, deadline).await
    }

    #[tokio::test]
    async fn only_large_bodies_need_a_permit_as_long_as_they_are_held() {
        let bodies = LargeBodies::new(1);
        let small = read(&bodies, &[SMALL_BODY_BYTES_MAX - 1, 1]).await.unwrap();
        assert_eq!((small.bytes.len(), small.permit.is_none()), (SMALL_BODY_BYTES_MAX, true));
        let large = read(&bodies, &[SMALL_BODY_BYTES_MAX, 1]).await.unwrap();
        assert_eq!((large.bytes.len(), large.permit.is_some()), (SMALL_BODY_BYTES_MAX + 1, true));
        assert_eq!(read(&bodies, &[100_000]).await.unwrap_err(), Unread::Busy);
        assert_eq!(read(&bodies, &[10]).await.unwrap().bytes.len(), 10);
        drop(large);
        assert_eq!(read(&bodies, &[100_000]).await.unwrap().bytes.len(), 100_000);
    }

    #[tokio::test]
    async fn a_body_that_grows_too_large_gives_its_permit_back() {
        let bodies = LargeBodies::new(1);
        let error = read(&bodies, &[600_000, 600_000]).await.unwrap_err();
        assert_eq!(error, Unread::Failed(BodyError::TooLarge));
        assert!(read(&bodies, &[600_000]).await.is_ok());
    }
}
