//! What bodies say, as far as the hub has to know it.

use upesi_fspiop::body::{self, parse_error_body_of};
use upesi_fspiop::{Operation, PartyIdType, PartyOperation, Resource, Route, SyncError};
use upesi_types::{Currency, ErrorCode, FspId, Timestamp, TransferId};

/// What the body of a request says, read once, in the check of its schema, as that costs ten microseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Content {
    /// Nothing that is of use here: the body passed its schema, or there is none.
    #[default]
    Other,
    /// `POST /quotes`
    Quote(QuoteContent),
    /// `POST /bulkQuotes`
    BulkQuote {
        /// Its id.
        id: TransferId,
        /// Of what the first quote's amount is; `None` where there is no quote.
        currency: Option<Currency>,
        /// Until when an answer is wanted.
        expires_at: Option<Timestamp>,
    },
    /// `POST /fxQuotes`
    FxQuote {
        /// Its id.
        id: TransferId,
        /// What is sold.
        source: Currency,
        /// What is bought.
        target: Currency,
        /// Until when an answer is wanted.
        expires_at: Timestamp,
    },
    /// `PUT /quotes/{ID}`
    QuoteAnswer {
        /// In which the payee is paid: of `payeeReceiveAmount`, else of `transferAmount`.
        currency: Currency,
    },
    /// `POST /transactionRequests`
    TransactionRequest {
        /// Its id.
        id: TransferId,
    },
    /// `POST` and `PUT /participants/{Type}/{ID}[/{SubId}]`
    Registration {
        /// The DFSP that serves the party; `PUT` need not name it.
        fsp: Option<FspId>,
        /// The currency it serves it in, if not in all.
        currency: Option<Currency>,
    },
    /// `POST /participants`
    Batch(BatchContent),
}

/// `POST /participants`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchContent {
    /// Names the batch in the path of its result.
    pub request_id: TransferId,
    /// The currency that all of them are served in, if not in all.
    pub currency: Option<Currency>,
    /// The parties.
    pub parties: Vec<BatchEntry>,
}

/// A party of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchEntry {
    /// What the identifier is, or the text that should have named it.
    pub kind: Result<PartyIdType, Box<str>>,
    /// The identifier.
    pub id: Box<str>,
    /// Tells apart parties under one identifier.
    pub sub_id: Option<Box<str>>,
    /// The DFSP that serves the party.
    pub fsp: FspId,
}

/// `POST /quotes`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuoteContent {
    /// Its id.
    pub id: TransferId,
    /// The currencies that the payer says it can pay in.
    pub payer_currencies: Vec<Currency>,
    /// The DFSP that the body names for the payer.
    pub payer_fsp: Option<FspId>,
    /// The DFSP that the body names for the payee.
    pub payee_fsp: Option<FspId>,
    /// Of what the amount is.
    pub currency: Currency,
    /// Until when an answer is wanted.
    pub expires_at: Option<Timestamp>,
}

impl BatchEntry {
    /// What was said to be the type of the identifier.
    pub fn kind_text(&self) -> &str {
        match &self.kind {
            Ok(kind) => kind.as_str(),
            Err(text) => text,
        }
    }
}

impl Content {
    /// Checks the schema of a body. What has none may bring anything.
    ///
    /// Errors: those of the schema; 501 for requests that are not relayed.
    pub fn read(route: Route<'_>, body: &[u8]) -> Result<Self, SyncError> {
        match route {
            Route::ParticipantsBatch => body::parse_participants_batch(body).map(Self::from),
            Route::ParticipantsBatchAnswer => Err(SyncError::not_implemented()),
            Route::ByParty { resource, operation, .. } => match (resource, operation) {
                (_, PartyOperation::Get | PartyOperation::Delete) => Ok(Self::Other),
                (_, PartyOperation::PutError) => other(parse_error_body_of(resource, body)),
                (Resource::Parties, _) => other(body::parse_party(body)),
                (_, PartyOperation::Post) => {
                    let post = body::parse_participant_post(body)?;
                    Ok(Self::Registration { fsp: Some(post.fsp), currency: post.currency })
                }
                (_, PartyOperation::Put) => {
                    let put = body::parse_participant_put(body)?;
                    Ok(Self::Registration { fsp: put.fsp, currency: put.currency })
                }
            },
            Route::ById { resource, operation } => match operation {
                Operation::Get(_) => Ok(Self::Other),
                Operation::PutError(_) => other(parse_error_body_of(resource, body)),
                Operation::Create => Self::read_request(resource, body),
                Operation::Put(_) => Self::read_answer(resource, body),
                Operation::Patch(_) => Err(SyncError::new(ErrorCode::NOT_IMPLEMENTED, "")),
            },
        }
    }

