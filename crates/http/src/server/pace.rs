//! Rate limit of unauthenticated requests: health, documents, unknown paths.

use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::Connection;

/// Number of addresses with their own rate. If there are more, some share one.
const ADDRESSES: usize = 256;

/// Rate limit of the requests of one address.
#[derive(Clone, Copy, Debug)]
pub struct PaceLimits {
    /// Requests of one address per second in the long run.
    pub rate: u32,
    /// Maximum number of requests that an address can save up.
    pub burst: u32,
    /// Maximum delay of a request; if it would wait longer, it exceeds the rate limit.
    pub wait_max: Duration,
}

impl Default for PaceLimits {
    fn default() -> Self {
        Self { rate: 100, burst: 100, wait_max: Duration::from_secs(1) }
    }
}

/// The request exceeds the rate limit by more than the maximum delay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverPace;

/// A rate of requests with a burst.
#[derive(Clone, Copy, Debug)]
struct Rate {
    interval_ns: u64,
    burst_ns: u64,
    wait_max: Duration,
}

/// Requests of a load balancer or service manager on one connection that are not delayed by others: two per second
/// after a burst of five.
const PROBES: Rate = Rate { interval_ns: 500_000_000, burst_ns: 5 * 500_000_000, wait_max: Duration::ZERO };

impl Rate {
    /// The delay until the turn of a request. `due_ns` is the time when the rate permits the next request, in
    /// nanoseconds since the start.
    fn turn(&self, due_ns: &AtomicU64, now_ns: u64) -> Result<Duration, OverPace> {
        // Later than the clock by the burst, so that a saved burst is not a negative time.
        let free_until_ns = now_ns.saturating_add(self.burst_ns);
        let wait = |due_ns: u64| Duration::from_nanos(due_ns.saturating_sub(free_until_ns));
        let next = |due_ns: u64| due_ns.max(now_ns).saturating_add(self.interval_ns);
        let take = |due_ns: u64| Some(next(due_ns)).filter(|due_ns| wait(*due_ns) <= self.wait_max);
        let taken = due_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        taken.map(|before_ns| wait(next(before_ns))).map_err(|_| OverPace)
    }
}

/// Limits the rate of each address separately, so that a busy client delays only itself.
#[derive(Debug)]
pub struct Pace {
    started: Instant,
    hasher: RandomState,
    rate: Rate,
    /// By address: the time when the rate permits the next request, in nanoseconds since the start.
    due_ns: Box<[AtomicU64]>,
}

impl Default for Pace {
    fn default() -> Self {
        Self::new(PaceLimits::default())
    }
}

impl Pace {
    /// Starts with unused rates.
    pub fn new(limits: PaceLimits) -> Self {
        let interval_ns = 1_000_000_000 / u64::from(limits.rate.max(1));
        let burst_ns = interval_ns * u64::from(limits.burst);
        Self {
            started: Instant::now(),
            hasher: RandomState::new(),
            rate: Rate { interval_ns, burst_ns, wait_max: limits.wait_max },
            due_ns: (0..ADDRESSES).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Waits for the turn of a request of this connection. A connection without an address does not wait.
    pub async fn keep(&self, connection: &Connection) -> Result<(), OverPace> {
        let Some(address) = connection.address() else { return Ok(()) };
        self.keep_turn(self.turn(address, Instant::now()), connection).await
    }

    /// Waits for the turn and never fails: a request over the rate limit waits for the maximum delay.
    pub async fn keep_patiently(&self, connection: &Connection) {
        if self.keep(connection).await.is_err() {
            self.wait(self.rate.wait_max, connection).await;
        }
    }

    /// Waits for the turn by the party of the connection, which is its address until it is known.
    pub async fn keep_patiently_by_party(&self, connection: &Connection) {
        let Some(holder) = connection.holder() else { return };
        let turn = self.turn(holder, Instant::now());
        if self.keep_turn(turn, connection).await.is_err() {
            self.wait(self.rate.wait_max, connection).await;
        }
    }

    /// Waits for the turn, but a few requests of each connection need not wait: load balancers check health while other
    /// clients of their address exceed the rate limit.
    pub async fn keep_probe(&self, connection: &Connection) {
        if PROBES.turn(&connection.probed_until_ns, self.ns(Instant::now())).is_err() {
            self.keep_patiently(connection).await;
        }
    }

    async fn keep_turn(
        &self,
        turn: Result<Duration, OverPace>,
        connection: &Connection,
    ) -> Result<(), OverPace> {
        let wait = turn?;
        if !wait.is_zero() {
            self.wait(wait, connection).await;
        }
        Ok(())
    }

    async fn wait(&self, wait: Duration, connection: &Connection) {
        let _waiting = connection.wait();
        sleep(wait).await;
    }

    fn ns(&self, now: Instant) -> u64 {
        u64::try_from(now.saturating_duration_since(self.started).as_nanos()).unwrap_or(u64::MAX)
    }

    fn turn(&self, key: impl Hash, now: Instant) -> Result<Duration, OverPace> {
        let bucket = usize::try_from(self.hasher.hash_one(key) % ADDRESSES as u64).unwrap_or(0);
        self.rate.turn(&self.due_ns[bucket], self.ns(now))
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    const LIMITS: PaceLimits = PaceLimits { rate: 10, burst: 5, wait_max: Duration::from_secs(1) };

    fn waits(pace: &Pace, address: &str, count: usize, at_ms: u64) -> Vec<Option<u128>> {
        let (address, now) =
            (address.parse::<IpAddr>().unwrap(), pace.started + Duration::from_millis(at_ms));
        (0..count).map(|_| pace.turn(address, now).ok().map(|wait| wait.as_millis())).collect()
    }

    #[tokio::test]
    async fn requests_after_a_burst_wait_and_then_exceed_the_pace() {
        let pace = Pace::new(LIMITS);
        let free = vec![Some(0); 5];
        let waiting: Vec<_> = (1..=10).map(|index| Some(index * 100)).collect();
        assert_eq!(waits(&pace, "192.0.2.1", 17, 0), [free.clone(), waiting, vec![None, None]].concat());
        // Rejected requests took no turn: a second later the ten waiting turns have passed.
        assert_eq!(waits(&pace, "192.0.2.1", 1, 1000), [Some(100)]);
        assert_eq!(waits(&pace, "192.0.2.1", 6, 9000), [free, vec![Some(100)]].concat());
    }

    #[test]
    fn a_connection_probes_twice_a_second_after_a_burst_of_five() {
        let due_ns = AtomicU64::new(0);
        let taken = |at_ms: u64| {
            (0..10).filter(|_| PROBES.turn(&due_ns, at_ms * 1_000_000) == Ok(Duration::ZERO)).count()
        };
        assert_eq!([0, 400, 500, 1_500, 60_000].map(taken), [5, 0, 1, 2, 5]);
    }

    #[tokio::test]
    async fn each_address_has_its_own_pace() {
        let pace = Pace::new(LIMITS);
        waits(&pace, "192.0.2.1", 100, 0);
        let is_free = |last: &u8| waits(&pace, &format!("198.51.100.{last}"), 1, 0) == [Some(0)];
        // A few addresses may share the first one's pace by chance. There are 256 paces, so hardly any do.
        assert!((0..200).filter(is_free).count() >= 190);
    }
}
