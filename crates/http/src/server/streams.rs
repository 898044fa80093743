//! The requests of one HTTP/2 connection: their number, the phase of the connection, and unread answers.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::holders::{HolderSlot, RequestOfHolder};
use super::supervision::{Phase, SupervisedConnection};
use crate::frames::FrameObservations;

/// How long a finishing connection still accepts requests that are on their way, until its peer knows.
const LAST_REQUESTS_TIME: Duration = Duration::from_secs(1);

/// Requests of all HTTP/2 connections of a server, from their head until their answer is known. The first request of
/// each connection is not counted, so that every connection can have one, as with HTTP/1.1.
#[derive(Debug)]
pub(super) struct InFlight {
    count: AtomicUsize,
    max: usize,
}

impl InFlight {
    pub(super) const fn new(max: usize) -> Self {
        Self { count: AtomicUsize::new(0), max }
    }

    fn take(self: &Arc<Self>) -> Option<RequestSlot> {
        let place = RequestSlot(Arc::clone(self));
        (self.count.fetch_add(1, Ordering::AcqRel) < self.max).then_some(place)
    }
}

/// A slot among them.
#[derive(Debug)]
struct RequestSlot(Arc<InFlight>);

impl Drop for RequestSlot {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Slots of a request.
#[derive(Debug)]
enum RequestSlots {
    /// The free slot of its connection.
    Own,
    /// A slot of the server, and one of the connection's holder. A connection without a socket has no holder.
    Shared { _all: RequestSlot, _of_holder: Option<RequestOfHolder> },
    /// No slot: the server or the holder has reached its limit of requests.
    None,
}

/// The connection is ending: the request was not served, and may be repeated on another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ConnectionEnding;

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Streams {
    watched: Arc<SupervisedConnection>,
    all: Arc<InFlight>,
    state: Mutex<State>,
    pub(super) noted: FrameObservations,
    /// Whether the connection has its turn.
    pub(super) may_read: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    serving: usize,
    /// Number of these requests that wait for the peer or are held back.
    waiting: usize,
    /// Whether a request uses the free slot of its connection.
    is_own_taken: bool,
    /// Answers that the peer has not read completely, the oldest first.
    unread: VecDeque<UnreadSince>,
    answers: u64,
    /// Tick since which written bytes wait for the peer to read; 0 if none wait.
    blocked_since_tick: u32,
    is_head_open: bool,
    end: Option<StreamsEnd>,
    is_closing: bool,
}

/// An answer that the peer has not read completely.
#[derive(Clone, Copy, Debug)]
struct UnreadSince {
    number: u64,
    tick: u32,
    /// Tick when a piece of it was last taken.
    moved_tick: u32,
}

#[derive(Clone, Copy, Debug)]
enum StreamsEnd {
    /// Requests are accepted until this time.
    At(Instant),
    Now,
}

impl Streams {
    pub(super) fn new(watched: Arc<SupervisedConnection>, all: Arc<InFlight>) -> Arc<Self> {
        let (state, noted, may_read) =
            (Mutex::default(), FrameObservations::default(), AtomicBool::new(true));
        Arc::new(Self { watched, all, state, noted, may_read })
    }

    /// Records a new request.
    pub(super) fn begin(self: &Arc<Self>) -> Result<BegunRequest, ConnectionEnding> {
        let mut state = self.state();
        match state.end {
            Some(StreamsEnd::Now) => return Err(ConnectionEnding),
            Some(StreamsEnd::At(last)) if Instant::now() >= last => return Err(ConnectionEnding),
            Some(StreamsEnd::At(_)) | None => {}
        }
        let places = if state.is_own_taken { self.take_shared() } else { RequestSlots::Own };
        state.is_own_taken = true;
        state.serving += 1;
        self.settle(&state);
        drop(state);
        let has_place = !matches!(places, RequestSlots::None);
        Ok(BegunRequest { streams: Arc::clone(self), places, has_place })
    }

    fn take_shared(&self) -> RequestSlots {
        if self.watched.is_over_share() {
            return RequestSlots::None;
        }
        let of_holder = match self.watched.seat().as_ref().map(HolderSlot::request) {
            Some(None) => return RequestSlots::None,
            of_holder => of_holder.flatten(),
        };
        match self.all.take() {
            Some(all) => RequestSlots::Shared { _all: all, _of_holder: of_holder },
            None => RequestSlots::None,
        }
    }

