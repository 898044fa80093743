//! Mistakes about bulks.

use upesi_engine::Mistake;
use upesi_ledger::command::Decision;
use upesi_ledger::{AbortKind, CallbackContent, Cause, Event, ItemOutcome, Refusal};
use upesi_types::Amount;

use crate::plan::Bug;

/// What goes wrong with decisions about bulks, if that is the mistake.
pub(super) fn in_decisions(bug: Bug) -> Option<Mistake> {
    Some(Box::new(match bug {
        Bug::AltersItems => alter_items,
        Bug::HidesItems => hide_items,
        Bug::LosesResults => lose_results,
        Bug::ExpiresAnswered => expire_answered,
        Bug::TellsPayerOnly => tell_payer_only,
        Bug::TellsOtherwise => tell_otherwise,
        _ => return None,
    }))
}

fn alter_items(decision: &mut Decision) {
    if let [Event::TransferPrepared(transfer), Event::BulkItemDecided { refused: None, .. }] =
        &mut decision.events[..]
    {
        transfer.amount = Amount::from_units(transfer.amount.units() + 1).unwrap_or(transfer.amount);
    }
}

fn hide_items(decision: &mut Decision) {
    for callback in &mut decision.callbacks {
        if let CallbackContent::BulkRequest(request) = &mut callback.content {
            request.items.pop();
        }
    }
}

fn lose_results(decision: &mut Decision) {
    if let [Event::BulkAnswered { results, .. }] = &mut decision.events[..] {
        results.pop_last();
    }
}

/// A commit that tells nobody is that of an item.
fn expire_answered(decision: &mut Decision) {
    if let ([Event::TransferCommitted { id, .. }, ..], []) = (&decision.events[..], &decision.callbacks[..]) {
        decision.events = vec![Event::TransferAborted {
            id: *id,
            kind: AbortKind::Expired,
            cause: Cause::Hub(Refusal::Expired),
            operator_reason: None,
            fingerprint: None,
        }];
    }
}

fn tell_payer_only(decision: &mut Decision) {
    if let [Event::BulkEnded { .. }] = decision.events[..] {
        decision.callbacks.truncate(1);
    }
}

fn tell_otherwise(decision: &mut Decision) {
    if let [Event::BulkEnded { .. }] = decision.events[..]
        && let Some(CallbackContent::BulkState(view)) =
            decision.callbacks.first_mut().map(|callback| &mut callback.content)
    {
        for (_, outcome) in &mut view.items {
            if matches!(outcome, ItemOutcome::Fulfilled { .. }) {
                *outcome = ItemOutcome::Failed(Cause::Hub(Refusal::Expired));
            }
        }
    }
}
