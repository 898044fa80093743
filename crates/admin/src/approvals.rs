//! `/approvals`: pending approvals, decisions about them, and the policy.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::time::Duration;

use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use serde_json::{Map, Value};
use tokio::time::timeout;
use upesi_engine::Clock as _;
use upesi_ledger::command::{OperatorAction, Preview, ProposalDecision, ProposalDecisionKind};
use upesi_ledger::{
    AdminAction, AdminCommand, AdminOutcome, ApprovalPolicy, ChangeSet, ChangeSetProgress, DecisionInput,
    Ledger, PrintedValue, Proposal, ProposalState, WAIVERS_MAX,
};
use upesi_types::{Amount, Timestamp};

use super::call::{Parameters, Segments};
use crate::access::{
    Caller, CannotApprove, Permission, forbidden, permission_of, permission_to_decide, roles_allow,
};
use crate::body::{Fields, JsonBody};
use crate::call::Call;
use crate::change_sets::{apply, words};
use crate::context::{AdminContext, Diffs};
use crate::error::ApiError;
use crate::error_name::ErrorName;
use crate::json::{Decimal, Instant, ok};
use crate::page_changes::ChangePreview;

/// Default number of proposals per page.
const PAGE_DEFAULT: usize = 100;
/// Maximum number of proposals per page.
const PAGE_MAX: usize = 1_000;
/// Maximum length of a comment, in characters.
const COMMENT_CHARS_MAX: usize = 256;
/// Maximum length of a text in a diff: a set may have 2,000 changes, each with three texts.
const DIFF_TEXT_BYTES_MAX: usize = 4 * 1024;
/// Maximum time from the start of applying a set to the answer of its approval, because clients wait 30 seconds. The
/// answer shows the progress of the set.
const APPLIED_WITHIN: Duration = Duration::from_secs(20);
const FILTERS: [&str; 5] = ["state", "action", "maker", "limit", "after"];

/// A proposal and its approval.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProposalView {
    pub approval_id: u64,
    pub state: &'static str,
    pub action: &'static str,
    pub object: Box<str>,
    pub before: Box<str>,
    pub after: Box<str>,
    pub reason: Box<str>,
    pub maker: Box<str>,
    pub created_date: Instant,
    /// Time from which the proposal can no longer be approved.
    pub expiration: Instant,
    /// SHA-256 of the change as stored.
    pub digest: String,
    pub decided_by: Option<Box<str>>,
    pub decided_date: Option<Instant>,
    pub comment: Option<Box<str>>,
    /// Result of the change, or the reason why it failed.
    pub result: Option<Box<str>>,
    /// Whether the caller may approve or reject it now.
    pub may_decide: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change_set: Option<SetView>,
    /// The complete change, while it is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<Value>,
}

/// A change set that is pending, being applied, or stopped.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetView {
    pub name: Box<str>,
    pub changes: usize,
    /// Number of changes that were made, from the first on.
    pub made: u32,
    /// The reason why the next change was not made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<Box<str>>,
    /// The changes that were not made yet, with their effects at this time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diff: Option<Vec<SetChangeView>>,
}

/// A change of a change set.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetChangeView {
    /// Its number in the set, from 1.
    pub number: usize,
    pub action: &'static str,
    pub object: String,
    pub before: String,
    pub after: String,
    /// The reason why it would be rejected now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// A text of a diff, shortened if it is too long; the complete change has every value.
fn bounded(mut text: String) -> String {
    if text.len() > DIFF_TEXT_BYTES_MAX {
        text.truncate(text.floor_char_boundary(DIFF_TEXT_BYTES_MAX));
        text.push('…');
    }
    text
}

impl SetView {
    fn of(set: &ChangeSet, progress: Option<&ChangeSetProgress>) -> Self {
        Self {
            name: set.name.clone(),
            changes: set.changes.len(),
            made: progress.map_or(0, |progress| progress.made),
            stopped: progress.and_then(|progress| progress.stopped.clone()),
            diff: None,
        }
    }

    /// A set with the changes that were not made.
    fn in_full(
        set: &ChangeSet,
        progress: Option<&ChangeSetProgress>,
        ledger: &Ledger,
        now: Timestamp,
    ) -> Self {
        let view = Self::of(set, progress);
        let first = view.made as usize;
        let previews = ledger.preview(set, first, &DecisionInput::at(now)).into_iter().zip(first + 1..);
        let diff = previews.map(|(Preview { action, change, outcome, .. }, number)| SetChangeView {
            number,
            action: action.name(),
            object: bounded(change.what),
            before: bounded(change.from),
            after: bounded(change.to),
            refused: outcome.err().map(|refusal| words(&refusal)),
        });
        Self { diff: Some(diff.collect()), ..view }
    }
}

