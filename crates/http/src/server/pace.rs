//! A pace for what anybody may ask without saying who: health, documents, unknown paths.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Connection;

/// Addresses told apart; where there are more, some share a pace.
const ADDRESSES: usize = 256;

/// Answers that may be asked for without an identity.
#[derive(Clone, Copy, Debug)]
pub struct PaceLimits {
    /// Requests of one address per second in the long run.
    pub rate: u32,
    /// Requests that an address can have saved up.
    pub burst: u32,
    /// How long a request waits at most; one that would wait longer is over the pace.
    pub wait_max: Duration,
}

impl Default for PaceLimits {
    fn default() -> Self {
        Self { rate: 100, burst: 100, wait_max: Duration::from_secs(1) }
    }
}

/// A request would have to wait longer than it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverPace;

/// Holds each address to a pace of its own, so that one that asks much makes only itself wait.
#[derive(Debug)]
pub struct Pace {
    started: Instant,
    hasher: RandomState,
    interval_ns: u64,
    burst_ns: u64,
    wait_max: Duration,
    /// By address: when the requests taken so far are due at the rate, in nanoseconds since the start.
    due_ns: Box<[AtomicU64]>,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new(PaceLimits::default())
    }
}

impl Pace {
    /// A pace that nobody has used yet.
    pub fn new(limits: PaceLimits) -> Self {
        let interval_ns = 1_000_000_000 / u64::from(limits.rate.max(1));
        Self {
            started: Instant::now(),
            hasher: RandomState::new(),
            interval_ns,
            burst_ns: interval_ns * u64::from(limits.burst),
            wait_max: limits.wait_max,
            due_ns: (0..ADDRESSES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Waits for the turn of a request that came by this connection. Without an address there is nothing to wait for.
    pub async fn keep(&self, connection: &Connection) -> Result<(), OverPace> {
        let Some(address) = connection.address() else { return Ok(()) };
        let wait = self.turn(address, Instant::now())?;
        if !wait.is_zero() {
            let _waiting = connection.wait();
            sleep(wait).await;
        }
        Ok(())
    }

    /// The same for what must never be refused, such as health: over the pace it waits as long as anything may.
    pub async fn keep_patiently(&self, connection: &Connection) {
        if self.keep(connection).await.is_err() {
            let _waiting = connection.wait();
            sleep(self.wait_max).await;
        }
    }

    fn turn(&self, address: IpAddr, now: Instant) -> Result<Duration, OverPace> {
        let bucket = usize::try_from(self.hasher.hash_one(address) % ADDRESSES as u64).unwrap_or(0);
        let now_ns =
            u64::try_from(now.saturating_duration_since(self.started).as_nanos()).unwrap_or(u64::MAX);
        // Later by the burst than the clock, so that a saved up burst is no negative time.
        let (earliest_ns, free_until_ns) = (now_ns, now_ns.saturating_add(self.burst_ns));
        let take = |due_ns: u64| {
            let due_ns = due_ns.max(earliest_ns).saturating_add(self.interval_ns);
            let wait = Duration::from_nanos(due_ns.saturating_sub(free_until_ns));
            (wait <= self.wait_max).then_some(due_ns)
        };
        let taken = self.due_ns[bucket].fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        let before_ns = taken.map_err(|_| OverPace)?;
        let due_ns = before_ns.max(earliest_ns).saturating_add(self.interval_ns);
        Ok(Duration::from_nanos(due_ns.saturating_sub(free_until_ns)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PaceLimits = PaceLimits { rate: 10, burst: 5, wait_max: Duration::from_secs(1) };

    fn waits(pace: &Pace, address: &str, count: usize, at_ms: u64) -> Vec<Option<u128>> {
        let (address, now) = (address.parse().unwrap(), pace.started + Duration::from_millis(at_ms));
        (0..count).map(|_| pace.turn(address, now).ok().map(|wait| wait.as_millis())).collect()
    }

    #[tokio::test]
    async fn a_burst_is_free_then_requests_wait_then_they_are_over_the_pace() {
        let pace = Pace::new(LIMITS);
        let free = vec![Some(0); 5];
        let waiting: Vec<_> = (1..=10).map(|index| Some(index * 100)).collect();
        assert_eq!(waits(&pace, "192.0.2.1", 17, 0), [free.clone(), waiting, vec![None, None]].concat());
        // What was refused took no turn: a second later one waits half of it less.
        assert_eq!(waits(&pace, "192.0.2.1", 1, 1000), [Some(100)]);
        assert_eq!(waits(&pace, "192.0.2.1", 6, 9000), [free, vec![Some(100)]].concat());
    }

    #[tokio::test]
    async fn another_address_has_a_pace_of_its_own() {
        let pace = Pace::new(LIMITS);
        waits(&pace, "192.0.2.1", 100, 0);
        let is_free = |last: &u8| waits(&pace, &format!("198.51.100.{last}"), 1, 0) == [Some(0)];
        // A few may share the first one's by chance: 256 paces, so hardly one of these.
        assert!((0..200).filter(is_free).count() >= 190);
    }
}
