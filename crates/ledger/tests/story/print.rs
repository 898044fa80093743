//! Answers and callbacks in the notation of the stories.

use upesi_admin::rejection::detail;
use upesi_delivery::rejection;
use upesi_fspiop::render::{Extensions, cause_text, write_transfer_state};
use upesi_ledger::command::AdvanceFault;
use upesi_ledger::{
    Account, AdminOutcome, AskedItem, BulkRequest, BulkView, Callback, CallbackContent, Conversion,
    ConversionState, Decision, ItemOutcome, Ledger, Participant, ParticipantId, Reply, ResourceKind,
    SignatureKey, StateMethod, Transfer, TransferState, TransferView,
};
use upesi_types::{Amount, FspId, Timestamp, TransferId};

use super::words::{Parsed, Words, time_of_day};
use super::{Story, print, words};

/// Results of a step, a line per answer and callback. `shown` returns the story's name for an id.
pub fn outcome(ledger: &Ledger, decision: &Decision, shown: impl Fn(&str) -> String) -> Vec<String> {
    let mut lines = reply(&decision.reply);
    lines.extend(decision.callbacks.iter().map(|owed| callback(ledger, owed, &shown)));
    lines
}

fn reply(reply: &Reply) -> Vec<String> {
    let line = match reply {
        Reply::Accepted => return Vec::new(),
        Reply::UnknownSender(_) => "= refused, the sender is unknown".to_owned(),
        Reply::NeedsArchive => "= needs the archive".to_owned(),
        Reply::Admin(_) | Reply::Act(_) => return to_operator(reply.clone()),
    };
    vec![line]
}

fn to_operator(reply: Reply) -> Vec<String> {
    let line = match reply.into_outcome().expect("the reply to an operator") {
        Ok(AdminOutcome::Done) => return Vec::new(),
        Ok(AdminOutcome::WindowOpened(id)) => format!("= window {id} opened"),
        Ok(AdminOutcome::SettlementCreated(id)) => format!("= settlement {id}"),
        Ok(AdminOutcome::SettlementAdvanced { faults }) => {
            let line = |(index, fault): &(u32, AdvanceFault)| format!("= {}: {}", index + 1, fault.as_str());
            return faults.iter().map(line).collect();
        }
        Ok(AdminOutcome::Redelivered(count)) => format!("= {count} redelivered"),
        Ok(AdminOutcome::AlreadyDone) => "= already done".to_owned(),
        Ok(AdminOutcome::Funds(_, state)) => format!("= {}", state.as_str()),
        Ok(AdminOutcome::Proposed(id)) => format!("= waits as approval {id}"),
        Ok(AdminOutcome::ProposalEnded(id, state, _)) => format!("= approval {id} {}", state.as_str()),
        Ok(AdminOutcome::SetStepped(state, _)) => format!("= {}", state.as_str()),
        Err(refusal) => {
            let (code, detail) = detail(&refusal);
            format!("= refused {code} {detail}")
        }
    };
    vec![line]
}

fn callback(ledger: &Ledger, callback: &Callback, shown: &impl Fn(&str) -> String) -> String {
    let target = ledger.participant(callback.target).name;
    let (method, rest) = match &callback.content {
        CallbackContent::ForwardPrepare => ("POST", "forwarded".to_owned()),
        CallbackContent::ForwardFulfil => ("PUT", "forwarded".to_owned()),
        CallbackContent::ForwardAbort => ("ERROR", "forwarded".to_owned()),
        CallbackContent::ConfirmFulfil => ("PUT", "confirmed".to_owned()),
        CallbackContent::ConfirmAbort => ("ERROR", "confirmed".to_owned()),
        CallbackContent::State(StateMethod::Put, seen) => ("PUT", view(seen)),
        CallbackContent::State(StateMethod::Patch, seen) => ("PATCH", view(seen)),
        CallbackContent::Error(cause) => {
            let (code, text) = rejection::cause(cause);
            ("ERROR", format!("{code} \"{text}\""))
        }
        CallbackContent::BulkRequest(request) => ("POST", bulk_request(request, shown)),
        CallbackContent::BulkState(view) => ("PUT", bulk_view(view, shown)),
    };
    let kind = match callback.subject.resource {
        ResourceKind::Transfer => "",
        ResourceKind::Conversion => "fx ",
        ResourceKind::Bulk => "bulk ",
    };
    format!("→ {target} {method} {kind}{} {rest}", shown(&callback.subject.id.to_string()))
}

fn bulk_request(request: &BulkRequest, shown: impl Fn(&str) -> String) -> String {
    let item = |(id, item): &(TransferId, AskedItem)| {
        let amount = item.amount.as_ref().map_or_else(|(_, text)| text.to_string(), Amount::to_string);
        let extensions = item.extensions.as_ref().map_or(String::new(), |items| format!(" {items}"));
        format!("{} {amount} {}{extensions}", shown(&id.to_string()), item.currency)
    };
    let items: Vec<_> = request.items.iter().map(item).collect();
    let (payer, payee, until) = (request.payer, request.payee, time_of_day(request.expires_at));
    let extensions = request.extensions.as_ref().map_or(String::new(), |items| format!(" {items}"));
    short(format!("{payer} → {payee} until {until}{extensions}: {}", items.join(", ")))
}

