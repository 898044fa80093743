//! Simulated DFSPs: any number of them in one process, as payers and as payees, with their own books.
//!
//! - [`Simulator`] listens, answers as payee and as FXP, accepts callbacks and keeps books.
//! - [`Originator`] acts for the payers: lookups, quotes, transfers, and payments that consist of all three.
//! - [`DfspSettings`] are the delays and faults of one DFSP. They can be changed while it runs.
//! - [`party_of`] and [`owner_of`] map parties to DFSPs: MSISDNs by prefix, a thousand million for each DFSP.
//! - [`OracleSimulator`] is an external party directory with its own faults.
//! - [`books`] computes what a DFSP must owe.
//!
//! # Over HTTP
//!
//! Below the base path of a DFSP there are, beside the callbacks of the FSPIOP API:
//!
//! | call | does |
//! |---|---|
//! | `POST /{dfsp}/payments` | makes a whole payment as that DFSP; the answer comes when it has ended |
//! | `POST /{dfsp}/parties` | registers a party of that DFSP with the hub |
//!
//! For all DFSPs there are `GET /health`, `GET /_sim/dfsps`, and `GET` and `PUT /_sim/dfsps/{dfsp}`. `GET /metrics`
//! exists if [`SimConfig::metrics`] is set.
//!
//! # As payer
//!
//! Everything is numbered. Seed, nonce and number determine ids, parties and traces ([`OriginatorOptions`],
//! [`PaymentOptions`]). Payer and payee are indexes of the simulator's DFSPs.
//!
//! | call | sends | returns once accepted | then |
//! |---|---|---|---|
//! | [`Originator::lookup`] | `GET /parties` | [`Awaiting`]`<`[`FoundParty`]`>` | [`Awaiting::answer`] returns an [`Answer`] |
//! | [`Originator::quote`] | `POST /quotes` | [`Awaiting`]`<`[`Terms`]`>` | the same |
//! | [`Originator::send`] | `POST /transfers` | [`PendingTransfer`] | its receiver yields a [`Finished`] |
//! | [`Originator::convert`] | `POST /fxTransfers` | [`PendingFxTransfer`] | its receiver yields the time of the FXP's fulfilment |
//! | [`Originator::send_converted`] | `POST /transfers` that an FX transfer pays | [`PendingTransfer`] | the same |
//! | [`Originator::send_bulk`] | `POST /bulkTransfers` | [`PendingTransfer`] | the same, when every item has ended |
//! | [`Originator::transfer_quoted`] | `POST /transfers` with the packet and condition of a quote | [`PendingTransfer`] | the same |
//! | [`Originator::register`] | `POST /participants` for a batch of a DFSP's parties | [`Awaiting`]`<`[`BatchAnswer`]`>` | as with lookups |
//! | [`Originator::payment`] | all three, one after the other | | returns a [`PaymentReport`] at the end |
//!
//! `tests/simulated/payments.rs` makes a payment and reads its report.
//!
//! Run these calls on one of the workers of the simulator, because they use its connections.
//!
//! Simulators share the machine with the hub under load, so the code that runs per message avoids parsing and locks.

mod awaited;
mod awaiting;
pub mod books;
mod bulk;
mod callback;
mod condition;
mod counters;
mod dfsp;
mod exchange;
mod fx_transfer;
mod ids;
mod lookups;
mod message;
mod metrics;
mod money;
mod oracle;
mod order;
mod originating;
mod party;
mod payee;
mod payer;
mod payment;
mod quoting;
mod registration;
mod reply;
mod requests;
mod rounds;
mod route;
mod scan;
mod secured;
mod service;
mod settings;
mod settling;
mod shared;
mod sign_ahead;
mod simulator;
mod sockets;
mod strict;
mod table;
mod upstream;
mod watch;

pub use awaiting::{Answer, Awaiting};
pub use books::ExpectedPosition;
pub use bulk::BULK_ITEMS_MAX;
pub use condition::{Secret, Text};
pub use counters::Counters;
pub use dfsp::{DfspReport, PositionReport};
pub use exchange::{ExchangeError, FoundParty, PaymentFailure, PaymentReport, Phase, Terms};
pub use fx_transfer::PendingFxTransfer;
pub use ids::{id_of, transfer_id};
pub use message::units_text;
pub use oracle::{
    OracleConfig, OracleCounters, OracleError, OracleFull, OracleRule, OracleSettings, OracleSimulator,
    PARTIES_MAX,
};
pub use originating::{AmountType, FxTransferOptions, OriginatorOptions, PaymentOptions};
pub use party::{PARTIES_PER_DFSP, PartyId, owner_of, party_of, prefix_of};
pub use payer::{OriginateError, Originator, PendingTransfer};
pub use registration::{BatchAnswer, REGISTRATION_PARTIES_MAX};
pub use secured::{SecurityError, SimSecurity, SimSignatures, SimTls};
pub use service::answer;
pub use settings::{DfspSettings, FX_RATE_PER_MILLE_USUAL, Flavour, SettingsError, mix};
pub use shared::PayeeFxTransfers;
pub use sign_ahead::UpcomingTransfer;
pub use simulator::{SimConfig, SimError, Simulator, TransferCounts, secured};
pub use table::{Finished, TransferOutcome};
pub use upstream::{Pools, ServiceUrls, Upstream};
pub use watch::{Direction, SeenMessage};
