//! `/participants/{name}/accounts`: balances, the hub's accounts, and activity.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_ledger::{Account, AdminCommand};

use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::extract::{Segments, account_id, participant_name};
use crate::json::{Decimal, Flag, Instant, empty, ok};
use crate::participants::{read_activity, show};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountView {
    id: u32,
    ledger_account_type: String,
    currency: String,
    is_active: Flag,
    value: Decimal,
    /// Positions carry a reservation from the prepare on, so nothing is ever reserved beside them.
    reserved_value: u8,
    changed_date: Instant,
}

impl AccountView {
    fn of(account: &Account, kind: &str) -> Self {
        Self {
            id: account.id.number(),
            ledger_account_type: kind.to_owned(),
            currency: account.currency.to_string(),
            is_active: Flag(account.is_active),
            value: Decimal(account.balance),
            reserved_value: 0,
            changed_date: Instant(account.changed_at),
        }
    }
}

/// Lists the accounts that have been opened; others have no balance yet.
pub(crate) async fn list(
    Call(context): Call,
    Segments(name): Segments<String>,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let accounts = context.ask(move |ledger| {
        let participant = ledger.participant_named(&name)?;
        let accounts = participant.accounts.iter().filter_map(|account| ledger.account(account.id));
        let opened = accounts.filter(|account| account.is_opened);
        let views = opened.map(|account| AccountView::of(account, ledger.account_type_name(account.kind)));
        Some(views.collect::<Vec<_>>())
    });
    ok(&accounts.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?)
}

/// Creates one of the hub's own accounts.
pub(crate) async fn create(
    Call(context): Call,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let currency = fields.required("currency")?.currency()?;
    let kind = fields.required("type")?.text_of(2, 30)?.into();
    fields.only(&["currency", "type"])?;
    let name = participant_name(&name)?;
    context.change(AdminCommand::CreateHubAccount { name, currency, kind }).await?;
    show(&context, name, StatusCode::CREATED).await
}

pub(crate) async fn set_activity(
    Call(context): Call,
    Segments((name, account)): Segments<(String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let (name, account) = (participant_name(&name)?, account_id(&account)?);
    let is_active = read_activity(&body)?;
    context.change(AdminCommand::SetAccountActivity { name, account, is_active }).await?;
    empty(StatusCode::OK)
}
