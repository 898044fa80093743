//! Memory limits of large bodies: a total limit and a limit for each sender.
//!
//! A limit per body does not limit the hub: ten thousand connections, each with a body of the maximum size, would need
//! 50 GB. Messages about transfers are small (their longest member has 32 KiB), so larger bodies share a limit in
//! bytes. A body carries its part of the limit with it, and returns that part when its last holder drops it. The same
//! applies to its sender's share. Bodies of medium size also use that share while they are read, because many of them
//! could be slow. Ordinary bodies are not counted.

mod anonymous;
mod senders;

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use upesi_admission::ORDINARY_BODY_BYTES_MAX;
use upesi_http::{BodyError, body};

pub(crate) use self::anonymous::{AnonymousBodies, BodyPermit};
pub(crate) use self::senders::{Sender, SenderBytes, Share};
use crate::config::GatewayConfig;

/// Bodies up to this size do not use the limit. Larger bodies use it in portions of this size.
pub(crate) const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;

/// Hands out the portions. Clones share them.
#[derive(Clone, Debug)]
pub struct LargeBodies {
    portions: Arc<Semaphore>,
    senders: Arc<SenderBytes>,
}

/// The reason why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyFailure {
    Failed(BodyError),
    /// The hub holds too many bytes of large bodies, or of this sender's bodies.
    Busy,
}

/// A large body with its part of the limit.
struct LimitedBody {
    bytes: Bytes,
    _portions: OwnedSemaphorePermit,
    _share: Share,
}

impl AsRef<[u8]> for LimitedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl LargeBodies {
    /// The limits of these settings.
    pub fn of(config: &GatewayConfig) -> Self {
        Self::new(config.large_bodies_bytes_max, config.sender_bodies_bytes_max)
    }

    /// `bytes_max` is rounded up to whole portions; each sender has at most `sender_bytes_max`.
    pub(crate) fn new(bytes_max: usize, sender_bytes_max: usize) -> Self {
        let portions = bytes_max.div_ceil(SMALL_BODY_BYTES_MAX);
        Self {
            portions: Arc::new(Semaphore::new(portions.min(Semaphore::MAX_PERMITS))),
            senders: Arc::new(SenderBytes::new(sender_bytes_max)),
        }
    }

    /// Reads a body of at most `bytes_max` bytes by `deadline`, without waiting for portions. Calls `sender` only for
    /// bodies that are not ordinary.
    pub(crate) async fn read<B>(
        &self,
        body: B,
        bytes_max: usize,
        deadline: Instant,
        sender: impl FnOnce() -> Sender,
    ) -> Result<Bytes, BodyFailure>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let hint = body.size_hint();
        let is_ordinary = hint.upper().is_some_and(|bytes| bytes <= ORDINARY_BODY_BYTES_MAX);
        // Bytes of a body that is too large are not stored.
        if is_ordinary || hint.lower() > bytes_max as u64 {
            return body::read(body, bytes_max, deadline).await.map_err(BodyFailure::Failed);
        }
        let mut share = self.senders.share(sender());
        if !share.grow_to(usize::try_from(hint.lower()).unwrap_or(usize::MAX)) {
            return Err(BodyFailure::Busy);
        }
        let (mut held, mut is_refused) = (None, false);
        let metered = Metered {
            body,
            bytes_seen: 0,
            bytes_max,
            portions: &self.portions,
            held: &mut held,
            share: &mut share,
            is_refused: &mut is_refused,
        };
        let bytes = match body::read(metered, bytes_max, deadline).await {
            Ok(bytes) => bytes,
            Err(_) if is_refused => return Err(BodyFailure::Busy),
            Err(error) => return Err(BodyFailure::Failed(error)),
        };
        let Some(portions) = held else { return Ok(bytes) };
        // If the length was not announced, the buffer has grown by doubling.
        let bytes = if hint.exact().is_some() { bytes } else { Bytes::copy_from_slice(&bytes) };
        Ok(Bytes::from_owner(LimitedBody { bytes, _portions: portions, _share: share }))
    }
}

/// Forwards a body until it needs a portion, or more of its sender's share, that is not available.
struct Metered<'a, B> {
    body: B,
    bytes_seen: usize,
    /// Bytes above this limit are discarded.
    bytes_max: usize,
    portions: &'a Arc<Semaphore>,
    held: &'a mut Option<OwnedSemaphorePermit>,
    share: &'a mut Share,
    is_refused: &'a mut bool,
}

impl<B> Metered<'_, B> {
    /// Takes share and portions for the bytes seen so far; false if they are not available.
    fn take(&mut self) -> bool {
        let kept = if self.bytes_seen > self.bytes_max { 0 } else { self.bytes_seen };
        if !self.share.grow_to(kept) {
            return false;
        }
        if kept <= SMALL_BODY_BYTES_MAX {
            return true;
        }
        let wanted = kept.div_ceil(SMALL_BODY_BYTES_MAX);
        let missing = wanted.saturating_sub(self.held.as_ref().map_or(0, OwnedSemaphorePermit::num_permits));
        let Ok(missing) = u32::try_from(missing) else { return false };
        if missing == 0 {
            return true;
        }
        let Ok(taken) = Arc::clone(self.portions).try_acquire_many_owned(missing) else { return false };
        match self.held {
            Some(held) => held.merge(taken),
            None => *self.held = Some(taken),
        }
        true
    }
}

