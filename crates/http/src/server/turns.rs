//! Turns of handshakes: addresses share the thread of a port's handshakes.
//!
//! A handshake takes up to a millisecond of CPU before its caller has a name. If a crowd begins hundreds at once, all
//! of them would run before the next handshake of another address. So an address runs for its equal part of each
//! window, among the addresses with unfinished handshakes. Its further steps wait for the next window. A single address
//! does not wait.

use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::ready;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Time that the addresses share; a step of a handshake takes up to a tenth of it.
const WINDOW: Duration = Duration::from_millis(10);

/// Turns of the addresses with unfinished handshakes.
#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<Window>);

#[derive(Debug, Default)]
struct Window {
    /// None before the first handshake.
    ends: Option<Instant>,
    addresses: HashMap<IpAddr, Use>,
}

/// Use of the thread by one address.
#[derive(Debug, Default)]
struct Use {
    unfinished: usize,
    /// Time of its steps in the present window.
    took: Duration,
}

impl Turns {
    /// Runs a handshake of an address, step by step when it has its turn.
    pub(super) async fn run<F: Future>(&self, address: IpAddr, handshake: F) -> F::Output {
        let _unfinished = self.begin(address);
        let mut handshake = pin!(handshake);
        let mut wait = pin!(sleep_until(Instant::now()));
        poll_fn(|context| {
            while let Some(turn) = self.window().next_turn(address, Instant::now()) {
                wait.as_mut().reset(turn);
                ready!(wait.as_mut().poll(context));
            }
            let begun = Instant::now();
            let polled = handshake.as_mut().poll(context);
            self.window().note(address, begun.elapsed());
            polled
        })
        .await
    }

    fn begin(&self, address: IpAddr) -> Unfinished<'_> {
        self.window().addresses.entry(address).or_default().unfinished += 1;
        Unfinished { turns: self, address }
    }

    fn window(&self) -> MutexGuard<'_, Window> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Window {
    /// When the next step of an address may run; `None` if that is now.
    fn next_turn(&mut self, address: IpAddr, now: Instant) -> Option<Instant> {
        let ends = match self.ends {
            Some(ends) if now < ends => ends,
            _ => {
                self.addresses.values_mut().for_each(|used| used.took = Duration::ZERO);
                *self.ends.insert(now + WINDOW)
            }
        };
        let sharing = u32::try_from(self.addresses.len()).unwrap_or(u32::MAX);
        let used = self.addresses.get(&address)?;
        let has_used_its_part = sharing > 1 && used.took >= WINDOW / sharing;
        has_used_its_part.then_some(ends)
    }

    fn note(&mut self, address: IpAddr, took: Duration) {
        if let Some(used) = self.addresses.get_mut(&address) {
            used.took += took;
        }
    }
}

/// A handshake that has begun; dropped when it ends.
struct Unfinished<'a> {
    turns: &'a Turns,
    address: IpAddr,
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let mut window = self.turns.window();
        if let Some(used) = window.addresses.get_mut(&self.address) {
            used.unfinished -= 1;
            if used.unfinished == 0 {
                window.addresses.remove(&self.address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::future::{join, join_all};
    use tokio::time::advance;

    use super::*;

    const fn address(host: u8) -> IpAddr {
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, host))
    }

    /// Three addresses: each has a third of the window, and one step at least.
    #[tokio::test(start_paused = true)]
    async fn an_address_runs_for_its_equal_part_of_a_window() {
        let turns = Turns::default();
        let _crowd = [1, 1, 1, 2, 3].map(|host| turns.begin(address(host)));
        let start = Instant::now();
        let ms = Duration::from_millis;
        for (at, host, took, turn) in [
            (0, 1, 3, None),
            (3, 1, 1, None),
            // Four of ten is more than a third.
            (4, 1, 0, Some(10)),
            (4, 2, 5, None),
            (9, 3, 9, None),
            // Its step went over the end of the window: the next window is another one.
            (18, 3, 1, None),
            (18, 1, 3, None),
            (21, 1, 1, None),
            (22, 1, 0, Some(28)),
            (28, 1, 1, None),
        ] {
            let next = turns.window().next_turn(address(host), start + ms(at));
            assert_eq!(next, turn.map(|turn| start + ms(turn)), "address {host} at {at} ms");
            turns.window().note(address(host), ms(took));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_single_address_does_not_wait_and_leaves_nothing_behind() {
        let turns = Turns::default();
        let alone = turns.begin(address(1));
        assert_eq!(turns.window().next_turn(address(1), Instant::now()), None);
        turns.window().note(address(1), Duration::from_secs(1));
        assert_eq!(turns.window().next_turn(address(1), Instant::now()), None);
        let other = turns.begin(address(2));
        assert!(
            turns.window().next_turn(address(1), Instant::now()).is_some_and(|turn| turn > Instant::now())
        );
        drop(other);
        assert_eq!(turns.window().next_turn(address(1), Instant::now()), None);
        drop(alone);
        assert!(turns.window().addresses.is_empty());
    }

    /// A hundred handshakes of one address begin before one of another, and each takes a millisecond of the thread.
    #[tokio::test(start_paused = true)]
    async fn a_crowd_does_not_run_before_another_address() {
        let turns = Turns::default();
        let order = Mutex::new(Vec::new());
        let handshake = |host: u8| {
            let (turns, order) = (&turns, &order);
            async move {
                // The clock moves within the first poll.
                turns.run(address(host), advance(Duration::from_millis(1))).await;
                order.lock().unwrap().push(host);
            }
        };
        let crowd = join_all((0..100).map(|_| handshake(1)));
        let _waits = turns.begin(address(2));
        join(crowd, handshake(2)).await;
        let order = order.into_inner().unwrap();
        assert_eq!(order.len(), 101);
        let place = order.iter().position(|host| *host == 2).unwrap();
        assert!(place <= 5, "{place} of the crowd ran before it");
    }
}
