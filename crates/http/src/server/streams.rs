//! The requests of one HTTP/2 connection: how many at a time, what the connection does meanwhile, and which answers its
//! peer does not read.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::supervision::{Phase, Watched};
use crate::frames::Noted;

/// How long a connection that is to finish takes requests that are on their way: until its peer knows.
const LAST_REQUESTS_TIME: Duration = Duration::from_secs(1);

/// Requests of all HTTP/2 connections of a server, from their head to the last byte of their answer.
#[derive(Debug)]
pub(super) struct InFlight {
    count: AtomicUsize,
    max: usize,
}

impl InFlight {
    pub(super) const fn new(max: usize) -> Self {
        Self { count: AtomicUsize::new(0), max }
    }

    fn take(self: &Arc<Self>) -> Option<Place> {
        let place = Place(Arc::clone(self));
        (self.count.fetch_add(1, Ordering::AcqRel) < self.max).then_some(place)
    }
}

/// A place among them.
#[derive(Debug)]
struct Place(Arc<InFlight>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Why a request is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotServed {
    /// The connection ends; nothing was done, and it may be repeated on another one.
    Ending,
    /// The server has as many requests as it may.
    Busy,
}

/// The requests of one connection.
#[derive(Debug)]
pub(super) struct Streams {
    watched: Arc<Watched>,
    all: Arc<InFlight>,
    state: Mutex<State>,
    pub(super) noted: Noted,
}

#[derive(Debug, Default)]
struct State {
    serving: usize,
    /// Of these, how many wait for the peer or are held back.
    waiting: usize,
    /// Since which tick answers wait to be read, the oldest first.
    unread: VecDeque<(u64, u32)>,
    answers: u64,
    is_head_open: bool,
    ending: Option<Ending>,
    is_closing: bool,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    /// Requests are taken until then.
    At(Instant),
    Now,
}

impl Streams {
    pub(super) fn new(watched: Arc<Watched>, all: Arc<InFlight>) -> Arc<Self> {
        Arc::new(Self { watched, all, state: Mutex::default(), noted: Noted::default() })
    }

    /// A request has come.
    pub(super) fn begin(self: &Arc<Self>) -> Result<Serving, NotServed> {
        let mut state = self.state();
        match state.ending {
            Some(Ending::Now) => return Err(NotServed::Ending),
            Some(Ending::At(last)) if Instant::now() >= last => return Err(NotServed::Ending),
            Some(Ending::At(_)) | None => {}
        }
        let place = self.all.take().ok_or(NotServed::Busy)?;
        state.serving += 1;
        self.settle(&state);
        drop(state);
        Ok(Serving { streams: Arc::clone(self), place: Some(place) })
    }

    /// A request waits for its peer, or is held back, until what this returns is dropped.
    pub(super) fn wait(&self) -> Waiting<'_> {
        let mut state = self.state();
        state.waiting += 1;
        self.settle(&state);
        Waiting(self)
    }

    /// Whether part of a head is here.
    pub(super) fn head(&self, is_open: bool) {
        let mut state = self.state();
        if state.is_head_open != is_open {
            state.is_head_open = is_open;
            self.settle(&state);
        }
    }

    /// The connection is to end: takes no further requests, at once or when the peer knows.
    pub(super) fn end(&self, is_at_once: bool) {
        let mut state = self.state();
        let ending = if is_at_once { Ending::Now } else { Ending::At(Instant::now() + LAST_REQUESTS_TIME) };
        if is_at_once || state.ending.is_none() {
            state.ending = Some(ending);
        }
        self.settle(&state);
    }

    /// The sending side is closed.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.is_closing = true;
        self.settle(&state);
    }

    /// Notes what the connection does now.
    fn settle(&self, state: &State) {
        if state.is_closing {
            // Its time runs from the first moment on.
            if self.watched.phase() != Phase::Closing {
                self.watched.enter(Phase::Closing);
            }
            return;
        }
        self.watched.unread_since(state.unread.front().map_or(0, |(_, tick)| *tick));
        self.watched.enter(match state {
            State { serving: 1.., .. } if state.waiting < state.serving => Phase::Busy,
            State { serving: 1.., .. } => Phase::Waiting,
            State { is_head_open: true, .. } => Phase::Head,
            State { ending: Some(_), .. } if state.unread.is_empty() => Phase::Closing,
            _ => Phase::Idle,
        });
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request whose answer is not known yet.
#[derive(Debug)]
pub(super) struct Serving {
    streams: Arc<Streams>,
    place: Option<Place>,
}

impl Serving {
    /// The answer is known; it waits to be read until what this returns is dropped.
    pub(super) fn answered(mut self) -> Unread {
        let mut state = self.streams.state();
        state.answers += 1;
        let number = state.answers;
        state.unread.push_back((number, self.streams.watched.tick()));
        drop(state);
        self.streams.noted.answered();
        Unread { streams: Arc::clone(&self.streams), number, _place: self.place.take() }
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let mut state = self.streams.state();
        state.serving -= 1;
        self.streams.settle(&state);
    }
}

/// An answer that its peer has not read.
#[derive(Debug)]
pub(super) struct Unread {
    streams: Arc<Streams>,
    number: u64,
    _place: Option<Place>,
}

impl Drop for Unread {
    fn drop(&mut self) {
        let mut state = self.streams.state();
        state.unread.retain(|(number, _)| *number != self.number);
        self.streams.settle(&state);
    }
}

/// A request that waits.
#[derive(Debug)]
pub(super) struct Waiting<'a>(&'a Streams);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.waiting -= 1;
        self.0.settle(&state);
    }
}
