//! `/participants/{name}/endpoints`: the URLs that receive callbacks, and the addresses for notifications.

use std::collections::BTreeMap;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_fspiop::uri::{PathValues, TemplateError, fill_template};
use upesi_http::{Schemes, Target, check_address};
use upesi_ledger::command::{ENDPOINT_VALUE_BYTES_MAX, EndpointValue};
use upesi_ledger::{AdminCommand, EndpointType, Participant};

use super::call::{Parameters, Segments, participant_name};
use crate::body::{Fields, JsonBody};
use crate::call::Call;
use crate::error::ApiError;
use crate::json::{EmptyObject, empty, ok};

/// An endpoint of a participant.
#[derive(Serialize)]
pub struct EndpointView {
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub value: Box<str>,
}

pub(crate) async fn set(
    call: Call,
    State(schemes): State<Schemes>,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let fields = body.fields()?;
    let (kind, value) = read(&schemes, &fields)?;
    call.change(AdminCommand::SetEndpoint { name, kind, value }).await?;
    empty(StatusCode::CREATED)
}

/// Sets several endpoints: all below a base URL, and single ones by type, which take precedence. Endpoints of other
/// types remain.
pub(crate) async fn set_all(
    call: Call,
    State(schemes): State<Schemes>,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let fields = body.fields()?;
    let mut endpoints = BTreeMap::new();
    if let Some(base) = fields.optional("baseUrl") {
        for (kind, value) in typed_endpoints_of(&base.text()?) {
            check(&schemes, kind, &value).map_err(|reason| base.refuse(&reason))?;
            endpoints.insert(kind, value.into());
        }
    }
    let list =
        fields.optional("endpoints").map(|field| field.array(EndpointType::all().count())).transpose()?;
    for endpoint in list.into_iter().flatten() {
        let endpoint = endpoint.object()?;
        let (kind, value) = read(&schemes, &endpoint)?;
        endpoints.insert(kind, value);
    }
    fields.only(&["baseUrl", "endpoints"])?;
    if endpoints.is_empty() {
        return Err(ApiError::malformed("\"baseUrl\" or \"endpoints\" is required"));
    }
    let endpoints = endpoints.into_iter().map(|(kind, value)| EndpointValue { kind, value });
    call.change(AdminCommand::SetEndpoints { name, endpoints: endpoints.collect() }).await?;
    empty(StatusCode::OK)
}

/// Reads `type` and `value`.
fn read(schemes: &Schemes, fields: &Fields<'_>) -> Result<(EndpointType, Box<str>), ApiError> {
    let kind_field = fields.required("type")?;
    let kind = EndpointType::parse(&kind_field.text()?)
        .ok_or_else(|| kind_field.refuse("must be a known endpoint type; GET /enums lists them"))?;
    let value_field = fields.required("value")?;
    let value = value_field.text()?;
    check(schemes, kind, &value).map_err(|reason| value_field.refuse(&reason))?;
    fields.only(&["type", "value"])?;
    Ok((kind, value.into()))
}

/// Checks whether this hub allows a value for an endpoint.
fn check(schemes: &Schemes, kind: EndpointType, value: &str) -> Result<(), String> {
    check_endpoint(kind, value)?;
    if !kind.is_called() {
        return Ok(());
    }
    let demand = schemes.check(value).err().and_then(|error| error.demand());
    demand.map_or(Ok(()), |demand| Err(demand.to_owned()))
}

/// Checks a value for an endpoint, so that the operator immediately learns of faults that would appear later.
///
/// # Errors
/// The requirement or the fault: a phrase that follows the value's name.
pub fn check_endpoint(kind: EndpointType, value: &str) -> Result<(), String> {
    if value.is_empty() || value.len() > ENDPOINT_VALUE_BYTES_MAX {
        return Err(format!("length must be 1 to {ENDPOINT_VALUE_BYTES_MAX} characters"));
    }
    if kind.is_url() && !is_absolute_url(value) {
        return Err("must be a URL that begins with http:// or https:// and has no fragment".to_owned());
    }
    if let (true, Err(error)) = (kind.is_url(), check_address(value)) {
        return Err(error.demand().unwrap_or("is not an address").to_owned());
    }
    if kind.is_called() { check_callable(kind, value) } else { Ok(()) }
}

