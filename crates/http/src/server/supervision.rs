//! Time limits of connections without a timer per request.
//!
//! Every connection records its phase and the first tick of the phase: two relaxed stores. One task per worker
//! advances the tick, checks the worker's connections, and ends connections that exceed a limit. So the limits are
//! exact to one sweep interval, which is enough for limits of seconds.

use std::cmp::Reverse;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Waker};
use std::time::Duration;

use upesi_tls::Peer;

use super::Limits;
use super::holders::{Holder, HolderSlot};
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Mutex, MutexGuard, OnceLock, fence};

/// Longest time between two sweeps.
const SWEEP_INTERVAL_MAX: Duration = Duration::from_millis(250);
/// How long a connection that the server closes within a request continues to read, so that the answer is not
/// lost in a reset. A stopping server waits as long for the rest of a head or a body, and for a peer that does not
/// read.
const LINGER_TIMEOUT: Duration = Duration::from_secs(1);

/// Minimum idle time of a known connection before it may be closed to make room. After this time its peer is unlikely
/// to be about to use it.
const KNOWN_IDLE_MIN: Duration = Duration::from_secs(10);

/// Minimum time that an answer is unread, or the rest of a request is missing, before the connection may be closed to
/// make room for others of its holder: longer than a peer needs that reads and sends.
const STALLED_MIN: Duration = Duration::from_secs(1);

/// Phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// Between requests.
    Idle,
    /// Part of a head has arrived.
    Head,
    /// The service processes a request, within its own deadlines.
    Busy,
    /// The service waits for the rest of a request, or holds it back: ending the connection now loses no work.
    Waiting,
    /// The server has closed its side and reads the remaining bytes of the peer.
    Closing,
}

/// Instruction to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Order {
    Serve,
    /// End now. If a request has arrived that was not read yet, end after its answer.
    Yield,
    /// End after the request in flight; if there is none, end now.
    Finish,
    /// Like `Finish`, but accept no further request, not even one that is on its way.
    Distrust,
    /// End now.
    Abort,
}

/// Whether a connection still exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Liveness {
    Stands,
    /// Asked to end to make room for another.
    Leaving,
    Ended,
}

/// State of one connection for its supervisor.
#[derive(Debug)]
pub(super) struct SupervisedConnection {
    supervisor: Arc<Supervisor>,
    /// Number of the connection in the order of their start.
    number: usize,
    phase: AtomicU8,
    since_tick: AtomicU32,
    order: AtomicU8,
    fate: AtomicU8,
    is_known: AtomicBool,
    /// Whether the connection ends with its next answer, because its party has reached its limit of connections.
    is_over_share: AtomicBool,
    /// Held until the connection ends or makes room.
    seat: Mutex<Option<HolderSlot>>,
    waker: OnceLock<Waker>,
    /// Tick since which an answer is unread, with HTTP/2; 0 if there is none.
    unread_since_tick: AtomicU32,
    /// Tick since which the peer has read nothing of an answer; 0 if there is none.
    stalled_since_tick: AtomicU32,
    /// Certificate of the peer.
    peer: Option<Peer>,
}

impl SupervisedConnection {
    /// Certificate of the peer; `None` without TLS, or if the listener requires none.
    pub(super) const fn peer(&self) -> Option<&Peer> {
        self.peer.as_ref()
    }

    pub(super) fn phase(&self) -> Phase {
        match self.phase.load(Ordering::Relaxed) {
            0 => Phase::Idle,
            1 => Phase::Head,
            2 => Phase::Busy,
            3 => Phase::Waiting,
            _ => Phase::Closing,
        }
    }

