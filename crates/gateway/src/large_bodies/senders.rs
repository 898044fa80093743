//! Limit on the bytes of one sender's bodies.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use upesi_admission::SourceId;

/// Number of DFSPs with a limit of their own. If there are more, some share one.
const DFSPS: usize = 1_024;
/// Number of addresses with a limit of their own. If there are more, some share one.
pub(super) const ADDRESSES: usize = 256;

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

#[cfg(test)]
mod tests {
    use super::*;

    fn take(senders: &Arc<SenderBytes>, sender: Sender, bytes: usize) -> Option<Share> {
        let mut share = senders.share(sender);
        share.grow_to(bytes).then_some(share)
    }

    #[test]
    fn sender_has_limited_bytes_and_returns_them() {
        let senders = Arc::new(SenderBytes::new(100));
        let dfsp = |number| Sender::Dfsp(SourceId(number));
        let mut first = take(&senders, dfsp(7), 60).unwrap();
        assert!(take(&senders, dfsp(7), 41).is_none());
        let second = take(&senders, dfsp(7), 40).unwrap();
        assert!(first.grow_to(60) && !first.grow_to(61), "a rejected growth is not counted");
        assert!(take(&senders, dfsp(8), 100).is_some(), "other senders have their own limit");
        drop(second);
        assert!(first.grow_to(100) && !first.grow_to(101));
        drop(first);
        assert!(take(&senders, dfsp(7), 101).is_none() && take(&senders, dfsp(7), 100).is_some());
    }

    #[test]
    fn addresses_and_dfsps_have_separate_limits() {
        let senders = Arc::new(SenderBytes::new(100));
        let address = |last| Sender::Address(Some(IpAddr::from([198, 51, 100, last])));
        let _held = take(&senders, address(1), 100).unwrap();
        let dfsps: Vec<_> = (0..DFSPS as u32).map(|number| Sender::Dfsp(SourceId(number))).collect();
        let all: Vec<_> = dfsps.iter().map(|dfsp| take(&senders, *dfsp, 100)).collect();
        assert!(all.iter().all(Option::is_some), "no address shares with a DFSP");
        assert!(take(&senders, address(1), 1).is_none());
        let free = (2..=21).filter(|last| take(&senders, address(*last), 100).is_some());
        assert!(free.count() >= 18, "few of these share its limit by chance");
    }
}
