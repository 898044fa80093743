//! `/settlementModels`: the accounts of a currency, and the way they are settled.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_ledger::command::NewSettlementModel;
use upesi_ledger::{AdminCommand, AdminRefusal, Delay, Granularity, Interchange, Ledger, SettlementModel};

use super::call::Segments;
use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::json::{empty, ok};
use crate::participants::read_activity;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ModelView {
    settlement_model_id: u32,
    name: Box<str>,
    is_active: bool,
    settlement_granularity: &'static str,
    settlement_interchange: &'static str,
    settlement_delay: &'static str,
    currency: Option<String>,
    require_liquidity_check: bool,
    /// Contains a name in spite of the member's name, because portals expect it.
    ledger_account_type_id: String,
    /// The account that provides cover; also a name.
    settlement_account_type_id: String,
    auto_position_reset: bool,
}

impl ModelView {
    fn of(ledger: &Ledger, model: &SettlementModel) -> Self {
        Self {
            settlement_model_id: model.id,
            name: model.name.clone(),
            is_active: model.is_active,
            settlement_granularity: model.granularity.as_str(),
            settlement_interchange: model.interchange.as_str(),
            settlement_delay: model.delay.as_str(),
            currency: model.currency.map(|currency| currency.to_string()),
            require_liquidity_check: model.require_liquidity_check,
            ledger_account_type_id: ledger.account_type_name(model.ledger_account_type).to_owned(),
            settlement_account_type_id: ledger.account_type_name(model.settlement_account_type).to_owned(),
            auto_position_reset: model.auto_position_reset,
        }
    }
}

/// Lists the active models.
/// The names of the active models whose obligations are settled by windows.
pub fn deferred_models(ledger: &Ledger) -> Vec<String> {
    let is_deferred = |model: &&SettlementModel| model.is_active && model.delay == Delay::Deferred;
    ledger.models().iter().filter(is_deferred).map(|model| model.name.to_string()).collect()
}

pub(crate) async fn list(call: Call) -> Result<Response, ApiError> {
    let models = call.ask(|ledger| {
        let active = ledger.models().iter().filter(|model| model.is_active);
        active.map(|model| ModelView::of(ledger, model)).collect::<Vec<_>>()
    });
    ok(&models.await?)
}

pub(crate) async fn get(call: Call, Segments(name): Segments<String>) -> Result<Response, ApiError> {
    show(&call, &name).await
}

async fn show(call: &Call, name: &str) -> Result<Response, ApiError> {
    let wanted = name.to_owned();
    let view = call.ask(move |ledger| ledger.model_named(&wanted).map(|model| ModelView::of(ledger, model)));
    ok(&view.await?.ok_or_else(|| ApiError::from(AdminRefusal::ModelUnknown { name: name.into() }))?)
}

pub(crate) async fn create(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let name = fields.required("name")?;
    let text = name.text_of(2, 30)?;
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(name.refuse("must only contain alpha-numeric characters"));
    }
    let model = NewSettlementModel {
        name: text.into(),
        granularity: fields
            .required("settlementGranularity")?
            .one_of(Granularity::ALL.iter(), |value| value.as_str())
            .copied()?,
        interchange: fields
            .required("settlementInterchange")?
            .one_of(Interchange::ALL.iter(), |value| value.as_str())
            .copied()?,
        delay: fields
            .required("settlementDelay")?
            .one_of(Delay::ALL.iter(), |value| value.as_str())
            .copied()?,
        currency: fields.optional("currency").map(|field| field.currency()).transpose()?,
        require_liquidity_check: fields.required("requireLiquidityCheck")?.flag()?,
        ledger_account_type: fields.required("ledgerAccountType")?.text_of(2, 30)?.into(),
        settlement_account_type: fields.required("settlementAccountType")?.text_of(2, 30)?.into(),
        auto_position_reset: fields.required("autoPositionReset")?.flag()?,
    };
    fields.only(&[
        "name",
        "settlementGranularity",
        "settlementInterchange",
        "settlementDelay",
        "currency",
        "requireLiquidityCheck",
        "ledgerAccountType",
        "settlementAccountType",
        "autoPositionReset",
    ])?;
    call.change(AdminCommand::CreateSettlementModel(model)).await?;
    empty(StatusCode::CREATED)
}

pub(crate) async fn set_activity(
    call: Call,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let is_active = read_activity(&body)?;
    let command = AdminCommand::SetSettlementModelActivity { name: name.as_str().into(), is_active };
    call.change(command).await?;
    show(&call, &name).await
}
