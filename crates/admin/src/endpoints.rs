//! `/participants/{name}/endpoints`: where a DFSP takes callbacks, and whom the hub writes to.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_ledger::{AdminCommand, EndpointType};

use crate::body::JsonBody;
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::extract::{Parameters, Segments, participant_name};
use crate::json::{EmptyObject, empty, ok};

#[derive(Serialize)]
struct EndpointView {
    #[serde(rename = "type")]
    kind: &'static str,
    value: Box<str>,
}

pub(crate) async fn set(
    State(context): State<AdminContext>,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let fields = body.fields()?;
    let kind_field = fields.required("type")?;
    let kind = EndpointType::parse(&kind_field.text()?)
        .ok_or_else(|| kind_field.refuse("must be a known endpoint type; GET /enums lists them"))?;
    let value_field = fields.required("value")?;
    let value = value_field.text()?;
    if kind.is_url() && !is_absolute_url(&value) {
        return Err(
            value_field.refuse("must be a URL that begins with http:// or https:// and has no fragment")
        );
    }
    fields.only(&["type", "value"])?;
    context.change(AdminCommand::SetEndpoint { name, kind, value: value.into() }).await?;
    empty(StatusCode::CREATED)
}

/// Templates such as `http://dfsp/transfers/{{transferId}}` are no URLs yet, so only their beginning is looked at.
fn is_absolute_url(value: &str) -> bool {
    let rest = value.strip_prefix("http://").or_else(|| value.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/'))
        && value.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#')
}

pub(crate) async fn list(
    State(context): State<AdminContext>,
    Segments(name): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let endpoints = context.ask(move |ledger| {
        ledger.participant_named(&name).map(|participant| {
            let views = participant.endpoints.iter();
            views
                .map(|(kind, value)| EndpointView { kind: kind.name(), value: value.clone() })
                .collect::<Vec<_>>()
        })
    });
    let endpoints = endpoints.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?;
    match parameters.get("type") {
        None => ok(&endpoints),
        Some(wanted) => match endpoints.iter().find(|endpoint| endpoint.kind == wanted) {
            Some(endpoint) => ok(endpoint),
            None => ok(&EmptyObject {}),
        },
    }
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
}
