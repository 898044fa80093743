//! The facts that rules can use.

use std::collections::BTreeMap;

use upesi_delivery::Request;
use upesi_engine::Participants;
use upesi_fspiop::Resource;
use upesi_fspiop::headers::Block;
use upesi_ledger::{LedgerAccountTypeId, Participant};
use upesi_types::FspId;

use super::json::Json;

/// A fact for conditions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestFact {
    /// `quoteRequest`, `bulkQuoteRequest` or `fxQuoteRequest`.
    Operation,
    /// The participant that sent the request.
    Payer,
    /// The participant that receives it.
    Payee,
    /// The body.
    Payload,
    /// The headers, by their names in lower case.
    Headers,
}

impl RequestFact {
    pub(crate) fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "operation" => Self::Operation,
            "payer" => Self::Payer,
            "payee" => Self::Payee,
            "payload" => Self::Payload,
            "headers" => Self::Headers,
            _ => return None,
        })
    }
}

/// The facts of one request.
#[derive(Debug)]
pub(crate) struct RequestFacts {
    operation: Json,
    payer: Json,
    payee: Json,
    payload: Json,
    headers: Json,
}

impl RequestFacts {
    /// The facts of a request. Unknown participants are `null`.
    pub(crate) fn of(
        request: &Request,
        destination: &FspId,
        participants: &Participants,
    ) -> Result<Self, serde_json::Error> {
        let operation = match request.resource() {
            Resource::BulkQuotes => "bulkQuoteRequest",
            Resource::FxQuotes => "fxQuoteRequest",
            _ => "quoteRequest",
        };
        let participant = |name: &FspId| {
            participants.named(name).map_or(Json::Null, |found| participant_fact(found, participants))
        };
        Ok(Self {
            operation: Json::text(operation),
            payer: participant(&request.parties.source),
            payee: participant(destination),
            payload: Json::read(&String::from_utf8_lossy(&request.body))?,
            headers: headers(&request.headers),
        })
    }

    pub(crate) const fn get(&self, fact: RequestFact) -> &Json {
        match fact {
            RequestFact::Operation => &self.operation,
            RequestFact::Payer => &self.payer,
            RequestFact::Payee => &self.payee,
            RequestFact::Payload => &self.payload,
            RequestFact::Headers => &self.headers,
        }
    }

    #[cfg(test)]
    pub(crate) fn for_test(parts: [Json; 5]) -> Self {
        let [operation, payer, payee, payload, headers] = parts;
        Self { operation, payer, payee, payload, headers }
    }
}

/// The first value of each header, as for every other check.
fn headers(block: &[u8]) -> Json {
    let mut members = BTreeMap::new();
    for (name, value) in Block(block).iter() {
        let name = String::from_utf8_lossy(name).into_owned();
        members.entry(name).or_insert_with(|| Json::text(&String::from_utf8_lossy(value)));
    }
    Json::Object(members)
}

/// A participant as in the admin API, as far as rules need it. Only position accounts have the member `isActive`;
/// accounts of an inactive participant count as inactive.
fn participant_fact(participant: &Participant, participants: &Participants) -> Json {
    let accounts = participant.accounts.iter().filter_map(|account| {
        let kind = match account.kind {
            LedgerAccountTypeId::POSITION => "POSITION",
            LedgerAccountTypeId::SETTLEMENT => "SETTLEMENT",
            _ => return None,
        };
        let mut members = BTreeMap::from([
            ("ledgerAccountType".to_owned(), Json::text(kind)),
            ("currency".to_owned(), Json::text(account.currency.as_str())),
        ]);
        if account.kind == LedgerAccountTypeId::POSITION {
            let is_active = participants.may_transact(participant, account.currency);
            members.insert("isActive".to_owned(), Json::flag(is_active));
        }
        Some(Json::Object(members))
    });
    Json::object([
        ("name", Json::text(participant.name.as_str())),
        ("isActive", Json::flag(participant.is_active)),
        ("isProxy", Json::flag(participant.is_proxy)),
        ("accounts", Json::Array(accounts.collect())),
    ])
}