    pub(super) fn enter(&self, phase: Phase) {
        self.since_tick.store(self.supervisor.tick.load(Ordering::Relaxed), Ordering::Relaxed);
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    /// The current tick, which is never 0.
    pub(super) fn tick(&self) -> u32 {
        self.supervisor.tick.load(Ordering::Relaxed).max(1)
    }

    /// Records the tick since which an answer is unread; 0 if there is none.
    pub(super) fn unread_since(&self, tick: u32) {
        self.unread_since_tick.store(tick, Ordering::Relaxed);
    }

    /// Records the tick since which the peer has read nothing of an answer; 0 if there is none.
    pub(super) fn stalled_since(&self, tick: u32) {
        self.stalled_since_tick.store(tick, Ordering::Relaxed);
    }

    /// Read at each poll of the connection's task. The first call stores the waker of that task, which stays the same.
    pub(super) fn order(&self, context: &Context<'_>) -> Order {
        if self.waker.get().is_none() {
            let _ = self.waker.set(context.waker().clone());
            // With the fence in `tell`: either this poll reads the order, or the thread that sets the order finds the
            // waker.
            fence(Ordering::SeqCst);
        }
        match self.order.load(Ordering::Acquire) {
            0 => Order::Serve,
            1 => Order::Yield,
            2 => Order::Finish,
            3 => Order::Distrust,
            _ => Order::Abort,
        }
    }

    pub(super) fn is_known(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    pub(super) fn is_over_share(&self) -> bool {
        self.is_over_share.load(Ordering::Relaxed)
    }

    /// The party of the connection has reached its limit.
    pub(super) fn exceed_share(&self) {
        self.is_over_share.store(true, Ordering::Relaxed);
    }

    /// Assigns the connection to the holder of this seat.
    pub(super) fn become_known(&self, seat: HolderSlot) {
        self.is_known.store(true, Ordering::Relaxed);
        let before = self.seat().replace(seat);
        drop(before);
    }

    pub(super) fn take_seat(&self) -> Option<HolderSlot> {
        self.seat().take()
    }

    pub(super) fn seat(&self) -> MutexGuard<'_, Option<HolderSlot>> {
        self.seat.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// If it may be closed to make room: its class and the tick since which it waits.
    fn may_make_way(&self, fair: FairParts) -> Option<(Class, u32)> {
        let phase = self.phase();
        if phase == Phase::Closing {
            return None;
        }
        let stalled_since = self.stalled_since_tick.load(Ordering::Relaxed);
        if stalled_since != 0 && self.age(stalled_since) >= self.supervisor.stalled_min_ticks {
            return Some((Class::Unread, stalled_since));
        }
        let since_tick = self.since_tick.load(Ordering::Relaxed);
        let has_more_than = |part| self.seat().as_ref().is_some_and(|seat| seat.connections() > part);
        let (age, supervisor) = (self.age(since_tick), &self.supervisor);
        let waits_for_long = match phase {
            Phase::Idle => age >= supervisor.known_idle_ticks,
            Phase::Head | Phase::Waiting => age >= supervisor.stalled_min_ticks,
            Phase::Busy | Phase::Closing => false,
        };
        let class = match (phase, self.is_known()) {
            (Phase::Idle | Phase::Head | Phase::Waiting, false) if has_more_than(fair.of_address) => {
                Class::AnonymousCrowd
            }
            (Phase::Idle | Phase::Head | Phase::Waiting, false) => Class::Waiting,
            (Phase::Busy, false) => Class::Served,
            // A request may be on its way. Beyond the limit, the holder's new connection ends instead.
            (_, true) if fair.of_known == 0 && !waits_for_long => return None,
            (Phase::Idle | Phase::Head | Phase::Waiting, true) if has_more_than(fair.of_known) => {
                Class::Crowd
            }
            (Phase::Idle, true) if waits_for_long => Class::Known,
            _ => return None,
        };
        Some((class, since_tick))
    }

    /// Number of ticks since then.
    fn age(&self, since_tick: u32) -> u32 {
        self.supervisor.tick.load(Ordering::Relaxed).wrapping_sub(since_tick)
    }

    /// Ends it to make room for another; `false` if it has ended or was already asked to.
    pub(super) fn make_way(&self, how: Order) -> bool {
        let leaving = &self.supervisor.leaving;
        leaving.fetch_add(1, Ordering::AcqRel);
        let (stands, leaves) = (Liveness::Stands as u8, Liveness::Leaving as u8);
        if self.fate.compare_exchange(stands, leaves, Ordering::AcqRel, Ordering::Acquire).is_err() {
            leaving.fetch_sub(1, Ordering::AcqRel);
            return false;
        }
        drop(self.take_seat());
        self.tell(how);
        true
    }

    pub(super) fn tell(&self, order: Order) {
        if self.order.fetch_max(order as u8, Ordering::AcqRel) >= order as u8 {
            return;
        }
        fence(Ordering::SeqCst);
        if let Some(waker) = self.waker.get() {
            waker.wake_by_ref();
        }
    }
}

/// Marks the connection as ended when its task ends, however it ends.
pub(super) struct Guard(pub(super) Arc<SupervisedConnection>);

impl Drop for Guard {
    fn drop(&mut self) {
        if self.0.fate.swap(Liveness::Ended as u8, Ordering::AcqRel) == Liveness::Leaving as u8 {
            self.0.supervisor.leaving.fetch_sub(1, Ordering::AcqRel);
        }
        drop(self.0.take_seat());
    }
}

/// Class of a connection, in the order of closing to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Class {
    /// Its peer does not read an answer: it ends at once.
    Unread,
    /// An unidentified connection that waits for its peer, of an address with more than its part: it ends at once.
    AnonymousCrowd,
    /// An unidentified connection of another address that waits for its peer: it ends at once.
    Waiting,
    /// An unidentified connection whose request is being served: it ends with its answer.
    Served,
    /// A connection that waits for its peer, of a known holder with more than its part: it ends at once.
    Crowd,
    /// A connection of another known holder that has been idle for long: it ends at once.
    Known,
}

/// A connection that may be closed to make room, ordered by rank: the lowest first.
#[derive(Debug)]
pub(super) struct Candidate {
    /// After the class, an anonymous crowd is ordered by the size of the crowd, largest first. The rest is ordered by
    /// the time in the phase, then by age.
    pub(super) rank: (Class, Reverse<usize>, Reverse<u32>, usize),
    since_tick: u32,
    fair: FairParts,
    watched: Arc<SupervisedConnection>,
}

/// Numbers of connections that leave an equal part to all others.
#[derive(Clone, Copy, Debug)]
pub(super) struct FairParts {
    /// Of an address, for unidentified connections.
    pub(super) of_address: usize,
    /// Of a known holder. Up to this number, it keeps a connection that its peer may be about to use.
    pub(super) of_known: usize,
}

impl Candidate {
    /// The holder of the connection; `None` if it has ended.
    pub(super) fn holder(&self) -> Option<Holder> {
        self.watched.seat().as_ref().map(HolderSlot::holder)
    }

