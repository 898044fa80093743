//! Converts stored values to a small tree, which printers turn into JSON or text.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};

use upesi_types::{Amount, AmountError, Currency, FspId, Timestamp, TransferId, hex};

use crate::account::{AccountId, LedgerAccountTypeId};
use crate::approval::ProposalState;
use crate::binding::BindingKind;
use crate::callback::CallbackKey;
use crate::endpoint::EndpointType;
use crate::fee::{FeePayer, FeeRule, FeeTerms, NoFee};
use crate::funds::{FundsDirection, FundsState, FundsTransfer};
use crate::participant::ParticipantId;
use crate::refusal::Cause;
use crate::settlement::{CarriedRemainder, SettlementNet, SettlementStage, SettlementState};
use crate::settlement_model::{Delay, Granularity, Interchange, SettlementModel};
use crate::transfer::{AbortKind, Settled, Transfer, TransferState};
use crate::window::{ContentId, ContentRef, NewContent, SettlementId, WindowId};

/// Maximum number of list items in a line of text.
const ITEMS_SHOWN_MAX: usize = 4;

/// A value in printable form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shown<'a> {
    /// No value.
    Absent,
    /// A flag.
    Flag(bool),
    /// A number.
    Number(i128),
    /// A text, or a value that is printed as text.
    Text(Cow<'a, str>),
    /// A participant.
    Participant(ParticipantId),
    /// An account.
    Account(AccountId),
    /// A ledger account type.
    AccountType(LedgerAccountTypeId),
    /// A callback.
    Callback(CallbackKey),
    /// The reason why a request was rejected or a transfer ended.
    Cause(&'a Cause),
    /// A list.
    List(Vec<Shown<'a>>),
    /// A value with fields.
    Fields(Vec<(&'static str, Shown<'a>)>),
}

/// Looks up names that records do not contain.
pub trait Names {
    /// A participant's name.
    fn participant(&self, id: ParticipantId) -> String;

    /// An account as `owner currency type`.
    fn account(&self, id: AccountId) -> String;

    /// The name of a ledger account type.
    fn account_type(&self, id: LedgerAccountTypeId) -> String;

    /// A cause as its error code and its text in quotes.
    fn cause(&self, cause: &Cause) -> String;
}

/// A value that can be printed.
pub trait Show {
    /// The value in printable form.
    fn show(&self) -> Shown<'_>;

    /// Writes the value as text for users.
    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        describe(&self.show(), names, f)
    }
}

/// A value together with the names that its text needs.
pub(crate) struct Named<'a, T>(pub(crate) &'a T, pub(crate) &'a dyn Names);

impl<T: Show> Display for Named<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.describe(self.1, f)
    }
}

fn describe(shown: &Shown<'_>, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
    match shown {
        Shown::Absent => f.write_str("none"),
        Shown::Flag(flag) => write!(f, "{flag}"),
        Shown::Number(number) => write!(f, "{number}"),
        Shown::Text(text) => f.write_str(text),
        Shown::Participant(id) => f.write_str(&names.participant(*id)),
        Shown::Account(id) => f.write_str(&names.account(*id)),
        Shown::AccountType(id) => f.write_str(&names.account_type(*id)),
        Shown::Callback(key) => write!(f, "{}.{} to {}", key.seq, key.index, names.participant(key.target)),
        Shown::Cause(cause) => f.write_str(&names.cause(cause)),
        Shown::List(items) => {
            for (index, item) in items.iter().take(ITEMS_SHOWN_MAX).enumerate() {
                f.write_str(if index == 0 { "" } else { ", " })?;
                describe(item, names, f)?;
            }
            match items.len().saturating_sub(ITEMS_SHOWN_MAX) {
                0 => Ok(()),
                more => write!(f, ", and {more} more"),
            }
        }
        Shown::Fields(fields) => {
            for (index, (name, value)) in fields.iter().enumerate() {
                write!(f, "{}{name} ", if index == 0 { "" } else { ", " })?;
                describe(value, names, f)?;
            }
            Ok(())
        }
    }
}

