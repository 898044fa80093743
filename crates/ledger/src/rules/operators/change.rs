//! Describes an operator's change for the log and the audit trail: the object, its state before and its state after.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId, hex};

use crate::base::ids::{AccountId, LedgerAccountTypeId, SettlementId};
use crate::core::state::Ledger;
use crate::money::account::Account;
use crate::money::changes::{Deposit, FundsAction, FundsEnd, FundsPrepare, NewFeeRule};
use crate::money::funds::{FundsDirection, FundsState};
use crate::operators::action::AdminAction;
use crate::operators::admin_command::{AdminCommand, ChangeSet};
use crate::operators::operator::Operator;
use crate::operators::outcome::AdminOutcome;
use crate::operators::trail::short_digest;
use crate::rules::money::expire::Expire;
use crate::scheme::block::Block;
use crate::scheme::changes::{EndpointValue, NewSignatureKey};
use crate::scheme::endpoint::EndpointType;
use crate::scheme::participant::Limit;
use crate::settlement::changes::{
    CoverItem, NewSettlement, NewSettlementModel, SettlementAbort, SettlementAdvance, SettlementCover,
};
use crate::settlement::settlements::SettlementState;

/// Maximum number of endpoints outside the common base URL that a text lists individually.
const ENDPOINTS_LISTED_MAX: usize = 16;

/// A change of an object, with the object's state before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub what: String,
    /// The object's state before the change.
    pub from: String,
    /// The object's state after the change.
    pub to: String,
}

impl Change {
    /// A change of something that is not part of the ledger.
    pub fn new(what: impl Into<String>, from: impl Into<String>, to: impl Into<String>) -> Self {
        Self { what: what.into(), from: from.into(), to: to.into() }
    }

    /// The change when an operator expires a reservation.
    pub fn of_expire(expire: &Expire) -> Self {
        let Expire { transfer, reason } = expire;
        Self::new(format!("transfer {transfer}"), "RESERVED", format!("EXPIRED_RESERVED: {reason}"))
    }

    /// The change when an operator redelivers parked callbacks.
    pub fn of_redelivery(count: usize) -> Self {
        Self::new(format!("{count} callbacks"), "parked", "owed")
    }