    /// Number of connections of its holder, including this one.
    pub(super) fn of_holder(&self) -> usize {
        self.watched.seat().as_ref().map_or(0, HolderSlot::connections)
    }

    /// Ends the connection to make room for another; `false` if it has ended, was already asked to, or has made
    /// progress since it was found.
    pub(super) fn make_way(&self) -> bool {
        let found = Some((self.rank.0, self.since_tick));
        let how = match (self.rank.0, self.watched.phase()) {
            (Class::Unread, _) => Order::Abort,
            (Class::Served, _) => Order::Finish,
            (_, Phase::Idle) => Order::Yield,
            _ => Order::Abort,
        };
        self.watched.may_make_way(self.fair) == found && self.watched.make_way(how)
    }
}

impl FairParts {
    /// If the connections of one holder, or handshakes, are compared with each other.
    pub(super) const OF_ONE_HOLDER: Self = Self { of_address: usize::MAX, of_known: 0 };
}

/// Supervises the connections of one server on one worker.
#[derive(Debug)]
pub(super) struct Supervisor {
    interval: Duration,
    head_ticks: u32,
    idle_ticks: u32,
    linger_ticks: u32,
    known_idle_ticks: u32,
    unread_ticks: u32,
    stalled_min_ticks: u32,
    tick: AtomicU32,
    /// Number of connections that are ending to make room.
    leaving: AtomicUsize,
    connections: Mutex<Connections>,
}

#[derive(Debug, Default)]
struct Connections {
    watched: Vec<Arc<SupervisedConnection>>,
    /// Tick of [`Supervisor::finish_all`].
    finishing_since: Option<u32>,
}

impl Supervisor {
    pub(super) fn new(limits: &Limits) -> Self {
        let shortest = limits.head_deadline.min(limits.idle_timeout).min(limits.unread_timeout);
        let interval = (shortest / 4).clamp(Duration::from_millis(5), SWEEP_INTERVAL_MAX);
        // One tick more than the limit needs, since the first tick comes early by up to an interval.
        let ticks = |limit: Duration| {
            u32::try_from(limit.as_nanos() / interval.as_nanos()).map_or(u32::MAX, |ticks| ticks + 1)
        };
        Self {
            interval,
            head_ticks: ticks(limits.head_deadline),
            idle_ticks: ticks(limits.idle_timeout),
            linger_ticks: ticks(LINGER_TIMEOUT),
            known_idle_ticks: ticks(KNOWN_IDLE_MIN),
            unread_ticks: ticks(limits.unread_timeout),
            stalled_min_ticks: ticks(STALLED_MIN.min(limits.unread_timeout)),
            tick: AtomicU32::new(0),
            leaving: AtomicUsize::new(0),
            connections: Mutex::default(),
        }
    }

