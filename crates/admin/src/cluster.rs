//! `/cluster/hand-over`: lets another node of the cluster lead.

use axum::response::Response;
use serde::Serialize;
use upesi_engine::StopReason;
use upesi_ledger::Change;
use upesi_types::ErrorCode;

use crate::access::Permission;
use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::json::ok;

/// Highest number of a node.
const NODE_MAX: u32 = 1_000_000;

#[derive(Serialize)]
struct HandedOver {
    from: u32,
    to: Option<u32>,
}

/// Nothing is taken from here on; the answer comes when the log has the hand-over, and then this node serves no more.
pub(crate) async fn hand_over(Call(context): Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let field = fields.optional("to");
    let to = field.as_ref().map(|field| field.whole(NODE_MAX)).transpose()?;
    fields.only(&["to"])?;
    let Some(from) = context.node else {
        return Err(ApiError::new(ErrorCode::NOT_IMPLEMENTED, "This hub is no node of a cluster"));
    };
    if let Some(field) = field.filter(|_| to == Some(from)) {
        return Err(field.refuse("must be another node than the one that leads"));
    }
    let named = to.map_or_else(|| "any other".to_owned(), |to| to.to_string());
    let change = Change::new("the node that leads", from.to_string(), named);
    let make = async || match context.engine.hand_over(to).await {
        StopReason::HandedOver => Ok(()),
        reason => Err(ApiError::new(ErrorCode::UNAVAILABLE, &reason.to_string())),
    };
    context.elsewhere(Permission::ClusterHandOver, change, make).await?;
    ok(&HandedOver { from, to })
}