    /// Marks a request as waiting for its peer, or as held back, until the result is dropped.
    pub(super) fn wait(&self) -> WaitingStream<'_> {
        let mut state = self.state();
        state.waiting += 1;
        self.settle(&state);
        WaitingStream(self)
    }

    /// Records whether a part of a head has arrived.
    pub(super) fn head(&self, is_open: bool) {
        let mut state = self.state();
        if state.is_head_open != is_open {
            state.is_head_open = is_open;
            self.settle(&state);
        }
    }

    /// Ends the connection: it accepts no further requests, immediately or once the peer knows.
    pub(super) fn end(&self, is_at_once: bool) {
        let mut state = self.state();
        let end =
            if is_at_once { StreamsEnd::Now } else { StreamsEnd::At(Instant::now() + LAST_REQUESTS_TIME) };
        if is_at_once || state.end.is_none() {
            state.end = Some(end);
        }
        self.settle(&state);
    }

    /// Whether the peer waits for nothing: all its requests are answered, and the answers are written.
    pub(super) fn is_quiet(&self) -> bool {
        let state = self.state();
        state.serving == 0 && state.unread.is_empty() && state.blocked_since_tick == 0
    }

    /// Records the tick since which written bytes wait for the peer to read; 0 if none wait.
    pub(super) fn blocked_since(&self, tick: u32) {
        let mut state = self.state();
        state.blocked_since_tick = tick;
        self.settle(&state);
    }

    /// Records that the sending side is closed.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closing = true;
        self.settle(&state);
    }

    /// Updates the phase of the connection.
    fn settle(&self, state: &State) {
        if state.is_closing {
            // The time of the phase counts from its first moment.
            if self.watched.phase() != Phase::Closing {
                self.watched.enter(Phase::Closing);
            }
            return;
        }
        self.watched.unread_since(state.unread.front().map_or(0, |unread| unread.tick));
        let blocked = Some(state.blocked_since_tick).filter(|tick| *tick != 0);
        let stalled = state.unread.iter().map(|unread| unread.moved_tick).chain(blocked).min();
        self.watched.stalled_since(stalled.unwrap_or(0));
        self.watched.enter(match state {
            State { serving: 1.., .. } if state.waiting < state.serving => Phase::Busy,
            State { serving: 1.., .. } => Phase::Waiting,
            State { is_head_open: true, .. } => Phase::Head,
            State { end: Some(_), .. } if state.unread.is_empty() => Phase::Closing,
            _ => Phase::Idle,
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request whose answer is not known yet.
#[derive(Debug)]
pub(super) struct BegunRequest {
    streams: Arc<Streams>,
    places: RequestSlots,
    /// Whether a slot is free, so that the request may be served.
    pub(super) has_place: bool,
}

impl BegunRequest {
    /// Releases the slots, because the answer is known. The answer counts as unread until the result is dropped.
    pub(super) fn answered(self) -> UnreadResponse {
        let mut state = self.streams.state();
        state.answers += 1;
        let (number, tick) = (state.answers, self.streams.watched.tick());
        state.unread.push_back(UnreadSince { number, tick, moved_tick: tick });
        drop(state);
        self.streams.noted.answered();
        UnreadResponse { streams: Arc::clone(&self.streams), number }
    }
}

impl Drop for BegunRequest {
    fn drop(&mut self) {
        let mut state = self.streams.state();
        state.serving -= 1;
        if matches!(self.places, RequestSlots::Own) {
            state.is_own_taken = false;
        }
        self.streams.settle(&state);
    }
}

/// An answer that its peer has not read.
#[derive(Debug)]
pub(super) struct UnreadResponse {
    streams: Arc<Streams>,
    number: u64,
}

impl UnreadResponse {
    /// Records that another piece was taken, because the peer reads.
    pub(super) fn goes_on(&self) {
        let tick = self.streams.watched.tick();
        let mut state = self.streams.state();
        let own = state.unread.iter_mut().find(|unread| unread.number == self.number);
        if let Some(own) = own.filter(|own| own.moved_tick != tick) {
            own.moved_tick = tick;
            self.streams.settle(&state);
        }
    }
}

impl Drop for UnreadResponse {
    fn drop(&mut self) {
        let mut state = self.streams.state();
        state.unread.retain(|unread| unread.number != self.number);
        self.streams.settle(&state);
    }
}

/// A request that waits for its peer or is held back.
#[derive(Debug)]
pub(super) struct WaitingStream<'a>(&'a Streams);

impl Drop for WaitingStream<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waiting -= 1;
        self.0.settle(&state);
    }
}
