//! One simulated DFSP: its name, its settings, its books and its counters.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use serde::Serialize;
use upesi_http::{HeaderValue, Method};
use upesi_types::{Currency, FspId};

use crate::awaited::{Awaited, Awaiting};
use crate::books::Book;
use crate::message::{Family, name_value, units_text};
use crate::party::{PartyId, party_of};
use crate::payer::{OriginateError, Originator, transfer_id};
use crate::payment::Exchange;
use crate::settings::{DfspSettings, mix};
use crate::{message, scan};

/// Most parties that a DFSP has beside those that its prefix gives it.
const OWN_PARTIES_MAX: usize = 10_000;

/// Defines counters: what they look like from outside, and the atomics behind them.
macro_rules! counters {
    ($(#[$about:meta])* $public:ident, $atomic:ident { $($(#[$doc:meta])* $name:ident,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(default)]
        pub struct $public { $($(#[$doc])* pub $name: u64,)* }

        impl std::ops::AddAssign for $public {
            fn add_assign(&mut self, other: Self) { $(self.$name += other.$name;)* }
        }

        #[derive(Debug, Default)]
        pub(crate) struct $atomic { $(pub $name: std::sync::atomic::AtomicU64,)* }

        impl $atomic {
            pub fn snapshot(&self) -> $public {
                $public { $($name: self.$name.load(std::sync::atomic::Ordering::Relaxed),)* }
            }
        }
    };
}

pub(crate) use counters;

counters! {
    /// What a DFSP counted since its start.
    Counters, AtomicCounters {
        /// Transfers received as payee, without repetitions.
        prepares_received,
        /// Conversions received as FXP, without repetitions.
        conversions_received,
        /// POSTs received again for a known transfer or conversion.
        prepares_repeated,
        /// Prepares that this DFSP sent a second time by the fault setting, and the hub accepted again.
        prepares_sent_twice,
        /// Bodies that could not be understood.
        unreadable,
        /// Fulfilments sent, right or wrong, without repetitions.
        fulfilments_sent,
        /// Fulfilments that the hub answered with an error.
        fulfilments_refused,
        /// Fulfilments that never got an answer.
        fulfilments_unanswered,
        /// Prepares whose condition this DFSP cannot answer.
        conditions_unknown,
        /// Transfers and other questions dropped by the fault setting.
        dropped,
        /// Fulfilments and other answers sent twice by the fault setting.
        duplicated,
        /// Wrong fulfilments sent by the fault setting.
        wrong_fulfilments_sent,
        /// Transfers rejected with 5104.
        aborts_sent,
        /// Messages answered with an HTTP error by the fault setting.
        http_errors,
        /// Messages taken in slowly by the fault setting.
        slow_reads,
        /// Callbacks received that told something new.
        callbacks,
        /// Callbacks that repeated an outcome already known.
        callbacks_repeated,
        /// Callbacks that leave the transfer as it is: a state in between, or error 3106.
        callbacks_informative,
        /// Callbacks about transfers this DFSP does not know.
        callbacks_unexpected,
        /// Callbacks that contradicted a final outcome: a violation.
        contradictions,
        /// Commits whose fulfilment does not answer the condition: a violation.
        wrong_fulfilments_received,
        /// Signatures made as a message left.
        signatures_made,
        /// Signatures of messages that were made before the run.
        signatures_made_ahead,
        /// Messages refused because their signature is missing or not their sender's: a violation.
        signatures_refused,
        /// Messages refused because a header is missing or wrong, as a strict adapter does: a violation.
        headers_refused,
        /// Callbacks pushed to a web socket.
        pushed,
        /// Lookups received.
        lookups_received,
        /// Of these, the ones about parties that this DFSP does not have.
        parties_unknown,
        /// Quotes received, repetitions included.
        quotes_received,
        /// Bulk quotes received, repetitions included.
        bulk_quotes_received,
        /// Questions for currency conversions received, repetitions included.
        fx_quotes_received,
        /// Transaction requests, authorizations and repeated questions for quotes received.
        requests_received,
        /// Answers to any of these that the hub took, errors among them.
        answers_sent,
        /// Such answers that the hub answered with an error.
        answers_refused,
        /// Such answers that never got an answer.
        answers_unanswered,
        /// Such questions answered with an error by the fault setting.
        error_answers_sent,
        /// Answers to lookups, quotes and registrations, error callbacks among them, that somebody waited for.
        answers_received,
        /// Such answers that nobody waited for: repeated, too late, or never asked for. No violation, since hubs pass
        /// answers on without knowing the questions.
        answers_unasked,
    }
}

impl Counters {
    /// Messages that a correct hub never sends.
    pub const fn violations(&self) -> u64 {
        self.contradictions
            + self.wrong_fulfilments_received
            + self.callbacks_unexpected
            + self.signatures_refused
            + self.headers_refused
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

#[derive(Debug)]
pub(crate) struct Dfsp {
    /// Its place among all.
    pub index: usize,
    pub name: FspId,
    pub name_value: HeaderValue,
    pub counters: AtomicCounters,
    /// Numbers the messages received, as the key of draws that must differ between repetitions.
    pub messages: AtomicU64,
    pub awaited: Awaited,
    settings: RwLock<DfspSettings>,
    book: Mutex<Book>,
    /// Parties beside those that its prefix gives it, as decoded paths.
    parties: RwLock<HashSet<String>>,
}

/// The books of a DFSP in one currency, as decimal texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PositionReport {
    /// The currency.
    pub currency: String,
    /// The least that the hub's position may be; positive means that the DFSP owes.
    pub low: String,
    /// The most that it may be.
    pub high: String,
    /// Of that, reserved for transfers without outcome.
    pub reserved: String,
    /// Sum of committed outgoing transfers.
    pub paid: String,
    /// Sum of committed incoming transfers.
    pub received: String,
}

/// Everything a DFSP tells about itself.
#[derive(Clone, Debug, Serialize)]
pub struct DfspReport {
    /// Its name.
    pub name: String,
    /// Its present settings.
    pub settings: DfspSettings,
    /// Its counters.
    pub counters: Counters,
    /// Its books.
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
            awaited: Awaited::default(),
            settings: RwLock::new(settings),
            book: Mutex::default(),
            parties: RwLock::default(),
        }
    }

    /// Makes a party one of this DFSP's; false where it has too many already.
    pub fn add_party(&self, party: &PartyId) -> bool {
        let mut parties = self.parties.write().unwrap_or_else(PoisonError::into_inner);
        if parties.len() >= OWN_PARTIES_MAX {
            return false;
        }
        parties.insert(party.decoded_path());
        true
    }

    /// Whether a party, by its decoded path, was made one of this DFSP's.
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

// DFSPs tell the hub's directory whose parties are theirs: `POST /participants` in batches (FSPIOP API v1.1 §6.2.2.4).

/// Most parties in one batch: the API allows twice as many, but bodies should stay well below a mebibyte.
pub const REGISTRATION_PARTIES_MAX: u64 = 5_000;
/// Separates the ids of registrations from those of transfers.
const REGISTRATIONS: u64 = 0x7265_6769;

/// What the answer to a batch says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub registered: usize,
    pub refused: usize,
    /// The whole `PUT /participants` body.
    pub body: Bytes,
}

impl Registered {
    fn read(body: &Bytes) -> Option<Self> {
        let (mut registered, mut refused) = (0, 0);
        for entry in scan::elements(scan::member(body, b"partyList")?) {
            let is_refused = scan::member(entry, b"errorInformation").is_some_and(|value| value != b"null");
            *(if is_refused { &mut refused } else { &mut registered }) += 1;
        }
        Some(Self { registered, refused, body: body.clone() })
    }
}

impl Originator {
    /// Registers `count` parties of a DFSP (by index), from number `from` on, at most [`REGISTRATION_PARTIES_MAX`] of
    /// them, with the currency of the options. Gives the hub's acceptance; the answer is awaited with
    /// [`Awaiting::answer`]. Fails when the hub refuses the POST or does not answer it.
    pub async fn register(
        &self,
        dfsp: usize,
        from: u64,
        count: u64,
    ) -> Result<Awaiting<Registered>, OriginateError> {
        let owner = &self.shared.dfsps[dfsp];
        let number = mix((dfsp as u64) << 40 ^ from);
        let request_id = transfer_id(self.options.seed ^ REGISTRATIONS, self.options.nonce, number);
        let mut body = format!("{{\"requestId\":\"{request_id}\",\"partyList\":[");
        for party in from..from + count.min(REGISTRATION_PARTIES_MAX) {
            let comma = if party == from { "" } else { "," };
            let party = party_of(dfsp, party);
            // Writing into a String cannot fail.
            let _ = write!(
                body,
                "{comma}{{\"partyIdType\":\"{}\",\"partyIdentifier\":\"{}\",\"fspId\":\"{}\"}}",
                party.kind, party.identifier, owner.name
            );
        }
        let _ = write!(body, "],\"currency\":\"{}\"}}", self.options.currency);
        let request = self.registration(number, owner, "participants", request_id.to_string(), body);
        self.ask(number, dfsp, request, Registered::read).await
    }

    /// Registers one party of a DFSP, for one currency or for all: `POST /participants/{Type}/{ID}`.
    pub(crate) async fn register_party(
        &self,
        number: u64,
        dfsp: usize,
        party: &PartyId,
        currency: Option<Currency>,
    ) -> Result<Awaiting<()>, OriginateError> {
        let owner = &self.shared.dfsps[dfsp];
        let currency = currency.map_or(String::new(), |currency| format!(",\"currency\":\"{currency}\""));
        let (path, body) =
            (format!("participants/{party}"), format!("{{\"fspId\":\"{}\"{currency}}}", owner.name));
        let request = self.registration(number, owner, &path, party.decoded_path(), body);
        self.ask(number, dfsp, request, |_| Some(())).await
    }

    /// A `POST` that is answered below `participants`.
    fn registration<'request>(
        &self,
        number: u64,
        owner: &'request Dfsp,
        path: &'request str,
        answered_at: String,
        body: String,
    ) -> Exchange<'request> {
        Exchange {
            method: Method::POST,
            path,
            answer_path: format!("participants/{answered_at}"),
            receiver: owner.name.as_str(),
            headers: self.headers(Family::Participants, number, owner, None, message::now()),
            body: body.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_tell_how_many_were_refused() {
        let read = |text: &'static str| Registered::read(&Bytes::from_static(text.as_bytes()));
        let answer = read(
            r#"{"currency":"USD","partyList":[{"partyId":{"fspId":"a"}},{"partyId":{},"errorInformation":{"errorCode":"3204"}},
            {"partyId":{},"errorInformation":null}]}"#,
        )
        .unwrap();
        assert_eq!((answer.registered, answer.refused), (2, 1));
        assert_eq!(read(r#"{"partyList":[]}"#).map(|answer| answer.registered), Some(0));
        assert_eq!(read("{}"), None);
    }
}
