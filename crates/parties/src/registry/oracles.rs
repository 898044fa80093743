//! The oracles at one moment, and the selection of one.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use upesi_types::{Currency, Timestamp};

use super::OracleSpec;
use crate::party::PartyIdType;

/// A registered oracle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oracle {
    /// Its number, assigned at registration and never reused.
    pub id: u32,
    /// The operator's specification.
    pub spec: OracleSpec,
    /// Time of registration.
    pub created_at: Timestamp,
    /// Whether it is used; `false` once deleted.
    pub is_active: bool,
}

/// The source of answers for a type and currency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OracleKind<'a> {
    /// The built-in directory.
    BuiltIn,
    /// An external oracle.
    External(&'a Oracle),
}

/// The active oracles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Oracles {
    by_id: BTreeMap<u32, Oracle>,
    next_id: u32,
    builtin_enabled: bool,
}

impl Oracles {
    /// The active ones of all oracles that were ever registered.
    pub fn new(oracles: impl IntoIterator<Item = Oracle>, builtin_enabled: bool) -> Self {
        let mut all = Self { by_id: BTreeMap::new(), next_id: 1, builtin_enabled };
        oracles.into_iter().for_each(|oracle| all.set(oracle));
        all
    }

    /// The source for a party of this type; `None` if there is none, which a lookup answers with 3003.
    pub fn select(&self, kind: PartyIdType, currency: Option<Currency>) -> Option<OracleKind<'_>> {
        let of_kind = self.by_id.values().filter(|oracle| oracle.spec.kind == kind);
        let chosen = match currency {
            Some(_) => of_kind
                .filter(|oracle| oracle.spec.currency.is_none() || oracle.spec.currency == currency)
                .max_by_key(|oracle| oracle.spec.currency.is_some()),
            None => of_kind.max_by_key(|oracle| {
                (oracle.spec.is_default, oracle.spec.currency.is_none(), Reverse(oracle.id))
            }),
        };
        let built_in = self.builtin_enabled.then_some(OracleKind::BuiltIn);
        chosen.map(OracleKind::External).or(built_in)
    }

    /// The active oracles in order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &Oracle> {
        self.by_id.values()
    }

    /// An active oracle.
    pub fn get(&self, id: u32) -> Option<&Oracle> {
        self.by_id.get(&id)
    }

    /// Number of active oracles.
    pub fn count(&self) -> usize {
        self.by_id.len()
    }

    /// Whether the built-in directory answers if no oracle matches.
    pub fn builtin_enabled(&self) -> bool {
        self.builtin_enabled
    }

    pub(super) fn next_id(&self) -> u32 {
        self.next_id
    }

    pub(super) fn set(&mut self, oracle: Oracle) {
        self.next_id = self.next_id.max(oracle.id.saturating_add(1));
        match oracle.is_active {
            true => drop(self.by_id.insert(oracle.id, oracle)),
            false => drop(self.by_id.remove(&oracle.id)),
        }
    }
}
