//! `/oracles`: the oracles for each type and currency.

use std::time::{SystemTime, UNIX_EPOCH};

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use upesi_ledger::Change;
use upesi_parties::party::PartyIdType;
use upesi_parties::registry::{Oracle, OracleChange, OracleRegistry, OracleSpec, URL_CHARS_MAX};
use upesi_types::{Currency, Timestamp};

use super::body::Field;
use super::call::{Parameters, Segments};
use crate::access::Permission;
use crate::body::{Fields, JsonBody};
use crate::call::Call;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{empty, ok};
use crate::parts::Directory;

/// The only type of endpoint.
const ENDPOINT_TYPE: &str = "URL";

/// An oracle.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OracleView {
    pub oracle_id: u32,
    pub oracle_id_type: &'static str,
    pub endpoint: OracleEndpoint,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub currency: Option<String>,
    /// 1 or 0, as is scheme practice.
    pub is_default: u8,
}

/// The address of an oracle.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OracleEndpoint {
    pub value: Box<str>,
    endpoint_type: &'static str,
}

impl OracleView {
    fn of(oracle: &Oracle) -> Self {
        Self {
            oracle_id: oracle.id,
            oracle_id_type: oracle.spec.kind.as_str(),
            endpoint: OracleEndpoint { value: oracle.spec.url.clone(), endpoint_type: ENDPOINT_TYPE },
            currency: oracle.spec.currency.map(|currency| currency.to_string()),
            is_default: oracle.spec.is_default.into(),
        }
    }
}

/// All oracles.
pub(crate) fn views(directory: &Directory) -> Result<Vec<OracleView>, ApiError> {
    Ok(directory.get()?.oracles.oracles().iter().map(OracleView::of).collect())
}

pub(crate) async fn list(
    State(directory): State<Directory>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let kind = parameters.get("type").map(|text| parse_kind("type", text)).transpose()?;
    let currency = parameters.get("currency").map(|text| parse_currency("currency", text)).transpose()?;
    let oracles = directory.get()?.oracles.oracles();
    let wanted = oracles.iter().filter(|oracle| {
        kind.is_none_or(|kind| oracle.spec.kind == kind)
            && (currency.is_none() || oracle.spec.currency == currency)
    });
    ok(&wanted.map(OracleView::of).collect::<Vec<_>>())
}

pub(crate) async fn create(
    call: Call,
    State(directory): State<Directory>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let registry = &directory.get()?.oracles;
    let fields = body.fields()?;
    let kind = read_kind(&fields.required_in_lookup("oracleIdType")?)?;
    let url = read_endpoint(&fields.required_in_lookup("endpoint")?)?;
    let change = read_rest(&fields)?;
    let is_default = change.is_default.unwrap_or(false);
    let spec = OracleSpec { kind, currency: change.currency, url, is_default };
    // Its number is known only after its creation.
    let change = Change::new("a new oracle", "none", described(&spec));
    let create = async || {
        let id = registry.create(spec, now()).await?;
        tracing::info!(id, "an oracle was created");
        Ok(id)
    };
    let id = call.elsewhere(Permission::OracleManage, change, create).await?;
    Ok((StatusCode::CREATED, [(LOCATION, format!("/oracles/{id}"))]).into_response())
}

pub(crate) async fn update(
    call: Call,
    State(directory): State<Directory>,
    Segments(id): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let registry = &directory.get()?.oracles;
    let fields = body.fields()?;
    let mut change = read_rest(&fields)?;
    change.kind = fields.optional("oracleIdType").map(|field| read_kind(&field)).transpose()?;
    change.url = fields.optional("endpoint").map(|field| read_endpoint(&field)).transpose()?;
    let id = number(&id);
    let to = registry.oracles().get(id).map(|oracle| described(&change.clone().applied_to(&oracle.spec)));
    let told = Change::new(format!("oracle {id}"), description(registry, id), to.unwrap_or_default());
    let update = async || Ok(registry.update(id, change).await?);
    call.elsewhere(Permission::OracleManage, told, update).await?;
    empty(StatusCode::NO_CONTENT)
}

pub(crate) async fn delete(
    call: Call,
    State(directory): State<Directory>,
    Segments(id): Segments<String>,
) -> Result<Response, ApiError> {
    let (registry, id) = (&directory.get()?.oracles, number(&id));
    let change = Change::new(format!("oracle {id}"), description(registry, id), "none");
    let delete = async || Ok(registry.delete(id).await?);
    call.elsewhere(Permission::OracleManage, change, delete).await?;
    empty(StatusCode::NO_CONTENT)
}

/// Description of an oracle for the log.
fn described(spec: &OracleSpec) -> String {
    let currency = spec.currency.map_or_else(|| "every currency".to_owned(), |code| code.to_string());
    let default = if spec.is_default { ", the default" } else { "" };
    format!("{} in {currency} at {}{default}", spec.kind, spec.url)
}

fn description(registry: &OracleRegistry, id: u32) -> String {
    registry.oracles().get(id).map_or_else(|| "none".to_owned(), |oracle| described(&oracle.spec))
}

fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_ms(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// An invalid number counts as an unknown oracle's.
fn number(text: &str) -> u32 {
    text.parse().unwrap_or(0)
}

fn read_kind(field: &Field<'_>) -> Result<PartyIdType, ApiError> {
    parse_kind("oracleIdType", &field.text()?)
}

fn parse_kind(label: &str, text: &str) -> Result<PartyIdType, ApiError> {
    PartyIdType::parse(text).ok_or_else(|| {
        let known: Vec<_> = PartyIdType::ALL.iter().map(|kind| kind.as_str()).collect();
        not_admitted(label, &format!("must be one of [{}]", known.join(", ")))
    })
}

fn parse_currency(label: &str, text: &str) -> Result<Currency, ApiError> {
    let rule = "must be a currency code in capital letters, such as USD";
    Currency::parse(text).ok_or_else(|| not_admitted(label, rule))
}

/// 400 with 3100.
fn not_admitted(label: &str, rule: &str) -> ApiError {
    ApiError::new(ErrorName::OracleInvalid, &format!("\"{label}\" {rule}"))
}

fn read_endpoint(field: &Field<'_>) -> Result<Box<str>, ApiError> {
    let endpoint = field.object()?;
    let value = endpoint.required_in_lookup("value")?.text_of(1, URL_CHARS_MAX)?;
    let kind = endpoint.required_in_lookup("endpointType")?;
    if kind.text()? != ENDPOINT_TYPE {
        return Err(not_admitted("endpoint.endpointType", "must be one of [URL]"));
    }
    endpoint.only(&["value", "endpointType"])?;
    Ok(value.into())
}

/// Reads the optional members and rejects unknown ones. Portals send back the number that they received.
fn read_rest(fields: &Fields<'_>) -> Result<OracleChange, ApiError> {
    fields.only(&["oracleId", "oracleIdType", "endpoint", "currency", "isDefault"])?;
    Ok(OracleChange {
        currency: fields
            .optional("currency")
            .map(|field| parse_currency("currency", &field.text()?))
            .transpose()?,
        is_default: fields.optional("isDefault").map(|field| field.flag_or_bit()).transpose()?,
        ..OracleChange::default()
    })
}