impl ProposalView {
    fn of(proposal: &Proposal, ledger: &Ledger, caller: &Caller) -> Self {
        let end = proposal.end.as_ref();
        let approvals = ledger.approvals();
        Self {
            approval_id: proposal.id,
            state: approvals.state_of(proposal).as_str(),
            action: proposal.action.name(),
            object: proposal.object.clone(),
            before: proposal.before.clone(),
            after: proposal.after.clone(),
            reason: proposal.reason.clone(),
            maker: proposal.maker.clone(),
            created_date: Instant(proposal.created_at),
            expiration: Instant(proposal.expires_at),
            digest: upesi_types::hex(&proposal.digest),
            decided_by: end.and_then(|end| end.by.clone()),
            decided_date: end.map(|end| Instant(end.at)),
            comment: end.and_then(|end| end.comment.clone()),
            result: end.and_then(|end| end.result.clone()),
            may_decide: may_decide(proposal, ledger, caller),
            change_set: proposal.set().map(|set| SetView::of(set, approvals.progress(proposal.id))),
            change: None,
        }
    }

    fn in_full(proposal: &Proposal, ledger: &Ledger, caller: &Caller, now: Timestamp) -> Self {
        let progress = ledger.approvals().progress(proposal.id);
        Self {
            change: proposal.command.as_ref().map(shown_change),
            change_set: proposal.set().map(|set| SetView::in_full(set, progress, ledger, now)),
            ..Self::of(proposal, ledger, caller)
        }
    }
}

/// The permissions for a decision about a proposal: for a change set, the permissions of all its areas.
fn permissions_to_decide(proposal: &Proposal, ledger: &Ledger) -> BTreeSet<Permission> {
    let actions = match &proposal.command {
        Some(command) => ledger.actions_of(command),
        None => vec![proposal.action],
    };
    actions.into_iter().map(|action| permission_to_decide(action.area())).collect()
}

/// Whether a caller may approve or reject a proposal now.
fn may_decide(proposal: &Proposal, ledger: &Ledger, caller: &Caller) -> bool {
    let state = ledger.approvals().state_of(proposal);
    matches!(state, ProposalState::Pending | ProposalState::Stopped)
        && proposal.maker != caller.operator
        && caller.cannot_approve.is_none()
        && permissions_to_decide(proposal, ledger).into_iter().all(|permission| caller.may(permission))
}

fn unknown(id: &str) -> ApiError {
    let detail = format!("Approval {id} does not exist, or it ended long ago");
    ApiError::new(ErrorName::ApprovalNotFound, &detail)
}

/// The number in a path.
fn number(text: &str) -> Result<u64, ApiError> {
    let id = text.parse().ok().filter(|id| *id > 0);
    id.ok_or_else(|| ApiError::malformed("\"approvalId\" must be a positive number"))
}

/// The answer for a caller whose change needs an approval.
pub(crate) async fn waits(call: &Call, id: u64) -> Result<ApiError, ApiError> {
    let caller = call.caller.clone();
    let view = call.ask(move |ledger| {
        ledger.approvals().get(id).map(|proposal| ProposalView::of(proposal, ledger, &caller))
    });
    let view = view.await?;
    Ok(ApiError::waiting(id, &view.ok_or_else(|| unknown(&id.to_string()))?))
}

/// A page of proposals.
#[derive(Serialize)]
pub(crate) struct Page {
    pub approvals: Vec<ProposalView>,
    /// Value of `after` for the next page; null at the end.
    pub next: Option<String>,
    pub totals: Totals,
}

/// Totals of all proposals.
#[derive(Serialize)]
pub(crate) struct Totals {
    pub pending: usize,
}

pub(crate) async fn list(call: Call, parameters: Parameters) -> Result<Response, ApiError> {
    ok(&find(&call, &parameters).await?)
}

