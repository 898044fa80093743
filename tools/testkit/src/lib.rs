//! A simulated world for tests: a whole hub with its DFSPs, operators, disk, network and clock, in one thread. A seed
//! determines everything that happens.
//!
//! The hub is the real one except for sockets and threads. The gateway reads requests as the HTTP server would pass
//! them. The engine's own step decides and journals on a simulated disk. The lanes decide which callbacks are sent, and
//! render real requests. An auditor remembers all messages to and from the hub, keeps its own books, and checks the
//! invariants after every fault. When the faults stop, everything that was accepted must finish.
//!
//! [`world::run`] runs one seed. `sim-world --seed S` replays it, and [`stepper`] shows the changes of each event.

mod archive;
mod auditor;
mod clock;
mod hub;
mod message;
mod plan;
mod remote;
mod shared_log;
mod sim_log;
pub mod stepper;
pub mod world;

pub use plan::{Bug, Faults, Plan};
pub use sim_log::{AppendFault, SimLog};