    /// Begins to supervise a new connection, the `number`th.
    pub(super) fn watch(
        self: &Arc<Self>,
        number: usize,
        seat: Option<HolderSlot>,
        peer: Option<Peer>,
    ) -> Guard {
        let watched = Arc::new(SupervisedConnection {
            supervisor: self.clone(),
            number,
            phase: AtomicU8::new(Phase::Idle as u8),
            since_tick: AtomicU32::new(self.tick.load(Ordering::Relaxed)),
            order: AtomicU8::new(Order::Serve as u8),
            fate: AtomicU8::new(Liveness::Stands as u8),
            is_known: AtomicBool::new(false),
            is_over_share: AtomicBool::new(false),
            seat: Mutex::new(seat),
            waker: OnceLock::new(),
            unread_since_tick: AtomicU32::new(0),
            stalled_since_tick: AtomicU32::new(0),
            peer,
        });
        let mut connections = self.connections();
        if connections.finishing_since.is_some() {
            watched.tell(Order::Finish);
        }
        connections.watched.push(watched.clone());
        Guard(watched)
    }

    /// Asks all current and future connections to finish.
    pub(super) fn finish_all(&self) {
        let mut connections = self.connections();
        connections.finishing_since.get_or_insert(self.tick.load(Ordering::Relaxed));
        for watched in &connections.watched {
            watched.tell(Order::Finish);
        }
    }

    /// Asks the connections of untrusted peers to finish. Returns their number.
    pub(super) fn finish_untrusted(&self, trusts: &mut impl FnMut(&Peer) -> bool) -> usize {
        // Evaluated without the lock, because it takes long while connections begin and end.
        let has_peer = |watched: &&Arc<SupervisedConnection>| {
            watched.peer.is_some() && watched.fate.load(Ordering::Acquire) != Liveness::Ended as u8
        };
        let of_peers: Vec<_> = self.connections().watched.iter().filter(has_peer).cloned().collect();
        let is_untrusted =
            |watched: &Arc<SupervisedConnection>| watched.peer().is_some_and(|peer| !trusts(peer));
        let untrusted: Vec<_> = of_peers.into_iter().filter(is_untrusted).collect();
        for watched in &untrusted {
            watched.tell(Order::Distrust);
        }
        untrusted.len()
    }

