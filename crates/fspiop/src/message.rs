//! The typed content of a request's body, as far as the hub needs it.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, ErrorCode, FspId, Timestamp, TransferId, UnfitAmount};

use crate::body::{
    self, BulkFulfilBody, BulkTransferBody, FulfilBody, FxTransferFulfilBody, RefusedAmount,
    parse_error_body_of,
};
use crate::{Action, Operation, PartyIdType, Resource, SyncError};

/// The content of a request's body. The body is read once, together with the check of its schema, because reading costs
/// ten microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Message {
    /// No content that the hub needs: the body passed its schema, or the operation has no body.
    #[default]
    Other,
    /// `POST /transfers`
    Prepare(Prepare),
    /// `PUT /transfers/{ID}`
    Fulfil(FulfilBody),
    /// `PUT …/error` of `/transfers`, `/fxTransfers` and `/bulkTransfers`
    Abort(Abort),
    /// `POST /fxTransfers`
    FxTransfer(Box<FxTransfer>),
    /// `PUT /fxTransfers/{ID}`
    FxTransferFulfil(FxTransferFulfilBody),
    /// `POST /bulkTransfers`
    BulkTransfer(Box<BulkTransferBody>),
    /// `PUT /bulkTransfers/{ID}`
    BulkFulfil(Box<BulkFulfilBody>),
    /// `POST /quotes`
    Quote(QuoteContent),
    /// `POST /bulkQuotes`
    BulkQuote {
        id: TransferId,
        /// The currency of the first quote's amount; `None` without any quote.
        currency: Option<Currency>,
        /// Time until which a response is requested.
        expires_at: Option<Timestamp>,
    },
    /// `POST /fxQuotes`
    FxQuote {
        id: TransferId,
        /// The currency that is sold.
        source: Currency,
        /// The currency that is bought.
        target: Currency,
        /// Time until which a response is requested.
        expires_at: Timestamp,
    },
    /// `PUT /quotes/{ID}`
    QuoteAnswer {
        /// The currency that the payee receives: of `payeeReceiveAmount`, or else of `transferAmount`.
        currency: Currency,
    },
    /// `POST /transactionRequests`
    TransactionRequest { id: TransferId },
    /// `POST` and `PUT /participants/{Type}/{ID}[/{SubId}]`
    Registration {
        /// The DFSP that serves the party; optional in `PUT`.
        fsp: Option<FspId>,
        /// The only currency of the registration; `None` for all currencies.
        currency: Option<Currency>,
    },
    /// `POST /participants`
    Batch(BatchContent),
}

/// `POST /transfers`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepare {
    /// Identifies the transfer in all messages about it.
    pub transfer_id: TransferId,
    pub payer: FspId,
    pub payee: FspId,
    /// The amount, or the text of an amount that the ledger cannot represent and rejects asynchronously.
    pub amount: Result<Amount, UnfitAmount>,
    /// The currency of the amount.
    pub currency: Currency,
    /// SHA-256 of the fulfilment; `None` if no fulfilment could match the text. It is then rejected asynchronously.
    pub condition: Option<[u8; 32]>,
    /// Time when the transfer expires unless it is fulfilled.
    pub expires_at: Timestamp,
    /// The checked items of the extension list, as a compact JSON array.
    pub extensions: Option<Box<str>>,
}

/// `POST /fxTransfers`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FxTransfer {
    /// Identifies the FX transfer in all messages about it.
    pub commit_request_id: TransferId,
    /// The transfer whose outcome determines the outcome of the FX transfer.
    pub determining_transfer_id: Option<TransferId>,
    /// The DFSP that converts.
    pub initiating_fsp: FspId,
    /// The FXP.
    pub counter_party_fsp: FspId,
    /// The money that is sold.
    pub source: FxTransferMoney,
    /// The money that is bought.
    pub target: FxTransferMoney,
    /// SHA-256 of the fulfilment; `None` if no fulfilment could match the text. It is then rejected asynchronously.
    pub condition: Option<[u8; 32]>,
    /// Time when the FX transfer expires. Its absence is rejected asynchronously.
    pub expires_at: Option<Timestamp>,
}

/// One side of an FX transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FxTransferMoney {
    /// The amount, or the text of an amount that the ledger cannot represent and rejects asynchronously.
    pub amount: Result<Amount, UnfitAmount>,
    pub currency: Currency,
}

/// `PUT …/error` of `/transfers`, `/fxTransfers` and `/bulkTransfers`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// The code as received.
    pub code: ErrorCode,
    /// The description, 1 to 128 characters.
    pub description: Box<str>,
}

