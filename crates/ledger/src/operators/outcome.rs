//! The outcomes of operators' changes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::TransferId;

use crate::base::ids::{SettlementId, WindowId};
use crate::money::funds::FundsState;
use crate::operators::proposal_state::ProposalState;
use crate::settlement::changes::AdvanceFault;

/// The outcome of an operator's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminOutcome {
    /// The change was made.
    Done,
    /// The change had already been made; nothing changed.
    AlreadyDone,
    /// The movement of funds with this id now has this state.
    Funds(TransferId, FundsState),
    /// Number of parked callbacks that are owed again.
    Redelivered(usize),
    /// A window was closed, and this window is now open.
    WindowOpened(WindowId),
    SettlementCreated(SettlementId),
    /// The change waits for a second person, as the proposal with this number.
    Proposed(u64),
    /// A proposal ended, or a change set starts to be applied. If a single change was made, its outcome is included.
    ProposalEnded(u64, ProposalState, Option<Box<Self>>),
    /// The state of a change set after a step, with the outcome of the change unless it was rejected.
    SetStepped(ProposalState, Option<Box<Self>>),
    /// Accounts of a settlement advanced, except those with a fault.
    SettlementAdvanced {
        /// The faults, by index of the account in the command, from 0.
        faults: Vec<(u32, AdvanceFault)>,
    },
}
