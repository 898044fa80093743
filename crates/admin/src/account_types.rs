//! `/ledgerAccountTypes`: the kinds of account.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_ledger::{AdminCommand, LedgerAccountType};

use crate::body::JsonBody;
use crate::call::Call;
use crate::error::ApiError;
use crate::json::{empty, ok};

/// Longest description, in characters.
const DESCRIPTION_CHARS_MAX: usize = 512;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AccountTypeView {
    id: u8,
    name: Box<str>,
    description: Box<str>,
    is_active: bool,
    is_settleable: bool,
}

impl AccountTypeView {
    fn of(kind: &LedgerAccountType) -> Self {
        Self {
            id: kind.id.0,
            name: kind.name.clone(),
            description: kind.description.clone(),
            is_active: kind.is_active,
            is_settleable: kind.is_settleable,
        }
    }
}

pub(crate) async fn list(Call(context): Call) -> Result<Response, ApiError> {
    let types =
        context.ask(|ledger| ledger.account_types().iter().map(AccountTypeView::of).collect::<Vec<_>>());
    ok(&types.await?)
}

pub(crate) async fn create(Call(context): Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let name = fields.required("name")?.text_of(2, 30)?.into();
    let description = fields
        .optional("description")
        .map(|field| field.text_of(1, DESCRIPTION_CHARS_MAX))
        .transpose()?
        .unwrap_or_default()
        .into();
    let flag = |name, default| fields.optional(name).map_or(Ok(default), |field| field.flag());
    let is_active = flag("isActive", true)?;
    let is_settleable = flag("isSettleable", false)?;
    fields.only(&["name", "description", "isActive", "isSettleable"])?;
    let command = AdminCommand::CreateLedgerAccountType { name, description, is_active, is_settleable };
    context.change(command).await?;
    empty(StatusCode::CREATED)
}
