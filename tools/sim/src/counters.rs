//! Counters of a DFSP: the public values, and the atomics behind them.

use std::sync::atomic::{AtomicU64, Ordering};

/// Defines counters: the public values, and the atomics behind them.
macro_rules! counters {
    ($(#[$about:meta])* $public:ident, $atomic:ident { $($(#[$doc:meta])* $name:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $public { $($(#[$doc])* pub $name: u64,)* }

        impl std::ops::AddAssign for $public {
            fn add_assign(&mut self, other: Self) { $(self.$name += other.$name;)* }
        }

        #[derive(Debug, Default)]
        pub(crate) struct $atomic { $(pub $name: std::sync::atomic::AtomicU64,)* }

        impl $atomic {
            pub fn snapshot(&self) -> $public {
                $public { $($name: self.$name.load(std::sync::atomic::Ordering::Relaxed),)* }
            }
        }
    };
}

pub(crate) use counters;

counters! {
    /// The counts of a DFSP since its start.
    Counters, AtomicCounters {
        /// Transfers received as payee, without repetitions.
        prepares_received,
        /// FX transfers received as FXP, without repetitions.
        conversions_received,
        /// POSTs received again for a known transfer or FX transfer.
        prepares_repeated,
        /// Prepares that this DFSP sent a second time because of the fault setting, and that the hub accepted again.
        prepares_sent_twice,
        /// Bodies that could not be parsed.
        unreadable,
        /// Fulfilments sent, right or wrong, without repetitions.
        fulfilments_sent,
        /// Fulfilments that the hub answered with an error.
        fulfilments_refused,
        /// Fulfilments that never got an answer.
        fulfilments_unanswered,
        /// Prepares whose condition this DFSP cannot answer.
        conditions_unknown,
        /// Transfers and other requests dropped by the fault setting.
        dropped,
        /// Fulfilments and other answers sent twice by the fault setting.
        duplicated,
        /// Wrong fulfilments sent by the fault setting.
        wrong_fulfilments_sent,
        /// Transfers rejected with 5104.
        aborts_sent,
        /// Messages answered with an HTTP error by the fault setting.
        http_errors,
        /// Messages received slowly by the fault setting.
        slow_reads,
        /// Callbacks received with new information.
        callbacks,
        /// Callbacks that repeated a known outcome.
        callbacks_repeated,
        /// Callbacks that do not change the transfer: an intermediate state, or error 3106.
        callbacks_informative,
        /// Callbacks about transfers that this DFSP does not know.
        callbacks_unexpected,
        /// Callbacks that contradicted a final outcome: a violation.
        contradictions,
        /// Commits whose fulfilment does not answer the condition: a violation.
        wrong_fulfilments_received,
        /// Signatures made when a message was sent.
        signatures_made,
        /// Signatures of messages that were made before the run.
        signatures_made_ahead,
        /// Messages rejected because they have no valid signature of their sender: a violation.
        signatures_refused,
        /// Messages rejected because a header is missing or wrong, as a strict adapter does: a violation.
        headers_refused,
        /// Callbacks pushed to a web socket.
        pushed,
        /// Lookups received.
        lookups_received,
        /// Lookups received about parties that this DFSP does not have.
        parties_unknown,
        /// Quotes received, including repetitions.
        quotes_received,
        /// Bulk quotes received, including repetitions.
        bulk_quotes_received,
        /// FX quotes received, including repetitions.
        fx_quotes_received,
        /// Transaction requests, authorizations and repeated quote requests received.
        requests_received,
        /// Answers to these requests that the hub accepted, including errors.
        answers_sent,
        /// Answers to these requests that the hub answered with an error.
        answers_refused,
        /// Answers to these requests that never got an answer.
        answers_unanswered,
        /// Requests of these kinds answered with an error by the fault setting.
        error_answers_sent,
        /// Expected answers to lookups, quotes and registrations, including error callbacks.
        answers_received,
        /// Unexpected answers to lookups, quotes and registrations: repeated, too late, or never requested. They are
        /// not violations, because hubs forward answers without knowing the requests.
        answers_unasked,
    }
}

impl Counters {
    /// Messages that a correct hub never sends.
    pub const fn violations(&self) -> u64 {
        self.contradictions
            + self.wrong_fulfilments_received
            + self.callbacks_unexpected
            + self.signatures_refused
            + self.headers_refused
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