    fn read_request(resource: Resource, body: &[u8]) -> Result<Self, SyncError> {
        Ok(match resource {
            Resource::Quotes => {
                let quote = body::parse_quote_request(body)?;
                Self::Quote(QuoteContent {
                    id: quote.quote_id,
                    payer_currencies: quote.payer.supported_currencies,
                    payer_fsp: quote.payer.id.fsp,
                    payee_fsp: quote.payee.id.fsp,
                    currency: quote.amount.currency,
                    expires_at: quote.expiration,
                })
            }
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
            Resource::TransactionRequests => {
                let id = body::parse_transaction_request(body)?.transaction_request_id;
                Self::TransactionRequest { id }
            }
            _ => return Err(SyncError::new(ErrorCode::NOT_IMPLEMENTED, "")),
        })
    }

    fn read_answer(resource: Resource, body: &[u8]) -> Result<Self, SyncError> {
        match resource {
            Resource::Quotes => {
                let answer = body::parse_quote_response(body)?;
                let received = answer.payee_receive_amount.as_ref().unwrap_or(&answer.transfer_amount);
                Ok(Self::QuoteAnswer { currency: received.currency })
            }
            Resource::BulkQuotes => other(body::parse_bulk_quote_response(body)),
            Resource::FxQuotes => other(body::parse_fx_quote_response(body)),
            Resource::TransactionRequests => other(body::parse_transaction_request_response(body)),
            Resource::Authorizations => other(body::parse_authorization(body)),
            _ => Err(SyncError::new(ErrorCode::NOT_IMPLEMENTED, "")),
        }
    }
}

impl From<body::ParticipantsBatch<'_>> for Content {
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

fn other<T>(read: Result<T, SyncError>) -> Result<Content, SyncError> {
    read.map(|_| Content::Other)
}

#[cfg(test)]
mod tests {
    use upesi_fspiop::Method;

    use super::*;

    const ID: &str = "6f3ff9d4-2f0b-4bb2-9d3a-0f3f1c6a7b11";

    fn read(line: &str, body: &str) -> Result<Content, u16> {
        let (method, path) = line.split_once(' ').unwrap();
        let route = Route::resolve(Method::parse(method), path).unwrap();
        Content::read(route, body.as_bytes()).map_err(|error| error.code.number())
    }

    fn currency(code: &str) -> Currency {
        Currency::parse(code).unwrap()
    }

    #[test]
    fn what_bodies_say_is_read_with_their_schema() {
        let id = TransferId::parse(ID).unwrap();
        let party =
            r#"{"partyIdInfo":{"partyIdType":"MSISDN","partyIdentifier":"26011","fspId":"bluebank"}}"#;
        let quote = format!(
            r#"{{"quoteId":"{ID}","transactionId":"{ID}","payer":{party},"payee":{party},
            "amountType":"SEND","amount":{{"amount":"12.5","currency":"USD"}},
            "transactionType":{{"scenario":"TRANSFER","initiator":"PAYER","initiatorType":"CONSUMER"}}}}"#
        );
        let expected = Content::Quote(QuoteContent {
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
        assert_eq!(read(&put, &answer("")), Ok(Content::QuoteAnswer { currency: currency("USD") }));
        let received = answer(r#","payeeReceiveAmount":{"amount":"9","currency":"KES"}"#);
        assert_eq!(read(&put, &received), Ok(Content::QuoteAnswer { currency: currency("KES") }));

        let error = r#"{"errorInformation":{"errorCode":"5101","errorDescription":"no"}}"#;
        assert_eq!(read(&format!("{put}/error"), error), Ok(Content::Other));
        assert_eq!(read(&format!("{put}/error"), "{}"), Err(3102));
        assert_eq!(read(&format!("GET /quotes/{ID}"), "anything"), Ok(Content::Other));
        assert_eq!(read("DELETE /participants/MSISDN/26011", "anything"), Ok(Content::Other));
        let bluebank = FspId::parse("bluebank").unwrap();
        let registration =
            |fsp, currency: &str| Content::Registration { fsp, currency: Currency::parse(currency) };
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
            fsp: bluebank,
        };
        let parties = vec![
            entry(Ok(PartyIdType::Msisdn), "26011", None),
            entry(Err("PHONE".into()), "26012", Some("x")),
        ];
        let expected =
            Content::Batch(BatchContent { request_id: id, currency: Some(currency("KES")), parties });
        assert_eq!(read("POST /participants", &batch), Ok(expected));
        assert_eq!(read("PUT /parties/MSISDN/26011", "{}"), Err(3102));
    }

    #[test]
    fn what_is_not_relayed_is_refused() {
        assert_eq!(read(&format!("PUT /participants/{ID}"), "{}"), Err(2002));
        assert_eq!(read("POST /transfers", "{}"), Err(2002));
        assert_eq!(read(&format!("PATCH /transfers/{ID}"), "{}"), Err(2002));
    }
}
