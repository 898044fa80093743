//! `/feeRules`: the transfers that owe an interchange fee, its amount, and its payer.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_ledger::command::{FEE_RULE_PARTIES_MAX, NewFeeRule};
use upesi_ledger::{
    AdminCommand, AdminRefusal, FEE_DECIMALS_MAX, FeePayer, FeeRule, FeeTerms, Ledger, ParticipantId,
    RATE_WHOLE,
};
use upesi_types::{Amount, FspId, Timestamp};

use super::body::Field;
use super::call::Segments;
use crate::body::{Fields, JsonBody};
use crate::call::Call;
use crate::error::ApiError;
use crate::json::{Decimal, Instant, json, ok};

/// Default number of decimals of a rounded share.
const DECIMALS_DEFAULT: u8 = 2;
/// Ends a rule at the instant of the request.
const NOW: &str = "now";

const MEMBERS: [&str; 12] = [
    "name",
    "currency",
    "payers",
    "payees",
    "amountMin",
    "amountMax",
    "ratePercent",
    "decimals",
    "fixed",
    "paidBy",
    "from",
    "until",
];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FeeRuleView {
    fee_rule_id: u32,
    name: Box<str>,
    currency: String,
    payers: Vec<String>,
    payees: Vec<String>,
    amount_min: Decimal,
    amount_max: Option<Decimal>,
    rate_percent: Decimal,
    decimals: u8,
    fixed: Decimal,
    paid_by: &'static str,
    from: Instant,
    until: Option<Instant>,
}

impl FeeRuleView {
    fn of(ledger: &Ledger, rule: &FeeRule) -> Self {
        let names = |ids: &[ParticipantId]| {
            ids.iter().map(|id| ledger.participant(*id).name.to_string()).collect::<Vec<_>>()
        };
        let terms = &rule.terms;
        Self {
            fee_rule_id: rule.id,
            name: terms.name.clone(),
            currency: terms.currency.to_string(),
            payers: names(&terms.payers),
            payees: names(&terms.payees),
            amount_min: Decimal(terms.amount_min),
            amount_max: terms.amount_max.map(Decimal),
            rate_percent: Decimal(Amount::from_units(terms.rate.into()).unwrap_or_default()),
            decimals: terms.decimals,
            fixed: Decimal(terms.fixed),
            paid_by: terms.paid_by.as_str(),
            from: Instant(rule.from),
            until: rule.until.map(Instant),
        }
    }
}

/// Lists all rules, including ended ones.
pub(crate) async fn list(call: Call) -> Result<Response, ApiError> {
    let rules = call.ask(|ledger| {
        ledger.fee_rules().iter().map(|rule| FeeRuleView::of(ledger, rule)).collect::<Vec<_>>()
    });
    ok(&rules.await?)
}

pub(crate) async fn get(call: Call, Segments(name): Segments<String>) -> Result<Response, ApiError> {
    show(&call, name, StatusCode::OK).await
}

async fn show(call: &Call, name: String, status: StatusCode) -> Result<Response, ApiError> {
    let view = call.ask(move |ledger| ledger.fee_rule_named(&name).map(|rule| FeeRuleView::of(ledger, rule)));
    json(status, &view.await?.ok_or_else(|| ApiError::from(AdminRefusal::FeeRuleUnknown))?)
}

pub(crate) async fn create(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let rule = read(&body.fields()?)?;
    let name = rule.terms.name.to_string();
    call.change(AdminCommand::CreateFeeRule(rule)).await?;
    show(&call, name, StatusCode::CREATED).await
}

/// Sets the end of a rule.
pub(crate) async fn end(
    call: Call,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let until = fields.required("until")?;
    let until = if until.text()? == NOW { None } else { Some(until.instant()?) };
    fields.only(&["until"])?;
    call.change(AdminCommand::EndFeeRule { name: name.as_str().into(), until }).await?;
    show(&call, name, StatusCode::OK).await
}

fn read(fields: &Fields<'_>) -> Result<NewFeeRule, ApiError> {
    let name = fields.required("name")?;
    let text = name.text_of(2, 30)?;
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(name.refuse("must only contain alpha-numeric characters"));
    }
    let instant = |name| fields.optional(name).map(|field| field.instant()).transpose();
    let decimals = fields.optional("decimals").map(|field| field.whole(FEE_DECIMALS_MAX)).transpose()?;
    let terms = FeeTerms {
        name: text.into(),
        currency: fields.required("currency")?.currency()?,
        payers: parties(fields, "payers")?,
        payees: parties(fields, "payees")?,
        amount_min: amount(fields, "amountMin")?.unwrap_or(Amount::ZERO),
        amount_max: amount(fields, "amountMax")?,
        rate: fields.optional("ratePercent").map_or(Ok(0), |field| rate(&field))?,
        decimals: decimals.unwrap_or(DECIMALS_DEFAULT),
        fixed: amount(fields, "fixed")?.unwrap_or(Amount::ZERO),
        paid_by: fields.required("paidBy")?.one_of(FeePayer::ALL.iter(), |value| value.as_str()).copied()?,
    };
    let (from, until): (Option<Timestamp>, _) = (instant("from")?, instant("until")?);
    fields.only(&MEMBERS)?;
    Ok(NewFeeRule { terms, from, until })
}

/// DFSPs by name; without a list, all of them.
fn parties(fields: &Fields<'_>, name: &str) -> Result<Vec<FspId>, ApiError> {
    let Some(list) = fields.optional(name) else { return Ok(Vec::new()) };
    list.array(FEE_RULE_PARTIES_MAX)?.iter().map(Field::participant_name).collect()
}

fn amount(fields: &Fields<'_>, name: &str) -> Result<Option<Amount>, ApiError> {
    let Some(field) = fields.optional(name) else { return Ok(None) };
    let amount = field.decimal()?;
    if amount.is_negative() { Err(field.refuse("must not be negative")) } else { Ok(Some(amount)) }
}

/// A share in percent with at most four decimals, returned in millionths.
fn rate(field: &Field<'_>) -> Result<u32, ApiError> {
    let millionths = u32::try_from(field.decimal()?.units()).ok();
    let rate = millionths.filter(|rate| *rate <= RATE_WHOLE);
    rate.ok_or_else(|| field.refuse("must be 0 to 100 percent"))
}
