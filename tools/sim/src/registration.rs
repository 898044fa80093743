//! DFSPs tell the hub's directory whose parties are theirs: `POST /participants` in batches (FSPIOP API v1.1 §6.2.2.4).

use std::fmt::Write as _;

use bytes::Bytes;
use upesi_http::Method;
use upesi_types::Currency;

use crate::awaited::Awaiting;
use crate::message::{self, Family};
use crate::party::{PartyId, party_of};
use crate::payer::{OriginateError, Originator, transfer_id};
use crate::payment::Exchange;
use crate::scan;
use crate::settings::mix;

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
        let request = Exchange {
            method: Method::POST,
            path: "participants",
            answer_path: format!("participants/{request_id}"),
            receiver: owner.name.as_str(),
            headers: self.headers(Family::Participants, number, owner, None, message::now()),
            body: body.into(),
        };
        self.ask(number, dfsp, request, Registered::read).await
    }
}

impl Originator {
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
        let request = Exchange {
            method: Method::POST,
            path: &format!("participants/{party}"),
            answer_path: format!("participants/{}", party.decoded_path()),
            receiver: owner.name.as_str(),
            headers: self.headers(Family::Participants, number, owner, None, message::now()),
            body: format!("{{\"fspId\":\"{}\"{currency}}}", owner.name).into(),
        };
        self.ask(number, dfsp, request, |_| Some(())).await
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
