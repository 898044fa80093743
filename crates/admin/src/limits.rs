//! Net debit caps: `/participants/{name}/initialPositionAndLimits`, `…/limits` and `/participants/limits`.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_ledger::{AdminCommand, Limit};
use upesi_types::{Amount, Currency};

use super::body::Field;
use super::call::{Parameters, Segments, participant_name};
use crate::body::{Fields, JsonBody};
use crate::call::Call;
use crate::error::ApiError;
use crate::json::{Decimal, Percentage, empty, ok};

/// The only type of limit.
pub(crate) const NET_DEBIT_CAP: &str = "NET_DEBIT_CAP";

#[derive(Serialize)]
struct LimitView {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    currency: String,
    limit: LimitValue,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct LimitValue {
    #[serde(rename = "type")]
    kind: &'static str,
    value: Decimal,
    alarm_percentage: Percentage,
}

impl LimitView {
    fn of(limit: &Limit, name: Option<String>) -> Self {
        Self {
            name,
            currency: limit.currency.to_string(),
            limit: LimitValue {
                kind: NET_DEBIT_CAP,
                value: Decimal(limit.value),
                alarm_percentage: Percentage(limit.alarm_basis_points),
            },
        }
    }
}

/// The limits that a query requests.
#[derive(Clone, Copy)]
struct Filter {
    currency: Option<Currency>,
    is_net_debit_cap: bool,
}

impl Filter {
    fn of(parameters: &Parameters) -> Result<Self, ApiError> {
        let is_net_debit_cap = parameters.get("type").is_none_or(|kind| kind == NET_DEBIT_CAP);
        Ok(Self { currency: parameters.currency()?, is_net_debit_cap })
    }

    fn admits(&self, limit: &Limit) -> bool {
        self.is_net_debit_cap && self.currency.is_none_or(|currency| currency == limit.currency)
    }
}

/// Reads `limit.type` and `limit.value`.
fn read_value(limit: &Fields<'_>) -> Result<Amount, ApiError> {
    limit.required("type")?.one_of([NET_DEBIT_CAP].into_iter(), |name| name)?;
    let field = limit.required("value")?;
    let value = field.decimal()?;
    if value.is_negative() {
        return Err(field.refuse("must be greater than or equal to 0"));
    }
    Ok(value)
}

/// A percentage with at most two decimal places, in hundredths of a percent.
fn read_percentage(field: &Field<'_>) -> Result<u16, ApiError> {
    let units_per_basis_point = 100;
    let units = field.decimal()?.units();
    if units % units_per_basis_point != 0 {
        return Err(field.refuse("must have no more than 2 decimal places"));
    }
    let basis_points = u16::try_from(units / units_per_basis_point).ok();
    basis_points.filter(|points| *points <= 10_000).ok_or_else(|| field.refuse("must be from 0 to 100"))
}

pub(crate) async fn open(
    call: Call,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let fields = body.fields()?;
    let currency = fields.required("currency")?.currency()?;
    let limit = fields.required("limit")?.object()?;
    let net_debit_cap = read_value(&limit)?;
    limit.only(&["type", "value"])?;
    let initial_position = fields.optional("initialPosition").map(|field| field.decimal()).transpose()?;
    let initial_position = initial_position.unwrap_or(Amount::ZERO);
    fields.only(&["currency", "limit", "initialPosition"])?;
    call.change(AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position }).await?;
    empty(StatusCode::CREATED)
}

pub(crate) async fn set(
    call: Call,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let fields = body.fields()?;
    let currency = fields.required("currency")?.currency()?;
    let limit = fields.required("limit")?.object()?;
    let net_debit_cap = read_value(&limit)?;
    let alarm_basis_points = read_percentage(&limit.required("alarmPercentage")?)?;
    limit.only(&["type", "value", "alarmPercentage"])?;
    fields.only(&["currency", "limit"])?;
    call.change(AdminCommand::SetLimit { name, currency, net_debit_cap, alarm_basis_points }).await?;
    ok(&LimitView::of(&Limit { currency, value: net_debit_cap, alarm_basis_points }, None))
}

pub(crate) async fn list(
    call: Call,
    Segments(name): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let filter = Filter::of(&parameters)?;
    let limits = call.ask(move |ledger| {
        let participant = ledger.participant_named(&name)?;
        let admitted = participant.limits.iter().filter(|limit| filter.admits(limit));
        Some(admitted.map(|limit| LimitView::of(limit, None)).collect::<Vec<_>>())
    });
    ok(&limits.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?)
}

pub(crate) async fn list_all(call: Call, parameters: Parameters) -> Result<Response, ApiError> {
    let filter = Filter::of(&parameters)?;
    let limits = call.ask(move |ledger| {
        let mut views = Vec::new();
        for participant in ledger.participants() {
            let admitted = participant.limits.iter().filter(|limit| filter.admits(limit));
            views.extend(admitted.map(|limit| LimitView::of(limit, Some(participant.name.to_string()))));
        }
        views
    });
    ok(&limits.await?)
}
