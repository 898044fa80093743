//! The options of an originator, which acts for payers.

use std::time::Duration;

use upesi_types::{Amount, Currency, Money};

use crate::party::PARTIES_PER_DFSP;

/// Common data of an originator's transfers.
#[derive(Clone, Debug)]
pub struct OriginatorOptions {
    /// Amount of each transfer; positive.
    pub amount: Amount,
    pub currency: Currency,
    /// Time until a transfer expires.
    pub expiry: Duration,
    /// Determines ids, together with the nonce, and so the transfers that faults affect.
    pub seed: u64,
    pub nonce: u64,
    /// Whether messages carry a W3C `traceparent`.
    pub trace: bool,
    /// Maximum number of times that the same POST is sent again if the hub does not answer or answers 5xx.
    pub resends_max: u32,
}

impl OriginatorOptions {
    /// The amount of each transfer.
    pub(crate) const fn money(&self) -> Money {
        Money { amount: self.amount, currency: self.currency }
    }
}

/// Whether the amount of a quote is the sent or the received amount (FSPIOP API v1.1 §7.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum AmountType {
    /// The payer sends the amount, and fees are deducted from it.
    #[default]
    Send,
    /// The payee receives the amount, and fees are added to it.
    Receive,
}

impl AmountType {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Send => "SEND",
            Self::Receive => "RECEIVE",
        }
    }
}

/// Common options of an originator's lookups, quotes and payments, in addition to [`crate::OriginatorOptions`].
#[derive(Clone, Copy, Debug)]
pub struct PaymentOptions {
    /// Time that a payment waits for the callback of each phase.
    pub callback_timeout: Duration,
    /// Number of the payee's parties over which the numbers are spread: number `n` looks up party `n` modulo this
    /// number.
    pub parties_per_dfsp: u64,
    pub amount_type: AmountType,
}

impl Default for PaymentOptions {
    fn default() -> Self {
        Self {
            callback_timeout: Duration::from_secs(30),
            parties_per_dfsp: PARTIES_PER_DFSP,
            amount_type: AmountType::Send,
        }
    }
}

/// Common data of an originator's FX transfers.
#[derive(Clone, Debug)]
pub struct FxTransferOptions {
    /// The currency of the transfers. Their payers hold the originator's currency.
    pub target: Currency,
    /// Value of a thousand units of the target currency.
    pub rate_per_mille: u32,
    /// Indexes of the FXPs, which take turns.
    pub fxps: Vec<usize>,
}

/// [`FxTransferOptions`] in the form for messages.
pub(crate) struct Converting {
    pub options: FxTransferOptions,
    /// The part of all FX transfers' bodies between the FXP's name and the condition.
    pub terms: Vec<u8>,
    /// The corresponding part of the transfers' bodies.
    pub transfer_terms: Vec<u8>,
}

/// Common data of an originator's bulk transfers.
pub(crate) struct Bulking {
    pub items: usize,
    /// The part of each item between its id and its condition.
    pub terms: Vec<u8>,
}