    /// The change that a command is about to make.
    pub fn of(command: &AdminCommand, ledger: &Ledger) -> Self {
        let (what, from, to) = match command {
            AdminCommand::CreateParticipant { name, currency, is_proxy } => {
                participant_created(name, *currency, *is_proxy, ledger)
            }
            AdminCommand::SetParticipantActivity { name, is_active } => {
                let before = ledger.participant_named(name).map(|participant| participant.is_active);
                (format!("participant {name}"), activity(before), activity(Some(*is_active)))
            }
            AdminCommand::SetEndpoint { name, kind, value } => endpoint_set(name, *kind, value, ledger),
            AdminCommand::SetEndpoints { name, endpoints } => endpoints_set(name, endpoints, ledger),
            AdminCommand::AddBinding { .. }
            | AdminCommand::RemoveBinding { .. }
            | AdminCommand::AddSignatureKey(_)
            | AdminCommand::RevokeSignatureKey { .. }
            | AdminCommand::SetBlock { .. }
            | AdminCommand::LiftBlock { .. } => access_changed(command, ledger),
            AdminCommand::AddProxied { proxy, name } => {
                (format!("proxy of {name}"), "none".to_owned(), proxy.to_string())
            }
            AdminCommand::RemoveProxied { proxy, name } => {
                (format!("proxy of {name}"), proxy.to_string(), "none".to_owned())
            }
            AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position } => {
                let opening = Opening { cap: *net_debit_cap, position: *initial_position };
                let (from, to) = opened(name, *currency, opening, ledger);
                (cap_of(name, *currency), from, to)
            }
            AdminCommand::SetLimit { name, currency, net_debit_cap, alarm_basis_points } => {
                let (value, alarm_basis_points) = (*net_debit_cap, *alarm_basis_points);
                let to = Limit { currency: *currency, value, alarm_basis_points };
                (cap_of(name, *currency), limit(limit_of(ledger, name, *currency)), limit(Some(to)))
            }
            AdminCommand::CreateHubAccount { name, currency, kind } => {
                (format!("account {kind} of {name} in {currency}"), "none".to_owned(), "open".to_owned())
            }
            AdminCommand::SetAccountActivity { name, account, is_active } => {
                account_switched(name, *account, *is_active, ledger)
            }
            AdminCommand::PrepareFunds(funds) => funds_prepared(funds, ledger),
            AdminCommand::Deposit(deposit) => deposited(deposit, ledger),
            AdminCommand::ChangeSet(set) => (set.title(), "none".to_owned(), set.summary(ledger)),
            AdminCommand::EndFunds(end) => funds_ended(end, ledger),
            AdminCommand::AcceptClock { reason } => clock_accepted(reason),
            AdminCommand::CreateSettlementModel(model) => {
                (format!("settlement model {}", model.name), "none".to_owned(), model_created(model))
            }
            AdminCommand::SetSettlementModelActivity { name, is_active } => {
                let before = ledger.model_named(name).map(|model| model.is_active);
                (format!("settlement model {name}"), activity(before), activity(Some(*is_active)))
            }
            AdminCommand::CloseWindow { id, reason } => {
                let before = ledger.window(*id).map_or("none", |window| window.state.as_str());
                (format!("settlement window {id}"), before.to_owned(), format!("CLOSED: {reason}"))
            }
            AdminCommand::CreateSettlement(new) => settlement_created(new),
            AdminCommand::AdvanceSettlement(advance) => settlement_advanced(advance, ledger),
            AdminCommand::MoveCover(cover) => cover_moved(cover, ledger),
            AdminCommand::AbortSettlement(abort) => settlement_aborted(abort, ledger),
            AdminCommand::CreateFeeRule(rule) => fee_rule_created(rule),
            AdminCommand::EndFeeRule { name, until } => fee_rule_ended(name, *until, ledger),
            AdminCommand::CreateLedgerAccountType { name, is_active, .. } => {
                (format!("ledger account type {name}"), "none".to_owned(), activity(Some(*is_active)))
            }
            AdminCommand::SetOperator(_)
            | AdminCommand::AddCredential(_)
            | AdminCommand::RemoveCredential { .. }
            | AdminCommand::SetApprovalPolicy(_) => operator_changed(command, ledger),
        };
        Self { what, from, to }
    }

    /// The change that was made, given the command's outcome. Returns `None` if nothing was changed.
    pub fn made(self, outcome: &AdminOutcome) -> Option<Self> {
        match outcome {
            AdminOutcome::AlreadyDone => None,
            AdminOutcome::Done | AdminOutcome::WindowOpened(_) | AdminOutcome::SettlementCreated(_) => {
                Some(self)
            }
            AdminOutcome::Redelivered(count) => Some(Self::of_redelivery(*count)),
            AdminOutcome::Proposed(id) => Some(Self {
                what: format!("approval {id}: {}", self.what),
                to: format!("proposed: {}", self.to),
                ..self
            }),
            AdminOutcome::ProposalEnded(..) | AdminOutcome::SetStepped(..) => Some(self),
            AdminOutcome::SettlementAdvanced { faults } if faults.is_empty() => Some(self),
            AdminOutcome::SettlementAdvanced { faults } => {
                Some(Self { to: format!("{}, {} passed over", self.to, faults.len()), ..self })
            }
            // The outcome may differ from the requested state.
            AdminOutcome::Funds(_, state) => Some(Self { to: state.as_str().to_owned(), ..self }),
        }
    }
}

fn access_changed(command: &AdminCommand, ledger: &Ledger) -> (String, String, String) {
    match command {
        AdminCommand::AddBinding { name, kind, value } => {
            (format!("binding {}:{value} of {name}", kind.name()), "none".to_owned(), "bound".to_owned())
        }
        AdminCommand::RemoveBinding { name, kind, value } => {
            (format!("binding {}:{value} of {name}", kind.name()), "bound".to_owned(), "none".to_owned())
        }
        AdminCommand::AddSignatureKey(new) => signature_key_added(new, ledger),
        AdminCommand::RevokeSignatureKey { name, sha256 } => {
            let before = ledger.describe_signature_key(name, sha256);
            (signature_key(name, sha256), before, "revoked".to_owned())
        }
        AdminCommand::SetBlock { block } => {
            (format!("block of {block}"), blocked_since(block, ledger), "blocked".to_owned())
        }
        AdminCommand::LiftBlock { block } => {
            (format!("block of {block}"), blocked_since(block, ledger), "none".to_owned())
        }
        _ => unreachable!("only bindings, keys and blocks are described here"),
    }
}

fn blocked_since(block: &Block, ledger: &Ledger) -> String {
    ledger.blocks().get(block).map_or_else(|| "none".to_owned(), |at| format!("blocked since {at}"))
}

