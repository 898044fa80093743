//! What an operator changed, as the log has it.

use upesi_ledger::{AdminOutcome, Change};

use crate::access::Caller;

/// Writes the line, if anything was changed.
pub(crate) fn log(change: Change, outcome: &AdminOutcome, by: &Caller) {
    if let Some(Change { what, from, to }) = change.made(outcome) {
        tracing::info!(%what, %from, %to, operator = %by.operator, "an operator's change");
    }
}
