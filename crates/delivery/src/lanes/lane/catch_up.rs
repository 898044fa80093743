//! Which callbacks a lane admits, so that none is missed and none is taken twice.
//!
//! Callbacks reach a lane in two ways: live, as they become durable, and from the outbox, a page at a time. Both come
//! in ascending order. The *watermark* is the last one admitted, either way; nothing at or below it is admitted again.
//! While the lane is behind, live callbacks are only noted (they stand in the outbox) and pages are fetched from the
//! watermark on. The lane is level again when a page was the last one and nothing was noted since it was asked for:
//! a callback noted before then was durable, so it was on that page or on one before.

use crate::lanes::callback::Position;

#[derive(Debug)]
pub(super) struct CatchUp {
    behind: bool,
    watermark: Option<Position>,
    /// The last live callback that was not admitted.
    noted: Option<Position>,
    /// A page is being fetched.
    fetching: bool,
    /// Counts how often the lane began, from 1.
    term: u64,
}

/// A page that was asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct PageRequest {
    /// The key after which it begins.
    pub(super) after: Option<Position>,
    noted: Option<Position>,
    term: u64,
}

impl CatchUp {
    /// Behind: what was owed before the start is in the outbox.
    pub(super) const fn new() -> Self {
        Self { behind: true, watermark: None, noted: None, fetching: false, term: 1 }
    }

    /// Behind again, from the oldest on. A page that is being fetched is of no use any more.
    pub(super) const fn anew(&self) -> Self {
        Self { fetching: self.fetching, term: self.term + 1, ..Self::new() }
    }

    pub(super) const fn term(&self) -> u64 {
        self.term
    }

    /// Whether a page was asked for since the lane began last.
    pub(super) const fn is_of(&self, asked: PageRequest) -> bool {
        asked.term == self.term
    }

    pub(super) const fn is_behind(&self) -> bool {
        self.behind
    }

    /// Takes a live callback; `fell_behind` says whether the lane has just fallen behind.
    pub(super) fn live(&mut self, position: Position, has_room: bool) -> Live {
        if self.watermark.is_some_and(|watermark| position <= watermark) {
            return Live::Known;
        }
        if self.behind || !has_room {
            let fell_behind = !self.behind;
            self.behind = true;
            self.noted = self.noted.max(Some(position));
            return Live::Noted { fell_behind };
        }
        self.watermark = Some(position);
        Live::Admitted
    }

    /// The page to fetch next; `None` if none is needed or one is being fetched.
    pub(super) const fn ask(&mut self) -> Option<PageRequest> {
        if !self.behind || self.fetching {
            return None;
        }
        self.fetching = true;
        Some(PageRequest { after: self.watermark, noted: self.noted, term: self.term })
    }

    /// Whether a page that is fetched now or later may hold this one.
    pub(super) fn may_fetch(&self, position: Position) -> bool {
        self.watermark.is_none_or(|watermark| position > watermark)
    }

    /// Whether a page is being fetched.
    pub(super) const fn is_fetching(&self) -> bool {
        self.fetching
    }

    /// A callback that was parked and is owed again; returns whether to admit it. No page must be being fetched. Behind
    /// the watermark no page will bring it, and before it one will as long as the lane is behind.
    pub(super) fn recalled(&mut self, position: Position) -> bool {
        if self.behind && self.may_fetch(position) {
            return false;
        }
        self.watermark = self.watermark.max(Some(position));
        true
    }

    /// A callback of the page that was fetched; returns whether to admit it.
    pub(super) fn fetched(&mut self, position: Position) -> bool {
        let is_new = self.may_fetch(position);
        if is_new {
            self.watermark = Some(position);
        }
        is_new
    }

    /// The page has been taken; `complete` when nothing was behind it and all of it was admitted.
    pub(super) fn page_done(&mut self, asked: PageRequest, complete: bool) {
        self.fetching = false;
        if complete && self.noted == asked.noted {
            self.behind = false;
            // A callback that was noted and is delivered by now needs nothing.
            self.watermark = self.watermark.max(self.noted);
        }
    }

    /// The page could not be fetched.
    pub(super) const fn page_failed(&mut self) {
        self.fetching = false;
    }
}

/// The outcome of a live callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Live {
    Admitted,
    /// Admitted before, from the outbox.
    Known,
    /// Left to the outbox.
    Noted {
        /// Whether the lane was level until now.
        fell_behind: bool,
    },
}
