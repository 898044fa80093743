//! Simulated DFSPs (L4): any number of them in one process, as payers and as payees, with their own books.
//!
//! - [`Simulator`] listens, answers as payee, takes callbacks and keeps books.
//! - [`Originator`] sends transfers as payer and tells when their callbacks arrived.
//! - [`DfspSettings`] are the delays and faults of one DFSP; they can be changed while it runs.
//! - [`books`] is the arithmetic of what a DFSP must owe.
//!
//! Simulators share the machine with the hub they load, so what runs per transfer avoids parsing and locks.

pub mod books;
mod callback;
mod condition;
mod control;
mod dfsp;
mod message;
mod packet;
mod payee;
mod payer;
pub mod pools;
mod scan;
mod service;
mod settings;
mod simulator;
mod socket;
mod table;
mod watch;

pub use books::ExpectedPosition;
pub use condition::{Secret, Text};
pub use dfsp::{Counters, DfspReport, PositionReport};
pub use message::units_text;
pub use packet::payment_packet;
pub use payer::{OriginateError, Originator, OriginatorOptions, Pending, transfer_id};
pub use settings::{DfspSettings, Flavour, SettingsError, mix};
pub use simulator::{SimConfig, SimError, Simulator, TransferCounts, Upstream};
pub use table::{Finished, Outcome};
pub use watch::{Direction, SeenMessage};