/// Proposals with the parameters of `GET /approvals`.
///
/// # Errors
/// A parameter is invalid, or the engine does not answer.
pub(crate) async fn find(call: &Call, parameters: &Parameters) -> Result<Page, ApiError> {
    parameters.only(&FILTERS)?;
    let limit = parameters.count("limit", PAGE_DEFAULT, PAGE_MAX)?;
    let after = parameters.get("after").map_or(Ok(0), str::parse);
    let after = after.map_err(|_| ApiError::malformed("\"after\" must be the \"next\" of a page"))?;
    let states: Vec<_> = ProposalState::ALL.iter().map(|state| state.as_str()).collect();
    let state = parameters.get("state").map(|text| {
        let sentence = format!("\"state\" must be one of [{}]", states.join(", "));
        ProposalState::parse(text).ok_or_else(|| ApiError::malformed(&sentence))
    });
    let action = parameters.get("action").map(|text| {
        AdminAction::parse(text)
            .ok_or_else(|| ApiError::malformed("\"action\" must be one of the permissions"))
    });
    let (state, action) = (state.transpose()?, action.transpose()?);
    let maker = parameters.get("maker").map(str::to_owned);
    let caller = call.caller.clone();
    let page = call.ask(move |ledger| {
        let all = ledger.approvals();
        let wanted = all.after(after).filter(|one| {
            state.is_none_or(|state| all.state_of(one) == state)
                && action.is_none_or(|action| one.action == action)
                && maker.as_deref().is_none_or(|maker| &*one.maker == maker)
        });
        let mut approvals: Vec<_> =
            wanted.take(limit + 1).map(|one| ProposalView::of(one, ledger, &caller)).collect();
        let has_more = approvals.len() > limit;
        approvals.truncate(limit);
        let next = approvals.last().filter(|_| has_more).map(|last| last.approval_id.to_string());
        Page { approvals, next, totals: Totals { pending: ledger.approvals().pending().len() } }
    });
    page.await
}

/// The open proposals, and a page of the ended ones.
pub struct ProposalLists {
    /// Those that are pending, being applied or stopped, newest first.
    pub open: Vec<ProposalView>,
    /// Newest first.
    pub ended: Vec<ProposalView>,
    /// The number of the proposal before which the next page of ended ones begins.
    pub next: Option<u64>,
}

/// All open proposals, and the newest ended ones among those that are older than `before`.
///
/// # Errors
/// The engine does not answer.
pub async fn newest(call: &Call, before: Option<u64>, max: usize) -> Result<ProposalLists, ApiError> {
    let caller = call.caller.clone();
    let lists = call.ask(move |ledger| {
        let (all, view) = (ledger.approvals(), |one: &Proposal| ProposalView::of(one, ledger, &caller));
        let mut open: Vec<_> = all.pending().collect();
        open.sort_unstable_by_key(|proposal| Reverse(proposal.id));
        let ended = all.before(before.unwrap_or(u64::MAX)).filter(|proposal| proposal.end.is_some());
        let mut ended: Vec<_> = ended.take(max + 1).collect();
        let has_more = ended.len() > max;
        ended.truncate(max);
        ProposalLists {
            open: open.into_iter().map(view).collect(),
            next: ended.last().filter(|_| has_more).map(|last| last.id),
            ended: ended.into_iter().map(view).collect(),
        }
    });
    lists.await
}

pub(crate) async fn get(
    call: Call,
    State(diffs): State<Diffs>,
    Segments(id): Segments<String>,
) -> Result<Response, ApiError> {
    show(&call, &diffs, number(&id)?).await
}

/// Shows one approval. The diff of a set occupies the deciding thread, so one is computed at a time.
async fn show(call: &Call, diffs: &Diffs, id: u64) -> Result<Response, ApiError> {
    let _permit = diffs.0.acquire().await.map_err(|error| ApiError::internal(&error.to_string()))?;
    let (caller, now) = (call.caller.clone(), call.engine.clock().now());
    let view = call.ask(move |ledger| {
        ledger.approvals().get(id).map(|proposal| ProposalView::in_full(proposal, ledger, &caller, now))
    });
    let view = view.await?;
    ok(&view.ok_or_else(|| unknown(&id.to_string()))?)
}

/// A proposal with the effect that it would have now, for an approver; `None` without such a proposal. The effects of a
/// change set are in its diff.
///
/// # Errors
/// The engine has stopped or is busy.
pub async fn proposal(
    call: &Call,
    context: &AdminContext,
    id: u64,
) -> Result<Option<(ProposalView, Option<ChangePreview>)>, ApiError> {
    let permit = context.diffs.0.acquire().await;
    let _permit = permit.map_err(|error| ApiError::internal(&error.to_string()))?;
    let (caller, now) = (call.caller.clone(), call.engine.clock().now());
    call.ask(move |ledger| {
        let proposal = ledger.approvals().get(id)?;
        let view = ProposalView::in_full(proposal, ledger, &caller, now);
        let command =
            proposal.command.as_ref().filter(|_| view.change_set.is_none() && view.decided_by.is_none());
        let preview = command.and_then(|command| ChangePreview::of(command.clone(), ledger, now, true));
        Some((view, preview))
    })
    .await
}

