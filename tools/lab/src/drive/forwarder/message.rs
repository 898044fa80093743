//! The parts of a message that the forwarder must read: the members that any hub must check.
#![expect(dead_code, reason = "members are parsed because a hub parses them")]

use std::borrow::Cow;
use std::hint::black_box;

use serde::Deserialize;
use upesi_http::Method;

/// The kind of a message, by its method and path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Lookup,
    Party,
    Quote,
    Terms,
    Prepare,
    Fulfil,
    Error,
}

impl Message {
    /// The kind of a message; `None` for an unknown path or method.
    pub fn of(method: &Method, path: &str) -> Option<Self> {
        let mut segments = path.strip_prefix('/')?.split('/');
        let (family, rest) = (segments.next()?, segments.count());
        let is_error = rest > 0 && path.ends_with("/error");
        match (method, family, rest) {
            (&Method::POST, "transfers", 0) => Some(Self::Prepare),
            (&Method::POST, "quotes", 0) => Some(Self::Quote),
            (&Method::GET, "parties", 2..=3) => Some(Self::Lookup),
            (&Method::PUT, "transfers" | "quotes" | "parties", 1..) if is_error => Some(Self::Error),
            (&Method::PUT, "transfers", 1) => Some(Self::Fulfil),
            (&Method::PUT, "quotes", 1) => Some(Self::Terms),
            (&Method::PUT, "parties", 2..=3) => Some(Self::Party),
            _ => None,
        }
    }

    /// Whether a body has the right form.
    pub fn is_readable(self, body: &[u8]) -> bool {
        match self {
            Self::Lookup => body.is_empty(),
            Self::Party => is_read::<PartyAnswer<'_>>(body),
            Self::Quote => is_read::<Quote<'_>>(body),
            Self::Terms => is_read::<Terms<'_>>(body),
            Self::Prepare => is_read::<Prepare<'_>>(body),
            Self::Fulfil => is_read::<Fulfil<'_>>(body),
            Self::Error => is_read::<Rejection<'_>>(body),
        }
    }
}

/// The identifier in the path of a lookup: `/parties/{Type}/{ID}`.
pub(super) fn identifier(path: &str) -> Option<&str> {
    path.strip_prefix("/parties/")?.split('/').nth(1)
}

/// Parses a body as a hub does. The compiler must not remove the parsing of unused members.
fn is_read<'body, T: Deserialize<'body>>(body: &'body [u8]) -> bool {
    serde_json::from_slice::<T>(body).map(black_box).is_ok()
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prepare<'body> {
    transfer_id: &'body str,
    payer_fsp: &'body str,
    payee_fsp: &'body str,
    #[serde(borrow)]
    amount: Money<'body>,
    ilp_packet: &'body str,
    condition: &'body str,
    expiration: &'body str,
}

#[derive(Deserialize)]
struct Money<'body> {
    currency: &'body str,
    amount: &'body str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Fulfil<'body> {
    transfer_state: &'body str,
    fulfilment: Option<&'body str>,
    completed_timestamp: Option<&'body str>,
}

#[derive(Deserialize)]
struct PartyAnswer<'body> {
    #[serde(borrow)]
    party: Party<'body>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Party<'body> {
    #[serde(borrow)]
    party_id_info: PartyIdInfo<'body>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PartyIdInfo<'body> {
    party_id_type: &'body str,
    #[serde(borrow)]
    party_identifier: Cow<'body, str>,
    fsp_id: Option<&'body str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Quote<'body> {
    quote_id: &'body str,
    transaction_id: &'body str,
    #[serde(borrow)]
    payer: Party<'body>,
    #[serde(borrow)]
    payee: Party<'body>,
    amount_type: &'body str,
    #[serde(borrow)]
    amount: Money<'body>,
    #[serde(borrow)]
    transaction_type: TransactionType<'body>,
    expiration: Option<&'body str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct TransactionType<'body> {
    scenario: &'body str,
    initiator: &'body str,
    initiator_type: &'body str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Terms<'body> {
    #[serde(borrow)]
    transfer_amount: Money<'body>,
    expiration: &'body str,
    ilp_packet: &'body str,
    condition: &'body str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Rejection<'body> {
    #[serde(borrow)]
    error_information: ErrorInformation<'body>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorInformation<'body> {
    error_code: &'body str,
    #[serde(borrow)]
    error_description: Cow<'body, str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_kind_follows_from_method_and_path() {
        for (method, path, expected) in [
            (Method::POST, "/transfers", Some(Message::Prepare)),
            (Method::PUT, "/transfers/x", Some(Message::Fulfil)),
            (Method::PUT, "/transfers/x/error", Some(Message::Error)),
            (Method::POST, "/quotes", Some(Message::Quote)),
            (Method::PUT, "/quotes/x", Some(Message::Terms)),
            (Method::PUT, "/quotes/x/error", Some(Message::Error)),
            (Method::GET, "/parties/MSISDN/1", Some(Message::Lookup)),
            (Method::GET, "/parties/MSISDN/1/x", Some(Message::Lookup)),
            (Method::PUT, "/parties/MSISDN/1", Some(Message::Party)),
            (Method::PUT, "/parties/MSISDN/1/error", Some(Message::Error)),
            (Method::GET, "/parties/MSISDN", None),
            (Method::POST, "/participants", None),
            (Method::PUT, "/transfers", None),
            (Method::PATCH, "/transfers/x", None),
            (Method::GET, "*", None),
        ] {
            assert_eq!(Message::of(&method, path), expected, "{method} {path}");
        }
        assert_eq!(identifier("/parties/MSISDN/26097/x"), Some("26097"));
        assert_eq!((identifier("/parties/MSISDN"), identifier("/quotes/a/b")), (None, None));
    }

    #[test]
    fn body_is_parsed_by_the_kind_of_its_message() {
        let bodies = [
            (Message::Lookup, ""),
            (
                Message::Party,
                r#"{"party":{"partyIdInfo":{"partyIdType":"ALIAS","partyIdentifier":"a\"b","fspId":"c"},"name":"d"}}"#,
            ),
            (
                Message::Quote,
                r#"{"quoteId":"a","transactionId":"b","amountType":"SEND","amount":{"currency":"XXX","amount":"2"},
                "payer":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"1"}},
                "payee":{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"2","fspId":"c"}},
                "transactionType":{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"}}"#,
            ),
            (
                Message::Terms,
                r#"{"transferAmount":{"currency":"XXX","amount":"2"},"expiration":"a","ilpPacket":"b","condition":"c"}"#,
            ),
            (
                Message::Prepare,
                r#"{"transferId":"a","payerFsp":"b","payeeFsp":"c","amount":{"currency":"XXX","amount":"2"},
                "ilpPacket":"d","condition":"e","expiration":"f"}"#,
            ),
            (Message::Fulfil, r#"{"transferState":"COMMITTED","fulfilment":"x"}"#),
            (Message::Error, r#"{"errorInformation":{"errorCode":"5104","errorDescription":"say \"no\""}}"#),
        ];
        for (message, _) in bodies {
            for (other, body) in bodies {
                assert_eq!(message.is_readable(body.as_bytes()), message == other, "{message:?} {body}");
            }
            assert!(!message.is_readable(b"not json"));
        }
    }
}
