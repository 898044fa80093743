//! Accounts of participants: `/participants/{name}/accounts`, their types, and their positions.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use upesi_ledger::{
    Account, AccountRef, AdminCommand, Ledger, LedgerAccountType, LedgerAccountTypeId, Limit, Participant,
};
use upesi_types::Amount;

use super::call::{Parameters, Segments, account_id, participant_name};
use crate::body::JsonBody;
use crate::call::Call;
use crate::context::Hostname;
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Code, Decimal, EmptyObject, Flag, Instant, empty, ok};
use crate::participants::{read_activity, show};

/// An opened account with its balance.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccountView {
    pub id: u32,
    pub ledger_account_type: String,
    pub currency: Code,
    pub is_active: Flag,
    pub value: Decimal,
    /// Positions include reservations from the prepare on, so this is always zero.
    pub reserved_value: u8,
    pub changed_date: Instant,
}

impl AccountView {
    fn of(account: &Account, kind: &str) -> Self {
        Self {
            id: account.id.number(),
            ledger_account_type: kind.to_owned(),
            currency: Code(account.currency),
            is_active: Flag(account.is_active),
            value: Decimal(account.balance),
            reserved_value: 0,
            changed_date: Instant(account.changed_at),
        }
    }
}

/// The opened accounts of a participant; others have no balance yet.
pub(crate) fn opened_accounts(ledger: &Ledger, participant: &Participant) -> Vec<AccountView> {
    let accounts = participant.accounts.iter().filter_map(|account| ledger.account(account.id));
    let opened = accounts.filter(|account| account.is_opened);
    opened.map(|account| AccountView::of(account, ledger.account_type_name(account.kind))).collect()
}

pub(crate) async fn list(call: Call, Segments(name): Segments<String>) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let accounts = call.ask(move |ledger| Some(opened_accounts(ledger, ledger.participant_named(&name)?)));
    ok(&accounts.await?.ok_or_else(|| ApiError::unknown_participant(name.as_str()))?)
}

/// Creates an account of the hub.
pub(crate) async fn create(
    call: Call,
    State(hostname): State<Hostname>,
    Segments(name): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let currency = fields.required("currency")?.currency()?;
    let kind = fields.required("type")?.text_of(2, 30)?.into();
    fields.only(&["currency", "type"])?;
    let name = participant_name(&name)?;
    call.change(AdminCommand::CreateHubAccount { name, currency, kind }).await?;
    show(&call, hostname, name, StatusCode::CREATED).await
}

pub(crate) async fn set_activity(
    call: Call,
    Segments((name, account)): Segments<(String, String)>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let (name, account) = (participant_name(&name)?, account_id(&account)?);
    let is_active = read_activity(&body)?;
    call.change(AdminCommand::SetAccountActivity { name, account, is_active }).await?;
    empty(StatusCode::OK)
}

// `/ledgerAccountTypes`: the types of accounts.

/// Maximum length of a description, in characters.
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

pub(crate) async fn list_types(call: Call) -> Result<Response, ApiError> {
    let types = call.ask(|ledger| ledger.account_types().iter().map(AccountTypeView::of).collect::<Vec<_>>());
    ok(&types.await?)
}

pub(crate) async fn create_type(call: Call, body: JsonBody) -> Result<Response, ApiError> {
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
    call.change(command).await?;
    empty(StatusCode::CREATED)
}

// Positions: of one participant in the form for portals, and of all participants with their limits.

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PositionView {
    currency: String,
    value: Decimal,
    changed_date: Instant,
}

/// The open position accounts of a participant.
fn positions<'a>(ledger: &'a Ledger, participant: &'a Participant) -> impl Iterator<Item = &'a Account> {
    let is_position = |account: &&AccountRef| account.kind == LedgerAccountTypeId::POSITION;
    let accounts = participant.accounts.iter().filter(is_position);
    accounts.filter_map(|account| ledger.account(account.id)).filter(|account| account.is_opened)
}

