//! Resolves host names, with limits on concurrent lookups and a cache of results.
//!
//! 1. A name has one lookup at a time, on a thread of its own. A peer, such as a DFSP, may have [`LOOKUPS_PER_PEER`] at
//!    the same time: the system's resolver may take half a minute for a name whose server does not answer.
//! 2. A result is fresh for [`FRESH`].
//! 3. An older result is used, up to [`KEPT`], if a new one does not arrive within [`PATIENCE`], or if no lookup can
//!    start now.
//! 4. A failure is cached for [`FAILURE_LASTS`].

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs as _};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::guard::Resolve;

/// Maximum number of concurrent lookups of one peer.
const LOOKUPS_PER_PEER: usize = 2;
/// Maximum number of concurrent lookups of all peers.
const LOOKUPS_MAX: usize = 256;
/// Number of cached names; the least recently used one is dropped for another.
const NAMES_MAX: usize = 4096;
const FRESH: Duration = Duration::from_secs(30);
const KEPT: Duration = Duration::from_secs(600);
const PATIENCE: Duration = Duration::from_millis(250);
const FAILURE_LASTS: Duration = Duration::from_secs(1);

/// The cache that some pools share. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Names(Arc<ResolverState>);

#[derive(Debug, Default)]
struct ResolverState {
    known: Mutex<ResolverCache>,
    /// Notified when a lookup has ended.
    ended: Notify,
}

#[derive(Debug, Default)]
struct ResolverCache {
    names: HashMap<Box<str>, Name>,
    /// Number of running lookups by peer.
    lookups: HashMap<Box<str>, usize>,
}

#[derive(Debug)]
struct Name {
    is_looked_up: bool,
    /// The result of the last lookup, not dated yet.
    found: Option<io::Result<Vec<IpAddr>>>,
    answer: Option<(Vec<IpAddr>, Instant)>,
    failure: Option<(io::ErrorKind, String, Instant)>,
    used_at: Instant,
}

/// The addresses of a host.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ResolvedHost {
    pub(super) addresses: Vec<IpAddr>,
    /// Whether they come from an earlier lookup.
    pub(super) is_kept: bool,
}

enum CachedNames {
    Found(Vec<IpAddr>),
    /// Older addresses, while a lookup is running.
    Old(Vec<IpAddr>),
    Failed(io::Error),
    /// A lookup must end first: of this name, or of another name of the peer.
    Wait,
}

impl Names {
    /// The addresses of a host; a lookup counts for this peer. The caller limits the time.
    pub(super) async fn of(
        &self,
        host: &str,
        peer: &str,
        resolve: Option<Resolve>,
    ) -> io::Result<ResolvedHost> {
        if let Ok(address) = host.parse() {
            return Ok(ResolvedHost { addresses: vec![address], is_kept: false });
        }
        let mut is_kept = true;
        loop {
            let mut ended = pin!(self.0.ended.notified());
            ended.as_mut().enable();
            match self.look(host, peer, resolve, Instant::now()) {
                CachedNames::Found(addresses) => return Ok(ResolvedHost { addresses, is_kept }),
                CachedNames::Failed(error) => return Err(error),
                CachedNames::Old(addresses) => {
                    if timeout(PATIENCE, self.until_found(host)).await.is_err() {
                        return Ok(ResolvedHost { addresses, is_kept });
                    }
                }
                CachedNames::Wait => ended.as_mut().await,
            }
            is_kept = false;
        }
    }

    /// Drops the cached addresses of a host, because no process listens there.
    pub(super) fn forget(&self, host: &str) {
        if let Some(name) = self.known().names.get_mut(host) {
            name.answer = None;
        }
    }

    async fn until_found(&self, host: &str) {
        loop {
            let mut ended = pin!(self.0.ended.notified());
            ended.as_mut().enable();
            if !self.known().names.get(host).is_some_and(|name| name.is_looked_up) {
                return;
            }
            ended.as_mut().await;
        }
    }

