//! `/participants/{name}/bindings`: what proves that a caller is a DFSP.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_ledger::{AdminCommand, Binding, BindingKind};

use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::extract::{Parameters, Segments, participant_name};
use crate::json::{empty, ok};

#[derive(Serialize)]
struct BindingView {
    kind: &'static str,
    value: Box<str>,
}

pub(crate) async fn list(
    Call(context): Call,
    Segments(name): Segments<String>,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let view = |binding: &Binding| BindingView { kind: binding.kind.name(), value: binding.value.clone() };
    let bindings = context.ask(move |ledger| {
        let participant = ledger.participant_named(&name)?;
        Some(participant.bindings.iter().map(view).collect::<Vec<_>>())
    });
    ok(&bindings.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?)
}

pub(crate) async fn add(
    Call(context): Call,
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
    context.change(AdminCommand::AddBinding { name, kind, value }).await?;
    empty(StatusCode::CREATED)
}

pub(crate) async fn remove(
    Call(context): Call,
    Segments(name): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    parameters.only(&["kind", "value"])?;
    let kind = BindingKind::parse(parameters.required("kind")?)
        .ok_or_else(|| ApiError::malformed(&format!("\"kind\" must be one of [{}]", kinds())))?;
    let value = parameters.required("value")?.into();
    context.change(AdminCommand::RemoveBinding { name, kind, value }).await?;
    empty(StatusCode::NO_CONTENT)
}

fn kinds() -> String {
    BindingKind::ALL.map(BindingKind::name).join(", ")
}