pub(crate) async fn approve(
    call: Call,
    State(diffs): State<Diffs>,
    Segments(id): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    decide(&call, &diffs, &id, ProposalDecisionKind::Approve(words), read_comment(&body.fields()?)?).await
}

pub(crate) async fn reject(
    call: Call,
    State(diffs): State<Diffs>,
    Segments(id): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    fields.required("comment")?;
    decide(&call, &diffs, &id, ProposalDecisionKind::Reject, read_comment(&fields)?).await
}

pub(crate) async fn withdraw(
    call: Call,
    State(diffs): State<Diffs>,
    Segments(id): Segments<String>,
    body: JsonBody,
) -> Result<Response, ApiError> {
    decide(&call, &diffs, &id, ProposalDecisionKind::Withdraw, read_comment(&body.fields()?)?).await
}

fn read_comment(fields: &Fields<'_>) -> Result<Option<Box<str>>, ApiError> {
    let comment = fields.optional("comment").map(|field| field.text_of(1, COMMENT_CHARS_MAX)).transpose()?;
    fields.only(&["comment"])?;
    Ok(comment.map(Into::into))
}

async fn decide(
    call: &Call,
    diffs: &Diffs,
    id: &str,
    kind: ProposalDecisionKind,
    comment: Option<Box<str>>,
) -> Result<Response, ApiError> {
    let number = number(id)?;
    let found = call.ask(move |ledger| {
        let proposal = ledger.approvals().get(number)?;
        let needed = permissions_to_decide(proposal, ledger);
        Some((needed, proposal.object.clone(), may_still(ledger, proposal)))
    });
    let (needed, object, may_still) = found.await?.ok_or_else(|| unknown(id))?;
    let needed = match kind {
        ProposalDecisionKind::Approve(_) | ProposalDecisionKind::Reject => needed,
        ProposalDecisionKind::Withdraw => [Permission::ApprovalRead].into(),
    };
    // The caller needs all permissions. The entry names a missing one, or the first.
    let lacking = needed.iter().find(|permission| !call.caller.may(**permission));
    let permission = lacking.or(needed.first()).copied().unwrap_or(Permission::ApprovalOperations);
    let object = format!("approval {id}: {object}");
    if let ProposalDecisionKind::Approve(_) = kind
        && let Some(error) = hindrance(call, may_still)
    {
        call.refused(permission, object, &error).await;
        return Err(error);
    }
    let verdict = ProposalDecision { id: number, kind, comment };
    let outcome = call.act(permission, OperatorAction::Decide(verdict), object).await?;
    if let AdminOutcome::ProposalEnded(_, ProposalState::Applying, _) = outcome {
        // The set is applied to its end, even if the client disconnects or the answer is due.
        let engine = call.engine.clone();
        let applying = tokio::spawn(async move { apply(&engine, number).await });
        if let Ok(Err(error)) = timeout(APPLIED_WITHIN, applying).await {
            return Err(ApiError::internal(&error.to_string()));
        }
    }
    show(call, diffs, number).await
}

/// The reason why the caller may not approve, apart from its roles.
fn hindrance(call: &Call, may_still: bool) -> Option<ApiError> {
    match call.caller.cannot_approve {
        Some(CannotApprove { name, text }) => Some(forbidden(name, text)),
        None if may_still => None,
        None => {
            let detail = "The proposer no longer has the permission for this: reject it";
            Some(ApiError::new(ErrorName::MakerNotPermitted, detail))
        }
    }
}

/// Whether the proposer may still make the proposed change. Proposers from providers are checked at their calls.
fn may_still(ledger: &Ledger, proposal: &Proposal) -> bool {
    let actions = match &proposal.command {
        Some(command) => ledger.actions_of(command),
        None => vec![proposal.action],
    };
    ledger.operators().named(&proposal.maker).is_none_or(|maker| {
        maker.is_active && actions.iter().all(|action| roles_allow(maker.roles, permission_of(*action)))
    })
}

/// The actions that need a second operator.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PolicyView {
    /// The actions that need an approval.
    pub second_person: Vec<&'static str>,
    /// Deposits that need none.
    pub waived: Vec<WaiverView>,
}

