//! Decides whether a new connection is served: within the limits, or in place of one that may be closed.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::Limits;
use super::holders::{Holder, HolderSlot, Holders};
use super::open_connections::{OpenConnection, OpenConnections};
use super::supervision::{Candidate, Class, FairParts, SupervisedConnection, Supervisor};
use super::turns::FairTurns;

/// Maximum number of connections that are closed together to make room.
const LEAVING_BATCH: usize = 16;
/// Number of candidates that one search stores for later newcomers. A search examines all connections, so a recurring
/// crowd must not cause one for each of its newcomers.
const FOUND_MAX: usize = 256;
/// Maximum number of holders with stored candidates.
const FOUND_HOLDERS_MAX: usize = 16;
/// Minimum number of unidentified connections that an address may have without being a crowd: those of a browser.
const ADDRESS_PART_MIN: usize = 8;
/// Maximum number of connections that are ending to make room. Above it, no connection is served
/// beyond the limit of connections.
pub(super) const LEAVING_MAX: usize = 32;

/// The connections of a server, as the accept loop sees them.
#[derive(Debug)]
pub(super) struct ConnectionRoom {
    connections_max: usize,
    open: Arc<OpenConnections>,
    /// Unfinished handshakes.
    handshaking: Arc<OpenConnections>,
    holders: Arc<Holders>,
    made_way: AtomicUsize,
    refused: AtomicUsize,
    over_share: AtomicUsize,
    /// The last searches, of a holder or of all.
    found: Mutex<HashMap<Option<Holder>, Search>>,
    /// One per worker; with TLS, the last one supervises handshakes.
    supervisors: Vec<Arc<Supervisor>>,
    /// In the same order.
    turns: Vec<Arc<FairTurns<Holder>>>,
}

/// The remaining candidates of a search.
#[derive(Debug)]
struct Search {
    tick: u32,
    /// Connections with unread answers and waiting connections. The best candidate is the last. Connections that begin
    /// to wait later rank after them.
    candidates: Vec<Candidate>,
}

impl ConnectionRoom {
    pub(super) fn new(limits: &Limits, supervisors: Vec<Arc<Supervisor>>) -> Self {
        Self {
            connections_max: limits.connections_max,
            open: Arc::new(OpenConnections::new()),
            handshaking: Arc::new(OpenConnections::new()),
            holders: Arc::new(Holders::new(limits)),
            made_way: AtomicUsize::new(0),
            refused: AtomicUsize::new(0),
            over_share: AtomicUsize::new(0),
            found: Mutex::default(),
            turns: supervisors.iter().map(|_| Arc::default()).collect(),
            supervisors,
        }
    }

    pub(super) fn open(&self) -> &Arc<OpenConnections> {
        &self.open
    }

    pub(super) fn supervisors(&self) -> &[Arc<Supervisor>] {
        &self.supervisors
    }

    /// Turns of the HTTP/2 connections on a worker.
    pub(super) fn turns(&self, worker: usize) -> Arc<FairTurns<Holder>> {
        self.turns[worker].clone()
    }

    pub(super) fn handshakes(&self) -> &Arc<Supervisor> {
        // There is at least one worker.
        &self.supervisors[self.supervisors.len() - 1]
    }

    /// Counts a handshake until the result is dropped.
    pub(super) fn take_handshake(&self) -> OpenConnection {
        self.handshaking.open()
    }

    /// Whether one more handshake of this address may begin: within the limit, or in place of the handshakes that have
    /// waited longest, of the address with the most unidentified connections. So a crowd does not displace the
    /// handshakes of others.
    pub(super) fn is_there_for_handshake(&self, address: IpAddr, handshakes_max: usize) -> bool {
        let handshakes = self.handshakes();
        if self.handshaking.count().saturating_sub(handshakes.leaving()) < handshakes_max {
            return true;
        }
        if handshakes.leaving() >= LEAVING_MAX {
            // A crowd arrives faster than its handshakes end. An address with less than its equal part does not wait.
            let part = handshakes_max / (self.holders.addresses() + 1);
            return self.holders.held(Holder::Anonymous(address)) < part;
        }
        let mut candidates = Vec::new();
        handshakes.candidates(None, FairParts::OF_ONE_HOLDER, &mut candidates);
        candidates.sort_by_cached_key(|candidate| (candidate.of_holder(), Reverse(candidate.rank)));
        self.let_go(&mut candidates, batch_of(handshakes_max))
    }

    /// Number of connections closed to make room since the start.
    pub(super) fn made_way(&self) -> usize {
        self.made_way.load(Ordering::Relaxed)
    }

    /// Number of connections rejected since the start.
    pub(super) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Number of connections beyond the limit of their party since the start.
    pub(super) fn over_share(&self) -> usize {
        self.over_share.load(Ordering::Relaxed)
    }

