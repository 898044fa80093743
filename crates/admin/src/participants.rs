//! `/participants`: the hub and the DFSPs.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_fspiop::uri::encode_component;
use upesi_ledger::{AdminCommand, Ledger, Participant};
use upesi_types::FspId;

use crate::body::JsonBody;
use crate::call::Call;
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::extract::{Parameters, Segments, participant_name};
use crate::json::{Flag, Instant, json, ok};

/// A participant as portals know it.
#[derive(Serialize)]
pub(crate) struct ParticipantView {
    name: String,
    id: String,
    created: Instant,
    #[serde(rename = "isActive")]
    is_active: Flag,
    links: Links,
    accounts: Vec<AccountView>,
    #[serde(rename = "isProxy")]
    is_proxy: Flag,
    /// The proxy that it is behind.
    #[serde(rename = "proxiedBy", skip_serializing_if = "Option::is_none")]
    proxied_by: Option<String>,
}

#[derive(Serialize)]
struct Links {
    #[serde(rename = "self")]
    itself: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountView {
    id: u32,
    ledger_account_type: String,
    currency: String,
    is_active: Flag,
    created_date: Instant,
    created_by: &'static str,
}

impl ParticipantView {
    fn of(ledger: &Ledger, participant: &Participant, hostname: &str) -> Self {
        let mut link = format!("http://{hostname}/participants/");
        encode_component(participant.name.as_str(), &mut link);
        let accounts = participant.accounts.iter().filter_map(|account| ledger.account(account.id));
        let accounts = accounts.map(|account| AccountView {
            id: account.id.number(),
            ledger_account_type: ledger.account_type_name(account.kind).to_owned(),
            currency: account.currency.to_string(),
            is_active: Flag(account.is_active),
            created_date: Instant(account.created_at),
            created_by: "unknown",
        });
        Self {
            name: participant.name.to_string(),
            id: link.clone(),
            created: Instant(participant.created_at),
            is_active: Flag(participant.is_active),
            links: Links { itself: link },
            accounts: accounts.collect(),
            is_proxy: Flag(participant.is_proxy),
            proxied_by: ledger
                .proxy_of(participant.id)
                .map(|proxy| ledger.participant(proxy).name.to_string()),
        }
    }
}

/// Answers with a participant.
pub(crate) async fn show(
    context: &AdminContext,
    name: FspId,
    status: StatusCode,
) -> Result<Response, ApiError> {
    let hostname = context.hostname.clone();
    let view = context.ask(move |ledger| {
        ledger.participant_named(&name).map(|participant| ParticipantView::of(ledger, participant, &hostname))
    });
    let view = view.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?;
    json(status, &view)
}

pub(crate) async fn list(Call(context): Call, parameters: Parameters) -> Result<Response, ApiError> {
    let only_proxies = parameters.is_set("isProxy");
    let hostname = context.hostname.clone();
    let views = context.ask(move |ledger| {
        let listed = ledger.participants().iter().filter(|participant| participant.is_proxy || !only_proxies);
        listed.map(|participant| ParticipantView::of(ledger, participant, &hostname)).collect::<Vec<_>>()
    });
    ok(&views.await?)
}

pub(crate) async fn get(Call(context): Call, Segments(name): Segments<String>) -> Result<Response, ApiError> {
    show(&context, participant_name(&name)?, StatusCode::OK).await
}

pub(crate) async fn create(Call(context): Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let name = fields.required("name")?.participant_name()?;
    let currency = fields.required("currency")?.currency()?;
    let is_proxy = fields.optional("isProxy").map(|field| field.flag()).transpose()?.unwrap_or(false);
    fields.only(&["name", "currency", "isProxy"])?;
    context.change(AdminCommand::CreateParticipant { name, currency, is_proxy }).await?;
    show(&context, name, StatusCode::CREATED).await
}

pub(crate) async fn set_activity(
    Call(context): Call,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let is_active = read_activity(&body)?;
    context.change(AdminCommand::SetParticipantActivity { name, is_active }).await?;
    show(&context, name, StatusCode::OK).await
}

/// The body `{"isActive": …}`, which several resources take.
pub(crate) fn read_activity(body: &JsonBody) -> Result<bool, ApiError> {
    let fields = body.fields()?;
    let is_active = fields.required("isActive")?.flag()?;
    fields.only(&["isActive"])?;
    Ok(is_active)
}
