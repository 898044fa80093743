//! Queries about operators, their proposals and the audit trail.

use crate::core::state::Ledger;
use crate::operators::approvals::Approvals;
use crate::operators::operator::Operators;
use crate::operators::trail::Trail;

impl Ledger {
    /// The operators that the hub manages itself.
    pub const fn operators(&self) -> &Operators {
        &self.operators
    }

    /// The proposals, and the policy that defines which changes need a second person.
    pub const fn approvals(&self) -> &Approvals {
        &self.approvals
    }

    /// The end of the audit trail.
    pub const fn trail(&self) -> Trail {
        self.trail
    }
}
