//! `/participants`: the hub and the DFSPs; their bindings, the DFSPs behind proxies, and blocks.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_fspiop::uri::encode_component;
use upesi_ledger::{AdminCommand, Binding, BindingKind, Block, Ledger, Participant};
use upesi_types::FspId;

use super::call::{Parameters, Segments, participant_name};
use crate::body::JsonBody;
use crate::call::Call;
use crate::context::Hostname;
use crate::error::ApiError;
use crate::json::{Code, Flag, Instant, empty, json, ok};

/// A participant in the form for portals.
#[derive(Serialize)]
pub struct ParticipantView {
    pub name: String,
    pub id: String,
    pub created: Instant,
    #[serde(rename = "isActive")]
    pub is_active: Flag,
    pub links: Links,
    pub accounts: Vec<AccountView>,
    #[serde(rename = "isProxy")]
    pub is_proxy: Flag,
    /// The proxy in front of it.
    #[serde(rename = "proxiedBy", skip_serializing_if = "Option::is_none")]
    pub proxied_by: Option<String>,
}

/// Links of a participant.
#[derive(Serialize)]
pub struct Links {
    #[serde(rename = "self")]
    pub itself: String,
}

/// An account of a participant.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountView {
    pub id: u32,
    pub ledger_account_type: String,
    pub currency: Code,
    pub is_active: Flag,
    pub created_date: Instant,
    /// The operator who created it.
    pub created_by: String,
}

