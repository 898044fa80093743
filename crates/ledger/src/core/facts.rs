//! The facts about the outside world that a decision depends on, in addition to its command.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;

use upesi_types::{Present, Timestamp, TransferId};

use crate::money::bulk::Bulk;
use crate::money::fx_transfer::FxTransfer;
use crate::money::transfer::Transfer;

/// The state of the outside world when a command is decided.
#[derive(Clone, Copy, Debug)]
pub struct DecisionInput<'a> {
    /// The hub's time.
    pub present: Present,
    /// The archive's answer for the objects that the command names.
    pub archived: &'a Archived,
    /// Size of the wall clock's jump, in milliseconds; 0 if it has not jumped. Only [`AcceptClock`] uses it.
    ///
    /// [`AcceptClock`]: crate::AdminCommand::AcceptClock
    pub clock_jump_ms: i64,
}

/// The archive's answer for an id that is not in the ledger's memory.
#[derive(Clone, Debug, Default)]
pub enum Archived {
    /// The archive was not queried.
    #[default]
    Unknown,
    /// The archive does not contain the id.
    Absent,
    /// The archive contains this transfer.
    Found(Box<Transfer>),
    /// The archive's answer for a command about an FX transfer.
    FxTransfer {
        /// The FX transfer, if the archive contains it.
        fx_transfer: Option<Box<FxTransfer>>,
        /// Whether the archive contains the determining transfer, which is then final.
        has_transfer: bool,
    },
    /// The archive's answer for a command about a bulk transfer.
    Bulk {
        /// The bulk transfer, if the archive contains it.
        bulk: Option<Box<Bulk>>,
        /// The transfers of its items that the archive contains.
        transfers: BTreeSet<TransferId>,
    },
}

impl DecisionInput<'static> {
    /// Facts at an instant, without a difference between clocks and without an answer of the archive.
    pub fn at(instant: Timestamp) -> Self {
        static UNKNOWN: Archived = Archived::Unknown;
        DecisionInput::new(instant.into(), &UNKNOWN)
    }
}

impl<'a> DecisionInput<'a> {
    /// Facts with the given time and archive answer. The wall clock has not jumped.
    pub const fn new(present: Present, archived: &'a Archived) -> Self {
        Self { present, archived, clock_jump_ms: 0 }
    }

    /// The hub's time.
    pub const fn now(&self) -> Timestamp {
        self.present.at
    }
}

/// The archive must be queried before this can be decided.
pub(crate) struct ArchiveLookupNeeded;
