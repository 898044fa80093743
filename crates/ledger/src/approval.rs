//! Changes that need a second person: which do, and the proposals that wait for one.

mod action;
mod policy;
mod proposal;
mod table;

pub use action::{AdminAction, Area};
pub use policy::{ApprovalPolicy, WAIVERS_MAX};
pub use proposal::{Proposal, ProposalEnd, ProposalState};
pub use table::{Approvals, PROPOSAL_BYTES_MAX, PROPOSALS_ENDED_MAX, PROPOSALS_MAX, PROPOSALS_OF_MAKER_MAX};
pub(crate) use table::{read, write};

/// Least characters of the reason of a proposal.
pub const PROPOSAL_REASON_CHARS_MIN: usize = 10;