    /// Sweeps until the runtime ends, or until the last connection has ended after [`Self::finish_all`].
    pub(super) async fn run(self: Arc<Self>) {
        let mut interval = tokio::time::interval(self.interval);
        interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            interval.tick().await;
            if self.sweep() {
                return;
            }
        }
    }

    /// Checks all connections and drops the ended ones. Returns whether none is left after [`Self::finish_all`].
    pub(super) fn sweep(&self) -> bool {
        let now = self.tick.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let mut connections = self.connections();
        let is_over = connections
            .finishing_since
            .is_some_and(|since_tick| now.wrapping_sub(since_tick) > self.linger_ticks);
        connections.watched.retain(|watched| {
            self.judge(watched, now, is_over);
            watched.fate.load(Ordering::Acquire) != Liveness::Ended as u8
        });
        connections.finishing_since.is_some() && connections.watched.is_empty()
    }

    /// Number of sweeps so far.
    pub(super) fn tick(&self) -> u32 {
        self.tick.load(Ordering::Relaxed)
    }

    /// Number of connections that are ending to make room.
    pub(super) fn leaving(&self) -> usize {
        self.leaving.load(Ordering::Acquire)
    }

    /// Adds the connections that may make room, of a holder or of all. For a known holder with more than its part, this
    /// includes connections that its peer may be about to use.
    pub(super) fn candidates(&self, of: Option<&Holder>, fair: FairParts, into: &mut Vec<Candidate>) {
        for watched in &self.connections().watched {
            let is_of = |of| watched.seat().as_ref().is_some_and(|seat| seat.is_of(of));
            if watched.fate.load(Ordering::Acquire) != Liveness::Stands as u8 || !of.is_none_or(is_of) {
                continue;
            }
            let Some((class, since_tick)) = watched.may_make_way(fair) else { continue };
            let crowd = match class {
                Class::AnonymousCrowd => watched.seat().as_ref().map_or(0, HolderSlot::connections),
                _ => 0,
            };
            let rank = (class, Reverse(crowd), Reverse(watched.age(since_tick)), watched.number);
            into.push(Candidate { rank, since_tick, fair, watched: Arc::clone(watched) });
        }
    }

    /// Ends a connection that exceeds a time limit. `is_stop_over`: the server has been stopping for long enough, so
    /// every connection that waits for its peer ends.
    fn judge(&self, watched: &SupervisedConnection, now: u32, is_stop_over: bool) {
        let has_passed = |since_tick: &AtomicU32, limit_ticks: u32| {
            let since_tick = since_tick.load(Ordering::Relaxed);
            since_tick != 0 && now.wrapping_sub(since_tick) > limit_ticks
        };
        if has_passed(&watched.unread_since_tick, self.idle_ticks)
            || has_passed(&watched.stalled_since_tick, self.unread_ticks)
        {
            return watched.tell(Order::Abort);
        }
        let age = now.wrapping_sub(watched.since_tick.load(Ordering::Relaxed));
        match watched.phase() {
            Phase::Idle | Phase::Head | Phase::Waiting if is_stop_over => watched.tell(Order::Abort),
            Phase::Busy | Phase::Waiting => {}
            Phase::Head if age > self.head_ticks => watched.tell(Order::Abort),
            Phase::Closing if age > self.linger_ticks => watched.tell(Order::Abort),
            // The connection should have ended by itself. It is still open because the peer does not read the last
            // answer.
            Phase::Idle if age > self.idle_ticks.saturating_add(self.head_ticks) => {
                watched.tell(Order::Abort)
            }
            Phase::Idle if age > self.idle_ticks => watched.tell(Order::Finish),
            Phase::Idle | Phase::Head | Phase::Closing => {}
        }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
