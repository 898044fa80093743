//! The tests that take seconds.

mod sim_log;
mod stepper;
