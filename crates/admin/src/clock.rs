//! `/clock`: the hub's time, and how it stands to the machine's clocks.

use axum::response::Response;
use serde::Serialize;
use upesi_engine::Clock;
use upesi_ledger::AdminCommand;

use crate::body::JsonBody;
use crate::call::Call;
use crate::context::AdminContext;
use crate::error::ApiError;
use crate::json::{Instant, ok};
use crate::transfers::REASON_CHARS_MAX;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ClockView {
    /// The hub's time.
    now: Instant,
    /// How far the wall clock jumped from it; 0 when it did not.
    jump_ms: i64,
    /// How far the journal's time is ahead of it; 0 when it is not.
    journal_ahead_ms: i64,
    /// What is wrong.
    detail: Option<String>,
}

fn view(context: &AdminContext) -> ClockView {
    let clock = context.engine.clock();
    let state = clock.state();
    ClockView {
        now: Instant(clock.now()),
        jump_ms: state.jump_ms,
        journal_ahead_ms: state.ahead_ms,
        detail: state.fault(),
    }
}

pub(crate) async fn get(Call(context): Call) -> Result<Response, ApiError> {
    ok(&view(&context))
}

/// The jump that there is now is right: the hub follows the wall clock, and the journal says who wanted it so.
pub(crate) async fn accept(Call(context): Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let reason = fields.required("reason")?.text_of(1, REASON_CHARS_MAX)?.into();
    fields.only(&["reason"])?;
    context.change(AdminCommand::AcceptClock { reason }).await?;
    ok(&view(&context))
}