    /// Counts a rejected connection.
    pub(super) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection from this address.
    pub(super) fn take(&self, address: IpAddr) -> (OpenConnection, HolderSlot) {
        (self.open.open(), self.holders.seat(Holder::Anonymous(address)))
    }

    /// Assigns a connection to another holder. If that has reached its limit, one of its other connections is closed;
    /// if none of them may be closed, the connection keeps its holder, and exceeds the share of the other one.
    pub(super) fn move_to(&self, watched: &SupervisedConnection, holder: Holder) {
        if !self.holders.is_full(holder) || self.make(1, Some(holder)) {
            watched.become_known(self.holders.seat(holder));
        } else {
            watched.exceed_share();
            self.over_share.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether all slots are taken and the maximum number of connections is closing: newcomers then wait for them
    /// before they are rejected. A newcomer whose address has reached its share is rejected at once, since others would
    /// wait behind it.
    pub(super) fn is_crowded(&self) -> bool {
        self.leaving() >= LEAVING_MAX && self.staying() >= self.connections_max
    }

    /// Whether one more connection of this address may be served. Closes others to make room if possible.
    pub(super) fn is_there_for(&self, address: IpAddr) -> bool {
        let strangers = Holder::Anonymous(address);
        let batch = batch_of(self.holders.share_of(strangers));
        if self.holders.is_full(strangers) && !self.make(batch, Some(strangers)) {
            return false;
        }
        self.staying() < self.connections_max || self.make(batch_of(self.connections_max), None)
    }

    fn leaving(&self) -> usize {
        self.supervisors.iter().map(|supervisor| supervisor.leaving()).sum()
    }

    fn staying(&self) -> usize {
        self.open.count().saturating_sub(self.leaving())
    }

    /// Closes at most `count` connections, best candidates first, of a holder or of all.
    fn make(&self, count: usize, of: Option<Holder>) -> bool {
        if self.leaving() >= LEAVING_MAX {
            return false;
        }
        let mut found = self.found.lock().unwrap_or_else(PoisonError::into_inner);
        let tick = self.supervisors[0].tick();
        if let Some(search) = found.get_mut(&of) {
            if self.let_go(&mut search.candidates, count) {
                return true;
            }
            // Without room, the new connection of a known holder ends with its answer, so a search can wait.
            if search.tick == tick && of.is_some_and(Holder::is_known) {
                return false;
            }
        }
        let mut candidates = self.first_of(&self.supervisors, of);
        let went = self.let_go(&mut candidates, count);
        // Newcomers of the largest crowd may rank before the others by the time that the others' turn comes.
        let mut crowds = candidates.iter().filter(|candidate| candidate.rank.0 == Class::AnonymousCrowd);
        let largest = crowds.next_back().map(Candidate::holder);
        candidates.retain(|candidate| match candidate.rank.0 {
            Class::Unread => true,
            Class::AnonymousCrowd => Some(candidate.holder()) == largest,
            Class::Waiting => largest.is_none(),
            Class::Crowd => of.is_some(),
            Class::Served | Class::Known => false,
        });
        if found.len() >= FOUND_HOLDERS_MAX {
            found.clear();
        }
        found.insert(of, Search { tick, candidates });
        went
    }

    fn let_go(&self, candidates: &mut Vec<Candidate>, count: usize) -> bool {
        let mut went = 0;
        while went < count
            && let Some(candidate) = candidates.pop()
        {
            went += usize::from(candidate.make_way());
        }
        self.made_way.fetch_add(went, Ordering::Relaxed);
        went > 0
    }

    /// Candidates for making room, of a holder or of all: the best one is the last.
    fn first_of(&self, supervisors: &[Arc<Supervisor>], of: Option<Holder>) -> Vec<Candidate> {
        let fair = if of.is_some() { FairParts::OF_ONE_HOLDER } else { self.fair_parts() };
        let mut candidates = Vec::new();
        for supervisor in supervisors {
            supervisor.candidates(of.as_ref(), fair, &mut candidates);
        }
        if candidates.len() > FOUND_MAX {
            candidates.select_nth_unstable_by_key(FOUND_MAX, |candidate| candidate.rank);
            candidates.truncate(FOUND_MAX);
        }
        candidates.sort_unstable_by_key(|candidate| Reverse(candidate.rank));
        candidates
    }

    /// The parts if all holders and a newcomer shared the connections equally. The part of a known holder does not
    /// depend on the number of addresses, and a known holder always keeps its last connection. If there are very many
    /// addresses, an address with a few connections is no crowd.
    fn fair_parts(&self) -> FairParts {
        let (known, addresses) = (self.holders.known(), self.holders.addresses());
        FairParts {
            of_address: (self.connections_max / (known + addresses + 1)).max(ADDRESS_PART_MIN),
            of_known: (self.connections_max / (known + 1)).max(1),
        }
    }
}

/// Number of connections that are closed together, for this limit.
fn batch_of(bound: usize) -> usize {
    (bound / 16).clamp(1, LEAVING_BATCH)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::task::{Context, Waker};
    use std::time::Duration;

    use super::*;
    use crate::server::supervision::{Guard, Order, Phase};

    /// Number of the supervisor's checks in ten seconds.
    const TEN_SECONDS: usize = 41;
    /// Number of checks until the rest of a request is overdue.
    const STALLED: usize = 5;

    fn room(limits: &Limits) -> ConnectionRoom {
        ConnectionRoom::new(limits, vec![Arc::new(Supervisor::new(limits))])
    }

    fn pass(room: &ConnectionRoom, looks: usize) {
        (0..looks).for_each(|_| {
            room.supervisors[0].sweep();
        });
    }

    /// A connection of an address or of a participant, in a phase.
    fn connect(
        room: &ConnectionRoom,
        number: u8,
        participant: Option<u32>,
        phase: Phase,
    ) -> (OpenConnection, Guard) {
        let (open, seat) = room.take(IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)));
        let guard = room.supervisors[0].watch(usize::from(number), Some(seat), None);
        if let Some(participant) = participant {
            room.move_to(&guard.0, Holder::Participant(participant));
        }
        guard.0.enter(phase);
        (open, guard)
    }

