//! Change sets: several operator changes that are proposed, approved and applied together.
//!
//! 1. An operator proposes the changes, in order. The proposal stores them and the state before each change
//!    ([`SetChange::before`](crate::SetChange::before)).
//! 2. A second person approves the set once. The hub decides all changes again on a draft of the state
//!    ([`Ledger::preview`](crate::Ledger::preview)). If one of them is rejected, or its object has changed since the
//!    proposal, nothing is applied.
//! 3. The hub makes one change after the other. Each is a record with its own entry in the audit trail, which names the
//!    set. The progress of the set ([`ChangeSetProgress`]) is part of the state, so a restart continues it.
//! 4. If the rules reject a change at its turn, the set stops. An approver can continue it. Otherwise it is rejected,
//!    withdrawn or expires, and the changes made until then stay in effect.

use alloc::boxed::Box;

use crate::base::stored::stored_struct;
use crate::operators::proposal_state::ProposalState;

/// Maximum number of changes in a set.
pub const CHANGE_SET_CHANGES_MAX: usize = 2_000;
/// Maximum size of a set in bytes, including the descriptions of its objects.
pub const CHANGE_SET_BYTES_MAX: usize = 512 * 1024;
/// Maximum number of pending sets of one operator.
pub const CHANGE_SETS_OF_MAKER_MAX: usize = 4;

stored_struct! {
    ChangeSetProgress { operator, known_by, address, comment, made, stopped }
}

/// The progress of an approved set, and its most recent approver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSetProgress {
    /// The operator who approved it last.
    pub operator: Box<str>,
    /// How that operator was authenticated.
    pub known_by: Box<str>,
    /// The approver's address.
    pub address: Option<Box<str>>,
    pub comment: Option<Box<str>>,
    /// Number of changes that were made, from the first on.
    pub made: u32,
    /// The reason why the next change was not made; `None` while the hub applies the set.
    pub stopped: Option<Box<str>>,
}

impl ChangeSetProgress {
    /// The state of the set.
    pub fn state(&self) -> ProposalState {
        if self.stopped.is_some() { ProposalState::Stopped } else { ProposalState::Applying }
    }
}
