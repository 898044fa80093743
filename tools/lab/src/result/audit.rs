//! The verdict of the audit of a run.

use serde::{Deserialize, Serialize};

use crate::result::schema::Name;

/// The audit's verdict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AuditSummary {
    /// Whether hub and books agree and nothing was lost or doubled.
    pub ok: bool,
    /// Whether there was a hub to audit.
    pub performed: bool,
    /// Whether every position agrees with the DFSP's books.
    pub positions_ok: bool,
    /// Whether the sum of all positions is zero, except for reserved amounts.
    pub sum_ok: bool,
    /// Requests of the last phase that the hub accepted. For transfers, requests with an unknown answer are included.
    pub accepted: u64,
    /// Accepted requests that ended.
    pub finished: u64,
    /// Accepted requests that did not end.
    pub in_flight: u64,
    /// Accepted requests without an outcome at the end of the run, of all phases.
    pub lost: u64,
    /// Answers beyond one per query, and transfers whose money participants hold beyond their books.
    pub doubled: u64,
    /// Callbacks that contradicted a final outcome.
    pub contradictions: u64,
    /// Callbacks that repeated an outcome; allowed, since delivery is at least once.
    pub callbacks_repeated: u64,
    /// The outcomes of queries: lookups and quotes.
    pub answers: Vec<AnswerCheck>,
    /// Every participant's position beside its books.
    pub positions: Vec<PositionCheck>,
    /// Findings in words.
    pub findings: Vec<String>,
}

/// The outcomes of the queries of one phase.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Default, Deserialize)]
#[serde(default)]
pub struct AnswerCheck {
    /// `discovery` or `agreement`.
    pub phase: Name,
    /// Queries that the hub accepted.
    pub accepted: u64,
    /// Queries that were answered rightly.
    pub right: u64,
    /// Queries that were answered with an error.
    pub errors: u64,
    /// Queries with an answer that cannot be right: another party or DFSP, another amount, or a condition that the
    /// payee did not create for this quote.
    pub wrong: u64,
    /// Queries that were not answered before the user's timeout.
    pub late: u64,
}

impl std::ops::AddAssign<&Self> for AnswerCheck {
    fn add_assign(&mut self, other: &Self) {
        self.accepted += other.accepted;
        self.right += other.right;
        self.errors += other.errors;
        self.wrong += other.wrong;
        self.late += other.late;
    }
}

/// One DFSP's position at the hub beside its own books, as decimal texts. Both count from the start of the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Default, Deserialize)]
#[serde(default)]
pub struct PositionCheck {
    /// The participant.
    pub participant: String,
    /// The currency.
    pub currency: String,
    /// Change of the hub's position during the run, without settled amounts.
    pub hub: String,
    /// The position by the DFSP's own books; two values while an outcome is uncertain.
    pub books: String,
    /// Whether they agree.
    pub ok: bool,
}
