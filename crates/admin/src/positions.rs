//! Positions: of one participant as portals know them, and of all participants with what bounds them.

use axum::response::Response;
use serde::Serialize;
use upesi_ledger::{Account, AccountRef, Ledger, LedgerAccountTypeId, Participant};
use upesi_types::Amount;

use crate::call::Call;
use crate::error::ApiError;
use crate::extract::{Parameters, Segments, participant_name};
use crate::json::{Decimal, EmptyObject, Flag, Instant, ok};

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct PositionView {
    currency: String,
    value: Decimal,
    changed_date: Instant,
}

/// The opened position accounts of a participant.
fn positions<'a>(ledger: &'a Ledger, participant: &'a Participant) -> impl Iterator<Item = &'a Account> {
    let is_position = |account: &&AccountRef| account.kind == LedgerAccountTypeId::POSITION;
    let accounts = participant.accounts.iter().filter(is_position);
    accounts.filter_map(|account| ledger.account(account.id)).filter(|account| account.is_opened)
}

pub(crate) async fn list(
    Call(context): Call,
    Segments(name): Segments<String>,
    parameters: Parameters,
) -> Result<Response, ApiError> {
    let name = participant_name(&name)?;
    let wanted = parameters.currency()?;
    let answer = context.ask(move |ledger| {
        let participant =
            ledger.participant_named(&name).ok_or_else(|| ApiError::unknown_participant(name.as_str()))?;
        if let Some(currency) = wanted
            && !participant.accounts.iter().any(|account| account.currency == currency)
        {
            return Err(ApiError::not_found(&format!("Participant '{name}' has no accounts in {currency}")));
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

/// One participant's position in one currency, with what bounds it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SummaryView {
    participant: String,
    currency: String,
    is_active: Flag,
    /// What the participant owes; negative when it is owed.
    position: Decimal,
    /// What covers the position: the funds on the account that its settlement model names.
    cover: Decimal,
    /// Its net debit cap.
    cap: Option<Decimal>,
    /// Sum of the transfers in flight that it pays or receives.
    reserved: Decimal,
    /// Position in hundredths of a percent of the lower of cover and cap; absent when that is zero or less.
    utilisation_basis_points: Option<i64>,
}

impl SummaryView {
    fn of(ledger: &Ledger, participant: &Participant, position: &Account) -> Self {
        let cover = ledger.cover(participant, position.currency);
        let cap = participant.limit(position.currency).map(|limit| limit.value);
        Self {
            participant: participant.name.to_string(),
            currency: position.currency.to_string(),
            is_active: Flag(participant.is_active && position.is_active),
            position: Decimal(position.balance),
            cover: Decimal(cover),
            cap: cap.map(Decimal),
            reserved: Decimal(position.pending_credits),
            utilisation_basis_points: utilisation(position.balance, cap.map_or(cover, |cap| cap.min(cover))),
        }
    }
}

/// How much of a bound is used, in hundredths of a percent, rounded down; nothing is used by those who are owed.
fn utilisation(position: Amount, bound: Amount) -> Option<i64> {
    if bound <= Amount::ZERO {
        return None;
    }
    let used = i128::from(position.units().max(0)) * 10_000 / i128::from(bound.units());
    Some(i64::try_from(used).unwrap_or(i64::MAX))
}

pub(crate) async fn summary(Call(context): Call) -> Result<Response, ApiError> {
    let views = context.ask(|ledger| {
        let mut views = Vec::new();
        for participant in ledger.participants() {
            let positions = positions(ledger, participant);
            views.extend(positions.map(|position| SummaryView::of(ledger, participant, position)));
        }
        views
    });
    ok(&views.await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilisation_is_a_share_of_the_bound() {
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
