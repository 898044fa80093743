//! Loom models of the hand-written concurrency (tests only): all orders of events are tried.
//!
//! The files below belong to `engine`, `tables`, `http` and `profile`. They are compiled here a second time with Loom's
//! counterparts in [`sync`]. In each `*_model`, a few threads use one of them. Loom tries every order of the threads,
//! and for atomics every value that the memory model allows a thread to see. It reports a thread that waits forever.
//! Loom does not model the passing of time, so a wait with a time limit never times out here.
#![cfg(test)]

use std::time::Duration;

#[path = "../../../crates/engine/src/durable_seq.rs"]
mod durable_seq;
#[path = "../../../crates/tables/src/archive/filter.rs"]
#[expect(dead_code, reason = "models use a part of it")]
mod filter;
#[path = "../../../crates/profile/src/gate.rs"]
mod gate;
#[path = "../../../crates/http/src/server/open_connections.rs"]
mod open_connections;
#[path = "../../../crates/engine/src/progress.rs"]
#[expect(dead_code, reason = "models use a part of it")]
mod progress;
#[path = "../../../crates/engine/src/queue.rs"]
#[expect(dead_code, reason = "models use a part of it")]
mod queue;
#[path = "../../../crates/engine/src/reply_batcher.rs"]
#[expect(dead_code, reason = "models use a part of it")]
mod reply_batcher;
#[path = "../../../crates/tables/src/store/resident.rs"]
#[expect(dead_code, reason = "models use a part of it")]
mod resident;
#[path = "../../../crates/http/src/server/supervision.rs"]
#[expect(dead_code, reason = "models use a part of it")]
mod supervision;

mod engine_models;
mod gate_model;
mod http_models;
mod sync;
mod tables_models;

/// The items that those files import by these paths.
mod error {
    pub(crate) use upesi_engine::SubmitError;
}
mod lsm {
    pub(crate) use fjall::UserValue;
}
mod record {
    pub(crate) use upesi_engine::Payload;
}
mod holders {
    /// The single holder of all connections.
    #[derive(Debug)]
    pub(crate) struct Holder;

    /// A connection in its holder's count, without the count.
    #[derive(Debug)]
    pub(crate) struct HolderSlot;

    impl HolderSlot {
        pub(crate) const fn is_of(&self, _: &Holder) -> bool {
            true
        }

        pub(crate) const fn holder(&self) -> Holder {
            Holder
        }

        pub(crate) const fn connections(&self) -> usize {
            1
        }
    }

    // This corresponds to the product's `Drop`.
    impl Drop for HolderSlot {
        fn drop(&mut self) {}
    }
}
mod held {
    /// Callbacks that wait until an answer is written, by the number of that answer.
    pub(crate) struct HeldRecord(pub(crate) usize);

    impl HeldRecord {
        pub(crate) fn release_all(held: &mut Vec<Self>) {
            held.clear();
        }
    }
}
/// The limits of `server` that its supervision reads.
struct Limits {
    head_deadline: Duration,
    idle_timeout: Duration,
    unread_timeout: Duration,
}

/// Runs a model in all orders with at most this many preemptions of threads.
fn check(interruptions_max: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions_max);
    builder.check(model);
}
