//! Future events, in order of time.

use std::collections::BTreeMap;

use upesi_delivery::lanes::{CallbackKey, Done};
use upesi_types::TransferId;

use crate::message::{Answer, PutContent, Request};

/// An event at an instant.
#[derive(Debug)]
pub(super) enum Event {
    /// The engine's thread runs.
    Turn {
        life: u64,
    },
    /// The engine's thread runs, and checks deadlines.
    Tick {
        life: u64,
    },
    /// The journal's thread runs.
    Journal {
        life: u64,
    },
    /// The archivist's thread runs.
    Archivist {
        life: u64,
    },
    /// Workers collect the results that the engine released.
    Flush {
        life: u64,
    },
    /// A lane is due.
    Lanes {
        life: u64,
    },
    Start {
        life: u64,
    },
    Arrive {
        call: u64,
    },
    /// The answer to a call, or the failure of the call, reaches the DFSP.
    Answered {
        call: u64,
        status: Option<u16>,
    },
    /// A DFSP's call times out.
    CallTimeout {
        call: u64,
        attempt: u32,
    },
    Callback {
        life: u64,
        number: u64,
        key: CallbackKey,
        request: Box<Request>,
    },
    /// The answer to a callback reaches the hub, or the callback times out.
    CallbackAnswered {
        life: u64,
        number: u64,
        done: Done,
    },
    Pay,
    /// A DFSP ends a transfer.
    Put {
        spec: usize,
        by: usize,
        ending: PutContent,
        is_right: bool,
    },
    Convert,
    /// A payer sends the transfer that an FX transfer waits for, with this amount.
    SendDetermining {
        spec: usize,
        amount: i64,
    },
    /// An FXP answers.
    PutFxTransfer {
        fx_transfer: usize,
        ending: PutContent,
        is_right: bool,
    },
    PayInBulk,
    PutBulk {
        bulk: usize,
        answer: Box<Answer>,
    },
    Mischief,
    /// An operator acts.
    Operate,
    /// A fault occurs.
    Trouble,
    /// An operator acts at the moment that it waited for.
    Ambush {
        life: u64,
        moment: AmbushMoment,
    },
    /// The disk decays while the hub runs.
    Decay,
    LosePower,
    /// The process ends again as soon as it runs, and this many times after that.
    EndAgain {
        more: u64,
    },
    /// A node that is not leader follows the log.
    Follow,
    /// A frozen leader resumes.
    Thaw,
    /// Trouble of the nodes that deliver callbacks.
    Couriers,
    /// One fault ends.
    Relief(Relief),
    /// All faults end.
    Heal,
    /// DFSPs query unknown outcomes.
    Ask,
    /// Retention checks the archive.
    Retain,
    /// An operator closes a window or settles one.
    Settle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AmbushMoment {
    /// A transfer is reserved, and its payee has not answered. The DFSP is one of its parties.
    InFlight { id: TransferId, dfsp: usize },
    /// The process runs again, but the lanes still read their backlog.
    AfterStart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relief {
    Room,
    Clock,
}

/// Events in order of time, then of creation.
#[derive(Debug, Default)]
pub(super) struct Schedule {
    events: BTreeMap<(u64, u64), Event>,
    made: u64,
}

impl Schedule {
    pub(super) fn add(&mut self, at_us: u64, event: Event) {
        self.made += 1;
        self.events.insert((at_us, self.made), event);
    }

    pub(super) fn next(&mut self) -> Option<(u64, Event)> {
        self.events.pop_first().map(|((at_us, _), event)| (at_us, event))
    }

    /// All pending events, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Event)> {
        self.events.iter().map(|((at_us, _), event)| (*at_us, event))
    }

    pub(super) fn peek(&self) -> Option<(u64, &Event)> {
        self.events.first_key_value().map(|((at_us, _), event)| (*at_us, event))
    }
}