fn operator_changed(command: &AdminCommand, ledger: &Ledger) -> (String, String, String) {
    match command {
        AdminCommand::SetOperator(new) => {
            let before = ledger.operators().named(&new.name).map(described);
            let to = described_as(&new.roles, new.is_active);
            (format!("operator {}", new.name), before.unwrap_or("none".to_owned()), to)
        }
        AdminCommand::AddCredential(new) => {
            let (name, kind) = (&new.name, new.secret.kind());
            (format!("{kind} of operator {name}"), "none".to_owned(), format!("{:?}", new.secret))
        }
        AdminCommand::RemoveCredential { name, id } => {
            let operator = ledger.operators().named(name);
            let found = operator.and_then(|one| one.credentials.iter().find(|known| known.id == *id));
            let person = operator.and_then(|one| one.person).filter(|person| person.id == *id);
            let before = match (found, person) {
                (Some(found), _) => format!("{:?}", found.secret),
                (None, Some(person)) => format!("{:?}", person.sealed),
                (None, None) => "none".to_owned(),
            };
            (format!("credential {id} of operator {name}"), before, "none".to_owned())
        }
        AdminCommand::SetApprovalPolicy(policy) => {
            ("approval policy".to_owned(), ledger.approvals().policy().to_string(), policy.to_string())
        }
        _ => unreachable!("only changes of operators are described here"),
    }
}

fn described(operator: &Operator) -> String {
    described_as(&operator.roles, operator.is_active)
}

fn described_as(roles: &dyn core::fmt::Display, is_active: bool) -> String {
    format!("{roles}, {}", if is_active { "active" } else { "inactive" })
}

fn activity(is_active: Option<bool>) -> String {
    match is_active {
        Some(true) => "active",
        Some(false) => "inactive",
        None => "none",
    }
    .to_owned()
}

fn cap_of(name: &FspId, currency: Currency) -> String {
    format!("net debit cap of {name} in {currency}")
}

fn limit_of(ledger: &Ledger, name: &FspId, currency: Currency) -> Option<Limit> {
    ledger.participant_named(name)?.limit(currency).copied()
}

/// Net debit cap and initial position of new accounts.
#[derive(Clone, Copy)]
struct Opening {
    cap: Amount,
    position: Amount,
}

/// Net debit cap and initial position of an account, before and after they are set.
fn opened(name: &FspId, currency: Currency, opening: Opening, ledger: &Ledger) -> (String, String) {
    let Opening { cap, position } = opening;
    let mut to = format!("{cap}");
    let mut from = limit(limit_of(ledger, name, currency));
    let before = position_of(ledger, name, currency);
    from.extend(before.map(|before| format!(", position {before}")));
    if position != Amount::ZERO || before.is_some() {
        to += &format!(", initial position {position}");
    }
    (from, to)
}

/// The position of an account that was already opened.
fn position_of(ledger: &Ledger, name: &FspId, currency: Currency) -> Option<Amount> {
    let position = ledger.participant_named(name)?.account(currency, LedgerAccountTypeId::POSITION)?;
    ledger.account(position).filter(|account| account.is_opened).map(|account| account.balance)
}

fn limit(limit: Option<Limit>) -> String {
    limit.map_or_else(
        || "none".to_owned(),
        |Limit { value, alarm_basis_points, .. }| {
            let (percent, hundredths) = (alarm_basis_points / 100, alarm_basis_points % 100);
            let rest = if hundredths == 0 { String::new() } else { format!(".{hundredths:02}") };
            format!("{value}, alarm at {percent}{rest} %")
        },
    )
}

fn funds_prepared(funds: &FundsPrepare, ledger: &Ledger) -> (String, String, String) {
    let (kind, to) = match funds.direction {
        FundsDirection::In => ("deposit", FundsState::Committed),
        FundsDirection::Out => ("withdrawal", FundsState::Reserved),
    };
    let what = format!("{kind} {} of {}, {} {}", funds.id, funds.name, funds.amount, funds.currency);
    (what, funds_state(funds.id, ledger), to.as_str().to_owned())
}

fn deposited(deposit: &Deposit, ledger: &Ledger) -> (String, String, String) {
    let Deposit { id, name, amount, currency, .. } = deposit;
    let to = FundsState::Committed.as_str().to_owned();
    (format!("deposit {id} of {name}, {amount} {currency}"), funds_state(*id, ledger), to)
}

fn funds_state(id: TransferId, ledger: &Ledger) -> String {
    ledger.funds(id).map_or("none", |found| found.state.as_str()).to_owned()
}

