//! The state of a proposal.

use crate::base::show::shown_as_word;
use crate::base::stored::wire_enum;

wire_enum! {
    /// The state of a proposal: waiting, being applied, stopped, or ended.
    ProposalState {
        /// The proposal waits for a second person.
        Pending = 1 "pending",
        /// The proposal was approved, and the change was made in the same record.
        Executed = 2 "executed",
        /// The proposal was approved, but the rules rejected the change.
        Failed = 3 "failed",
        /// The second person rejected the proposal.
        Rejected = 4 "rejected",
        /// The proposal was not decided in time.
        Expired = 5 "expired",
        /// The maker withdrew the proposal.
        Withdrawn = 6 "withdrawn",
        /// A change set was approved, and the hub is applying its changes.
        Applying = 7 "applying",
        /// The rules rejected a change while the set was applied. The set can be continued.
        Stopped = 8 "stopped",
    }
}

shown_as_word!(ProposalState: as_str);
