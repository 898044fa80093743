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

/// Maximum number of parties of a DFSP beside those of its prefix.
const OWN_PARTIES_MAX: usize = 10_000;

/// Defines counters: the public values, and the atomics behind them.
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
    /// The counts of a DFSP since its start.
    Counters, AtomicCounters {
        /// Transfers received as payee, without repetitions.
        prepares_received,
        /// FX transfers received as FXP, without repetitions.
        conversions_received,
        /// POSTs received again for a known transfer or FX transfer.
        prepares_repeated,
        /// Prepares that this DFSP sent a second time because of the fault setting, and that the hub accepted again.
        prepares_sent_twice,
        /// Bodies that could not be parsed.
        unreadable,
        /// Fulfilments sent, right or wrong, without repetitions.
        fulfilments_sent,
        /// Fulfilments that the hub answered with an error.
        fulfilments_refused,
        /// Fulfilments that never got an answer.
        fulfilments_unanswered,
        /// Prepares whose condition this DFSP cannot answer.
        conditions_unknown,
        /// Transfers and other requests dropped by the fault setting.
        dropped,
        /// Fulfilments and other answers sent twice by the fault setting.
        duplicated,
        /// Wrong fulfilments sent by the fault setting.
        wrong_fulfilments_sent,
        /// Transfers rejected with 5104.
        aborts_sent,
        /// Messages answered with an HTTP error by the fault setting.
        http_errors,
        /// Messages received slowly by the fault setting.
        slow_reads,
        /// Callbacks received with new information.
        callbacks,
        /// Callbacks that repeated a known outcome.
        callbacks_repeated,
        /// Callbacks that do not change the transfer: an intermediate state, or error 3106.
        callbacks_informative,
        /// Callbacks about transfers that this DFSP does not know.
        callbacks_unexpected,
        /// Callbacks that contradicted a final outcome: a violation.
        contradictions,
        /// Commits whose fulfilment does not answer the condition: a violation.
        wrong_fulfilments_received,
        /// Signatures made when a message was sent.
        signatures_made,
        /// Signatures of messages that were made before the run.
        signatures_made_ahead,
        /// Messages rejected because their signature is missing or not their sender's: a violation.
        signatures_refused,
        /// Messages rejected because a header is missing or wrong, as a strict adapter does: a violation.
        headers_refused,
        /// Callbacks pushed to a web socket.
        pushed,
        /// Lookups received.
        lookups_received,
        /// Lookups received about parties that this DFSP does not have.
        parties_unknown,
        /// Quotes received, including repetitions.
        quotes_received,
        /// Bulk quotes received, including repetitions.
        bulk_quotes_received,
        /// FX quotes received, including repetitions.
        fx_quotes_received,
        /// Transaction requests, authorizations and repeated quote requests received.
        requests_received,
        /// Answers to these requests that the hub accepted, including errors.
        answers_sent,
        /// Answers to these requests that the hub answered with an error.
        answers_refused,
        /// Answers to these requests that never got an answer.
        answers_unanswered,
        /// Requests of these kinds answered with an error by the fault setting.
        error_answers_sent,
        /// Expected answers to lookups, quotes and registrations, including error callbacks.
        answers_received,
        /// Unexpected answers to lookups, quotes and registrations: repeated, too late, or never requested. They are
        /// not violations, because hubs forward answers without knowing the requests.
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
    /// Its index among all DFSPs.
    pub index: usize,
    pub name: FspId,
    pub name_value: HeaderValue,
    pub counters: AtomicCounters,
    /// Numbers the received messages. The number is the key of draws that must differ between repetitions.
    pub messages: AtomicU64,
    pub awaited: Awaited,
    settings: RwLock<DfspSettings>,
    book: Mutex<Book>,
    /// Parties beside those of its prefix, as decoded paths.
    parties: RwLock<HashSet<String>>,
}

/// The books of a DFSP in one currency, as decimal texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct PositionReport {
    /// The currency.
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
    /// Its name.
    pub name: String,
    /// Its current settings.
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

    /// Makes a party one of this DFSP's. Returns false if it has too many already.
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

// DFSPs register their parties with the hub's directory: `POST /participants` in batches (FSPIOP API v1.1 §6.2.2.4).

/// Maximum number of parties in one batch. The API allows twice as many, but bodies should stay well below a mebibyte.
pub const REGISTRATION_PARTIES_MAX: u64 = 5_000;
/// Keeps the ids of registrations apart from those of transfers.
const REGISTRATIONS: u64 = 0x7265_6769;

/// The content of the answer to a batch.
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
    /// Registers `count` parties of a DFSP (by index), starting at number `from`, with the currency of the options.
    /// `count` is at most [`REGISTRATION_PARTIES_MAX`]. Returns the hub's acceptance; [`Awaiting::answer`] waits for
    /// the answer. Fails if the hub rejects or does not answer the POST.
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
