//! Memory limits of large bodies: a total limit and a limit for each sender.
//!
//! A limit per body does not limit the hub: ten thousand connections, each with a body of the maximum size, would need
//! 50 GB. Messages about transfers are small (their longest member has 32 KiB), so larger bodies share a limit in
//! bytes. A body carries its part of the limit with it, and returns that part when its last holder drops it. The same
//! applies to its sender's share. Bodies of medium size also use that share while they are read, because many of them
//! could be slow. Ordinary bodies are not counted.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;
use upesi_admission::{ORDINARY_BODY_BYTES_MAX, SourceId};
use upesi_http::{BodyError, body};

use crate::config::GatewayConfig;

/// Bodies up to this size do not use the limit. Larger bodies use it in portions of this size.
pub(crate) const SMALL_BODY_BYTES_MAX: usize = 64 * 1024;

/// Hands out the portions. Clones share them.
#[derive(Clone, Debug)]
pub struct LargeBodies {
    portions: Arc<Semaphore>,
    senders: Arc<SenderBytes>,
}

/// Why a body was not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// Reading failed.
    Failed(BodyError),
    /// The hub holds too many bytes of large bodies, or of this sender's bodies.
    Busy,
}

/// A large body with its part of the limit.
struct Held {
    bytes: Bytes,
    _portions: OwnedSemaphorePermit,
    _share: Share,
}

impl AsRef<[u8]> for Held {
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
    ) -> Result<Bytes, Unread>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let hint = body.size_hint();
        let is_ordinary = hint.upper().is_some_and(|bytes| bytes <= ORDINARY_BODY_BYTES_MAX);
        // Bytes of a body that is too large are not stored.
        if is_ordinary || hint.lower() > bytes_max as u64 {
            return body::read(body, bytes_max, deadline).await.map_err(Unread::Failed);
        }
        let mut share = self.senders.share(sender());
        if !share.grow_to(usize::try_from(hint.lower()).unwrap_or(usize::MAX)) {
            return Err(Unread::Busy);
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
            Err(_) if is_refused => return Err(Unread::Busy),
            Err(error) => return Err(Unread::Failed(error)),
        };
        let Some(portions) = held else { return Ok(bytes) };
        // If the length was not announced, the buffer has grown by doubling.
        let bytes = if hint.exact().is_some() { bytes } else { Bytes::copy_from_slice(&bytes) };
        Ok(Bytes::from_owner(Held { bytes, _portions: portions, _share: share }))
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

// Limit on the bytes of one sender's bodies.

/// Number of DFSPs with a limit of their own. If there are more, some share one.
const DFSPS: usize = 1_024;
/// Number of addresses with a limit of their own. If there are more, some share one.
const ADDRESSES: usize = 256;

/// Origin of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A participant, on a connection that has carried a valid request of it.
    Dfsp(SourceId),
    /// The client's address; for IPv6 only the network half. `None` without a socket.
    Address(Option<IpAddr>),
}

/// Counts bytes by sender.
#[derive(Debug)]
pub(crate) struct SenderBytes {
    bytes_max: usize,
    hasher: RandomState,
    counts: Box<[AtomicUsize]>,
}

/// Part of a sender's bytes, returned on drop.
#[derive(Debug)]
pub(crate) struct Share {
    senders: Arc<SenderBytes>,
    index: usize,
    bytes: usize,
}

impl SenderBytes {
    /// Each sender may hold `bytes_max` bytes at the same time.
    pub(crate) fn new(bytes_max: usize) -> Self {
        let counts = (0..DFSPS + ADDRESSES).map(|_| AtomicUsize::new(0)).collect();
        Self { bytes_max, hasher: RandomState::new(), counts }
    }

    /// An empty share of a sender's bytes.
    pub(crate) fn share(self: &Arc<Self>, sender: Sender) -> Share {
        let index = match sender {
            Sender::Dfsp(source) => source.0 as usize % DFSPS,
            Sender::Address(address) => DFSPS + (self.hasher.hash_one(address) % ADDRESSES as u64) as usize,
        };
        Share { senders: Arc::clone(self), index, bytes: 0 }
    }
}

