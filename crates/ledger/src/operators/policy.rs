//! The policy of two-person approval: which changes need a second person.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec;
use core::fmt::{self, Display, Formatter};

use upesi_types::{Amount, Currency};

use crate::base::codec::{Decoded, Decoder, Encoder};
use crate::base::show::{Names, PrintedValue, Show};
use crate::base::stored::Stored;
use crate::operators::action::AdminAction;

/// Maximum number of currencies with a waiver for deposits.
pub const WAIVERS_MAX: usize = 200;

/// Defines which changes need a second person. The policy is part of the ledger, so it changes by commands like all
/// other state. One person can make it stricter; making it more lenient takes two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApprovalPolicy {
    /// The actions that need a second person.
    pub second: BTreeSet<AdminAction>,
    /// Deposits up to these amounts need no second person.
    pub waived: BTreeMap<Currency, Amount>,
}

impl Default for ApprovalPolicy {
    fn default() -> Self {
        let usual = AdminAction::ALL.iter().copied().filter(|action| action.is_usually_by_two());
        Self { second: usual.collect(), waived: BTreeMap::new() }
    }
}

impl ApprovalPolicy {
    /// Whether an action needs a second person.
    pub fn needs_second(&self, action: AdminAction) -> bool {
        self.second.contains(&action)
    }

    /// Whether a deposit of this amount needs no second person.
    pub fn waives(&self, amount: Amount, currency: Currency) -> bool {
        self.waived.get(&currency).is_some_and(|most| amount <= *most)
    }

    /// Whether this policy requires a second person for every change that needs one by the other policy.
    pub fn is_as_strict_as(&self, other: &Self) -> bool {
        let keeps = |(currency, most): (&Currency, &Amount)| {
            other.waived.get(currency).is_some_and(|known| most <= known)
        };
        self.second.is_superset(&other.second) && self.waived.iter().all(keeps)
    }
}

impl Display for ApprovalPolicy {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("two for ")?;
        if self.second.is_empty() {
            f.write_str("nothing")?;
        }
        for (index, action) in self.second.iter().enumerate() {
            write!(f, "{}{}", if index == 0 { "" } else { ", " }, action.name())?;
        }
        for (currency, amount) in &self.waived {
            write!(f, "; one for funds.in up to {amount} {currency}")?;
        }
        Ok(())
    }
}

impl Stored for ApprovalPolicy {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.list(self.second.iter(), |encoder, action| action.encode(encoder));
        encoder.list(self.waived.iter(), |encoder, (currency, amount)| {
            currency.encode(encoder);
            amount.encode(encoder);
        });
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        let second = decoder.list(AdminAction::decode)?;
        let waived = decoder.list(<(Currency, Amount)>::decode)?;
        Ok(Self { second: second.into_iter().collect(), waived: waived.into_iter().collect() })
    }
}

impl Show for ApprovalPolicy {
    fn show(&self) -> PrintedValue<'_> {
        let second = self.second.iter().map(|action| PrintedValue::Text(action.name().into()));
        let waived = self.waived.iter().map(|(currency, amount)| {
            PrintedValue::Fields(vec![("currency", currency.show()), ("amount", amount.show())])
        });
        PrintedValue::Fields(vec![
            ("secondPerson", PrintedValue::List(second.collect())),
            ("waived", PrintedValue::List(waived.collect())),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl From<&ApprovalPolicy> for String {
    fn from(policy: &ApprovalPolicy) -> Self {
        alloc::format!("{policy}")
    }
}
