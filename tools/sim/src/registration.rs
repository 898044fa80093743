//! DFSPs register their parties with the hub's directory: `POST /participants` in batches (FSPIOP API v1.1 §6.2.2.4).

use std::fmt::Write as _;

use bytes::Bytes;
use upesi_http::Method;
use upesi_types::Currency;

use crate::awaiting::Awaiting;
use crate::dfsp::Dfsp;
use crate::ids::transfer_id;
use crate::message::{self, Family};
use crate::party::{PartyId, party_of};
use crate::payer::{OriginateError, Originator};
use crate::payment::Exchange;
use crate::scan;
use crate::settings::mix;

/// Maximum number of parties in one batch. The API allows twice as many, but bodies should stay well below a mebibyte.
pub const REGISTRATION_PARTIES_MAX: u64 = 5_000;
/// Separates the ids of registrations from the ids of transfers.
const REGISTRATIONS: u64 = 0x7265_6769;

/// The content of the answer to a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchAnswer {
    pub registered: usize,
    pub refused: usize,
    /// The whole `PUT /participants` body.
    pub body: Bytes,
}

impl BatchAnswer {
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
    ) -> Result<Awaiting<BatchAnswer>, OriginateError> {
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
        self.ask(number, dfsp, request, BatchAnswer::read).await
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
    fn batch_answer_counts_rejected_parties() {
        let read = |text: &'static str| BatchAnswer::read(&Bytes::from_static(text.as_bytes()));
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
