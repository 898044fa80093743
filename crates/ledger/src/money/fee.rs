//! Interchange fees: rules that are stored as data and applied to a transfer when it is committed.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Formatter};

use upesi_types::{Amount, Currency, Timestamp};

use crate::base::ids::ParticipantId;
use crate::base::show::{Names, PrintedValue, Show, shown_as_word};
use crate::base::stored::{stored_struct, wire_enum};
use crate::money::transfer::Transfer;

/// The rate that stands for the whole amount: a rate of 6,000 is 0.6 %.
pub const RATE_WHOLE: u32 = 1_000_000;
/// Decimals of a stored amount, and so the maximum number of decimals of a fee.
pub const FEE_DECIMALS_MAX: u8 = 4;

wire_enum! {
    /// The party of a transfer that owes a fee to the other party.
    FeePayer {
        /// The payer DFSP owes the payee DFSP.
        Payer = 1 "PAYER",
        /// The payee DFSP owes the payer DFSP.
        Payee = 2 "PAYEE",
    }
}

wire_enum! {
    /// The reason why a rule that applies to a committed transfer charges nothing.
    NoFee {
        /// The payer or the payee has no fee account in the transfer's currency, for example the payer of a transfer
        /// after conversion.
        Account = 1 "NO_ACCOUNT",
        /// The fee would exceed the range of a balance.
        Room = 2 "NO_ROOM",
    }
}

/// The terms of a fee rule: which transfers, how much, and who pays. Operators name DFSPs; the ledger numbers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeeTerms<P> {
    /// Name, alphanumeric, 2–30 characters.
    pub name: Box<str>,
    /// Currency of the transfers.
    pub currency: Currency,
    /// Payer DFSPs of the transfers. An empty list means all.
    pub payers: Vec<P>,
    /// Payee DFSPs of the transfers. An empty list means all.
    pub payees: Vec<P>,
    /// Minimum amount of a transfer.
    pub amount_min: Amount,
    /// Maximum amount of a transfer.
    pub amount_max: Option<Amount>,
    /// Share of the amount, in parts of [`RATE_WHOLE`].
    pub rate: u32,
    /// Number of decimals of the share after rounding, half up.
    pub decimals: u8,
    /// Fixed amount, added to the share.
    pub fixed: Amount,
    pub paid_by: FeePayer,
}

/// A fee rule and the period of its validity. A rule never changes, except for its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeeRule {
    /// Identifier, from 1.
    pub id: u32,
    /// The terms; DFSPs are sorted.
    pub terms: FeeTerms<ParticipantId>,
    /// The start of the rule: it applies to commits from this instant on.
    pub from: Timestamp,
    /// The end of the rule: it no longer applies to commits from this instant on.
    pub until: Option<Timestamp>,
    pub created_at: Timestamp,
}

impl<P> FeeTerms<P> {
    /// The same terms with another representation of the DFSPs.
    pub fn with_parties<Q>(&self, payers: Vec<Q>, payees: Vec<Q>) -> FeeTerms<Q> {
        let Self { currency, amount_min, amount_max, rate, decimals, fixed, paid_by, .. } = *self;
        let name = self.name.clone();
        FeeTerms { name, currency, payers, payees, amount_min, amount_max, rate, decimals, fixed, paid_by }
    }
}

type StoredTerms = FeeTerms<ParticipantId>;

stored_struct! {
    StoredTerms { name, currency, payers, payees, amount_min, amount_max, rate, decimals, fixed, paid_by }
    FeeRule { id, terms, from, until, created_at }
}

impl FeeRule {
    /// The fee of a transfer that is committed at an instant, if the rule applies and the fee is above zero.
    pub fn fee(&self, transfer: &Transfer, at: Timestamp) -> Option<Amount> {
        let is_one_of = |wanted: &[ParticipantId], party: Option<ParticipantId>| {
            wanted.is_empty() || party.is_some_and(|party| wanted.contains(&party))
        };
        let terms = &self.terms;
        let applies = terms.currency == transfer.currency
            && self.from <= at
            && self.until.is_none_or(|until| at < until)
            && terms.amount_min <= transfer.amount
            && terms.amount_max.is_none_or(|most| transfer.amount <= most)
            && transfer.payer != transfer.payee
            && is_one_of(&terms.payers, transfer.payer)
            && is_one_of(&terms.payees, transfer.payee);
        if !applies {
            return None;
        }
        let fee = i128::from(terms.fixed.units()) + terms.share(transfer.amount);
        i64::try_from(fee).ok().and_then(Amount::from_units).filter(|fee| *fee > Amount::ZERO)
    }

    /// The DFSPs that the rule names.
    pub(crate) fn parties(&self) -> impl Iterator<Item = ParticipantId> {
        self.terms.payers.iter().chain(&self.terms.payees).copied()
    }

    /// Whether the rule no longer applies at an instant.
    pub fn has_ended(&self, at: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= at)
    }
}

impl FeeTerms<ParticipantId> {
    /// The share of an amount in ten-thousandths, rounded half up to the rule's decimals.
    fn share(&self, amount: Amount) -> i128 {
        let step = 10_i128.pow(u32::from(FEE_DECIMALS_MAX.saturating_sub(self.decimals)));
        let whole = i128::from(RATE_WHOLE) * step;
        let share = i128::from(amount.units()) * i128::from(self.rate);
        (2 * share + whole).div_euclid(2 * whole) * step
    }
}

shown_as_word!(FeePayer: as_str, NoFee: as_str);

impl Show for FeeRule {
    fn show(&self) -> PrintedValue<'_> {
        let terms = &self.terms;
        PrintedValue::Fields(vec![
            ("id", self.id.show()),
            ("name", terms.name.show()),
            ("currency", terms.currency.show()),
            ("payers", terms.payers.show()),
            ("payees", terms.payees.show()),
            ("amountMin", terms.amount_min.show()),
            ("amountMax", terms.amount_max.show()),
            ("rateMillionths", terms.rate.show()),
            ("decimals", PrintedValue::Number(i128::from(terms.decimals))),
            ("fixed", terms.fixed.show()),
            ("paidBy", PrintedValue::Text(Cow::Borrowed(terms.paid_by.as_str()))),
            ("from", self.from.show()),
            ("until", self.until.show()),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let FeeTerms { name, currency, rate, fixed, paid_by, .. } = &self.terms;
        let (id, paid_by) = (self.id, paid_by.as_str());
        write!(f, "{id} {name} {currency}, {rate} millionths and {fixed}, paid by {paid_by}")
    }
}
