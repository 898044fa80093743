//! Operators' changes of money as data: deposits, withdrawals and fee rules, with their stored and printed forms.

use alloc::borrow::Cow;
use alloc::boxed::Box;

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::ids::AccountId;
use crate::base::show::{PrintedValue, Show};
use crate::base::stored::{Stored, stored_struct};
use crate::base::table::shown_struct;
use crate::money::fee::FeeTerms;
use crate::money::funds::FundsDirection;
use crate::money::transfer::Fingerprint;

/// A deposit, or the first step of a withdrawal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FundsPrepare {
    /// Deposit or withdrawal.
    pub direction: FundsDirection,
    /// `transferId`, chosen by the operator.
    pub id: TransferId,
    /// The participant whose funds move.
    pub name: FspId,
    /// The settlement account in the path.
    pub account: AccountId,
    pub amount: Amount,
    pub currency: Currency,
    /// The bank's reference.
    pub external_reference: Box<str>,
    pub reason: Box<str>,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
}

/// A deposit to a participant's SETTLEMENT account in a currency. The account is determined when the deposit is
/// decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deposit {
    /// `transferId`, chosen by the operator.
    pub id: TransferId,
    /// The participant whose funds move.
    pub name: FspId,
    pub amount: Amount,
    pub currency: Currency,
    /// The bank's reference.
    pub external_reference: Box<str>,
    pub reason: Box<str>,
    /// JSON text of the extension array.
    pub extensions: Option<Box<str>>,
    /// Fingerprint of the body.
    pub fingerprint: Fingerprint,
}

/// The second step of a withdrawal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FundsEnd {
    /// Commit or abort.
    pub action: FundsAction,
    /// The id of the withdrawal.
    pub id: TransferId,
    /// The participant whose funds move.
    pub name: FspId,
    /// The settlement account in the path.
    pub account: AccountId,
    pub reason: Box<str>,
}

/// The end of a withdrawal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FundsAction {
    /// The bank paid out.
    Commit,
    /// The bank did not pay out.
    Abort,
}

/// A fee rule to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewFeeRule {
    pub terms: FeeTerms<FspId>,
    /// Start of the rule, not before now. If absent, the rule applies from now on.
    pub from: Option<Timestamp>,
    /// End of the rule: it no longer applies from this instant on.
    pub until: Option<Timestamp>,
}

type NamedTerms = FeeTerms<FspId>;

stored_struct! {
    FundsPrepare {
        direction, id, name, account, amount, currency, external_reference, reason, extensions, fingerprint,
    }
    Deposit { id, name, amount, currency, external_reference, reason, extensions, fingerprint }
    FundsEnd { action, id, name, account, reason }
    NamedTerms { name, currency, payers, payees, amount_min, amount_max, rate, decimals, fixed, paid_by }
    NewFeeRule { terms, from, until }
}

shown_struct! {
    FundsPrepare {
        direction as "action", id as "transferId", name, account, amount, currency, external_reference, reason,
        extensions,
    }
    Deposit { id as "transferId", name, amount, currency, external_reference, reason, extensions }
    FundsEnd { action, id as "transferId", name, account, reason }
    NamedTerms {
        name, currency, payers, payees, amount_min, amount_max, rate as "rateMillionths", decimals, fixed, paid_by,
    }
    NewFeeRule { terms, from, until }
}

impl Show for FundsAction {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Text(Cow::Borrowed(match self {
            Self::Commit => "commit",
            Self::Abort => "abort",
        }))
    }
}

impl Stored for FundsAction {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u8(match self {
            Self::Commit => 1,
            Self::Abort => 2,
        });
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            1 => Ok(Self::Commit),
            2 => Ok(Self::Abort),
            _ => Err(DecodeError("unknown end of a withdrawal")),
        }
    }
}
