//! Converts stored values to a small tree, which printers turn into JSON or text.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display, Formatter};

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId, hex};

use crate::base::ids::{
    AccountId, CallbackKey, ContentId, LedgerAccountTypeId, ParticipantId, SettlementId, WindowId,
};
use crate::base::refusal::{AbortKind, Cause};

/// Maximum number of list items in a line of text.
const ITEMS_SHOWN_MAX: usize = 4;

/// A value in printable form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrintedValue<'a> {
    /// No value.
    Absent,
    Flag(bool),
    Number(i128),
    /// A text, or a value that is printed as text.
    Text(Cow<'a, str>),
    Participant(ParticipantId),
    Account(AccountId),
    AccountType(LedgerAccountTypeId),
    Callback(CallbackKey),
    /// The reason why a request was rejected or a transfer ended.
    Cause(&'a Cause),
    List(Vec<PrintedValue<'a>>),
    /// A value with fields.
    Fields(Vec<(&'static str, PrintedValue<'a>)>),
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
    fn show(&self) -> PrintedValue<'_>;

    /// Writes the value as text for users.
    fn describe(&self, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        describe(&self.show(), names, f)
    }
}

/// A value together with the names that its text needs.
pub(crate) struct WithNames<'a, T>(pub(crate) &'a T, pub(crate) &'a dyn Names);

impl<T: Show> Display for WithNames<'_, T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.describe(self.1, f)
    }
}

fn describe(shown: &PrintedValue<'_>, names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
    match shown {
        PrintedValue::Absent => f.write_str("none"),
        PrintedValue::Flag(flag) => write!(f, "{flag}"),
        PrintedValue::Number(number) => write!(f, "{number}"),
        PrintedValue::Text(text) => f.write_str(text),
        PrintedValue::Participant(id) => f.write_str(&names.participant(*id)),
        PrintedValue::Account(id) => f.write_str(&names.account(*id)),
        PrintedValue::AccountType(id) => f.write_str(&names.account_type(*id)),
        PrintedValue::Callback(key) => {
            write!(f, "{}.{} to {}", key.seq, key.index, names.participant(key.target))
        }
        PrintedValue::Cause(cause) => f.write_str(&names.cause(cause)),
        PrintedValue::List(items) => {
            for (index, item) in items.iter().take(ITEMS_SHOWN_MAX).enumerate() {
                f.write_str(if index == 0 { "" } else { ", " })?;
                describe(item, names, f)?;
            }
            match items.len().saturating_sub(ITEMS_SHOWN_MAX) {
                0 => Ok(()),
                more => write!(f, ", and {more} more"),
            }
        }
        PrintedValue::Fields(fields) => {
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
            fn show(&self) -> PrintedValue<'_> {
                PrintedValue::Text(Cow::Owned(self.to_string()))
            }
        })*
    };
}

shown_as_text!(TransferId, FspId, Amount, Currency, Timestamp);

/// Implements `Show` for values that are printed as a word.
macro_rules! shown_as_word {
    ($($type:ty: $word:ident),* $(,)?) => {
        $(impl $crate::base::show::Show for $type {
            fn show(&self) -> $crate::base::show::PrintedValue<'_> {
                $crate::base::show::PrintedValue::Text(alloc::borrow::Cow::Borrowed(self.$word()))
            }
        })*
    };
}
pub(crate) use shown_as_word;

macro_rules! shown_as_number {
    ($($type:ty),*) => {
        $(impl Show for $type {
            fn show(&self) -> PrintedValue<'_> {
                PrintedValue::Number(i128::from(*self))
            }
        })*
    };
}

shown_as_number!(u8, u16, u32, u64, i64);

macro_rules! shown_by_number {
    ($($type:ty),*) => {
        $(impl Show for $type {
            fn show(&self) -> PrintedValue<'_> {
                self.0.show()
            }
        })*
    };
}

shown_by_number!(WindowId, ContentId, SettlementId);

impl Show for bool {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Flag(*self)
    }
}

impl Show for Box<str> {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Text(Cow::Borrowed(self))
    }
}

impl<const N: usize> Show for [u8; N] {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Text(Cow::Owned(hex(self)))
    }
}

impl<T: Show> Show for Option<T> {
    fn show(&self) -> PrintedValue<'_> {
        self.as_ref().map_or(PrintedValue::Absent, Show::show)
    }
}

impl<T: Show> Show for Vec<T> {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::List(self.iter().map(Show::show).collect())
    }
}

impl Show for ParticipantId {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Participant(*self)
    }
}

impl Show for AccountId {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Account(*self)
    }
}

impl Show for LedgerAccountTypeId {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::AccountType(*self)
    }
}

impl Show for CallbackKey {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Callback(*self)
    }
}

shown_as_word!(AbortKind: as_str);

impl Show for Cause {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Cause(self)
    }
}