/// `POST /participants`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchContent {
    /// Identifies the batch in the path of its result.
    pub request_id: TransferId,
    /// The only currency of all registrations; `None` for all currencies.
    pub currency: Option<Currency>,
    pub parties: Vec<BatchEntry>,
}

/// A party of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEntry {
    /// The type of the identifier, or an unknown text in its place.
    pub kind: Result<PartyIdType, Box<str>>,
    pub id: Box<str>,
    /// Distinguishes parties under one identifier.
    pub sub_id: Option<Box<str>>,
    /// The DFSP that serves the party; `None` if the entry names none.
    pub fsp: Option<FspId>,
}

/// `POST /quotes`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteContent {
    pub id: TransferId,
    /// The payer's stated currencies for payment.
    pub payer_currencies: Vec<Currency>,
    /// The payer's DFSP according to the body.
    pub payer_fsp: Option<FspId>,
    /// The payee's DFSP according to the body.
    pub payee_fsp: Option<FspId>,
    /// The currency of the amount.
    pub currency: Currency,
    /// Time until which a response is requested.
    pub expires_at: Option<Timestamp>,
}

impl BatchEntry {
    /// The received text of the identifier type.
    pub fn kind_text(&self) -> &str {
        match &self.kind {
            Ok(kind) => kind.as_str(),
            Err(text) => text,
        }
    }
}

impl Message {
    /// Checks the schema of a body. An operation without a body ignores it.
    ///
    /// Errors: violations of the schema; 501 for requests that only hubs send.
    pub fn read(operation: Operation, body: &[u8]) -> Result<Self, SyncError> {
        if !operation.is_served() {
            return Err(SyncError::not_implemented());
        }
        let resource = operation.resource();
        match operation.action() {
            Action::Get | Action::Delete => Ok(Self::Other),
            Action::Post => Self::read_post(resource, operation, body),
            Action::Put => Self::read_put(resource, body),
            Action::PutError if resource.moves_money() => {
                let error = body::parse_error_body(body)?;
                Ok(Self::Abort(Abort { code: error.code, description: error.description.into() }))
            }
            Action::PutError => other(parse_error_body_of(resource, body)),
            Action::Patch => Err(SyncError::not_implemented()),
        }
    }

    fn read_post(resource: Resource, operation: Operation, body: &[u8]) -> Result<Self, SyncError> {
        Ok(match resource {
            Resource::Transfers => Self::Prepare(body::parse_prepare(body)?.into()),
            Resource::Participants if operation.is_about_family() => {
                body::parse_participants_batch(body)?.into()
            }
            Resource::Participants => {
                let post = body::parse_participant_post(body)?;
                Self::Registration { fsp: Some(post.fsp), currency: post.currency }
            }
            Resource::Quotes => body::parse_quote_request(body)?.into(),
            Resource::BulkQuotes => {
                let bulk = body::parse_bulk_quote_request(body)?;
                let currency = bulk.quotes.first().map(|quote| quote.amount.currency);
                Self::BulkQuote { id: bulk.bulk_quote_id, currency, expires_at: bulk.expiration }
            }
            Resource::FxQuotes => {
                let quote = body::parse_fx_quote_request(body)?;
                let (source, target) = (quote.terms.source.currency, quote.terms.target.currency);
                let expires_at = quote.terms.expiration;
                Self::FxQuote { id: quote.conversion_request_id, source, target, expires_at }
            }
            Resource::FxTransfers => Self::FxTransfer(body::parse_fx_transfer(body)?.into()),
            Resource::TransactionRequests => {
                let id = body::parse_transaction_request(body)?.transaction_request_id;
                Self::TransactionRequest { id }
            }
            Resource::BulkTransfers => Self::BulkTransfer(Box::new(body::parse_bulk_transfer(body)?)),
            // Requests of these resources have no body.
            Resource::Parties | Resource::Authorizations | Resource::Services => {
                return Err(SyncError::not_implemented());
            }
        })
    }

