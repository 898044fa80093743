//! Login attempts: delays grow after failures. An attacker delays the user only at the addresses that the attacker
//! uses.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{BuildHasher as _, RandomState};
use std::net::IpAddr;

use upesi_types::Timestamp;

/// Maximum number of counts; the ones without attempts for the longest time are dropped.
const COUNTS_MAX: usize = 16_384;
/// Maximum number of accounts, and of known addresses of each.
const ACCOUNTS_MAX: usize = 1_024;
const ADDRESSES_MAX: usize = 8;
/// Time until a failed attempt is forgotten, in milliseconds.
const FORGOTTEN_AFTER_MS: i64 = 3_600_000;
/// The first delay; each further failure doubles it.
const WAIT_FIRST_MS: i64 = 2_000;

/// The subject of a count. Names are hashed, because users may type a password as the name, and clients can invent
/// names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// A name, tried from an address.
    Pair(u64, IpAddr),
    /// An address, with any name.
    Address(IpAddr),
    /// A name, from addresses that it has not logged in from.
    Name(u64),
}

impl Key {
    /// Number of failures without a delay, and the longest delay.
    const fn limits(self) -> (u32, i64) {
        match self {
            Self::Pair(..) => (5, 300_000),
            Self::Address(_) => (20, 300_000),
            Self::Name(_) => (30, 60_000),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Failures {
    count: u32,
    last_at: Timestamp,
}

impl Failures {
    /// Milliseconds until the next attempt is accepted.
    fn wait_ms(self, key: Key, now: Timestamp) -> i64 {
        let (free, wait_max_ms) = key.limits();
        let Some(over) = self.count.checked_sub(free) else { return 0 };
        let wait_ms = (WAIT_FIRST_MS << over.min(16)).min(wait_max_ms);
        self.last_at.plus_ms(wait_ms).ms_since(now).max(0)
    }
}

/// Recent failed attempts.
#[derive(Debug, Default)]
pub(super) struct Attempts {
    hasher: RandomState,
    counts: BTreeMap<Key, Failures>,
    /// Addresses of successful logins by name, the latest last.
    known: BTreeMap<u64, VecDeque<IpAddr>>,
}

impl Attempts {
    /// Counts an attempt as failed until [`Self::succeeded`] is called, so that concurrent attempts also count.
    ///
    /// # Errors
    /// Seconds to wait: this attempt is rejected, and is not counted.
    pub(super) fn begin(&mut self, name: &str, address: IpAddr, now: Timestamp) -> Result<(), u64> {
        let keys = self.keys(name, address);
        self.counts.retain(|_, one| now.ms_since(one.last_at) < FORGOTTEN_AFTER_MS);
        let waits = keys.iter().flatten().filter_map(|key| Some(self.counts.get(key)?.wait_ms(*key, now)));
        let wait_ms = waits.max().unwrap_or(0);
        if wait_ms > 0 {
            return Err(u64::try_from(wait_ms).unwrap_or(0).div_ceil(1_000));
        }
        for key in keys.into_iter().flatten() {
            self.make_room();
            let failures = self.counts.entry(key).or_insert(Failures { count: 0, last_at: now });
            *failures = Failures { count: failures.count.saturating_add(1), last_at: now };
        }
        Ok(())
    }

    /// Records that the attempt succeeded.
    pub(super) fn succeeded(&mut self, name: &str, address: IpAddr) {
        for key in self.keys(name, address).into_iter().flatten() {
            match (key, self.counts.get_mut(&key)) {
                (_, None) => {}
                (Key::Pair(..), Some(_)) => {
                    self.counts.remove(&key);
                }
                (_, Some(failures)) => failures.count = failures.count.saturating_sub(1),
            }
        }
        let name = self.hasher.hash_one(name);
        if self.known.len() >= ACCOUNTS_MAX && !self.known.contains_key(&name) {
            self.known.pop_first();
        }
        let addresses = self.known.entry(name).or_default();
        addresses.retain(|known| *known != address);
        if addresses.len() == ADDRESSES_MAX {
            addresses.pop_front();
        }
        addresses.push_back(address);
    }

    /// Whether a name has logged in from an address.
    pub(super) fn knows(&self, name: &str, address: IpAddr) -> bool {
        self.known.get(&self.hasher.hash_one(name)).is_some_and(|known| known.contains(&address))
    }

    /// A name that has logged in from an address is not delayed by failures from others.
    fn keys(&self, name: &str, address: IpAddr) -> [Option<Key>; 3] {
        let is_known = self.knows(name, address);
        let name = self.hasher.hash_one(name);
        [
            Some(Key::Pair(name, address)),
            (!is_known).then_some(Key::Address(address)),
            (!is_known).then_some(Key::Name(name)),
        ]
    }

    fn make_room(&mut self) {
        if self.counts.len() < COUNTS_MAX {
            return;
        }
        let oldest = self.counts.iter().min_by_key(|(_, one)| one.last_at).map(|(key, _)| *key);
        oldest.map(|key| self.counts.remove(&key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const AWAY: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(198, 51, 100, 1));

    fn at(second: i64) -> Timestamp {
        Timestamp::from_ms(1_000_000_000 + second * 1_000)
    }

    /// Of this many attempts at this second, the number that is checked.
    fn tried(attempts: &mut Attempts, name: &str, address: IpAddr, second: i64, count: usize) -> usize {
        (0..count).filter(|_| attempts.begin(name, address, at(second)).is_ok()).count()
    }

    #[test]
    fn delay_after_failures_grows_up_to_a_limit() {
        let mut attempts = Attempts::default();
        assert_eq!(tried(&mut attempts, "amina", AWAY, 0, 100), 5);
        assert_eq!(attempts.begin("amina", AWAY, at(0)), Err(2));
        let (mut second, mut waits) = (0, Vec::new());
        for _ in 0..9 {
            let wait = attempts.begin("amina", AWAY, at(second)).unwrap_err();
            waits.push(wait);
            second += i64::try_from(wait).unwrap();
            assert_eq!(tried(&mut attempts, "amina", AWAY, second, 10), 1);
        }
        assert_eq!(waits, [2, 4, 8, 16, 32, 64, 128, 256, 300]);
        // Failures are forgotten.
        assert_eq!(tried(&mut attempts, "amina", AWAY, second + 3_600, 100), 5);
    }

    #[test]
    fn failures_from_other_addresses_do_not_delay_a_known_address() {
        let mut attempts = Attempts::default();
        assert_eq!(tried(&mut attempts, "amina", HOME, 0, 1), 1);
        attempts.succeeded("amina", HOME);
        for last in 0..=255 {
            let address = IpAddr::from([203, 0, 113, last]);
            tried(&mut attempts, "amina", address, 1, 10);
        }
        // Attempts from all other addresses are limited to 30 together, and unknown addresses wait.
        assert!(attempts.begin("amina", AWAY, at(1)).is_err());
        assert_eq!(tried(&mut attempts, "amina", HOME, 1, 1), 1);
        attempts.succeeded("amina", HOME);
        // Attempts from there are also limited.
        assert_eq!(tried(&mut attempts, "amina", HOME, 1, 100), 5);
        // Other users from other addresses are not affected.
        assert_eq!(tried(&mut attempts, "brian", AWAY, 1, 1), 1);
    }

    #[test]
    fn address_with_many_names_is_delayed_except_for_successes() {
        let mut attempts = Attempts::default();
        let names = (0..100).map(|number| format!("name{number}"));
        assert_eq!(names.filter(|name| attempts.begin(name, AWAY, at(0)).is_ok()).count(), 20);
        for _ in 0..100 {
            assert_eq!(attempts.begin("brian", HOME, at(0)), Ok(()));
            attempts.succeeded("brian", HOME);
        }
        assert_eq!(tried(&mut attempts, "chris", HOME, 0, 1), 1);
    }

    #[test]
    fn counts_of_attempts_are_limited() {
        let mut attempts = Attempts::default();
        for number in 0..20_000_u32 {
            let address = IpAddr::from(number.to_be_bytes());
            let _ = attempts.begin("amina", address, at(i64::from(number) * 61));
            attempts.succeeded(&number.to_string(), address);
        }
        assert!(attempts.counts.len() <= COUNTS_MAX && attempts.known.len() <= ACCOUNTS_MAX);
        for last in 0..100 {
            attempts.succeeded("amina", IpAddr::from([203, 0, 113, last]));
        }
        assert!(attempts.known.values().all(|known| known.len() <= ADDRESSES_MAX));
    }
}
