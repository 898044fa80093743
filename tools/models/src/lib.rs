//! Hand-written concurrency, run through all orders of events by Loom (tests only).
//!
//! The files below are those of `engine`, `tables`, `http` and `profile`, compiled here a second time against
//! [`sync`], which is Loom's. Each `*_model` has a few threads use one of them; Loom tries every way in which they
//! may take turns, and for atomics every value that the memory model lets a thread see, and reports a thread that waits
//! for ever. What Loom does not model is the passing of time, so a wait with a time limit never ends by it here.
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

/// What those files name by these paths.
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
    /// The one holder of all connections.
    #[derive(Debug)]
    pub(crate) struct Holder;

    /// A connection in its holder's count, without the count.
    #[derive(Debug)]
    pub(crate) struct Seat;

    impl Seat {
        pub(crate) const fn is_of(&self, _: &Holder) -> bool {
            true
        }

        pub(crate) const fn connections(&self) -> usize {
            1
        }
    }

    // As the real one has.
    impl Drop for Seat {
        fn drop(&mut self) {}
    }
}
mod held {
    /// Callbacks that wait until an answer is written, by the number of that answer.
    pub(crate) struct Held(pub(crate) usize);

    impl Held {
        pub(crate) fn release_all(held: &mut Vec<Self>) {
            held.clear();
        }
    }
}
/// Of `server`'s limits those that its supervision reads.
struct Limits {
    head_deadline: Duration,
    idle_timeout: Duration,
    unread_timeout: Duration,
}

/// Runs a model in all orders in which no more than so many threads are interrupted where they need not be.
fn check(interruptions_max: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(interruptions_max);
    builder.check(model);
}