    fn read_put(resource: Resource, body: &[u8]) -> Result<Self, SyncError> {
        match resource {
            Resource::Transfers => Ok(Self::Fulfil(body::parse_fulfil(body)?)),
            Resource::Participants => {
                let put = body::parse_participant_put(body)?;
                Ok(Self::Registration { fsp: put.fsp, currency: put.currency })
            }
            Resource::Parties => other(body::parse_party(body)),
            Resource::Quotes => {
                let answer = body::parse_quote_response(body)?;
                let received = answer.payee_receive_amount.as_ref().unwrap_or(&answer.transfer_amount);
                Ok(Self::QuoteAnswer { currency: received.currency })
            }
            Resource::BulkQuotes => other(body::parse_bulk_quote_response(body)),
            Resource::FxQuotes => other(body::parse_fx_quote_response(body)),
            Resource::TransactionRequests => other(body::parse_transaction_request_response(body)),
            Resource::Authorizations => other(body::parse_authorization(body)),
            Resource::FxTransfers => Ok(Self::FxTransferFulfil(body::parse_fx_transfer_fulfil(body)?)),
            Resource::BulkTransfers => Ok(Self::BulkFulfil(Box::new(body::parse_bulk_fulfil(body)?))),
            Resource::Services => Err(SyncError::not_implemented()),
        }
    }
}

impl From<body::PrepareBody<'_>> for Prepare {
    fn from(prepare: body::PrepareBody<'_>) -> Self {
        Self {
            transfer_id: prepare.transfer_id,
            payer: prepare.payer,
            payee: prepare.payee,
            amount: prepare
                .amount
                .map_err(|RefusedAmount { error, text }| UnfitAmount { error, text: text.into() }),
            currency: prepare.currency,
            condition: prepare.condition,
            expires_at: prepare.expiration,
            extensions: prepare.extensions.map(Into::into),
        }
    }
}

impl From<body::FxTransferBody<'_>> for Box<FxTransfer> {
    fn from(fx_transfer: body::FxTransferBody<'_>) -> Self {
        let money = |side: body::ConvertedAmount<'_>| FxTransferMoney {
            amount: side
                .amount
                .map_err(|RefusedAmount { error, text }| UnfitAmount { error, text: text.into() }),
            currency: side.currency,
        };
        Self::new(FxTransfer {
            commit_request_id: fx_transfer.commit_request_id,
            determining_transfer_id: fx_transfer.determining_transfer_id,
            initiating_fsp: fx_transfer.initiating_fsp,
            counter_party_fsp: fx_transfer.counter_party_fsp,
            source: money(fx_transfer.source),
            target: money(fx_transfer.target),
            condition: fx_transfer.condition,
            expires_at: fx_transfer.expiration,
        })
    }
}

impl From<body::QuoteRequest<'_>> for Message {
    fn from(quote: body::QuoteRequest<'_>) -> Self {
        Self::Quote(QuoteContent {
            id: quote.quote_id,
            payer_currencies: quote.payer.supported_currencies,
            payer_fsp: quote.payer.id.fsp,
            payee_fsp: quote.payee.id.fsp,
            currency: quote.amount.currency,
            expires_at: quote.expiration,
        })
    }
}

impl From<body::ParticipantsBatch<'_>> for Message {
    fn from(batch: body::ParticipantsBatch<'_>) -> Self {
        let entry = |party: body::BatchParty<'_>| BatchEntry {
            kind: party.kind.map_err(Into::into),
            id: party.identifier.into(),
            sub_id: party.sub_id.map(Into::into),
            fsp: party.fsp,
        };
        Self::Batch(BatchContent {
            request_id: batch.request_id,
            currency: batch.currency,
            parties: batch.parties.into_iter().map(entry).collect(),
        })
    }
}