fn bulk_view(view: &BulkView, shown: impl Fn(&str) -> String) -> String {
    let item = |(id, outcome): &(TransferId, ItemOutcome)| {
        let outcome = match outcome {
            ItemOutcome::Open => "open".to_owned(),
            ItemOutcome::Fulfilled { extensions: Some(items), .. } => format!("fulfilled {items}"),
            ItemOutcome::Fulfilled { .. } => "fulfilled".to_owned(),
            ItemOutcome::Failed(cause) => rejection::cause(cause).0.to_string(),
        };
        format!("{} {outcome}", shown(&id.to_string()))
    };
    let items: Vec<_> = view.items.iter().map(item).collect();
    let at = view.completed_at.map_or(String::new(), |at| format!(" at {}", time_of_day(at)));
    let extensions = view.extensions.as_ref().map_or(String::new(), |items| format!(" {items}"));
    short(format!("{}{at}{extensions}: {}", view.state.as_str(), items.join(", ")))
}

fn short(text: String) -> String {
    text.replace(r#"{"key":"#, "{").replace(r#","value":"#, ":")
}

fn view(view: &TransferView) -> String {
    let mut text = view.state.as_str().to_owned();
    if let Some(at) = view.completed_at {
        text += &format!(" at {}", time_of_day(at));
    }
    if view.fulfilment.is_some() {
        text += " with fulfilment";
    }
    if let Some(extensions) = extensions(view) {
        text += &format!(" extensions {extensions}");
    }
    short(text)
}

/// The items of the extension list, as in the body that the hub makes.
fn extensions(view: &TransferView) -> Option<String> {
    let cause = view.cause.as_ref().map(|cause| {
        let (code, text) = rejection::cause(cause);
        cause_text(code, &text)
    });
    let extensions = Extensions { items: view.extensions.as_deref(), cause: cause.as_deref() };
    let mut body = Vec::new();
    write_transfer_state(&mut body, None, "", None, extensions);
    let body = String::from_utf8(body).expect("a body is a text");
    let (_, items) = body.split_once(r#""extension":["#)?;
    let (items, _) = items.rsplit_once("]}").expect("the list ends");
    Some(format!("[{items}]"))
}

/// The internal state of a transfer, as operators see it.
pub fn state(transfer: &Transfer) -> &'static str {
    match &transfer.state {
        TransferState::Reserved => "RESERVED",
        TransferState::Committed(_) => "COMMITTED",
        TransferState::Aborted(end) => end.kind.as_str(),
    }
}

/// The internal state of an FX transfer, as operators see it.
pub fn conversion_state(conversion: &Conversion) -> &'static str {
    match &conversion.state {
        ConversionState::Reserved => "RESERVED",
        ConversionState::Fulfilled => "FULFILLED",
        ConversionState::Committed { .. } => "COMMITTED",
        ConversionState::Aborted { kind, .. } => kind.as_str(),
    }
}

// Checks of stories between their steps.

impl Story {
    /// Compares an expectation with the state. The error contains both.
    pub(super) fn check(&mut self, what: &str, words: &mut Words) -> Parsed<()> {
        let (wanted, got) = match what {
            "position" => self.balance(words.name()?, "POSITION", words)?,
            "settlement" => self.balance(words.name()?, "SETTLEMENT", words)?,
            "balance" => {
                let (name, kind) = (words.name()?, words.next("a type")?);
                self.balance(name, &kind, words)?
            }
            "state" => self.state(words)?,
            "conversion" => self.conversion_state(words)?,
            "bulk-state" => self.bulk_state(words)?,
            "reason" => self.reason(words)?,
            "funds" => {
                let id = self.id(&words.next("a movement of funds")?);
                let state = self.twin.live.funds(id).map_or("unknown", |funds| funds.state.as_str());
                (words.next("a state")?, state.to_owned())
            }
            "cap" => {
                let (name, cap) = (words.name()?, words.amount()?);
                let limit =
                    self.participant(name.as_str())?.limit(words.currency()?).map(|limit| limit.value);
                (cap.to_string(), limit.map_or("none".to_owned(), |limit| limit.to_string()))
            }
            "accounts" => self.accounts(words)?,
            "bindings" => {
                let owner = self.participant(words.name()?.as_str())?;
                let bindings: Vec<_> = owner.bindings.iter().map(ToString::to_string).collect();
                (words.next("a list")?, bindings.join(", "))
            }
            "blocks" => {
                let blocks: Vec<_> = self.twin.live.blocks().keys().map(ToString::to_string).collect();
                (words.next("a list")?, blocks.join(", "))
            }
            "keys" => {
                let id = self.participant(words.name()?.as_str())?.id;
                (words.next("a list")?, self.signature_keys(id))
            }
            "fees" => {
                let totals = self.twin.live.totals();
                let got = format!("{} charged, {} not charged", totals.fees, totals.fees_not_charged);
                (rest(words)?, got)
            }
            "results-ignored" => {
                (words.next("a number")?, self.twin.live.bulk_totals().results_ignored.to_string())
            }
            "participants" => (words.next("a number")?, self.twin.live.participants().len().to_string()),
            "owed" => {
                let target = self.participant(words.name()?.as_str())?.id;
                let owed = self.twin.live.outbox().pending(target, None).count();
                (words.next("a number")?, owed.to_string())
            }
            "window" => self.window_line(words)?,
            "pairs" => self.pairs(words)?,
            "stage" => self.stage(words)?,
            "note" => self.note(words)?,
            "remainder" => self.remainder(words)?,
            "approval" => self.approval(words)?,
            "parked" => (words.next("a number")?, self.twin.live.outbox().parked_len().to_string()),
            _ => return Err("no such step".to_owned()),
        };
        if wanted == got { Ok(()) } else { Err(format!("- {wanted}\n    + {got}")) }
    }

