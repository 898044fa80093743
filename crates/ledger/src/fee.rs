//! Interchange fees: rules as data, applied to a transfer by its commit.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, Timestamp};

use crate::participant::ParticipantId;
use crate::settlement_model::wire_enum;
use crate::stored::stored_struct;
use crate::transfer::Transfer;

/// Parts of an amount that a whole one has: a rate of 6,000 is 0.6 %.
pub const RATE_WHOLE: u32 = 1_000_000;
/// Decimals of a stored amount, which is the most that a fee is rounded to.
pub const FEE_DECIMALS_MAX: u8 = 4;

wire_enum! {
    /// Which party of a transfer owes a fee to the other.
    FeePayer {
        /// The payer DFSP, to the payee DFSP.
        Payer = 1 "PAYER",
        /// The payee DFSP, to the payer DFSP.
        Payee = 2 "PAYEE",
    }
}

wire_enum! {
    /// Why a rule that applies to a committed transfer charges nothing.
    NoFee {
        /// The payer or the payee has no account for fees in the transfer's currency: a converted transfer's payer.
        Account = 1 "NO_ACCOUNT",
        /// A balance could not hold it.
        Room = 2 "NO_ROOM",
    }
}

/// What a rule for a fee says: which transfers, how much, who pays. Operators name DFSPs, the ledger numbers them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeeTerms<P> {
    /// Name, alphanumeric, 2–30 characters.
    pub name: Box<str>,
    /// Currency of the transfers.
    pub currency: Currency,
    /// Payer DFSPs of the transfers; all of them if there is none.
    pub payers: Vec<P>,
    /// Payee DFSPs of the transfers; all of them if there is none.
    pub payees: Vec<P>,
    /// Least amount of a transfer.
    pub amount_min: Amount,
    /// Largest amount of a transfer.
    pub amount_max: Option<Amount>,
    /// Share of the amount, in parts of [`RATE_WHOLE`].
    pub rate: u32,
    /// Decimals that the share is rounded to, half up.
    pub decimals: u8,
    /// Added to the share.
    pub fixed: Amount,
    /// Who pays it.
    pub paid_by: FeePayer,
}

/// A rule for a fee, and from when to when it applies. Nothing of it changes but its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeeRule {
    /// Identifier, from 1.
    pub id: u32,
    /// What it says; DFSPs are in order.
    pub terms: FeeTerms<ParticipantId>,
    /// First instant of a commit that it applies to.
    pub from: Timestamp,
    /// First instant that it does not apply to any more.
    pub until: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
}

impl<P> FeeTerms<P> {
    /// The same about DFSPs that are named in another way.
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
    /// The fee of a transfer between two DFSPs that is committed at an instant, if the rule applies and it is above
    /// zero.
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

    /// The DFSPs that it names.
    pub(crate) fn parties(&self) -> impl Iterator<Item = ParticipantId> {
        self.terms.payers.iter().chain(&self.terms.payees).copied()
    }

    /// Whether it cannot apply any more.
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
