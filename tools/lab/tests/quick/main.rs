//! The tests that take seconds.

mod answers;
mod forwarder;
mod report;
mod result_schema;
mod scenario;
mod toy;
