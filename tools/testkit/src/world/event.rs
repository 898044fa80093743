//! What is to happen, in order of time.

use std::collections::BTreeMap;

use upesi_delivery::lanes::{CallbackKey, Done};
use upesi_types::TransferId;

use crate::message::{Answer, Ending, Request};

/// Something that happens at an instant.
#[derive(Debug)]
pub(super) enum Event {
    /// The engine's thread gets the processor.
    Turn {
        life: u64,
    },
    /// … and it is time to look at deadlines.
    Tick {
        life: u64,
    },
    /// The journal's thread gets the processor.
    Journal {
        life: u64,
    },
    /// The archivist's thread gets the processor.
    Archivist {
        life: u64,
    },
    /// Workers take what the engine let go.
    Flush {
        life: u64,
    },
    /// A lane's time has come.
    Lanes {
        life: u64,
    },
    Start {
        life: u64,
    },
    Arrive {
        call: u64,
    },
    /// Its answer, or the news that there will be none, reaches the DFSP.
    Answered {
        call: u64,
        status: Option<u16>,
    },
    /// A DFSP has waited long enough.
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
    /// Its answer reaches the hub, or the hub has waited long enough.
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
        ending: Ending,
        is_right: bool,
    },
    Convert,
    /// A payer sends the transfer that a conversion waits for, of this amount.
    SendDetermining {
        spec: usize,
        amount: i64,
    },
    /// An FXP answers.
    PutConversion {
        conversion: usize,
        ending: Ending,
        is_right: bool,
    },
    PayInBulk,
    PutBulk {
        bulk: usize,
        answer: Box<Answer>,
    },
    Mischief,
    /// An operator does something.
    Operate,
    /// Something goes wrong.
    Trouble,
    /// An operator has waited for this moment.
    Ambush {
        life: u64,
        moment: Moment,
    },
    /// The disk goes wrong under the hub.
    Decay,
    LosePower,
    /// The process ends once more, as soon as it runs, and so many times after that.
    EndAgain {
        more: u64,
    },
    /// A node that does not lead follows the log.
    Follow,
    /// A leader that stood still goes on.
    Thaw,
    /// Something befalls the nodes that deliver callbacks.
    Couriers,
    /// Something is right again.
    Relief(Relief),
    /// From now on nothing goes wrong any more.
    Heal,
    /// DFSPs ask for what they do not know yet.
    Ask,
    /// Retention looks at the archive.
    Retain,
    /// An operator closes a window, or settles one.
    Settle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    /// A transfer is reserved and its payee has not answered; this is one of its parties.
    InFlight { id: TransferId, dfsp: usize },
    /// The process runs again and has not caught up yet.
    AfterStart,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relief {
    Room,
    Clock,
}

/// Events in order of time, then of their making.
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

    /// All that is to come, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, &Event)> {
        self.events.iter().map(|((at_us, _), event)| (*at_us, event))
    }

    pub(super) fn peek(&self) -> Option<(u64, &Event)> {
        self.events.first_key_value().map(|((at_us, _), event)| (*at_us, event))
    }
}