    #[test]
    fn flood_of_handshakes_closes_its_own_handshakes() {
        let room = room(&Limits::default());
        let begin = |host: u8, number: usize| {
            let (open, seat) = room.take(IpAddr::V4(Ipv4Addr::new(192, 0, 2, host)));
            let guard = room.handshakes().watch(number, Some(seat), None);
            guard.0.enter(Phase::Head);
            (open, room.take_handshake(), guard)
        };
        let told = |guard: &Guard| guard.0.order(&Context::from_waker(Waker::noop()));
        let crowd_address = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));
        // The first connection, which has also waited longest.
        let honest = begin(1, 0);
        pass(&room, 1);
        let crowd = [1, 2, 3].map(|number| begin(2, number));
        for expected in [0, 1] {
            assert!(room.is_there_for_handshake(crowd_address, 4));
            assert_eq!(told(&honest.2), Order::Serve, "its address has one handshake");
            assert_eq!(told(&crowd[expected].2), Order::Abort, "the oldest of the crowd");
            std::mem::forget(room.take_handshake());
        }
        assert_eq!(told(&crowd[2].2), Order::Serve);
    }

    /// The thread of the handshakes has not closed the selected ones yet.
    #[test]
    fn other_address_may_begin_a_handshake_while_a_flood_is_rejected() {
        const MAX: usize = 64;
        let room = room(&Limits::default());
        let address = |host| IpAddr::V4(Ipv4Addr::new(192, 0, 2, host));
        let begin = |host: u8, number: usize| {
            let (open, seat) = room.take(address(host));
            let guard = room.handshakes().watch(number, Some(seat), None);
            guard.0.enter(Phase::Head);
            (open, room.take_handshake(), guard)
        };
        let mut crowd: Vec<_> = (0..MAX).map(|number| begin(1, number)).collect();
        while room.handshakes().leaving() < LEAVING_MAX {
            assert!(room.is_there_for_handshake(address(1), MAX));
            crowd.extend((0..batch_of(MAX)).map(|number| begin(1, MAX + number)));
        }
        assert!(!room.is_there_for_handshake(address(1), MAX), "the crowd");
        // The crowd, this address and another one each have a third of the limit.
        let mut others = Vec::new();
        while room.is_there_for_handshake(address(2), MAX) {
            others.push(begin(2, 1_000));
        }
        assert_eq!(others.len(), MAX / 3);
        assert!(room.is_there_for_handshake(address(3), MAX), "yet another address");
    }

    #[test]
    fn participant_at_its_limit_replaces_connections_that_wait_for_long() {
        let room = room(&Limits { connections_per_participant_max: 3, ..Limits::default() });
        let told = |guard: &Guard| guard.0.order(&Context::from_waker(Waker::noop()));
        let [used, head, body] =
            [Phase::Idle, Phase::Head, Phase::Waiting].map(|phase| connect(&room, 1, Some(1), phase).1);
        let newcomer = || {
            let (open, seat) = room.take(IpAddr::V4(Ipv4Addr::LOCALHOST));
            let guard = room.supervisors[0].watch(3, Some(seat), None);
            room.move_to(&guard.0, Holder::Participant(1));
            (open, guard)
        };
        let mut newcomers = vec![newcomer()];
        pass(&room, 1);
        newcomers.push(newcomer());
        assert_eq!([&used, &head, &body].map(told), [Order::Serve; 3], "a request may be on its way to each");
        for (_, guard) in &newcomers {
            assert!(guard.0.is_over_share() && !guard.0.is_known(), "it may be closed for any newcomer");
        }
        pass(&room, 1);
        // The third connection is idle for longest.
        body.0.enter(Phase::Idle);
        head.0.enter(Phase::Busy);
        pass(&room, TEN_SECONDS);
        used.0.enter(Phase::Idle);
        head.0.enter(Phase::Head);
        for expected in
            [[Order::Serve, Order::Serve, Order::Yield], [Order::Serve, Order::Abort, Order::Yield]]
        {
            newcomers.push(newcomer());
            assert_eq!([&used, &head, &body].map(told), expected);
            assert!(newcomers.last().is_some_and(|(_, guard)| guard.0.is_known()));
            pass(&room, STALLED);
        }
        assert_eq!((room.over_share(), room.made_way()), (2, 2));
    }

    /// After a restart, many clients connect at the same time, and a new connection may have waited longest.
    #[test]
    fn flood_of_one_address_closes_its_own_connections() {
        let room = room(&Limits { connections_max: 32, ..Limits::default() });
        let address = |host| IpAddr::V4(Ipv4Addr::new(198, 51, 100, host));
        let begin = |host: u8, number: usize| {
            assert!(room.is_there_for(address(host)));
            let (open, seat) = room.take(address(host));
            (open, room.supervisors[0].watch(number, Some(seat), None))
        };
        let told = |guard: &Guard| guard.0.order(&Context::from_waker(Waker::noop()));
        // New connections of an address. The ones that were closed to make room have ended.
        let more = |all: &mut Vec<(OpenConnection, Guard)>, host: u8, count: usize| {
            for number in 0..count {
                all.push(begin(host, number));
                all.retain(|(_, guard)| told(guard) == Order::Serve);
            }
        };
        let (mut honest, mut gateway, mut flood) = (Vec::new(), Vec::new(), Vec::new());
        let end = |all: &mut Vec<(OpenConnection, Guard)>| {
            all.retain(|(_, guard)| told(guard) == Order::Serve);
            all.len()
        };
        more(&mut honest, 1, 2);
        pass(&room, 1);
        more(&mut flood, 2, 60);
        assert_eq!((end(&mut honest), end(&mut flood)), (2, 30));
        // Of two crowds, the larger one makes room, although the other one has waited longer.
        more(&mut gateway, 3, 12);
        end(&mut flood);
        pass(&room, 1);
        more(&mut flood, 2, 60);
        assert_eq!((end(&mut honest), end(&mut gateway), end(&mut flood)), (2, 12, 18));
        // Addresses with a few connections are no crowd, so the longest wait decides.
        drop(gateway);
        flood.truncate(2);
        let army: Vec<_> = (3..31).map(|host| begin(host, 100)).collect();
        let _newcomer = begin(31, 200);
        assert!(flood.iter().chain(&army).all(|(_, guard)| told(guard) == Order::Serve));
        assert_eq!(end(&mut honest), 0);
    }

    #[test]
    fn connections_make_room_in_the_order_of_their_class() {
        let limits =
            Limits { connections_max: 8, idle_timeout: Duration::from_secs(1_000), ..Limits::default() };
        let room = room(&limits);
        // Three holders are known: together with a new one, each has a share of two.
        let idle = connect(&room, 1, Some(1), Phase::Idle);
        let busy = connect(&room, 2, Some(1), Phase::Busy);
        let crowd = [3, 4, 5].map(|number| connect(&room, number, Some(2), Phase::Waiting));
        let unread = connect(&room, 6, Some(3), Phase::Busy);
        let served = connect(&room, 7, None, Phase::Busy);
        let silent = connect(&room, 8, None, Phase::Idle);
        unread.1.0.stalled_since(unread.1.0.tick());
        pass(&room, TEN_SECONDS);
        let told = |guard: &Guard| guard.0.order(&Context::from_waker(Waker::noop()));
        let newcomer = IpAddr::V4(Ipv4Addr::new(198, 51, 100, 1));
        let mut newcomers = Vec::new();
        for (guard, order) in [
            (&unread.1, Order::Abort),
            (&silent.1, Order::Yield),
            (&served.1, Order::Finish),
            (&crowd[0].1, Order::Abort),
            (&idle.1, Order::Yield),
        ] {
            assert_eq!(told(guard), Order::Serve);
            assert!(room.is_there_for(newcomer));
            assert_eq!(told(guard), order);
            // A connection that ends by itself is not selected to close.
            newcomers.push(connect(&room, 100, None, Phase::Closing));
        }
        assert!(!room.is_there_for(newcomer), "one that is served, and parts of two, make no room");
        assert!([&busy.1, &crowd[1].1, &crowd[2].1].map(told).iter().all(|order| *order == Order::Serve));
    }
}
