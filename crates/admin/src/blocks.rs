//! `/blocks`: certificates, keys and participants that the hub lets in no more.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_ledger::{AdminCommand, Block};

use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::extract::Parameters;
use crate::json::{Instant, empty, ok};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BlockView {
    kind: &'static str,
    value: Box<str>,
    created_date: Instant,
}

pub(crate) async fn list(Call(context): Call) -> Result<Response, ApiError> {
    let blocks = context.ask(|ledger| {
        let view = |(block, at): (&Block, &_)| BlockView {
            kind: block.kind(),
            value: block.value(),
            created_date: Instant(*at),
        };
        ledger.blocks().iter().map(view).collect::<Vec<_>>()
    });
    ok(&blocks.await?)
}

pub(crate) async fn set(Call(context): Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let (kind, value) = (fields.required("kind")?.text()?, fields.required("value")?.text()?);
    fields.only(&["kind", "value"])?;
    context.change(AdminCommand::SetBlock { block: read(&kind, &value)? }).await?;
    empty(StatusCode::CREATED)
}

pub(crate) async fn lift(Call(context): Call, parameters: Parameters) -> Result<Response, ApiError> {
    parameters.only(&["kind", "value"])?;
    let block = read(parameters.required("kind")?, parameters.required("value")?)?;
    context.change(AdminCommand::LiftBlock { block }).await?;
    empty(StatusCode::NO_CONTENT)
}

fn read(kind: &str, value: &str) -> Result<Block, ApiError> {
    if !Block::KINDS.contains(&kind) {
        return Err(ApiError::malformed(&format!("\"kind\" must be one of [{}]", Block::KINDS.join(", "))));
    }
    let rule = "\"value\" must be 64 hexadecimal digits, or the name of a participant";
    Block::parse(kind, value).ok_or_else(|| ApiError::malformed(rule))
}
