//! `GET /transfers/{ID}`: a party asks where a transfer stands, or a participant where its deposit or withdrawal does.

use alloc::format;

use upesi_types::{ErrorCode, FspId};

use super::{ArchiveLookupNeeded, Decision, Reply};
use crate::Ledger;
use crate::callback::{CallbackContent, StateMethod, TransferRef};
use crate::facts::Facts;
use crate::transfer::TransferState;

/// Of a transfer that nobody knows.
pub(super) const NOT_FOUND_DETAIL: &str = "Provided Transfer ID was not found on the server.";

/// A question as the gateway read it.
#[derive(Clone, Debug)]
pub struct Get {
    /// The id in the path.
    pub transfer: TransferRef,
    /// `FSPIOP-Source`.
    pub source: FspId,
    /// Whether an inter-scheme proxy passed the question on (`FSPIOP-Proxy`).
    pub is_proxied: bool,
}

impl Ledger {
    pub(super) fn decide_get(&self, get: &Get, facts: &Facts<'_>, out: &mut Decision) {
        let Some(requester) = self.participant_named(&get.source) else {
            return out.reply = Reply::UnknownSender(get.source);
        };
        let found = match self.find(&get.transfer, facts) {
            Err(ArchiveLookupNeeded) => return out.reply = Reply::NeedsArchive,
            Ok(found) => found,
        };
        let refuse = |out: &mut Decision, code, detail: &str| {
            out.tell_error(requester.id, get.transfer.clone(), code, detail);
        };
        if !requester.is_active {
            return refuse(
                out,
                ErrorCode::VALIDATION,
                &format!("Participant {} is inactive", requester.name),
            );
        }
        match found {
            None => match get.transfer.id().and_then(|id| self.funds(id)) {
                None => refuse(out, ErrorCode::TRANSFER_NOT_FOUND, NOT_FOUND_DETAIL),
                Some(funds) if funds.participant != requester.id => refuse(out, ErrorCode::CLIENT, ""),
                Some(funds) => {
                    out.tell(requester.id, funds.id, CallbackContent::State(StateMethod::Put, funds.view()));
                }
            },
            Some(transfer) if !transfer.has_party(requester.id) => refuse(out, ErrorCode::CLIENT, ""),
            Some(transfer) => {
                let content = match &transfer.state {
                    // Another scheme is told by the callback that it knows for failures.
                    TransferState::Aborted { code, description, .. } if get.is_proxied => {
                        CallbackContent::Error(*code, description.clone())
                    }
                    _ => CallbackContent::State(StateMethod::Put, transfer.view()),
                };
                out.tell(requester.id, transfer.id, content);
            }
        }
    }
}