    fn look(&self, host: &str, peer: &str, resolve: Option<Resolve>, now: Instant) -> CachedNames {
        let mut known = self.known();
        let ResolverCache { names, lookups } = &mut *known;
        make_room(names, host);
        let name = names.entry(host.into()).or_insert_with(|| Name::new(now));
        name.take_found(now);
        let answer = name.answer.as_ref();
        if let Some((addresses, _)) = answer.filter(|(_, at)| now < *at + FRESH) {
            return CachedNames::Found(addresses.clone());
        }
        let old = answer.filter(|(_, at)| now < *at + KEPT).map(|(addresses, _)| addresses.clone());
        if let Some((kind, text, _)) = name.failure.as_ref().filter(|(.., at)| now < *at + FAILURE_LASTS) {
            let failed = || CachedNames::Failed(io::Error::new(*kind, text.clone()));
            return old.map_or_else(failed, CachedNames::Found);
        }
        if !name.is_looked_up {
            let of_peer = lookups.get(peer).copied().unwrap_or_default();
            if of_peer >= LOOKUPS_PER_PEER || lookups.values().sum::<usize>() >= LOOKUPS_MAX {
                return old.map_or(CachedNames::Wait, CachedNames::Found);
            }
            if let Err(error) = self.begin(host, peer, resolve) {
                return CachedNames::Failed(error);
            }
            name.is_looked_up = true;
            *lookups.entry(peer.into()).or_default() += 1;
        }
        old.map_or(CachedNames::Wait, CachedNames::Old)
    }

    /// Resolves a name on a detached thread, because the system's resolver cannot be stopped.
    fn begin(&self, host: &str, peer: &str, resolve: Option<Resolve>) -> io::Result<()> {
        let (names, host, peer) = (self.clone(), Box::<str>::from(host), Box::<str>::from(peer));
        let look_up = move || {
            let found = match resolve {
                Some(resolve) => Ok(resolve(&host)),
                None => (&*host, 0).to_socket_addrs().map(|found| found.map(|found| found.ip()).collect()),
            };
            names.end(&host, &peer, found);
        };
        thread::Builder::new().name("upesi-names".to_owned()).spawn(look_up).map(drop)
    }

    fn end(&self, host: &str, peer: &str, found: io::Result<Vec<IpAddr>>) {
        let mut known = self.known();
        if let Some(name) = known.names.get_mut(host) {
            (name.is_looked_up, name.found) = (false, Some(found));
        }
        if let Some(count) = known.lookups.get_mut(peer) {
            *count -= 1;
            if *count == 0 {
                known.lookups.remove(peer);
            }
        }
        drop(known);
        self.0.ended.notify_waiters();
    }

    fn known(&self) -> MutexGuard<'_, ResolverCache> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Name {
    const fn new(now: Instant) -> Self {
        Self { is_looked_up: false, found: None, answer: None, failure: None, used_at: now }
    }

    /// Dates the result of a lookup, because its thread has no clock.
    fn take_found(&mut self, now: Instant) {
        self.used_at = now;
        match self.found.take() {
            Some(Ok(addresses)) => (self.answer, self.failure) = (Some((addresses, now)), None),
            Some(Err(error)) => self.failure = Some((error.kind(), error.to_string(), now)),
            None => {}
        }
    }
}

fn make_room(names: &mut HashMap<Box<str>, Name>, host: &str) {
    if names.len() < NAMES_MAX || names.contains_key(host) {
        return;
    }
    let unused = names.iter().filter(|(_, name)| !name.is_looked_up);
    let oldest = unused.min_by_key(|(_, name)| name.used_at).map(|(host, _)| host.clone());
    oldest.and_then(|oldest| names.remove(&oldest));
}

#[cfg(test)]
mod tests {
    use std::sync::Condvar;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures_util::FutureExt as _;

    use super::*;