impl ParticipantView {
    pub(crate) fn of(ledger: &Ledger, participant: &Participant, hostname: &str) -> Self {
        let mut link = format!("http://{hostname}/participants/");
        encode_component(participant.name.as_str(), &mut link);
        let accounts = participant.accounts.iter().filter_map(|account| ledger.account(account.id));
        let accounts = accounts.map(|account| AccountView {
            id: account.id.number(),
            ledger_account_type: ledger.account_type_name(account.kind).to_owned(),
            currency: Code(account.currency),
            is_active: Flag(account.is_active),
            created_date: Instant(account.created_at),
            created_by: ledger.creator_of(account.id).unwrap_or("unknown").to_owned(),
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
    call: &Call,
    Hostname(hostname): Hostname,
    name: FspId,
    status: StatusCode,
) -> Result<Response, ApiError> {
    let view = call.ask(move |ledger| {
        ledger.participant_named(&name).map(|participant| ParticipantView::of(ledger, participant, &hostname))
    });
    let view = view.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?;
    json(status, &view)
}

pub(crate) async fn list(
    call: Call,
    State(Hostname(hostname)): State<Hostname>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let only_proxies = parameters.is_set("isProxy");
    let views = call.ask(move |ledger| {
        let listed = ledger.participants().iter().filter(|participant| participant.is_proxy || !only_proxies);
        listed.map(|participant| ParticipantView::of(ledger, participant, &hostname)).collect::<Vec<_>>()
    });
    ok(&views.await?)
}

pub(crate) async fn get(
    call: Call,
    State(hostname): State<Hostname>,
    Segments(name): Segments<String>,
) -> Result<Response, ApiError> {
    show(&call, hostname, participant_name(&name)?, StatusCode::OK).await
}

pub(crate) async fn create(
    call: Call,
    State(hostname): State<Hostname>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let name = fields.required("name")?.participant_name()?;
    let currency = fields.required("currency")?.currency()?;
    let is_proxy = fields.optional("isProxy").map(|field| field.flag()).transpose()?.unwrap_or(false);
    fields.only(&["name", "currency", "isProxy"])?;
    call.change(AdminCommand::CreateParticipant { name, currency, is_proxy }).await?;
    show(&call, hostname, name, StatusCode::CREATED).await
}

pub(crate) async fn set_activity(
    call: Call,
    State(hostname): State<Hostname>,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let is_active = read_activity(&body)?;
    call.change(AdminCommand::SetParticipantActivity { name, is_active }).await?;
    show(&call, hostname, name, StatusCode::OK).await
}

/// The body `{"isActive": …}` of several resources.
pub(crate) fn read_activity(body: &JsonBody) -> Result<bool, ApiError> {
    let fields = body.fields()?;
    let is_active = fields.required("isActive")?.flag()?;
    fields.only(&["isActive"])?;
    Ok(is_active)
}

// `/participants/{name}/bindings`: assignments of certificates and tokens to a participant.

/// A binding of a certificate or token.
#[derive(Serialize)]
pub struct BindingView {
    pub kind: &'static str,
    pub value: Box<str>,
}

pub(crate) fn bindings_of(participant: &Participant) -> Vec<BindingView> {
    let view = |binding: &Binding| BindingView { kind: binding.kind.name(), value: binding.value.clone() };
    participant.bindings.iter().map(view).collect()
}

pub(crate) async fn list_bindings(
    call: Call,
    Segments(name): Segments<String>,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let bindings = call.ask(move |ledger| ledger.participant_named(&name).map(bindings_of));
    ok(&bindings.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?)
}

pub(crate) async fn add_binding(
    call: Call,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let fields = body.fields()?;
    let kind_field = fields.required("kind")?;
    let kind = BindingKind::parse(&kind_field.text()?)
        .ok_or_else(|| kind_field.refuse(&format!("must be one of [{}]", kinds())))?;
    let value = fields.required("value")?.text()?.into();
    fields.only(&["kind", "value"])?;
    call.change(AdminCommand::AddBinding { name, kind, value }).await?;
    empty(StatusCode::CREATED)
}

pub(crate) async fn remove_binding(
    call: Call,
    Segments(name): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    parameters.only(&["kind", "value"])?;
    let kind = BindingKind::parse(parameters.required("kind")?)
        .ok_or_else(|| ApiError::malformed(&format!("\"kind\" must be one of [{}]", kinds())))?;
    let value = parameters.required("value")?.into();
    call.change(AdminCommand::RemoveBinding { name, kind, value }).await?;
    empty(StatusCode::NO_CONTENT)
}

fn kinds() -> String {
    BindingKind::ALL.map(BindingKind::name).join(", ")
}

// `/participants/{name}/proxied`: the DFSPs of other schemes behind a proxy.

#[derive(Serialize)]
struct ProxiedView {
    name: String,
    #[serde(rename = "isActive")]
    is_active: Flag,
}

pub(crate) async fn list_proxied(call: Call, Segments(name): Segments<String>) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let proxied = call.ask(move |ledger| {
        let proxy = ledger.participant_named(&name)?.id;
        let behind = ledger.proxied().filter(|(_, known)| *known == proxy);
        let views = behind.map(|(id, _)| {
            let participant = ledger.participant(id);
            ProxiedView { name: participant.name.to_string(), is_active: Flag(participant.is_active) }
        });
        Some(views.collect::<Vec<_>>())
    });
    ok(&proxied.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?)
}

pub(crate) async fn add_proxied(
    call: Call,
    Segments(proxy): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let proxy = participant_name(&proxy)?;
    let fields = body.fields()?;
    let name = fields.required("name")?.participant_name()?;
    fields.only(&["name"])?;
    call.change(AdminCommand::AddProxied { proxy, name }).await?;
    empty(StatusCode::CREATED)
}

pub(crate) async fn remove_proxied(
    call: Call,
    Segments((proxy, name)): Segments<(String, String)>,
) -> Result<Response, ApiError> {
    let (proxy, name) = (participant_name(&proxy)?, participant_name(&name)?);
    call.change(AdminCommand::RemoveProxied { proxy, name }).await?;
    empty(StatusCode::NO_CONTENT)
}

// `/blocks`: blocked certificates, keys and participants.

/// A blocked participant, key or certificate.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BlockView {
    pub kind: &'static str,
    pub value: Box<str>,
    pub created_date: Instant,
}

pub(crate) async fn list_blocks(call: Call) -> Result<Response, ApiError> {
    ok(&call.ask(blocks).await?)
}

/// All blocks.
pub fn blocks(ledger: &Ledger) -> Vec<BlockView> {
    let view = |(block, at): (&Block, &_)| BlockView {
        kind: block.kind(),
        value: block.value(),
        created_date: Instant(*at),
    };
    ledger.blocks().iter().map(view).collect()
}

pub(crate) async fn set_block(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let (kind, value) = (fields.required("kind")?.text()?, fields.required("value")?.text()?);
    fields.only(&["kind", "value"])?;
    call.change(AdminCommand::SetBlock { block: read_block(&kind, &value)? }).await?;
    empty(StatusCode::CREATED)
}

pub(crate) async fn lift_block(call: Call, parameters: Parameters) -> Result<Response, ApiError> {
    parameters.only(&["kind", "value"])?;
    let block = read_block(parameters.required("kind")?, parameters.required("value")?)?;
    call.change(AdminCommand::LiftBlock { block }).await?;
    empty(StatusCode::NO_CONTENT)
}

fn read_block(kind: &str, value: &str) -> Result<Block, ApiError> {
    if !Block::KINDS.contains(&kind) {
        return Err(ApiError::malformed(&format!("\"kind\" must be one of [{}]", Block::KINDS.join(", "))));
    }
    let rule = "\"value\" must be 64 hexadecimal digits, or the name of a participant";
    Block::parse(kind, value).ok_or_else(|| ApiError::malformed(rule))
}