/// Templates such as `http://dfsp/transfers/{{transferId}}` are not URLs yet, so only their beginning is checked.
fn is_absolute_url(value: &str) -> bool {
    let rest = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

/// Fills the template with any id and parses the URL, as for a callback. So the operator immediately learns of a fault
/// that would park callbacks later.
fn check_callable(kind: EndpointType, value: &str) -> Result<(), String> {
    let no_url = "is not a URL that can be called; write it as http://host:port/path";
    let parsed = Target::parse(&fill(kind, value)?);
    parsed.map(drop).map_err(|error| error.demand().unwrap_or(no_url).to_owned())
}

fn fill(kind: EndpointType, value: &str) -> Result<String, String> {
    let mut url = String::with_capacity(value.len());
    let (filled, known) = match kind {
        EndpointType::TRANSFER_POST | EndpointType::TRANSFER_PUT | EndpointType::TRANSFER_ERROR => {
            (fill_template(value, "0", &mut url), "transferId, id, ID")
        }
        EndpointType::FX_TRANSFER_POST | EndpointType::FX_TRANSFER_PUT | EndpointType::FX_TRANSFER_ERROR => {
            (fill_template(value, "0", &mut url), "commitRequestId, id, ID")
        }
        EndpointType::BULK_TRANSFER_POST
        | EndpointType::BULK_TRANSFER_PUT
        | EndpointType::BULK_TRANSFER_ERROR => {
            (fill_template(value, "0", &mut url), "bulkTransferId, id, ID")
        }
        EndpointType::PARTICIPANT_BATCH_PUT | EndpointType::PARTICIPANT_BATCH_PUT_ERROR => {
            let values = PathValues::of("/participants/0", "0");
            (fill_template(value, &values, &mut url), "requestId, id, ID, fsp")
        }
        EndpointType::QUOTES
        | EndpointType::BULK_QUOTES
        | EndpointType::FX_QUOTES
        | EndpointType::AUTHORIZATIONS
        | EndpointType::TRX_REQ_SERVICE
        | EndpointType::SERVICES => {
            let is_base = !value.contains("{{") && !value.contains('?');
            let refusal = "must have neither query nor placeholders: paths are appended to it";
            return is_base.then(|| value.to_owned()).ok_or_else(|| refusal.to_owned());
        }
        _ => {
            let values = PathValues::of("/parties/MSISDN/0/0", "0");
            let known = "partyIdType, partyIdentifier, partySubIdOrType, fsp";
            (fill_template(value, &values, &mut url), known)
        }
    };
    match filled {
        Ok(()) => Ok(url),
        // The allowed placeholders come first, because a long name may be cut.
        Err(TemplateError::Unknown { name }) => Err(format!("may have the placeholders {known}; not {name}")),
        Err(error @ TemplateError::Unclosed { .. }) => Err(format!("cannot be called: {error}")),
    }
}

/// The endpoints of a participant.
pub(crate) fn views(participant: &Participant) -> Vec<EndpointView> {
    let view =
        |(kind, value): &(EndpointType, Box<str>)| EndpointView { kind: kind.name(), value: value.clone() };
    participant.endpoints.iter().map(view).collect()
}

pub(crate) async fn list(
    call: Call,
    Segments(name): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let endpoints = call.ask(move |ledger| ledger.participant_named(&name).map(views));
    let endpoints = endpoints.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?;
    match parameters.get("type") {
        None => ok(&endpoints),
        Some(wanted) => match endpoints.iter().find(|endpoint| endpoint.kind == wanted) {
            Some(endpoint) => ok(endpoint),
            None => ok(&EmptyObject {}),
        },
    }
}

/// The endpoints of a DFSP that serves everything below one base URL.
pub fn endpoints_of(base_url: &str) -> impl Iterator<Item = (String, String)> {
    typed_endpoints_of(base_url).map(|(kind, value)| (kind.name().to_owned(), value))
}

fn typed_endpoints_of(base_url: &str) -> impl Iterator<Item = (EndpointType, String)> {
    let base = base_url.trim_end_matches('/').to_owned();
    EndpointType::usual_paths().map(move |(kind, path)| (kind, format!("{base}{path}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_begin_with_a_scheme_and_a_host() {
        for (value, expected) in [
            ("http://dfsp/transfers", true),
            ("https://dfsp:8443/transfers/{{transferId}}/error", true),
            ("http://", false),
            ("http:///transfers", false),
            ("dfsp/transfers", false),
            ("ftp://dfsp", false),
            ("http://dfsp/a b", false),
            ("http://df#sp:3001/transfers", false),
            ("http://dfsp/a\r\nx: y", false),
        ] {
            assert_eq!(is_absolute_url(value), expected, "{value}");
        }
    }

    #[test]
    fn endpoint_that_cannot_be_called_is_rejected() {
        for (kind, value, reason) in [
            ("TRANSFER_POST", "http://dfsp/transfers", ""),
            ("TRANSFER_PUT", "http://dfsp:8080/transfers/{{transferId}}", ""),
            ("TRANSFER_PUT", "http://dfsp/t/{{{ ID }}}", ""),
            ("PARTIES_SUB_ID_PUT", "http://d/{{partyIdType}}/{{partyIdentifier}}/{{partySubIdOrType}}", ""),
            ("PARTICIPANT_BATCH_PUT", "http://d/participants/{{requestId}}?fsp={{fsp}}", ""),
            ("QUOTES", "http://[::1]:3000/base", ""),
            ("TRANSFER_POST", "https://dfsp/transfers", ""),
            ("QUOTES", "https://dfsp:8443/base", ""),
            ("TRANSFER_PUT", "http://dfsp/{{transferID}}", "placeholders transferId, id, ID; not transferID"),
            ("FX_TRANSFER_PUT", "http://dfsp/fxTransfers/{{commitRequestId}}", ""),
            ("FX_TRANSFER_ERROR", "http://dfsp/{{fsp}}", "placeholders commitRequestId, id, ID; not fsp"),
            ("BULK_TRANSFER_PUT", "http://dfsp/bulkTransfers/{{id}}", ""),
            ("BULK_TRANSFER_ERROR", "http://dfsp/{{fsp}}", "placeholders bulkTransferId, id, ID; not fsp"),
            ("TRANSFER_PUT", "http://dfsp/{{fsp}}", "placeholders transferId, id, ID; not fsp"),
            ("PARTICIPANT_BATCH_PUT", "http://d/{{x}}", "placeholders requestId, id, ID, fsp; not x"),
            ("PARTIES_PUT", "http://d/{{x}}", "partyIdType, partyIdentifier, partySubIdOrType, fsp; not x"),
            ("QUOTES", "http://dfsp/{{fsp}}", "neither query nor placeholders: paths are appended to it"),
            ("TRX_REQ_SERVICE", "http://dfsp?a=b", "neither query nor placeholders"),
            ("TRANSFER_PUT", "http://dfsp/{{transferId", "{{ without }}"),
            ("TRANSFER_POST", "http://me:secret@dfsp/", "credentials"),
            ("TRANSFER_POST", "http://dfsp:port/", "not a URL that can be called"),
            ("TRANSFER_POST", "http://dfsp:99999/", "a port from 1 to 65535"),
        ] {
            let kind = EndpointType::parse(&format!("FSPIOP_CALLBACK_URL_{kind}")).unwrap();
            match check_callable(kind, value) {
                Ok(()) => assert_eq!(reason, "", "{value}"),
                Err(found) => assert!(!reason.is_empty() && found.contains(reason), "{value}: {found}"),
            }
        }
    }
}
