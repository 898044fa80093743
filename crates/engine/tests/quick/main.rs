//! The tests that take seconds.

mod answer_first;
mod archived;
mod batches;
mod bulks;
mod clock;
mod engine;
mod follow;
mod hand_over;
mod oversights;
mod panics;
mod participants;
mod retention;
mod stepped;
mod told;
mod upgrade;
