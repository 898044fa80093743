//! The HTTP interface of a simulated oracle.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;
use upesi_http::{Connection, Full, Incoming, Method, Request, Response, Service, StatusCode, body};
use upesi_types::{Currency, ErrorCode, FspId};

use super::directory::Owner;
use super::{OracleFull, OracleReport, OracleSettings, OracleState};
use crate::counters::count;
use crate::party::{decoded, quoted};
use crate::reply::wait_ms;
use crate::service::{JSON, answer, with_body};
use crate::settings::{Fault, hits};

/// Enough for a batch of 10,000 parties, the maximum.
const BODY_BYTES_MAX: usize = 8 * 1024 * 1024;
const BATCH_PARTIES_MAX: usize = 10_000;
const BODY_TIMEOUT: Duration = Duration::from_secs(60);
/// After this time even a hanging request is answered, so that no connection stays open forever.
const HANG: Duration = Duration::from_secs(120);
const UNKNOWN_DFSP: &str = "unknown-dfsp";

pub(super) struct OracleService {
    shared: Arc<OracleState>,
    requests: AtomicU64,
}

/// A status and a JSON body, or none.
struct Reply {
    status: StatusCode,
    body: Bytes,
}

impl Reply {
    const fn empty(status: StatusCode) -> Self {
        Self { status, body: Bytes::new() }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Registration {
    fsp_id: String,
    currency: Option<String>,
    party_sub_id_or_type: Option<String>,
}

#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
struct PartyIdInfo {
    party_id_type: String,
    party_identifier: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    party_sub_id_or_type: Option<String>,
    fsp_id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Batch {
    party_list: Vec<PartyIdInfo>,
    currency: Option<String>,
}

impl Service for OracleService {
    async fn call(&self, request: Request<Incoming>, _: &Connection) -> Response<Full<Bytes>> {
        let (head, body) = request.into_parts();
        let Ok(body) = body::read(body, BODY_BYTES_MAX, Instant::now() + BODY_TIMEOUT).await else {
            count(&self.shared.counters.unreadable);
            return response(Reply::empty(StatusCode::BAD_REQUEST));
        };
        let path = head.uri.path();
        if path == "/health" || path == "/_sim/oracle" {
            return response(self.control(&head.method, path, &body));
        }
        let Some(place) = path.find("/participants") else {
            return response(error(StatusCode::NOT_FOUND, ErrorCode::UNKNOWN_URI, ""));
        };
        let rest = &path[place + "/participants".len()..];
        let settings = self.shared.settings();
        let key = self.requests.fetch_add(1, Ordering::Relaxed);
        if let Some(spoilt) = self.spoil(&settings, key).await {
            return response(spoilt);
        }
        let query = head.uri.query().unwrap_or_default();
        let reply = match (&head.method, rest) {
            (&Method::POST, "") => self.batch(&body),
            (method, rest) => match rest.strip_prefix('/').filter(|party| is_party(party)) {
                Some(party) => self.party(method, &decoded(party), query, &body, &settings, key),
                None => error(StatusCode::NOT_FOUND, ErrorCode::UNKNOWN_URI, ""),
            },
        };
        response(reply)
    }
}

fn is_party(path: &str) -> bool {
    path.split_once('/').is_some_and(|(kind, id)| !kind.is_empty() && !id.is_empty() && !id.contains('/'))
}

impl OracleService {
    pub fn new(shared: Arc<OracleState>) -> Self {
        Self { shared, requests: AtomicU64::new(0) }
    }

    /// Whether a fault affects the request. If so, it is counted.
    fn hits(&self, fault: Fault, per_mille: u16, key: u64) -> bool {
        let hit = hits(fault, per_mille, self.shared.seed, key);
        if hit {
            count(&self.shared.counters.faults);
        }
        hit
    }

    /// Applies the delay and the faults that replace the answer.
    async fn spoil(&self, settings: &OracleSettings, key: u64) -> Option<Reply> {
        wait_ms(settings.delay_ms).await;
        if self.hits(Fault::Hang, settings.hang_per_mille, key) {
            tokio::time::sleep(HANG).await;
            return Some(Reply::empty(StatusCode::SERVICE_UNAVAILABLE));
        }
        if self.hits(Fault::NotFound, settings.not_found_per_mille, key) {
            return Some(Reply::empty(StatusCode::NOT_FOUND));
        }
        if self.hits(Fault::ServerError, settings.server_error_per_mille, key) {
            return Some(Reply::empty(StatusCode::INTERNAL_SERVER_ERROR));
        }
        if self.hits(Fault::Unavailable, settings.unavailable_per_mille, key) {
            return Some(error(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::UNAVAILABLE, ""));
        }
        let garbage = self.hits(Fault::Garbage, settings.garbage_per_mille, key);
        garbage.then(|| Reply { status: StatusCode::OK, body: Bytes::from_static(b"<partyList>{\"fspId\":") })
    }

    fn party(
        &self,
        method: &Method,
        party: &str,
        query: &str,
        body: &[u8],
        settings: &OracleSettings,
        key: u64,
    ) -> Reply {
        let counters = &self.shared.counters;
        let sub_id = query_value(query, "partySubIdOrType");
        match *method {
            Method::GET => {
                count(&counters.lookups);
                let currency = query_value(query, "currency");
                let mut owners = self.owners(party, currency.as_deref(), sub_id.as_deref());
                self.falsify(&mut owners, settings, key);
                if !owners.is_empty() {
                    count(&counters.found);
                }
                Reply { status: StatusCode::OK, body: party_list(&owners) }
            }
            Method::DELETE => match self.shared.directory.remove(party, sub_id.as_deref()) {
                Ok(true) => {
                    count(&counters.removed);
                    Reply::empty(StatusCode::NO_CONTENT)
                }
                Ok(false) => error(StatusCode::NOT_FOUND, ErrorCode::PARTY_NOT_FOUND, ""),
                Err(full) => refuse(full),
            },
            Method::POST | Method::PUT => match registration(body) {
                Some(owner) if *method == Method::POST => match self.register(party, owner) {
                    Ok(true) => Reply::empty(StatusCode::CREATED),
                    Ok(false) => {
                        error(StatusCode::CONFLICT, ErrorCode::ADD_PARTY_INFORMATION, &already(party))
                    }
                    Err(full) => refuse(full),
                },
                Some(owner) => self.change(party, owner),
                None => {
                    count(&counters.unreadable);
                    error(
                        StatusCode::BAD_REQUEST,
                        ErrorCode::MALFORMED_SYNTAX,
                        "fspId is missing, or another member is not valid",
                    )
                }
            },
            _ => error(StatusCode::METHOD_NOT_ALLOWED, ErrorCode::CLIENT, "Method Not Allowed"),
        }
    }

    fn owners(&self, party: &str, currency: Option<&str>, sub_id: Option<&str>) -> Vec<Owner> {
        let fits = |owner: &&Owner| {
            let fits_currency = match (&owner.currency, currency) {
                (Some(has), Some(wanted)) => has.as_str() == wanted,
                _ => true,
            };
            fits_currency && (sub_id.is_none() || owner.sub_id.as_deref() == sub_id)
        };
        self.shared.directory.look_up(party, |owners| owners.iter().filter(fits).cloned().collect())
    }

    /// Applies the faults that name wrong owners.
    fn falsify(&self, owners: &mut Vec<Owner>, settings: &OracleSettings, key: u64) {
        let Some(first) = owners.first().cloned() else { return };
        if self.hits(Fault::SeveralOwners, settings.several_owners_per_mille, key)
            && let Some(fsp) = self.shared.directory.other_than(&first.fsp)
        {
            owners.push(Owner { fsp, ..first });
        }
        if self.hits(Fault::UnknownDfsp, settings.unknown_dfsp_per_mille, key)
            && let Some(fsp) = FspId::parse(UNKNOWN_DFSP)
        {
            owners.iter_mut().for_each(|owner| owner.fsp = fsp);
        }
    }

    /// Adds an owner of a party, and counts the result.
    fn register(&self, party: &str, owner: Owner) -> Result<bool, OracleFull> {
        let registered = self.shared.directory.register(party, owner);
        let counters = &self.shared.counters;
        count(if registered == Ok(true) { &counters.registered } else { &counters.registrations_refused });
        registered
    }

    fn change(&self, party: &str, owner: Owner) -> Reply {
        match self.shared.directory.change(party, owner.clone()) {
            Ok(true) => {
                count(&self.shared.counters.changed);
                Reply { status: StatusCode::OK, body: party_list(&[owner]) }
            }
            Ok(false) => error(StatusCode::NOT_FOUND, ErrorCode::PARTY_NOT_FOUND, ""),
            Err(full) => refuse(full),
        }
    }

    fn batch(&self, body: &[u8]) -> Reply {
        let batch = serde_json::from_slice::<Batch>(body).ok();
        let Some(batch) = batch.filter(|batch| batch.party_list.len() <= BATCH_PARTIES_MAX) else {
            count(&self.shared.counters.unreadable);
            return error(
                StatusCode::BAD_REQUEST,
                ErrorCode::MALFORMED_SYNTAX,
                "not a batch of at most 10000",
            );
        };
        let entry = |party: &PartyIdInfo| match self.batch_entry(party, batch.currency.as_deref()) {
            Ok(()) => json!({ "partyId": party }),
            Err(error) => json!({ "partyId": party, "errorInformation": error }),
        };
        let mut result = json!({ "partyList": batch.party_list.iter().map(entry).collect::<Vec<_>>() });
        if let Some(currency) = &batch.currency {
            result["currency"] = currency.as_str().into();
        }
        reply(StatusCode::CREATED, &result)
    }

    fn batch_entry(&self, party: &PartyIdInfo, currency: Option<&str>) -> Result<(), Value> {
        let refusal = |code, detail: &str| Err(information(code, detail));
        let owner = owner(&party.fsp_id, currency, party.party_sub_id_or_type.clone());
        let Some(owner) = owner else { return refusal(ErrorCode::MALFORMED_SYNTAX, "fspId or currency") };
        let key = format!("{}/{}", party.party_id_type, party.party_identifier);
        match self.register(&key, owner) {
            Ok(true) => Ok(()),
            Ok(false) => refusal(ErrorCode::ADD_PARTY_INFORMATION, &already(&key)),
            Err(full) => refusal(ErrorCode::ADD_PARTY_INFORMATION, &full.to_string()),
        }
    }

    fn control(&self, method: &Method, path: &str, body: &[u8]) -> Reply {
        if path == "/health" {
            return reply(StatusCode::OK, &json!({ "status": "OK" }));
        }
        if *method == Method::PUT {
            let settings = serde_json::from_slice::<OracleSettings>(body).map_err(|error| error.to_string());
            let checked = settings.and_then(|settings| {
                settings.validate().map(|()| settings).map_err(|error| error.to_string())
            });
            match checked {
                Ok(settings) => self.shared.set_settings(settings),
                Err(problem) => return reply(StatusCode::BAD_REQUEST, &json!({ "error": problem })),
            }
        } else if *method != Method::GET {
            return reply(StatusCode::METHOD_NOT_ALLOWED, &json!({ "error": "use GET or PUT" }));
        }
        let (settings, counters) = (self.shared.settings(), self.shared.counters.snapshot());
        reply(StatusCode::OK, &OracleReport { settings, counters })
    }
}

fn owner(fsp: &str, currency: Option<&str>, sub_id: Option<String>) -> Option<Owner> {
    let currency = match currency {
        None => None,
        Some(text) => Some(Currency::parse(text)?),
    };
    Some(Owner { fsp: FspId::parse(fsp)?, currency, sub_id })
}

fn registration(body: &[u8]) -> Option<Owner> {
    let read: Registration = serde_json::from_slice(body).ok()?;
    owner(&read.fsp_id, read.currency.as_deref(), read.party_sub_id_or_type)
}

fn already(key: &str) -> String {
    format!("Party already exists [id: {}]", key.split_once('/').map_or(key, |(_, id)| id))
}

fn refuse(full: OracleFull) -> Reply {
    error(StatusCode::SERVICE_UNAVAILABLE, ErrorCode::UNAVAILABLE, &full.to_string())
}

fn query_value(query: &str, name: &str) -> Option<String> {
    let value = query.split('&').find_map(|item| item.strip_prefix(name)?.strip_prefix('='))?;
    Some(decoded(&value.replace('+', "%20")).into_owned())
}

fn party_list(owners: &[Owner]) -> Bytes {
    let owner = |owner: &Owner| {
        let Owner { fsp, currency, sub_id } = owner;
        let currency = currency.map_or(String::new(), |currency| format!(",\"currency\":\"{currency}\""));
        let sub_id =
            sub_id.as_ref().map_or(String::new(), |id| format!(",\"partySubIdOrType\":{}", quoted(id)));
        format!("{{\"fspId\":{}{currency}{sub_id}}}", quoted(fsp.as_str()))
    };
    let owners: Vec<_> = owners.iter().map(owner).collect();
    format!("{{\"partyList\":[{}]}}", owners.join(",")).into()
}

fn information(code: ErrorCode, detail: &str) -> Value {
    json!({ "errorCode": code.to_string(), "errorDescription": code.describe(detail) })
}

fn error(status: StatusCode, code: ErrorCode, detail: &str) -> Reply {
    reply(status, &json!({ "errorInformation": information(code, detail) }))
}

fn reply(status: StatusCode, value: &impl Serialize) -> Reply {
    // Cannot fail: all keys of the value are texts.
    Reply { status, body: serde_json::to_vec(value).unwrap_or_default().into() }
}

fn response(reply: Reply) -> Response<Full<Bytes>> {
    let Reply { status, body } = reply;
    if body.is_empty() { answer(status) } else { with_body(status, JSON, body) }
}