/// Implements `Show` for values that are printed with [`Display`].
macro_rules! shown_as_text {
    ($($type:ty),* $(,)?) => {
        $(impl Show for $type {
            fn show(&self) -> Shown<'_> {
                Shown::Text(Cow::Owned(self.to_string()))
            }
        })*
    };
}

shown_as_text!(TransferId, FspId, Amount, Currency, Timestamp, AmountError);

/// Implements `Show` for values that are printed as a word.
macro_rules! shown_as_word {
    ($($type:ty: $word:ident),* $(,)?) => {
        $(impl Show for $type {
            fn show(&self) -> Shown<'_> {
                Shown::Text(Cow::Borrowed(self.$word()))
            }
        })*
    };
}

shown_as_word!(
    EndpointType: name, BindingKind: name, AbortKind: as_str, FundsDirection: as_str, FundsState: as_str,
    SettlementState: as_str, ProposalState: as_str, Granularity: as_str, Interchange: as_str, Delay: as_str,
    FeePayer: as_str,
    NoFee: as_str,
);

macro_rules! shown_as_number {
    ($($type:ty),*) => {
        $(impl Show for $type {
            fn show(&self) -> Shown<'_> {
                Shown::Number(i128::from(*self))
            }
        })*
    };
}

shown_as_number!(u8, u16, u32, u64, i64);

macro_rules! shown_by_number {
    ($($type:ty),*) => {
        $(impl Show for $type {
            fn show(&self) -> Shown<'_> {
                self.0.show()
            }
        })*
    };
}

shown_by_number!(WindowId, ContentId, SettlementId);

impl Show for bool {
    fn show(&self) -> Shown<'_> {
        Shown::Flag(*self)
    }
}

impl Show for Box<str> {
    fn show(&self) -> Shown<'_> {
        Shown::Text(Cow::Borrowed(self))
    }
}

impl<const N: usize> Show for [u8; N] {
    fn show(&self) -> Shown<'_> {
        Shown::Text(Cow::Owned(hex(self)))
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self) -> Shown<'_> {
        self.as_ref().map_or(Shown::Absent, Show::show)
    }
}

impl<T: Show> Show for Vec<T> {
    fn show(&self) -> Shown<'_> {
        Shown::List(self.iter().map(Show::show).collect())
    }
}

impl Show for ParticipantId {
    fn show(&self) -> Shown<'_> {
        Shown::Participant(*self)
    }
}

impl Show for AccountId {
    fn show(&self) -> Shown<'_> {
        Shown::Account(*self)
    }
}

impl Show for LedgerAccountTypeId {
    fn show(&self) -> Shown<'_> {
        Shown::AccountType(*self)
    }
}

impl Show for CallbackKey {
    fn show(&self) -> Shown<'_> {
        Shown::Callback(*self)
    }
}

impl Show for Cause {
    fn show(&self) -> Shown<'_> {
        Shown::Cause(self)
    }
}

impl Show for Transfer {
    fn show(&self) -> Shown<'_> {
        let mut fields = vec![
            ("transferId", self.id.show()),
            ("payer", self.payer.show()),
            ("payee", self.payee.show()),
            ("amount", self.amount.show()),
            ("currency", self.currency.show()),
            ("condition", self.condition.show()),
            ("expiration", self.expires_at.show()),
            ("state", Shown::Text(Cow::Borrowed(self.public_state().as_str()))),
        ];
        if let TransferState::Aborted(end) = &self.state {
            fields.extend([("kind", end.kind.show()), ("cause", end.cause.show())]);
        }
        Shown::Fields(fields)
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let party =
            |id: Option<ParticipantId>| id.map_or_else(|| "?".to_string(), |id| names.participant(id));
        let (payer, payee) = (party(self.payer), party(self.payee));
        write!(f, "{} {payer} → {payee} {} {} ", self.id, self.amount, self.currency)?;
        match &self.state {
            TransferState::Reserved => write!(f, "RESERVED until {}", self.expires_at),
            TransferState::Committed(_) => f.write_str("COMMITTED"),
            TransferState::Aborted(end) => write!(f, "{} {}", end.kind.as_str(), names.cause(&end.cause)),
        }
    }
}

