//! `/participants/{name}/proxied`: the DFSPs of other schemes behind a proxy.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_ledger::AdminCommand;

use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::extract::{Segments, participant_name};
use crate::json::{Flag, empty, ok};

#[derive(Serialize)]
struct ProxiedView {
    name: String,
    #[serde(rename = "isActive")]
    is_active: Flag,
}

pub(crate) async fn list(
    Call(context): Call,
    Segments(name): Segments<String>,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let proxied = context.ask(move |ledger| {
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

pub(crate) async fn add(
    Call(context): Call,
    Segments(proxy): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let proxy = participant_name(&proxy)?;
    let fields = body.fields()?;
    let name = fields.required("name")?.participant_name()?;
    fields.only(&["name"])?;
    context.change(AdminCommand::AddProxied { proxy, name }).await?;
    empty(StatusCode::CREATED)
}

pub(crate) async fn remove(
    Call(context): Call,
    Segments((proxy, name)): Segments<(String, String)>,
) -> Result<Response, ApiError> {
    let (proxy, name) = (participant_name(&proxy)?, participant_name(&name)?);
    context.change(AdminCommand::RemoveProxied { proxy, name }).await?;
    empty(StatusCode::NO_CONTENT)
}