    /// `keys greenbank "K1 previous until 12:00:30, K2 current, K0 revoked; files until 12:00:30"`, at the time of the
    /// next step.
    fn signature_keys(&self, owner: ParticipantId) -> String {
        let Some(keys) = self.twin.live.signature_keys().of(owner) else { return String::new() };
        let shown = |key: &SignatureKey| {
            let name = String::from_utf8_lossy(&key.public_key.0);
            let state = keys.state_of(key, self.clock).as_str();
            let end = key.ends_at.filter(|_| !key.has_ended(self.clock));
            format!("{name} {state}{}", until(end))
        };
        let revoked = keys.revoked.iter().map(|_| "one revoked".to_owned());
        let all: Vec<_> = keys.keys.iter().map(shown).chain(revoked).collect();
        format!("{}; files{}", all.join(", "), until(keys.files_end_at))
    }

    pub(super) fn participant(&self, name: &str) -> Parsed<&Participant> {
        let found = self.twin.live.participant_named(&words::name(name)?);
        found.ok_or_else(|| format!("there is no {name}"))
    }

    fn balance(&self, name: FspId, kind: &str, words: &mut Words) -> Parsed<(String, String)> {
        let wanted = words.amount()?;
        let id = self.account_id(&name, kind, words.currency()?)?;
        let balance = self.twin.live.account(id).ok_or("no account")?.balance;
        Ok((wanted.to_string(), balance.to_string()))
    }

    /// `state t1 EXPIRED_RESERVED`; `unknown` if it is neither in memory nor in the archive.
    fn state(&mut self, words: &mut Words) -> Parsed<(String, String)> {
        let id = self.id(&words.next("a transfer")?);
        let found = self.twin.live.transfer(id).or_else(|| self.twin.archive.get(&id));
        Ok((words.next("a state")?, found.map_or("unknown", print::state).to_owned()))
    }

    /// `reason t1 "the payee is gone"`: an operator's reason for ending it; `none` if no operator did.
    fn reason(&mut self, words: &mut Words) -> Parsed<(String, String)> {
        let id = self.id(&words.next("a transfer")?);
        let found = self.twin.live.transfer(id).or_else(|| self.twin.archive.get(&id));
        let reason = match found.map(|transfer| &transfer.state) {
            Some(TransferState::Aborted(end)) => end.operator_reason.as_deref(),
            _ => None,
        };
        Ok((words.next("a reason")?, reason.unwrap_or("none").to_owned()))
    }

    /// `accounts greenbank POSITION KES active, SETTLEMENT KES inactive`.
    fn accounts(&self, words: &mut Words) -> Parsed<(String, String)> {
        let owner = self.participant(words.name()?.as_str())?;
        let wanted = rest(words)?;
        let shown = |account: &Account| {
            let flag = if account.is_active { "active" } else { "inactive" };
            format!("{} {} {flag}", self.twin.live.account_type_name(account.kind), account.currency)
        };
        let accounts = owner.accounts.iter().filter_map(|account| self.twin.live.account(account.id));
        Ok((wanted, accounts.map(shown).collect::<Vec<_>>().join(", ")))
    }
}

fn until(end: Option<Timestamp>) -> String {
    end.map_or_else(String::new, |end| format!(" until {}", words::time_of_day(end)))
}

/// The remaining words.
fn rest(words: &mut Words) -> Parsed<String> {
    let mut rest = Vec::new();
    while !words.is_empty() {
        rest.push(words.next("a word")?);
    }
    Ok(rest.join(" "))
}
