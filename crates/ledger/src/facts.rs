//! What a decision knows of the world beside its command.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use upesi_types::{Present, Timestamp, TransferId};

use crate::bulk::Bulk;
use crate::conversion::Conversion;
use crate::transfer::Transfer;

/// What the world is like when a command is decided.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// The hub's time.
    pub present: Present,
    /// What the archive holds of the transfer or conversion that the command is about.
    pub archived: &'a Archived,
    /// How far the wall clock has jumped, in milliseconds; 0 if it has not. Only [`AcceptClock`] asks for it.
    ///
    /// [`AcceptClock`]: crate::AdminCommand::AcceptClock
    pub clock_jump_ms: i64,
}

/// What is known of an id beyond the ledger's memory.
#[derive(Clone, Debug, Default)]
pub enum Archived {
    /// The archive was not asked.
    #[default]
    Unknown,
    /// The archive does not hold it.
    Absent,
    /// The archive holds it.
    Found(Box<Transfer>),
    /// What the archive holds for a command about a conversion.
    Conversion {
        /// The conversion.
        conversion: Option<Box<Conversion>>,
        /// Whether it holds the determining transfer, which is final then.
        has_transfer: bool,
    },
    /// What the archive holds for a command about a bulk.
    Bulk {
        /// The bulk.
        bulk: Option<Box<Bulk>>,
        /// Those of its items' transfers that the archive holds.
        transfers: BTreeSet<TransferId>,
    },
}

impl Facts<'static> {
    /// An instant on which all clocks agree, with an archive that was not asked.
    pub fn at(instant: Timestamp) -> Self {
        static UNKNOWN: Archived = Archived::Unknown;
        Facts::new(instant.into(), &UNKNOWN)
    }
}

impl<'a> Facts<'a> {
    /// The time and the archive's answer; the wall clock has not jumped.
    pub const fn new(present: Present, archived: &'a Archived) -> Self {
        Self { present, archived, clock_jump_ms: 0 }
    }

    /// The instant that the hub goes by.
    pub const fn now(&self) -> Timestamp {
        self.present.at
    }
}
