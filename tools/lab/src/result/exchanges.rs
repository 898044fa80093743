//! Counts of requests and of their outcomes.

use serde::{Deserialize, Serialize};

/// The load generator's own counts, independent of the simulators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GeneratorCounts {
    /// POSTs sent.
    pub sent: u64,
    /// POSTs answered 202.
    pub accepted: u64,
    /// POSTs answered with an error.
    pub refused: u64,
    /// POSTs without an answer.
    pub unanswered: u64,
}

impl std::ops::AddAssign for GeneratorCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.unanswered += other.unanswered;
    }
}

impl std::ops::Mul<u64> for GeneratorCounts {
    type Output = Self;

    /// The counts of transfers, if each request is about this many transfers.
    fn mul(self, transfers: u64) -> Self {
        Self {
            sent: self.sent * transfers,
            accepted: self.accepted * transfers,
            refused: self.refused * transfers,
            unanswered: self.unanswered * transfers,
        }
    }
}

/// The outcomes of the requests of one phase during a run, including warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Exchanges {
    /// The answers to the requests themselves.
    #[serde(flatten)]
    pub originated: GeneratorCounts,
    /// Accepted requests that ended with the right callback.
    pub completed: u64,
    /// Accepted requests that ended with an error callback or an abort.
    pub errors: u64,
    /// Accepted requests that ended with a wrong callback.
    pub wrong: u64,
    /// Accepted requests that did not end before the user's timeout.
    pub late: u64,
}
