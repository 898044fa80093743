//! `participants/{Type}/{ID}[/{SubId}]`: who serves a party.

use std::sync::Arc;

use upesi_delivery::relayed::ErrorInformation;
use upesi_delivery::{Accepted, Unroutable};
use upesi_fspiop::render::{PartyEntry, write_fsp_id, write_party_list};
use upesi_fspiop::{Action, Message, Resource, SyncError, check_party_path};
use upesi_http::Bytes;
use upesi_types::{Currency, ErrorCode, FspId};

use super::{InProgress, Kind, PartyRequest, Shared, address, currency_of, run, to_information};
use crate::oracle::{Inquiry, Operation, Oracle};

/// What a DFSP asks about a party.
#[derive(Clone, Copy, Debug)]
enum Wish {
    Find,
    /// `owner` serves the party.
    Note {
        operation: Operation,
        owner: FspId,
    },
    Remove,
}

fn wish(request: &PartyRequest, message: Message) -> Result<(Wish, Option<Currency>), SyncError> {
    let operation = match (request.action(), message) {
        (Action::Delete, _) => return Ok((Wish::Remove, currency_of(request)?)),
        (Action::Get, _) => return Ok((Wish::Find, currency_of(request)?)),
        (Action::Put, Message::Registration { fsp, currency }) => (Operation::Change, fsp, currency),
        (_, Message::Registration { fsp, currency }) => (Operation::Register, fsp, currency),
        _ => return Err(SyncError::not_implemented()),
    };
    let (operation, fsp, currency) = operation;
    // The schema of a change does not require it; who else would a DFSP mean than itself.
    let owner = fsp.unwrap_or(request.parties.source);
    Ok((Wish::Note { operation, owner }, currency))
}

/// The callback of a wish that came true.
struct Callback {
    receiver: FspId,
    body: Vec<u8>,
}

impl Shared {
    /// Accepts a request about one party.
    pub(super) async fn take_participant(
        self: Arc<Self>,
        request: PartyRequest,
        message: Message,
    ) -> Result<Accepted, SyncError> {
        let (wish, currency) = wish(&request, message)?;
        self.check_requester(&request)?;
        let permit = self.relay.admit(&request.parties.source, request.bytes())?;
        let oracle = self.oracles.oracle(request.ids.kind, currency);
        let oracle = oracle.filter(|oracle| !matches!(wish, Wish::Find) && oracle.is_kept_by_hub());
        let is_kept_by_hub = oracle.is_some();
        run(permit, is_kept_by_hub, move |mut progress: InProgress| async move {
            let outcome = self.fulfil_wish(&request, currency, wish).await;
            if let (Err(error), Some(oracle)) = (&outcome, &oracle)
                && oracle.has_moved()
                && progress.refuse(error)
            {
                return progress;
            }
            progress.acknowledge().await;
            match outcome {
                Ok(Callback { receiver, body }) => {
                    let to = address(Resource::Participants, Kind::Put, &request.ids);
                    let answer = request.answer(receiver, to, request.path(), Bytes::from(body));
                    self.send_answer(&request, answer, &mut progress.permit).await;
                }
                Err(error) => self.tell(&request, &error).await,
            }
            progress
        })
        .await
    }

    async fn fulfil_wish(
        &self,
        request: &PartyRequest,
        currency: Option<Currency>,
        wish: Wish,
    ) -> Result<Callback, ErrorInformation> {
        let (party, source) = (request.ids.as_path(), request.parties.source);
        check_party_path(&party).map_err(to_information)?;
        let inquiry = Inquiry { party, currency, requester: source, headers: &request.headers };
        let mut body = Vec::with_capacity(160);
        let receiver = match wish {
            Wish::Find => {
                let owners = self.owners(request, currency).await?;
                let owner = owners.known.first();
                let owner = owner.ok_or_else(|| ErrorInformation::new(ErrorCode::PARTY_NOT_FOUND, ""))?;
                write_fsp_id(&mut body, owner.as_str());
                source
            }
            Wish::Note { operation, owner } => {
                let receiver = self.note(request, &inquiry, operation, owner).await?;
                let (id, sub_id) = (party.id_text(), party.sub_id_text());
                let entry = PartyEntry {
                    kind: party.kind.as_str(),
                    identifier: &id,
                    sub_id: sub_id.as_deref(),
                    fsp: owner.as_str(),
                };
                write_party_list(&mut body, currency, [entry]);
                receiver
            }
            Wish::Remove => {
                self.remove(&inquiry).await?;
                write_fsp_id(&mut body, source.as_str());
                source
            }
        };
        Ok(Callback { receiver, body })
    }

    /// Registers a party or changes who serves it; gives who is to be told.
    async fn note(
        &self,
        request: &PartyRequest,
        inquiry: &Inquiry<'_>,
        operation: Operation,
        owner: FspId,
    ) -> Result<FspId, ErrorInformation> {
        let oracle = self.oracle(&inquiry.party, inquiry.currency)?;
        // Looked at before anything is registered: nobody could be told of it, and lookups would go nowhere.
        if request.parties.destination.is_some_and(|destination| !self.is_known(&destination)) {
            return Err(Unroutable::UnknownReceiver.to_error());
        }
        if !self.is_known(&owner) {
            let detail = format!("fspId {owner} is no participant");
            return Err(ErrorInformation::new(ErrorCode::ADD_PARTY_INFORMATION, &detail));
        }
        let noted = match operation {
            Operation::Change => oracle.change(inquiry, owner).await,
            _ => oracle.register(inquiry, owner).await,
        };
        noted.map_err(|failure| failure.to_error(operation))?;
        Ok(request.parties.destination.unwrap_or(owner))
    }

    async fn remove(&self, inquiry: &Inquiry<'_>) -> Result<(), ErrorInformation> {
        let oracle = self.oracle(&inquiry.party, inquiry.currency)?;
        if self.config.external_ownership_check && !oracle.is_kept_by_hub() {
            check_owner(&*oracle, inquiry).await?;
        }
        oracle.remove(inquiry).await.map_err(|failure| failure.to_error(Operation::Remove))
    }
}

/// Refuses who does not serve the party, where somebody does.
async fn check_owner(oracle: &dyn Oracle, inquiry: &Inquiry<'_>) -> Result<(), ErrorInformation> {
    let owners = oracle.find(inquiry).await.map_err(|failure| failure.to_error(Operation::Remove))?;
    let sub_id = inquiry.party.sub_id_text();
    let mut of_party = owners.iter().filter(|owner| owner.sub_id.as_deref() == sub_id.as_deref()).peekable();
    if of_party.peek().is_none() || of_party.any(|owner| owner.fsp == inquiry.requester) {
        return Ok(());
    }
    let detail = "The party is registered by another DFSP";
    Err(ErrorInformation::new(ErrorCode::DELETE_PARTY_INFORMATION, detail))
}
