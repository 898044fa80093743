//! One simulated DFSP: its name, its settings, its books and its counters.

use std::collections::HashSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use serde::Serialize;
use upesi_http::HeaderValue;
use upesi_types::FspId;

use crate::awaited::AwaitedAnswers;
use crate::books::Book;
use crate::counters::{AtomicCounters, Counters};
use crate::message::{name_value, units_text};
use crate::party::PartyId;
use crate::settings::DfspSettings;

/// Maximum number of additional parties of a DFSP, outside its prefix.
const OWN_PARTIES_MAX: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Dfsp {
    pub index: usize,
    pub name: FspId,
    pub name_value: HeaderValue,
    pub counters: AtomicCounters,
    /// Numbers the received messages. The number is the key of draws that must differ between repetitions.
    pub messages: AtomicU64,
    pub awaited: AwaitedAnswers,
    settings: RwLock<DfspSettings>,
    book: Mutex<Book>,
    /// Additional parties outside its prefix, as decoded paths.
    parties: RwLock<HashSet<String>>,
}

/// The books of a DFSP in one currency, as decimal texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PositionReport {
    pub currency: String,
    /// Minimum of the hub's position; positive means that the DFSP owes.
    pub low: String,
    /// Maximum of the hub's position.
    pub high: String,
    /// The part that is reserved for transfers without an outcome.
    pub reserved: String,
    /// Sum of committed outgoing transfers.
    pub paid: String,
    /// Sum of committed incoming transfers.
    pub received: String,
}

/// A DFSP's report about itself.
#[derive(Clone, Debug, Serialize)]
pub struct DfspReport {
    pub name: String,
    pub settings: DfspSettings,
    pub counters: Counters,
    pub positions: Vec<PositionReport>,
}

impl Dfsp {
    pub fn new(index: usize, name: FspId, settings: DfspSettings) -> Self {
        Self {
            index,
            name,
            name_value: name_value(&name),
            counters: AtomicCounters::default(),
            messages: AtomicU64::new(0),
            awaited: AwaitedAnswers::default(),
            settings: RwLock::new(settings),
            book: Mutex::default(),
            parties: RwLock::default(),
        }
    }

    /// Adds a party to this DFSP. Returns false if it has too many already.
    pub fn add_party(&self, party: &PartyId) -> bool {
        let mut parties = self.parties.write().unwrap_or_else(PoisonError::into_inner);
        if parties.len() >= OWN_PARTIES_MAX {
            return false;
        }
        parties.insert(party.decoded_path());
        true
    }

    /// Whether a party, by its decoded path, was added to this DFSP.
    pub fn has_party(&self, path: &str) -> bool {
        self.parties.read().unwrap_or_else(PoisonError::into_inner).contains(path)
    }

    pub fn settings(&self) -> DfspSettings {
        *self.settings.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn set_settings(&self, settings: DfspSettings) {
        *self.settings.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    pub fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The DFSP's report about itself.
    pub fn report(&self) -> DfspReport {
        let positions = self.book().expected().into_iter().map(|(currency, expected)| PositionReport {
            currency: currency.to_string(),
            low: units_text(expected.low),
            high: units_text(expected.high),
            reserved: units_text(expected.reserved),
            paid: units_text(expected.paid),
            received: units_text(expected.received),
        });
        DfspReport {
            name: self.name.to_string(),
            settings: self.settings(),
            counters: self.counters.snapshot(),
            positions: positions.collect(),
        }
    }
}