fn other<T>(read: Result<T, SyncError>) -> Result<Message, SyncError> {
    read.map(|_| Message::Other)
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::{format, vec};

    use super::*;
    use crate::{Method, Route};

    const ID: &str = "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11";

    fn read(line: &str, body: &str) -> Result<Message, u16> {
        let (method, path) = line.split_once(' ').unwrap();
        let route = Route::resolve(Method::parse(method), path).unwrap();
        Message::read(route.operation, body.as_bytes()).map_err(|error| error.code.number())
    }

    fn currency(code: &str) -> Currency {
        Currency::parse(code).unwrap()
    }

    #[test]
    fn bodies_are_parsed_with_their_schema() {
        let id = TransferId::parse(ID).unwrap();
        let party =
            r#"{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26011","fspId":"bluebank"}}"#;
        let quote = format!(
            r#"{{"quoteId":"{ID}","transactionId":"{ID}","payer":{party},"payee":{party},
            "amountType":"SEND","amount":{{"amount":"12.5","currency":"USD"}},
            "transactionType":{{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"}}}}"#
        );
        let expected = Message::Quote(QuoteContent {
            id,
            payer_currencies: Vec::new(),
            payer_fsp: FspId::parse("bluebank"),
            payee_fsp: FspId::parse("bluebank"),
            currency: currency("USD"),
            expires_at: None,
        });
        assert_eq!(read("POST /quotes", &quote), Ok(expected));
        assert_eq!(read("POST /quotes", "{}"), Err(3102));

        let answer = |more: &str| {
            format!(
                r#"{{"transferAmount":{{"amount":"12.5","currency":"USD"}},"expiration":"2030-01-01T01:00:00.000Z",
                "ilpPacket":"DIIBeQ","condition":"OamfGVXsbd2k8PiBcmCo5yFjZDiqprh-YVj8YChlsn0"{more}}}"#
            )
        };
        let put = format!("PUT /quotes/{ID}");
        assert_eq!(read(&put, &answer("")), Ok(Message::QuoteAnswer { currency: currency("USD") }));
        let received = answer(r#","payeeReceiveAmount":{"amount":"9","currency":"KES"}"#);
        assert_eq!(read(&put, &received), Ok(Message::QuoteAnswer { currency: currency("KES") }));

        let error = r#"{"errorInformation":{"errorCode":"5101","errorDescription":"no"}}"#;
        assert_eq!(read(&format!("{put}/error"), error), Ok(Message::Other));
        assert_eq!(read(&format!("{put}/error"), "{}"), Err(3102));
        assert_eq!(read(&format!("GET /quotes/{ID}"), "anything"), Ok(Message::Other));
        assert_eq!(read("DELETE /participants/MSISDN/26011", "anything"), Ok(Message::Other));
        let bluebank = FspId::parse("bluebank").unwrap();
        let registration =
            |fsp, currency: &str| Message::Registration { fsp, currency: Currency::parse(currency) };
        for (method, body, expected) in [
            ("POST", r#"{"fspId":"bluebank"}"#, Ok(registration(Some(bluebank), ""))),
            ("PUT", r#"{"fspId":"bluebank","currency":"USD"}"#, Ok(registration(Some(bluebank), "USD"))),
            ("PUT", "{}", Ok(registration(None, ""))),
            ("POST", "{}", Err(3102)),
        ] {
            assert_eq!(read(&format!("{method} /participants/MSISDN/26011"), body), expected);
        }
        let batch = format!(
            r#"{{"requestId":"{ID}","currency":"KES","partyList":[
            {{"partyIdType":"MSISDN","partyIdentifier":"26011","fspId":"bluebank"}},
            {{"partyIdType":"PHONE","partyIdentifier":"26012","partySubIdOrType":"x","fspId":"bluebank"}}]}}"#
        );
        let entry = |kind, id: &str, sub_id: Option<&str>| BatchEntry {
            kind,
            id: id.into(),
            sub_id: sub_id.map(Into::into),
            fsp: Some(bluebank),
        };
        let parties = vec![
            entry(Ok(PartyIdType::Msisdn), "26011", None),
            entry(Err("PHONE".into()), "26012", Some("x")),
        ];
        let expected =
            Message::Batch(BatchContent { request_id: id, currency: Some(currency("KES")), parties });
        assert_eq!(read("POST /participants", &batch), Ok(expected));
        assert_eq!(read("PUT /parties/MSISDN/26011", "{}"), Err(3102));
    }

    #[test]
    fn messages_about_transfers_are_read_whole() {
        let prepare = format!(
            r#"{{"transferId":"{ID}","payerFsp":"greenbank","payeeFsp":"bluewallet",
            "amount":{{"currency":"KES","amount":"7.25"}},"ilpPacket":"AYICexample",
            "condition":"zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s","expiration":"2031-04-01T12:00:30.000Z"}}"#
        );
        let Ok(Message::Prepare(read_prepare)) = read("POST /transfers", &prepare) else {
            panic!("no prepare")
        };
        assert_eq!(read_prepare.transfer_id, TransferId::parse(ID).unwrap());
        assert_eq!((read_prepare.payer.as_str(), read_prepare.payee.as_str()), ("greenbank", "bluewallet"));
        assert_eq!(read_prepare.amount, Ok(Amount::parse_wire("7.25").unwrap()));
        let digits = "1234567890123456.78";
        let Ok(Message::Prepare(refused)) = read("POST /transfers", &prepare.replace("7.25", digits)) else {
            panic!("no prepare")
        };
        assert_eq!(&*refused.amount.unwrap_err().text, digits, "as it was written");

        let put = format!("PUT /transfers/{ID}");
        let Ok(Message::Fulfil(fulfil)) = read(&put, r#"{"transferState":"ABORTED"}"#) else {
            panic!("no fulfil")
        };
        assert_eq!(fulfil.transfer_state, body::TransferState::Aborted);
        let error = r#"{"errorInformation":{"errorCode":"5104","errorDescription":"frozen"}}"#;
        let expected = Abort { code: ErrorCode::from_number(5104).unwrap(), description: "frozen".into() };
        assert_eq!(read(&format!("{put}/error"), error), Ok(Message::Abort(expected)));
        assert_eq!(read(&format!("GET /transfers/{ID}"), "anything"), Ok(Message::Other));
        for line in ["POST /transfers", &put, &format!("{put}/error")] {
            assert_eq!(read(line, "{}"), Err(3102), "{line}");
        }
    }

    #[test]
    fn messages_about_fx_transfers_are_read_whole() {
        let post = format!(
            r#"{{"commitRequestId":"{ID}","determiningTransferId":"5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d",
            "initiatingFsp":"greenbank","counterPartyFsp":"forex",
            "sourceAmount":{{"currency":"BWP","amount":"300"}},"targetAmount":{{"currency":"TZS","amount":"48000.5"}},
            "condition":"zkPzOVxMB-hEjHI5NnWaVhPx3FGJEiZ1Q8ysbpRa51s","expiration":"2031-04-01T12:00:30.000Z"}}"#
        );
        let Ok(Message::FxTransfer(fx_transfer)) = read("POST /fxTransfers", &post) else { panic!("none") };
        assert_eq!(fx_transfer.commit_request_id, TransferId::parse(ID).unwrap());
        let determining = TransferId::parse("5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d");
        assert_eq!(fx_transfer.determining_transfer_id, determining);
        let names = (fx_transfer.initiating_fsp.as_str(), fx_transfer.counter_party_fsp.as_str());
        assert_eq!(names, ("greenbank", "forex"));
        let money = |side: FxTransferMoney| (side.amount.unwrap().to_string(), side.currency);
        assert_eq!(money(fx_transfer.source), ("300".into(), currency("BWP")));
        assert_eq!(money(fx_transfer.target), ("48000.5".into(), currency("TZS")));
        assert_eq!(fx_transfer.expires_at, Timestamp::parse_iso("2031-04-01T12:00:30.000Z"));
        let bare = post
            .replace(r#""determiningTransferId":"5b1c7d0e-2f34-4a6b-9c8d-0e1f2a3b4c5d","#, "")
            .replace(r#","expiration":"2031-04-01T12:00:30.000Z""#, "");
        let Ok(Message::FxTransfer(bare)) = read("POST /fxTransfers", &bare) else { panic!("none") };
        assert_eq!((bare.determining_transfer_id, bare.expires_at), (None, None), "refused later");
        let digits = "1234567890123456.78";
        let Ok(Message::FxTransfer(refused)) = read("POST /fxTransfers", &post.replace("48000.5", digits))
        else {
            panic!("none")
        };
        assert_eq!(&*refused.target.amount.unwrap_err().text, digits, "as it was written");

        let put = format!("PUT /fxTransfers/{ID}");
        let fulfil =
            r#"{"conversionState":"RESERVED","fulfilment":"WLctttbu2HvTX1XWvMoRbcO_ruKfyQfsbzt1pQJ6b1Y"}"#;
        let Ok(Message::FxTransferFulfil(fulfil)) = read(&put, fulfil) else { panic!("no fulfil") };
        assert_eq!(fulfil.conversion_state, body::TransferState::Reserved);
        assert!(fulfil.fulfilment.is_some());
        assert_eq!(read(&put, r#"{"conversionState":"DONE"}"#), Err(3100));
        let error = r#"{"errorInformation":{"errorCode":"5001","errorDescription":"no liquidity"}}"#;
        let expected =
            Abort { code: ErrorCode::from_number(5001).unwrap(), description: "no liquidity".into() };
        assert_eq!(read(&format!("{put}/error"), error), Ok(Message::Abort(expected)));
        for line in ["POST /fxTransfers", &put, &format!("{put}/error")] {
            assert_eq!(read(line, "{}"), Err(3102), "{line}");
        }
    }

    #[test]
    fn messages_that_only_hubs_send_are_rejected() {
        for line in ["PUT /participants/", "PATCH /transfers/", "PATCH /fxTransfers/"] {
            assert_eq!(read(&format!("{line}{ID}"), "{}"), Err(2002), "{line}");
        }
    }
}