/// Deposits of a currency that need no approval.
#[derive(Serialize)]
pub struct WaiverView {
    pub currency: String,
    /// Maximum amount of such a deposit.
    pub amount: Decimal,
}

impl PolicyView {
    /// The content of a policy.
    pub fn of(policy: &ApprovalPolicy) -> Self {
        let waiver = |(currency, amount): (&upesi_types::Currency, &Amount)| WaiverView {
            currency: currency.to_string(),
            amount: Decimal(*amount),
        };
        Self {
            second_person: policy.second.iter().map(|action| action.name()).collect(),
            waived: policy.waived.iter().map(waiver).collect(),
        }
    }
}

pub(crate) async fn get_policy(call: Call) -> Result<Response, ApiError> {
    ok(&call.ask(|ledger| PolicyView::of(ledger.approvals().policy())).await?)
}

pub(crate) async fn set_policy(call: Call, body: JsonBody) -> Result<Response, ApiError> {
    let fields = body.fields()?;
    let known: Vec<_> = AdminAction::ALL.iter().copied().filter(|action| action.is_of_policy()).collect();
    let items = fields.required("secondPerson")?.array(known.len())?.into_iter();
    let second = items.map(|item| item.one_of(known.iter().copied(), |action| action.name()));
    let second = second.collect::<Result<BTreeSet<_>, _>>()?;
    let mut policy = ApprovalPolicy { second, ..ApprovalPolicy::default() };
    for item in fields.required("waived")?.array(WAIVERS_MAX)? {
        let waiver = item.object()?;
        let amount = waiver.required("amount")?;
        let most = amount.decimal()?;
        if most <= Amount::ZERO {
            return Err(amount.refuse("must be greater than 0"));
        }
        policy.waived.insert(waiver.required("currency")?.currency()?, most);
        waiver.only(&["currency", "amount"])?;
    }
    fields.only(&["secondPerson", "waived"])?;
    call.change(AdminCommand::SetApprovalPolicy(policy)).await?;
    get_policy(call).await
}

// A complete change, as JSON.

/// The kind of a change and its content. Amounts are texts.
fn shown_change(command: &AdminCommand) -> Value {
    let mut object = Map::new();
    object.insert("type".to_owned(), camel_case(command.name()).into());
    add(&mut object, command.fields());
    Value::Object(object)
}

fn add(object: &mut Map<String, Value>, fields: Vec<(&'static str, PrintedValue<'_>)>) {
    for (name, shown) in fields {
        object.insert(camel_case(name), shown_value(shown));
    }
}

/// Converts a value to JSON. Changes use names, so they contain no numbers of participants, types, callbacks or causes.
fn shown_value(shown: PrintedValue<'_>) -> Value {
    match shown {
        PrintedValue::Flag(flag) => flag.into(),
        PrintedValue::Number(number) => i64::try_from(number).map_or(Value::Null, Value::from),
        PrintedValue::Text(text) => text.into_owned().into(),
        PrintedValue::Account(id) => id.number().into(),
        PrintedValue::List(items) => items.into_iter().map(shown_value).collect(),
        PrintedValue::Fields(fields) => {
            let mut object = Map::new();
            add(&mut object, fields);
            Value::Object(object)
        }
        PrintedValue::Absent
        | PrintedValue::Participant(_)
        | PrintedValue::AccountType(_)
        | PrintedValue::Callback(_)
        | PrintedValue::Cause(_) => Value::Null,
    }
}

/// Converts `net_debit_cap` to `netDebitCap`, and `SetLimit` to `setLimit`.
fn camel_case(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut is_new_word = false;
    for character in name.chars() {
        match character {
            '_' => is_new_word = true,
            _ if is_new_word => {
                text.push(character.to_ascii_uppercase());
                is_new_word = false;
            }
            _ if text.is_empty() => text.push(character.to_ascii_lowercase()),
            _ => text.push(character),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_shown_completely_as_json() {
        let (name, currency) =
            (upesi_types::FspId::parse("green").unwrap(), upesi_types::Currency::parse("KES").unwrap());
        let net_debit_cap = upesi_types::Amount::parse_decimal("12.5").unwrap();
        let command = AdminCommand::SetLimit { name, currency, net_debit_cap, alarm_basis_points: 800 };
        let expected = serde_json::json!({
            "type": "setLimit", "name": "green", "currency": "KES", "netDebitCap": "12.5", "alarmBasisPoints": 800,
        });
        assert_eq!(shown_change(&command), expected);
    }
}