impl<B: Body<Data = Bytes> + Unpin> Body for Metered<'_, B> {
    type Data = Bytes;
    /// The caller reads the reason from `is_refused`, or ignores it.
    type Error = ();

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ()>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame {
            self.bytes_seen += frame.data_ref().map_or(0, Bytes::len);
            *self.is_refused = !self.take();
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

    const PORTION: usize = SMALL_BODY_BYTES_MAX;
    const DFSP: Sender = Sender::Dfsp(upesi_admission::SourceId(7));

    /// A body that was announced and does not arrive.
    struct Stuck(u64);

    impl Body for Stuck {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
            Poll::Pending
        }

        fn size_hint(&self) -> SizeHint {
            SizeHint::with_exact(self.0)
        }
    }

    /// A body in these pieces, whose length may be announced.
    struct Pieces(VecDeque<usize>, Option<u64>);

    impl Body for Pieces {
        type Data = Bytes;
        type Error = std::io::Error;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
            Poll::Ready(self.0.pop_front().map(|length| Ok(Frame::data(Bytes::from(vec![b'x'; length])))))
        }

        fn size_hint(&self) -> SizeHint {
            self.1.map_or_else(SizeHint::default, SizeHint::with_exact)
        }
    }

    async fn read(bodies: &LargeBodies, pieces: &[usize]) -> Result<Bytes, BodyFailure> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let pieces = Pieces(pieces.iter().copied().collect(), None);
        bodies.read(pieces, 1_000_000, deadline, || DFSP).await
    }

    #[tokio::test]
    async fn large_bodies_count_until_fully_released() {
        let bodies = LargeBodies::new(2 * PORTION, usize::MAX);
        let small = read(&bodies, &[PORTION - 1, 1]).await.unwrap();
        assert_eq!((small.len(), bodies.portions.available_permits()), (PORTION, 2));
        let large = read(&bodies, &[PORTION, 1]).await.unwrap();
        assert_eq!((large.len(), bodies.portions.available_permits()), (PORTION + 1, 0));
        assert_eq!(read(&bodies, &[100_000]).await.unwrap_err(), BodyFailure::Busy);
        assert_eq!(read(&bodies, &[10]).await.unwrap().len(), 10);
        let part = large.slice(7..9);
        drop(large);
        assert_eq!(read(&bodies, &[100_000]).await.unwrap_err(), BodyFailure::Busy, "a part is held");
        drop(part);
        assert_eq!(read(&bodies, &[100_000]).await.unwrap().len(), 100_000);
        assert_eq!(bodies.portions.available_permits(), 2);
    }

    #[tokio::test]
    async fn bodies_count_by_their_bytes_with_or_without_content_length() {
        let bodies = LargeBodies::new(10 * PORTION, usize::MAX);
        let deadline = Instant::now() + Duration::from_secs(30);
        let announced = Pieces([PORTION, 4 * PORTION].into(), Some(5 * PORTION as u64));
        let announced = bodies.read(announced, 1_000_000, deadline, || DFSP).await.unwrap();
        assert_eq!((announced.len(), bodies.portions.available_permits()), (5 * PORTION, 5));
        let chunked = read(&bodies, &[PORTION, PORTION / 2, PORTION / 2, PORTION + 1]).await.unwrap();
        assert_eq!((chunked.len(), bodies.portions.available_permits()), (3 * PORTION + 1, 1));
        assert_eq!(read(&bodies, &[PORTION, PORTION]).await.unwrap_err(), BodyFailure::Busy);
        assert_eq!(bodies.portions.available_permits(), 1, "a rejected body holds no portion");
        drop((announced, chunked));
        assert_eq!(bodies.portions.available_permits(), 10);
    }

    #[tokio::test]
    async fn too_large_body_returns_its_portions() {
        let bodies = LargeBodies::new(10 * PORTION, usize::MAX);
        let error = read(&bodies, &[600_000, 600_000]).await.unwrap_err();
        assert_eq!(error, BodyFailure::Failed(BodyError::TooLarge));
        assert!(read(&bodies, &[600_000]).await.is_ok());
    }

    #[tokio::test]
    async fn sender_is_limited_to_its_share() {
        const SHARE: usize = 4 * PORTION;
        let bodies = LargeBodies::new(10 * PORTION, SHARE);
        let deadline = Instant::now() + Duration::from_secs(30);
        let whole = |length: usize| Pieces([length].into(), Some(length as u64));
        let large = bodies.read(whole(3 * PORTION), 1_000_000, deadline, || DFSP).await.unwrap();
        for pieces in [whole(PORTION + 1), Pieces([PORTION, 1].into(), None)] {
            let refused = bodies.read(pieces, 1_000_000, deadline, || DFSP).await;
            assert_eq!(refused.unwrap_err(), BodyFailure::Busy, "announced or not");
        }
        let at_an_address = bodies.read(whole(SHARE), 1_000_000, deadline, || Sender::Address(None)).await;
        assert_eq!(at_an_address.unwrap().len(), SHARE, "another sender has its own share");
        // Medium bodies count while they are being read. Afterwards other limits apply to them.
        let mut slow = Box::pin(bodies.read(Stuck(PORTION as u64), 1_000_000, deadline, || DFSP));
        assert!(std::future::poll_fn(|context| Poll::Ready(slow.as_mut().poll(context).is_pending())).await);
        let medium = || bodies.read(whole(20_000), 1_000_000, deadline, || DFSP);
        assert_eq!(medium().await.unwrap_err(), BodyFailure::Busy);
        let ordinary = bodies.read(whole(16_384), 1_000_000, deadline, || unreachable!("not asked")).await;
        assert_eq!(ordinary.unwrap().len(), 16_384);
        drop(slow);
        let read = [
            medium().await.unwrap(),
            medium().await.unwrap(),
            medium().await.unwrap(),
            medium().await.unwrap(),
        ];
        assert_eq!(read.map(|bytes| bytes.len()), [20_000; 4]);
        drop(large);
        assert!(bodies.read(whole(SHARE), 1_000_000, deadline, || DFSP).await.is_ok());
    }
}
