//! Answers and callbacks in the notation of the stories.

use upesi_admin::ErrorName;
use upesi_admin::rejection::detail;
use upesi_delivery::rejection;
use upesi_fspiop::render::{Extensions, cause_text, write_transfer_state};
use upesi_ledger::command::AdvanceFault;
use upesi_ledger::{
    AdminOutcome, AskedItem, BulkRequest, BulkView, Callback, CallbackContent, Decision, FxTransfer,
    FxTransferState, ItemOutcome, Ledger, Reply, ResourceKind, StateMethod, Transfer, TransferState,
    TransferView,
};
use upesi_types::{Amount, TransferId};

use super::words::time_of_day;

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
        Reply::Admin(_) | Reply::Audited(_) => return to_operator(reply.clone()),
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
            format!("= refused {} {}", ErrorName::of_refusal(&refusal).code(), detail(&refusal))
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
        ResourceKind::FxTransfer => "fx ",
        ResourceKind::Bulk => "bulk ",
    };
    format!("→ {target} {method} {kind}{} {rest}", shown(&callback.subject.id.to_string()))
}

fn bulk_request(request: &BulkRequest, shown: impl Fn(&str) -> String) -> String {
    let item = |(id, item): &(TransferId, AskedItem)| {
        let amount = item.amount.as_ref().map_or_else(|unfit| unfit.text.to_string(), Amount::to_string);
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
pub fn fx_transfer_state(fx_transfer: &FxTransfer) -> &'static str {
    match &fx_transfer.state {
        FxTransferState::Reserved => "RESERVED",
        FxTransferState::Fulfilled => "FULFILLED",
        FxTransferState::Committed { .. } => "COMMITTED",
        FxTransferState::Aborted { kind, .. } => kind.as_str(),
    }
}
