//! Decides which callbacks a lane admits, so that each is admitted exactly once.
//!
//! Callbacks reach a lane in two ways: live, as they become durable, and from the outbox, a page at a time. Both arrive
//! in ascending order. The *watermark* is the last admitted callback; nothing at or below it is admitted again. While
//! the lane is behind, live callbacks are only noted, since they are in the outbox, and pages are fetched from the
//! watermark on. The lane has caught up when a page was the last one and no callback was noted since the page was
//! requested. A callback that was noted before the request was durable, so it was on that page or an earlier one.

use crate::lanes::callback::Position;

#[derive(Debug)]
pub(super) struct CatchUp {
    behind: bool,
    watermark: Option<Position>,
    /// The last live callback that was not admitted.
    noted: Option<Position>,
    /// Whether a page is being fetched.
    fetching: bool,
    /// Number of times that the lane has begun, from 1.
    term: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PageRequest {
    /// Key after which it begins.
    pub(super) after: Option<Position>,
    noted: Option<Position>,
    term: u64,
}

impl CatchUp {
    /// State at the start: behind, because earlier callbacks are in the outbox.
    pub(super) const fn new() -> Self {
        Self { behind: true, watermark: None, noted: None, fetching: false, term: 1 }
    }

    /// State of a lane that begins again with the oldest callback. A page that is being fetched is discarded.
    pub(super) const fn anew(&self) -> Self {
        Self { fetching: self.fetching, term: self.term + 1, ..Self::new() }
    }

    pub(super) const fn term(&self) -> u64 {
        self.term
    }

    /// Whether a page was requested since the lane last began.
    pub(super) const fn is_of(&self, asked: PageRequest) -> bool {
        asked.term == self.term
    }

    pub(super) const fn is_behind(&self) -> bool {
        self.behind
    }

    /// Records a live callback. Returns whether to admit it, and whether the lane has just fallen behind.
    pub(super) fn live(&mut self, position: Position, has_room: bool) -> LiveOutcome {
        if self.watermark.is_some_and(|watermark| position <= watermark) {
            return LiveOutcome::Known;
        }
        if self.behind || !has_room {
            let fell_behind = !self.behind;
            self.behind = true;
            self.noted = self.noted.max(Some(position));
            return LiveOutcome::Noted { fell_behind };
        }
        self.watermark = Some(position);
        LiveOutcome::Admitted
    }

    /// The page to fetch next; `None` if none is needed or one is being fetched.
    pub(super) const fn ask(&mut self) -> Option<PageRequest> {
        if !self.behind || self.fetching {
            return None;
        }
        self.fetching = true;
        Some(PageRequest { after: self.watermark, noted: self.noted, term: self.term })
    }

    /// Whether a page that is being fetched, or a later one, may contain this callback.
    pub(super) fn may_fetch(&self, position: Position) -> bool {
        self.watermark.is_none_or(|watermark| position > watermark)
    }

    pub(super) const fn is_fetching(&self) -> bool {
        self.fetching
    }

    /// Records a callback that was parked and is owed again; returns whether to admit it. No page may be in progress. A
    /// callback below the watermark will be on no page; a later one will be on a page while the lane is behind.
    pub(super) fn recalled(&mut self, position: Position) -> bool {
        if self.behind && self.may_fetch(position) {
            return false;
        }
        self.watermark = self.watermark.max(Some(position));
        true
    }

    /// Records a callback of the fetched page; returns whether to admit it.
    pub(super) fn fetched(&mut self, position: Position) -> bool {
        let is_new = self.may_fetch(position);
        if is_new {
            self.watermark = Some(position);
        }
        is_new
    }

    /// Ends the page; `complete` if it was the last one and all of it was admitted.
    pub(super) fn page_done(&mut self, asked: PageRequest, complete: bool) {
        self.fetching = false;
        if complete && self.noted == asked.noted {
            self.behind = false;
            // A noted callback that has been delivered meanwhile needs no action.
            self.watermark = self.watermark.max(self.noted);
        }
    }

    /// Records that the page could not be fetched.
    pub(super) const fn page_failed(&mut self) {
        self.fetching = false;
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LiveOutcome {
    Admitted,
    /// Already admitted, from the outbox.
    Known,
    /// Remains in the outbox.
    Noted {
        /// Whether the lane had caught up until now.
        fell_behind: bool,
    },
}