impl Show for Settled {
    fn show(&self) -> Shown<'_> {
        match self {
            Self::InWindow => Shown::Absent,
            Self::AtOnce { payer, payee } => {
                Shown::Fields(vec![("payerAccount", payer.show()), ("payeeAccount", payee.show())])
            }
        }
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::InWindow => Ok(()),
            Self::AtOnce { payer, payee } => {
                write!(f, ", settled from {} to {}", names.account(*payer), names.account(*payee))
            }
        }
    }
}

impl Show for FundsTransfer {
    fn show(&self) -> Shown<'_> {
        Shown::Fields(vec![
            ("transferId", self.id.show()),
            ("action", self.direction.show()),
            ("participant", self.participant.show()),
            ("account", self.account.show()),
            ("hubAccount", self.hub_account.show()),
            ("amount", self.amount.show()),
            ("currency", self.currency.show()),
            ("externalReference", self.external_reference.show()),
            ("reason", self.reason.show()),
            ("state", self.state.show()),
        ])
    }

    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let direction = match self.direction {
            FundsDirection::In => "in",
            FundsDirection::Out => "out",
        };
        let owner = names.participant(self.participant);
        let state = self.state.as_str();
        write!(f, "{direction} {} {owner} {} {} {state}", self.id, self.amount, self.currency)
    }
}

impl Show for SettlementModel {
    fn show(&self) -> Shown<'_> {
        Shown::Fields(vec![
            ("id", self.id.show()),
            ("name", self.name.show()),
            ("settlementGranularity", Shown::Text(Cow::Borrowed(self.granularity.as_str()))),
            ("settlementInterchange", Shown::Text(Cow::Borrowed(self.interchange.as_str()))),
            ("settlementDelay", Shown::Text(Cow::Borrowed(self.delay.as_str()))),
            ("currency", self.currency.show()),
            ("requireLiquidityCheck", self.require_liquidity_check.show()),
            ("ledgerAccountType", self.ledger_account_type.show()),
            ("settlementAccountType", self.settlement_account_type.show()),
            ("autoPositionReset", self.auto_position_reset.show()),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl Show for FeeRule {
    fn show(&self) -> Shown<'_> {
        let terms = &self.terms;
        Shown::Fields(vec![
            ("id", self.id.show()),
            ("name", terms.name.show()),
            ("currency", terms.currency.show()),
            ("payers", terms.payers.show()),
            ("payees", terms.payees.show()),
            ("amountMin", terms.amount_min.show()),
            ("amountMax", terms.amount_max.show()),
            ("rateMillionths", terms.rate.show()),
            ("decimals", Shown::Number(i128::from(terms.decimals))),
            ("fixed", terms.fixed.show()),
            ("paidBy", Shown::Text(Cow::Borrowed(terms.paid_by.as_str()))),
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

impl Show for NewContent {
    fn show(&self) -> Shown<'_> {
        Shown::Fields(vec![
            ("id", self.id.show()),
            ("currency", self.currency.show()),
            ("ledgerAccountType", self.kind.show()),
        ])
    }
}

impl Show for ContentRef {
    fn show(&self) -> Shown<'_> {
        Shown::Fields(vec![("settlementWindowId", self.window.show()), ("id", self.content.show())])
    }
}

impl Show for SettlementNet {
    fn show(&self) -> Shown<'_> {
        Shown::Fields(vec![("account", self.account.show()), ("netSettlementAmount", self.net.show())])
    }
}

impl Show for CarriedRemainder {
    fn show(&self) -> Shown<'_> {
        Shown::Fields(vec![
            ("account", self.account.show()),
            ("carriedIn", self.carried_in.show()),
            ("carriedOver", self.carried_over.show()),
        ])
    }
}

impl Show for SettlementStage {
    fn show(&self) -> Shown<'_> {
        Shown::Fields(vec![
            ("account", self.account.show()),
            ("state", self.state.show()),
            ("reason", self.reason.show()),
            ("externalReference", self.external_reference.show()),
            ("netDebitCapRaisedTo", self.cap_raised_to.show()),
        ])
    }
}
