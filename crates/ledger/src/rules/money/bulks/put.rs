//! Decides `PUT /bulkTransfers/{ID}` and `…/error`, the payee's answer.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};

use upesi_types::{BulkId, ErrorCode, FspId, TransferId};

use crate::base::ids::ParticipantId;
use crate::base::refusal::{Cause, Refusal};
use crate::core::callback::CallbackContent;
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::{ArchiveLookupNeeded, DecisionInput};
use crate::core::state::Ledger;
use crate::money::bulk::{Bulk, BulkAnswer, BulkState, ItemResult, ItemState, PublicBulkState};
use crate::rules::money::bulks::{AbortBulk, FulfilBulk};
use crate::rules::money::put::PutHead;

/// A payee's PUT.
struct Put<'a> {
    bulk: &'a Bulk,
    /// The payee that sent it.
    sender: ParticipantId,
}

impl Ledger {
    pub(crate) fn decide_bulk_fulfil(
        &self,
        fulfil: &FulfilBulk,
        facts: &DecisionInput<'_>,
        out: &mut Decision,
    ) {
        let answer = BulkAnswer {
            is_error: false,
            fingerprint: fulfil.fingerprint,
            extensions: fulfil.extensions.clone(),
            cause: fulfil.fault.clone().map(Cause::Hub),
        };
        let head = PutHead { id: &fulfil.bulk, source: fulfil.source, destination: fulfil.destination };
        let Some(Put { bulk, sender }) = self.begin_bulk_put(head, &answer, facts, out) else { return };
        let rest = match fulfil.state {
            PublicBulkState::Completed | PublicBulkState::Processing => None,
            PublicBulkState::Rejected => Some(generic_payee_error()),
            PublicBulkState::Received | PublicBulkState::Pending | PublicBulkState::Accepted => {
                return out.notify_bulk_error(sender, bulk.id.id(), Refusal::BulkStateNoAnswer);
            }
        };
        // An answer that the hub rejects releases all reserved money immediately.
        let results = match &answer.cause {
            Some(cause) => results(bulk, &[], Some(cause)),
            None => results(bulk, &fulfil.results, rest.as_ref()),
        };
        let open = bulk.items.iter().filter(|item| item.state == ItemState::Accepted);
        let open: BTreeSet<_> = open.map(|item| item.transfer).collect();
        let ignored = fulfil.results.iter().filter(|(transfer, _)| !open.contains(transfer)).count() as u32;
        out.events.push(Event::BulkAnswered { id: bulk.id, answer, results, ignored });
    }

    /// Aborts every open item. The payer receives the payee's own message immediately, because the outcome can no
    /// longer change.
    pub(crate) fn decide_bulk_abort(&self, abort: &AbortBulk, facts: &DecisionInput<'_>, out: &mut Decision) {
        let is_known = abort.code.is_known_to_api();
        let cause = if is_known {
            Cause::Payee { code: abort.code, description: abort.description.clone() }
        } else {
            Cause::Hub(Refusal::ErrorCodeUndefined)
        };
        let answer = BulkAnswer {
            is_error: true,
            fingerprint: abort.fingerprint,
            extensions: None,
            cause: Some(cause.clone()),
        };
        let head = PutHead { id: &abort.bulk, source: abort.source, destination: abort.destination };
        let Some(Put { bulk, sender }) = self.begin_bulk_put(head, &answer, facts, out) else { return };
        let id = bulk.id;
        if let Some(payer) = bulk.payer {
            let content =
                if is_known { CallbackContent::ForwardAbort } else { CallbackContent::Error(cause.clone()) };
            out.notify_of_bulk(payer, id.id(), content);
        }
        if is_known && self.config().payee_confirmation {
            out.notify_of_bulk(sender, id.id(), CallbackContent::ConfirmAbort);
        }
        let results = results(bulk, &[], Some(&cause));
        out.events.push(Event::BulkAnswered { id, answer, results, ignored: 0 });
    }

    /// Returns the bulk transfer and the sender, or nothing if `out` already contains the answer.
    ///
    /// Only the payee may answer, once, and only items that were in its request. Any other answer is rejected and
    /// changes nothing.
    fn begin_bulk_put<'a>(
        &'a self,
        head: PutHead<'_>,
        answer: &BulkAnswer,
        facts: &DecisionInput<'a>,
        out: &mut Decision,
    ) -> Option<Put<'a>> {
        let PutHead { id, source, destination } = head;
        let Some(sender) = self.participant_id_ignoring_case(&source) else {
            out.reply = Reply::UnknownSender(source);
            return None;
        };
        let found = match self.find_bulk(id.id().map(BulkId::new), facts) {
            Err(ArchiveLookupNeeded) => {
                out.reply = Reply::NeedsArchive;
                return None;
            }
            Ok(found) => found,
        };
        let refusal = match found {
            None => Refusal::BulkUnknown,
            Some(bulk) if bulk.payee != Some(sender) => Refusal::SourceNotPayee,
            Some(bulk) if !self.is_addressed_rightly(bulk, destination) => Refusal::BulkDestination,
            Some(bulk) => match &bulk.answer {
                Some(seen) if (seen.is_error, seen.fingerprint) == (answer.is_error, answer.fingerprint) => {
                    let view = CallbackContent::BulkState(Box::new(bulk.view(sender)));
                    out.notify_of_bulk(sender, bulk.id.id(), view);
                    return None;
                }
                Some(_) => Refusal::Modified,
                None if bulk.state != BulkState::Accepted => Refusal::BulkNotAccepted,
                None if bulk.expires_at <= facts.now() => Refusal::Expired,
                None => return Some(Put { bulk, sender }),
            },
        };
        out.notify_bulk_error(sender, id.clone(), refusal);
        None
    }

    /// Whether the destination is the payer, or the hub, which sent the bulk transfer to the payee.
    fn is_addressed_rightly(&self, bulk: &Bulk, destination: Option<FspId>) -> bool {
        let Some(destination) = destination else { return true };
        let payer = bulk.payer.map(|payer| self.participant(payer).name);
        [payer, Some(self.config().hub_name)].iter().flatten().any(|name| name.eq_ignore_case(&destination))
    }
}

/// The results for the open items, by position: the payee's result or, for items that it left out, the cause `rest`.
/// Results for other transfers have no effect; the caller counts them.
fn results(
    bulk: &Bulk,
    said: &[(TransferId, ItemResult)],
    rest: Option<&Cause>,
) -> BTreeMap<u32, ItemResult> {
    let said: BTreeMap<_, _> = said.iter().map(|(id, result)| (*id, result)).collect();
    let open = (0..).zip(&bulk.items).filter(|(_, item)| item.state == ItemState::Accepted);
    let result = |(place, item): (u32, &crate::money::bulk::BulkItem)| {
        let result = match said.get(&item.transfer) {
            Some(said) => checked(said),
            None => ItemResult::Abort(rest?.clone()),
        };
        Some((place, result))
    };
    open.filter_map(result).collect()
}

fn checked(said: &ItemResult) -> ItemResult {
    match said {
        ItemResult::Abort(Cause::Payee { code, .. }) if !code.is_known_to_api() => {
            ItemResult::Abort(Refusal::ErrorCodeUndefined.into())
        }
        said => said.clone(),
    }
}

/// The cause for an item that a payee leaves out when it rejects the bulk transfer.
fn generic_payee_error() -> Cause {
    let code = ErrorCode::PAYEE;
    Cause::Payee { code, description: code.describe("").into() }
}