    const ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));

    fn found(is_kept: bool) -> ResolvedHost {
        ResolvedHost { addresses: vec![ADDRESS], is_kept }
    }

    #[tokio::test(start_paused = true)]
    async fn cached_answer_is_dropped_after_a_while_or_a_failed_connection() {
        static ASKED: AtomicUsize = AtomicUsize::new(0);
        fn resolve(_: &str) -> Vec<IpAddr> {
            ASKED.fetch_add(1, Ordering::SeqCst);
            vec![ADDRESS]
        }
        let names = Names::default();
        let of = || names.of("green.example", "green", Some(resolve));
        assert_eq!(of().await.unwrap(), found(false));
        for _ in 0..10 {
            assert_eq!(of().await.unwrap(), found(true));
        }
        assert_eq!(ASKED.load(Ordering::SeqCst), 1);
        names.forget("green.example");
        assert_eq!(of().await.unwrap(), found(false));
        assert_eq!(ASKED.load(Ordering::SeqCst), 2);
        tokio::time::advance(KEPT).await;
        assert_eq!(of().await.unwrap(), found(false));
        assert_eq!(ASKED.load(Ordering::SeqCst), 3);
        let literal = names.of("192.0.2.1", "green", Some(resolve)).await.unwrap();
        assert_eq!((literal, ASKED.load(Ordering::SeqCst)), (found(false), 3));
    }

    /// Lookups that wait until they are released.
    struct Gate {
        is_open: Mutex<bool>,
        opened: Condvar,
        asked: AtomicUsize,
    }

    impl Gate {
        const fn new(is_open: bool) -> Self {
            Self { is_open: Mutex::new(is_open), opened: Condvar::new(), asked: AtomicUsize::new(0) }
        }

        fn pass(&self) {
            self.asked.fetch_add(1, Ordering::SeqCst);
            let is_open = self.is_open.lock().unwrap();
            drop(self.opened.wait_while(is_open, |is_open| !*is_open).unwrap());
        }

        fn set(&self, is_open: bool) {
            *self.is_open.lock().unwrap() = is_open;
            self.opened.notify_all();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn old_answer_is_used_until_a_new_one_arrives() {
        static GATE: Gate = Gate::new(true);
        fn resolve(_: &str) -> Vec<IpAddr> {
            GATE.pass();
            vec![ADDRESS]
        }
        let names = Names::default();
        let of = || names.of("green.example", "green", Some(resolve));
        assert_eq!(of().await.unwrap(), found(false));
        GATE.set(false);
        tokio::time::advance(FRESH).await;
        let start = Instant::now();
        for waited in [1, 2, 3] {
            assert_eq!(of().await.unwrap(), found(true));
            assert_eq!(start.elapsed(), waited * PATIENCE);
        }
        GATE.set(true);
    }

    #[tokio::test(start_paused = true)]
    async fn unanswered_lookups_of_one_peer_do_not_delay_other_peers() {
        static GATE: Gate = Gate::new(false);
        fn resolve(host: &str) -> Vec<IpAddr> {
            if host.ends_with(".red.example") {
                GATE.pass();
            }
            vec![ADDRESS]
        }
        let names = Names::default();
        let hosts: Vec<_> = (0..100).map(|number| format!("{number}.red.example")).collect();
        let mut red: Vec<_> =
            hosts.iter().map(|host| Box::pin(names.of(host, "red", Some(resolve)))).collect();
        assert!(red.iter_mut().all(|asked| asked.now_or_never().is_none()));
        assert_eq!(names.known().lookups["red"], LOOKUPS_PER_PEER);
        // There is also only one lookup per name.
        let mut again: Vec<_> =
            (0..100).map(|_| Box::pin(names.of(&hosts[0], "blue", Some(resolve)))).collect();
        assert!(again.iter_mut().all(|asked| asked.now_or_never().is_none()));
        assert_eq!(names.known().lookups.get("blue"), None);
        for number in 0..10 {
            let host = format!("{number}.green.example");
            assert_eq!(names.of(&host, "green", Some(resolve)).await.unwrap(), found(false));
        }
        GATE.set(true);
        for asked in red.into_iter().chain(again) {
            assert_eq!(asked.await.unwrap().addresses, [ADDRESS]);
        }
        assert_eq!(GATE.asked.load(Ordering::SeqCst), hosts.len());
        assert!(names.known().lookups.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn failure_is_returned_and_cached_for_a_second() {
        let names = Names::default();
        let outcome = |found| {
            names
                .known()
                .names
                .entry("green.example".into())
                .or_insert_with(|| Name::new(Instant::now()))
                .found = Some(found);
        };
        outcome(Err(io::Error::other("no such name")));
        fn resolve(_: &str) -> Vec<IpAddr> {
            vec![ADDRESS]
        }
        let of = || names.of("green.example", "green", Some(resolve));
        for _ in 0..2 {
            assert_eq!(of().await.unwrap_err().to_string(), "no such name");
        }
        tokio::time::advance(FAILURE_LASTS).await;
        assert_eq!(of().await.unwrap(), found(false));
        // After a failure an earlier answer stays valid.
        tokio::time::advance(FRESH).await;
        outcome(Err(io::Error::other("no such name")));
        assert_eq!(of().await.unwrap(), found(true));
    }

    #[test]
    fn least_recently_used_names_are_dropped() {
        let (start, mut names) = (Instant::now(), HashMap::new());
        for number in 0..NAMES_MAX + 10 {
            let host = number.to_string();
            make_room(&mut names, &host);
            let at = start + Duration::from_secs(number as u64);
            names.insert(host.into(), Name { is_looked_up: number == 0, ..Name::new(at) });
        }
        assert_eq!(names.len(), NAMES_MAX);
        assert!(names.contains_key("0") && !names.contains_key("10") && names.contains_key("11"));
    }
}