fn account_switched(
    name: &FspId,
    account: AccountId,
    is_active: bool,
    ledger: &Ledger,
) -> (String, String, String) {
    let found = ledger.account(account);
    let kind = found.map_or("", |found| ledger.account_type_name(found.kind));
    let currency = found.map_or_else(String::new, |found| format!(" in {}", found.currency));
    let what = format!("account {} of {name}, {kind}{currency}", account.number());
    (what, activity(found.map(|found| found.is_active)), activity(Some(is_active)))
}

fn funds_ended(end: &FundsEnd, ledger: &Ledger) -> (String, String, String) {
    let to = match end.action {
        FundsAction::Commit => FundsState::Committed,
        FundsAction::Abort => FundsState::Aborted,
    };
    let what = format!("withdrawal {} of {}", end.id, end.name);
    (what, funds_state(end.id, ledger), to.as_str().to_owned())
}

fn endpoint_set(name: &FspId, kind: EndpointType, value: &str, ledger: &Ledger) -> (String, String, String) {
    let before = ledger.participant_named(name).and_then(|participant| participant.endpoint(kind));
    (format!("endpoint {} of {name}", kind.name()), before.unwrap_or("none").to_owned(), value.to_owned())
}

/// Describes many endpoints for review: the base URL that most of them share, and each endpoint outside it.
fn endpoints_set(name: &FspId, endpoints: &[EndpointValue], ledger: &Ledger) -> (String, String, String) {
    let participant = ledger.participant_named(name);
    let before = |one: &EndpointValue| Some((one.kind, participant?.endpoint(one.kind)?));
    let before: Vec<_> = endpoints.iter().filter_map(before).collect();
    let after: Vec<_> = endpoints.iter().map(|one| (one.kind, &*one.value)).collect();
    let what = format!("{} endpoints of {name}", endpoints.len());
    (what, described_endpoints(&before), described_endpoints(&after))
}

/// Describes how many endpoints have the usual path below the most common base URL, and lists every other endpoint. The
/// text depends on every value: endpoints after the first [`ENDPOINTS_LISTED_MAX`] are covered by a digest.
fn described_endpoints(endpoints: &[(EndpointType, &str)]) -> String {
    let mut counts = BTreeMap::<&str, usize>::new();
    for base in endpoints.iter().filter_map(base_of) {
        *counts.entry(base).or_default() += 1;
    }
    let shared = counts.into_iter().max_by_key(|(_, count)| *count);
    let is_elsewhere = |one: &&(EndpointType, &str)| {
        base_of(one).is_none_or(|base| shared.is_none_or(|(of_most, _)| base != of_most))
    };
    let elsewhere: Vec<_> = endpoints.iter().filter(is_elsewhere).collect();
    let shared = shared.map(|(base, count)| format!("{count} at {base}"));
    let listed = elsewhere.iter().take(ENDPOINTS_LISTED_MAX);
    // A space separates endpoints, but an address may contain one.
    let listed = listed.map(|(kind, value)| match value.contains(char::is_whitespace) {
        true => format!("{} {value:?}", kind.name()),
        false => format!("{} {value}", kind.name()),
    });
    let mut parts: Vec<_> = shared.into_iter().chain(listed).collect();
    let rest = elsewhere.get(ENDPOINTS_LISTED_MAX..).unwrap_or_default();
    if !rest.is_empty() {
        let values = rest.iter().map(|(kind, value)| format!("{} {value}\n", kind.name()));
        let digest = short_digest(&values.collect::<String>());
        parts.push(format!("{} more, sha256:{digest}", rest.len()));
    }
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

/// The base URL of an endpoint that has the usual path of its type.
fn base_of<'a>((kind, value): &(EndpointType, &'a str)) -> Option<&'a str> {
    value.strip_suffix(kind.usual_path()?).filter(|base| base.contains("://"))
}

fn participant_created(
    name: &FspId,
    currency: Currency,
    is_proxy: bool,
    ledger: &Ledger,
) -> (String, String, String) {
    let participant = ledger.participant_named(name);
    let has_accounts =
        participant.is_some_and(|found| found.accounts.iter().any(|account| account.currency == currency));
    let from = match participant {
        None => "none",
        Some(_) if has_accounts => "accounts in it",
        Some(_) => "no accounts in it",
    };
    let to = match participant {
        Some(_) => "accounts in it",
        None if is_proxy => "a proxy",
        None => "a participant",
    };
    (format!("participant {name} in {currency}"), from.to_owned(), to.to_owned())
}