pub(crate) async fn list_positions(
    call: Call,
    Segments(name): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let wanted = parameters.currency()?;
    let answer = call.ask(move |ledger| {
        let participant =
            ledger.participant_named(&name).ok_or_else(|| ApiError::unknown_participant(name.as_str()))?;
        if let Some(currency) = wanted
            && !participant.accounts.iter().any(|account| account.currency == currency)
        {
            let detail = format!("Participant '{name}' has no accounts in {currency}");
            return Err(ApiError::new(ErrorName::ParticipantCurrencyNotFound, &detail));
        }
        let positions = positions(ledger, participant)
            .filter(|account| wanted.is_none_or(|currency| currency == account.currency));
        let views = positions.map(|account| PositionView {
            currency: account.currency.to_string(),
            value: Decimal(account.balance),
            changed_date: Instant(account.changed_at),
        });
        Ok(views.collect::<Vec<_>>())
    });
    let views = answer.await??;
    match (wanted, views.first()) {
        (None, _) => ok(&views),
        (Some(_), Some(view)) => ok(view),
        (Some(_), None) => ok(&EmptyObject {}),
    }
}

/// A participant's position in a currency, with its limits.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PositionSummary {
    pub participant: String,
    pub currency: Code,
    pub is_active: Flag,
    /// The amount that the participant owes; negative if it is owed.
    pub position: Decimal,
    /// Liquidity cover: the funds on the account that the settlement model names.
    pub cover: Decimal,
    /// Net debit cap.
    pub cap: Option<Decimal>,
    /// The position alarms at this share of the lower of cover and cap, in hundredths of a percent.
    #[serde(skip)]
    pub alarm_basis_points: u16,
    /// Sum of the transfers in flight that it pays or receives.
    pub reserved: Decimal,
    /// Position in hundredths of a percent of the lower of cover and cap; absent when that is zero or less.
    pub utilisation_basis_points: Option<i64>,
}

impl PositionSummary {
    fn of(ledger: &Ledger, participant: &Participant, position: &Account) -> Self {
        let cover = ledger.cover(participant, position.currency);
        let limit = participant.limit(position.currency);
        let cap = limit.map(|limit| limit.value);
        Self {
            participant: participant.name.to_string(),
            currency: Code(position.currency),
            is_active: Flag(participant.is_active && position.is_active),
            position: Decimal(position.balance),
            cover: Decimal(cover),
            cap: cap.map(Decimal),
            alarm_basis_points: limit
                .map_or(Limit::ALARM_BASIS_POINTS_DEFAULT, |limit| limit.alarm_basis_points),
            reserved: Decimal(position.pending_credits),
            utilisation_basis_points: utilisation(position.balance, cap.map_or(cover, |cap| cap.min(cover))),
        }
    }
}

/// Used share of a limit, in hundredths of a percent, rounded down; zero if the participant is owed.
fn utilisation(position: Amount, bound: Amount) -> Option<i64> {
    if bound <= Amount::ZERO {
        return None;
    }
    let used = i128::from(position.units().max(0)) * 10_000 / i128::from(bound.units());
    Some(i64::try_from(used).unwrap_or(i64::MAX))
}

/// The positions of all participants, ordered by participant.
pub fn position_summaries(ledger: &Ledger) -> Vec<PositionSummary> {
    ledger.participants().iter().flat_map(|participant| position_summaries_of(ledger, participant)).collect()
}

/// The positions of a participant.
pub(crate) fn position_summaries_of<'a>(
    ledger: &'a Ledger,
    participant: &'a Participant,
) -> impl Iterator<Item = PositionSummary> + 'a {
    let summary = |position| PositionSummary::of(ledger, participant, position);
    positions(ledger, participant).map(summary)
}

pub(crate) async fn summary_of_positions(call: Call) -> Result<Response, ApiError> {
    ok(&call.ask(position_summaries).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilisation_is_the_used_share_of_the_limit() {
        let amount = |text| Amount::parse_decimal(text).unwrap();
        for (position, bound, expected) in [
            ("0", "1000", Some(0)),
            ("250", "1000", Some(2_500)),
            ("1000", "1000", Some(10_000)),
            ("1500", "1000", Some(15_000)),
            ("-20", "1000", Some(0)),
            ("0.0001", "99999999999999.9999", Some(0)),
            ("99999999999999.9999", "0.0001", Some(i64::MAX)),
            ("10", "0", None),
            ("10", "-5", None),
        ] {
            assert_eq!(utilisation(amount(position), amount(bound)), expected, "{position} of {bound}");
        }
    }
}