impl Share {
    /// Extends the share to `bytes`; false if the sender would exceed its limit.
    pub(crate) fn grow_to(&mut self, bytes: usize) -> bool {
        let missing = bytes.saturating_sub(self.bytes);
        // Counted before the comparison, so that two requests cannot take the same last bytes.
        let before = self.count().fetch_add(missing, Ordering::Relaxed);
        let fits = before.saturating_add(missing) <= self.senders.bytes_max;
        if fits {
            self.bytes += missing;
        } else {
            self.count().fetch_sub(missing, Ordering::Relaxed);
        }
        fits
    }

    fn count(&self) -> &AtomicUsize {
        &self.senders.counts[self.index]
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.count().fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

// Limit on large bodies of unauthenticated clients that name no participant.

/// Number of addresses with a limit of their own. If there are more, some share one.
const STRANGER_ADDRESSES: usize = 256;

/// Counts the large bodies of unauthenticated clients by address, so that a few of them cannot use all capacity.
#[derive(Debug)]
pub(crate) struct StrangersBodies {
    bodies_max: usize,
    hasher: RandomState,
    counts: Box<[AtomicUsize]>,
}

/// One body that is being read.
#[derive(Debug)]
pub(crate) struct Seat<'a>(&'a AtomicUsize);

impl StrangersBodies {
    /// Each address may send `bodies_max` bodies at the same time.
    pub(crate) fn new(bodies_max: usize) -> Self {
        let counts = (0..ADDRESSES).map(|_| AtomicUsize::new(0)).collect();
        Self { bodies_max, hasher: RandomState::new(), counts }
    }

    /// Counts one more body until the returned seat is dropped; `None` if the address has reached its limit.
    pub(crate) fn seat(&self, address: Option<IpAddr>) -> Option<Seat<'_>> {
        let bucket = usize::try_from(self.hasher.hash_one(address) % STRANGER_ADDRESSES as u64).unwrap_or(0);
        let seat = Seat(&self.counts[bucket]);
        (seat.0.fetch_add(1, Ordering::Relaxed) < self.bodies_max).then_some(seat)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
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

    async fn read(bodies: &LargeBodies, pieces: &[usize]) -> Result<Bytes, Unread> {
        let deadline = Instant::now() + Duration::from_secs(30);
        let pieces = Pieces(pieces.iter().copied().collect(), None);
        bodies.read(pieces, 1_000_000, deadline, || DFSP).await
    }

    #[tokio::test]
    async fn only_large_bodies_count_and_as_long_as_any_part_of_them_is_held() {
        let bodies = LargeBodies::new(2 * PORTION, usize::MAX);
        let small = read(&bodies, &[PORTION - 1, 1]).await.unwrap();
        assert_eq!((small.len(), bodies.portions.available_permits()), (PORTION, 2));
        let large = read(&bodies, &[PORTION, 1]).await.unwrap();
        assert_eq!((large.len(), bodies.portions.available_permits()), (PORTION + 1, 0));
        assert_eq!(read(&bodies, &[100_000]).await.unwrap_err(), Unread::Busy);
        assert_eq!(read(&bodies, &[10]).await.unwrap().len(), 10);
        let part = large.slice(7..9);
        drop(large);
        assert_eq!(read(&bodies, &[100_000]).await.unwrap_err(), Unread::Busy, "a part is held");
        drop(part);
        assert_eq!(read(&bodies, &[100_000]).await.unwrap().len(), 100_000);
        assert_eq!(bodies.portions.available_permits(), 2);
    }

    #[tokio::test]
    async fn bodies_count_by_their_bytes_announced_or_not() {
        let bodies = LargeBodies::new(10 * PORTION, usize::MAX);
        let deadline = Instant::now() + Duration::from_secs(30);
        let announced = Pieces([PORTION, 4 * PORTION].into(), Some(5 * PORTION as u64));
        let announced = bodies.read(announced, 1_000_000, deadline, || DFSP).await.unwrap();
        assert_eq!((announced.len(), bodies.portions.available_permits()), (5 * PORTION, 5));
        let chunked = read(&bodies, &[PORTION, PORTION / 2, PORTION / 2, PORTION + 1]).await.unwrap();
        assert_eq!((chunked.len(), bodies.portions.available_permits()), (3 * PORTION + 1, 1));
        assert_eq!(read(&bodies, &[PORTION, PORTION]).await.unwrap_err(), Unread::Busy);
        assert_eq!(bodies.portions.available_permits(), 1, "what was refused holds nothing");
        drop((announced, chunked));
        assert_eq!(bodies.portions.available_permits(), 10);
    }