fn clock_accepted(reason: &str) -> (String, String, String) {
    let to = format!("by the wall clock: {reason}");
    ("the hub's time".to_owned(), "without the wall clock".to_owned(), to)
}

fn fee_rule_created(rule: &NewFeeRule) -> (String, String, String) {
    let terms = &rule.terms;
    let to = format!("{} millionths and {} of a transfer", terms.rate, terms.fixed);
    (format!("fee rule {} in {}", terms.name, terms.currency), "none".to_owned(), to)
}

fn fee_rule_ended(name: &str, until: Option<Timestamp>, ledger: &Ledger) -> (String, String, String) {
    let before = ledger.fee_rule_named(name).and_then(|rule| rule.until);
    let from = before.map_or("no end".to_owned(), |at| at.to_string());
    let to = until.map_or("ends now".to_owned(), |at| at.to_string());
    (format!("end of fee rule {name}"), from, to)
}

fn settlement_created(new: &NewSettlement) -> (String, String, String) {
    let windows: Vec<_> = new.windows.iter().map(ToString::to_string).collect();
    let what = format!("settlement by {} of windows {}", new.model, windows.join(", "));
    (what, "none".to_owned(), format!("PENDING_SETTLEMENT: {}", new.reason))
}

fn settlement_state(ledger: &Ledger, id: SettlementId) -> String {
    ledger.settlement(id).map_or("none", |settlement| settlement.state.as_str()).to_owned()
}

fn settlement_aborted(abort: &SettlementAbort, ledger: &Ledger) -> (String, String, String) {
    let SettlementAbort { id, reason, .. } = abort;
    (format!("settlement {id}"), settlement_state(ledger, *id), format!("ABORTED: {reason}"))
}

fn settlement_advanced(advance: &SettlementAdvance, ledger: &Ledger) -> (String, String, String) {
    let mut states: Vec<_> = advance.items.iter().map(|item| item.state.as_str()).collect();
    states.dedup();
    let what = format!("{} accounts of settlement {}", advance.items.len(), advance.id);
    (what, settlement_state(ledger, advance.id), states.join(", "))
}

/// States the money of each account, because the second person decides based on it.
fn cover_moved(cover: &SettlementCover, ledger: &Ledger) -> (String, String, String) {
    let movement = |item: &CoverItem| {
        let account = AccountId::new(item.account)?;
        let net = ledger.settlement(cover.id)?.account(account)?.net;
        let Account { participant, currency, .. } = ledger.account(account)?;
        let name = ledger.participant(*participant).name;
        Some(match net.is_negative() {
            true => format!("{} {currency} to {name}", net.negated()),
            false => format!("{net} {currency} from {name}"),
        })
    };
    let movements: Vec<_> = cover.items.iter().filter_map(movement).collect();
    let what = format!("cover of {} accounts of settlement {}", cover.items.len(), cover.id);
    let to = format!("{}, moved {}", SettlementState::Committed.as_str(), movements.join(", "));
    (what, settlement_state(ledger, cover.id), to)
}

fn signature_key(name: &FspId, sha256: &[u8; 32]) -> String {
    format!("signature key {} of {name}", hex(sha256))
}

fn signature_key_added(new: &NewSignatureKey, ledger: &Ledger) -> (String, String, String) {
    let sha256 = new.public_key.sha256();
    let before = ledger.describe_signature_key(&new.name, &sha256);
    let from = new.starts_at.map_or_else(|| "now".to_owned(), |at| at.to_string());
    let hours = new.overlap_hours;
    (signature_key(&new.name, &sha256), before, format!("from {from}, earlier keys {hours} h longer"))
}

fn model_created(model: &NewSettlementModel) -> String {
    let currency = model.currency.map_or_else(|| "every currency".to_owned(), |code| code.to_string());
    format!(
        "{} {} {} of {} for {currency}",
        model.granularity.as_str(),
        model.interchange.as_str(),
        model.delay.as_str(),
        model.ledger_account_type
    )
}

impl ChangeSet {
    /// The actions of the changes, with the number of changes for each.
    pub(crate) fn summary(&self, ledger: &Ledger) -> String {
        let mut counts = BTreeMap::<AdminAction, usize>::new();
        for change in &self.changes {
            *counts.entry(ledger.action_of(&change.command)).or_default() += 1;
        }
        let parts: Vec<_> =
            counts.iter().map(|(action, count)| format!("{count} {}", action.name())).collect();
        parts.join(", ")
    }
}
