//! Simulated DFSPs (L4): any number of them in one process, as payers and as payees, with their own books.
//!
//! - [`Simulator`] listens, answers as payee and as provider of currency conversions, takes callbacks and keeps books.
//! - [`Originator`] acts for the payers: lookups, quotes, transfers, and payments made of all three.
//! - [`DfspSettings`] are the delays and faults of one DFSP; they can be changed while it runs.
//! - [`party_of`] and [`owner_of`] tell which party belongs to which DFSP: MSISDNs by prefix, a thousand million each.
//! - [`OracleSimulator`] is an external party directory, with faults of its own.
//! - [`books`] is the arithmetic of what a DFSP must owe.
//!
//! # Over HTTP
//!
//! Beside the callbacks of the FSPIOP API, below the base path of a DFSP:
//!
//! | call | does |
//! |---|---|
//! | `POST /{dfsp}/payments` | a whole payment as that DFSP, answered when it ended |
//! | `POST /{dfsp}/parties` | registers a party of that DFSP with the hub |
//!
//! and for all of them `GET /health`, `GET /_sim/dfsps`, `GET` and `PUT /_sim/dfsps/{dfsp}`; `GET /metrics` where
//! [`SimConfig::metrics`] is set.
//!
//! # As payer
//!
//! Everything is numbered; seed, nonce and number decide ids, parties and traces ([`OriginatorOptions`],
//! [`PaymentOptions`]). Payer and payee are indexes of the simulator's DFSPs.
//!
//! | call | sends | gives once accepted | then |
//! |---|---|---|---|
//! | [`Originator::lookup`] | `GET /parties` | [`Awaiting`]`<`[`FoundParty`]`>` | [`Awaiting::answer`] gives an [`Answer`] |
//! | [`Originator::quote`] | `POST /quotes` | [`Awaiting`]`<`[`Terms`]`>` | the same |
//! | [`Originator::send`] | `POST /transfers` | [`Pending`] | its receiver gives a [`Finished`] |
//! | [`Originator::convert`] | `POST /fxTransfers` | [`PendingConversion`] | its receiver tells of the FXP's fulfilment |
//! | [`Originator::send_converted`] | `POST /transfers` that a conversion pays | [`Pending`] | the same |
//! | [`Originator::send_bulk`] | `POST /bulkTransfers` | [`Pending`] | the same, when every item has ended |
//! | [`Originator::transfer_quoted`] | `POST /transfers` with the packet and condition of a quote | [`Pending`] | the same |
//! | [`Originator::register`] | `POST /participants` for a batch of a DFSP's parties | [`Awaiting`]`<`[`Registered`]`>` | as with lookups |
//! | [`Originator::payment`] | all three, one after the other | | gives a [`PaymentReport`] when it is over |
//!
//! ```no_run
//! # use upesi_sim::{Originator, Phase};
//! # async fn one(originator: &Originator, intended: std::time::Instant) {
//! let report = originator.payment(17, 0, 1, intended).await;
//! for phase in Phase::OF_PAYMENT {
//!     println!("{} {:?}", phase.name(), report.duration(phase));
//! }
//! println!("{:?} {:?}", report.total(), report.result);
//! # }
//! ```
//!
//! Run these on one of the workers of the simulator, whose connections they use.
//!
//! Simulators share the machine with the hub they load, so what runs per message avoids parsing and locks.
#![expect(missing_docs, reason = "a field whose name says it has no comment")]

mod awaited;
pub mod books;
mod bulk;
mod callback;
mod condition;
mod conversion;
mod dfsp;
mod exchange;
mod message;
mod metrics;
mod oracle;
mod order;
mod party;
mod payee;
mod payer;
mod payment;
mod quoting;
mod reply;
mod rounds;
mod route;
mod scan;
mod secured;
mod service;
mod settings;
mod simulator;
mod strict;
mod table;
mod upstream;
mod watch;

pub use awaited::{Answer, Awaiting};
pub use books::ExpectedPosition;
pub use bulk::BULK_ITEMS_MAX;
pub use condition::{Secret, Text};
pub use dfsp::{Counters, DfspReport, PositionReport, REGISTRATION_PARTIES_MAX, Registered};
pub use exchange::{ExchangeError, FoundParty, PaymentFailure, PaymentReport, Phase, Terms};
pub use message::units_text;
pub use oracle::{
    OracleConfig, OracleCounters, OracleError, OracleFull, OracleRule, OracleSettings, OracleSimulator,
    PARTIES_MAX,
};
pub use party::{PARTIES_PER_DFSP, PartyId, owner_of, party_of, prefix_of};
pub use payer::{OriginateError, Originator, OriginatorOptions, Pending, id_of, transfer_id};
pub use payment::{AmountType, PaymentOptions};
pub use secured::{SecurityError, SimSecurity, SimSignatures, SimTls};
pub use service::answer;
pub use settings::{DfspSettings, FX_RATE_PER_MILLE_USUAL, Flavour, SettingsError, mix};
pub use simulator::{SimConfig, SimError, Simulator, TransferCounts, secured};
pub use table::{Finished, Outcome};
pub use upstream::{Pools, ServiceUrls, Upstream};
pub use watch::{Direction, SeenMessage};

pub use crate::conversion::{ConversionOptions, PayeeConversions, PendingConversion};
pub use crate::secured::Coming;