    #[tokio::test]
    async fn a_body_that_grows_too_large_gives_back_what_it_took() {
        let bodies = LargeBodies::new(10 * PORTION, usize::MAX);
        let error = read(&bodies, &[600_000, 600_000]).await.unwrap_err();
        assert_eq!(error, Unread::Failed(BodyError::TooLarge));
        assert!(read(&bodies, &[600_000]).await.is_ok());
    }

    #[tokio::test]
    async fn a_sender_has_its_share_and_leaves_the_rest_to_others() {
        const SHARE: usize = 4 * PORTION;
        let bodies = LargeBodies::new(10 * PORTION, SHARE);
        let deadline = Instant::now() + Duration::from_secs(30);
        let whole = |length: usize| Pieces([length].into(), Some(length as u64));
        let large = bodies.read(whole(3 * PORTION), 1_000_000, deadline, || DFSP).await.unwrap();
        for pieces in [whole(PORTION + 1), Pieces([PORTION, 1].into(), None)] {
            let refused = bodies.read(pieces, 1_000_000, deadline, || DFSP).await;
            assert_eq!(refused.unwrap_err(), Unread::Busy, "announced or not");
        }
        let at_an_address = bodies.read(whole(SHARE), 1_000_000, deadline, || Sender::Address(None)).await;
        assert_eq!(at_an_address.unwrap().len(), SHARE, "another sender has its own share");
        // Medium bodies count while they are being read. Later other limits hold them.
        let mut slow = Box::pin(bodies.read(Stuck(PORTION as u64), 1_000_000, deadline, || DFSP));
        assert!(std::future::poll_fn(|context| Poll::Ready(slow.as_mut().poll(context).is_pending())).await);
        let medium = || bodies.read(whole(20_000), 1_000_000, deadline, || DFSP);
        assert_eq!(medium().await.unwrap_err(), Unread::Busy);
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

    fn take(senders: &Arc<SenderBytes>, sender: Sender, bytes: usize) -> Option<Share> {
        let mut share = senders.share(sender);
        share.grow_to(bytes).then_some(share)
    }

    #[test]
    fn a_sender_has_so_many_bytes_and_gets_them_back() {
        let senders = Arc::new(SenderBytes::new(100));
        let dfsp = |number| Sender::Dfsp(SourceId(number));
        let mut first = take(&senders, dfsp(7), 60).unwrap();
        assert!(take(&senders, dfsp(7), 41).is_none());
        let second = take(&senders, dfsp(7), 40).unwrap();
        assert!(first.grow_to(60) && !first.grow_to(61), "what is refused counts nothing");
        assert!(take(&senders, dfsp(8), 100).is_some(), "others have their own");
        drop(second);
        assert!(first.grow_to(100) && !first.grow_to(101));
        drop(first);
        assert!(take(&senders, dfsp(7), 101).is_none() && take(&senders, dfsp(7), 100).is_some());
    }

    #[test]
    fn addresses_are_told_apart_from_dfsps_and_from_each_other() {
        let senders = Arc::new(SenderBytes::new(100));
        let address = |last| Sender::Address(Some(IpAddr::from([198, 51, 100, last])));
        let _held = take(&senders, address(1), 100).unwrap();
        let dfsps: Vec<_> = (0..DFSPS as u32).map(|number| Sender::Dfsp(SourceId(number))).collect();
        let all: Vec<_> = dfsps.iter().map(|dfsp| take(&senders, *dfsp, 100)).collect();
        assert!(all.iter().all(Option::is_some), "no address shares with a DFSP");
        assert!(take(&senders, address(1), 1).is_none());
        let free = (2..=21).filter(|last| take(&senders, address(*last), 100).is_some());
        assert!(free.count() >= 18, "hardly one of these shares with it by chance");
    }

    #[test]
    fn an_address_has_so_many_and_gets_them_back() {
        let bodies = StrangersBodies::new(2);
        let address = Some("192.0.2.1".parse().unwrap());
        let held = [bodies.seat(address).unwrap(), bodies.seat(address).unwrap()];
        assert!(bodies.seat(address).is_none() && bodies.seat(address).is_none(), "a refusal counts nothing");
        let other = (1..=20).filter(|last| bodies.seat(Some(IpAddr::from([198, 51, 100, *last]))).is_some());
        assert!(other.count() >= 18, "hardly one of these has the same bound by chance");
        drop(held);
        assert!(bodies.seat(address).is_some());
    }
}
