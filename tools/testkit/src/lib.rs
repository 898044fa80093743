//! The simulated world (tests only): a whole hub with its DFSPs, operators, disk, network and clock, in one thread,
//! where one seed decides everything.
//!
//! The hub is the real one but for sockets and threads: requests are read by the gateway as the HTTP server hands
//! them over, the engine's own step decides and journals on a simulated disk, lanes decide what is sent, callbacks
//! are rendered to real requests. An auditor who stands outside remembers what left the hub and what was sent to
//! it, keeps its own books, and checks the invariants after every fault; when they stop, everything that was
//! accepted must finish.
//!
//! [`world::run`] lives through one seed; `sim-world --seed S` replays it, and [`stepper`] shows what each event
//! changes.
#![expect(missing_docs, reason = "a field whose name says it has no comment")]

mod archive;
mod auditor;
mod clock;
mod hub;
mod message;
mod plan;
mod shared_log;
mod sim_log;
pub mod stepper;
pub mod world;

pub use plan::{Bug, Faults, Plan};
pub use sim_log::{AppendFault, SimLog};
