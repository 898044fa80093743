//! `participants/{Type}/{ID}[/{SubId}]`: queries and changes of the DFSP that serves a party.

use std::sync::Arc;

use upesi_delivery::relayed::ErrorInformation;
use upesi_delivery::{Accepted, Unroutable};
use upesi_fspiop::render::{PartyEntry, write_fsp_id, write_party_list};
use upesi_fspiop::{Action, Message, Resource, SyncError, check_party_path};
use upesi_http::Bytes;
use upesi_types::{Currency, ErrorCode, FspId};

use super::{DirectoryState, InProgress, Kind, PartyRequest, address, currency_of, run, to_information};
use crate::oracle::{Operation, Oracle, OracleRequest};

/// The request of a DFSP about a party.
#[derive(Clone, Copy, Debug)]
enum PartyOperation {
    Find,
    /// Register `owner` as the DFSP that serves the party.
    Note {
        operation: Operation,
        owner: FspId,
    },
    Remove,
}

fn wish(request: &PartyRequest, message: Message) -> Result<(PartyOperation, Option<Currency>), SyncError> {
    let operation = match (request.action(), message) {
        (Action::Delete, _) => return Ok((PartyOperation::Remove, currency_of(request)?)),
        (Action::Get, _) => return Ok((PartyOperation::Find, currency_of(request)?)),
        (Action::Put, Message::Registration { fsp, currency }) => (Operation::Change, fsp, currency),
        (_, Message::Registration { fsp, currency }) => (Operation::Register, fsp, currency),
        _ => return Err(SyncError::not_implemented()),
    };
    let (operation, fsp, currency) = operation;
    // The schema of a change does not require it; without it, a DFSP means itself.
    let owner = fsp.unwrap_or(request.parties.source);
    Ok((PartyOperation::Note { operation, owner }, currency))
}

/// The callback of a successful request.
struct Callback {
    receiver: FspId,
    body: Vec<u8>,
}

impl DirectoryState {
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
        let oracle = oracle.filter(|oracle| !matches!(wish, PartyOperation::Find) && oracle.is_kept_by_hub());
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
        wish: PartyOperation,
    ) -> Result<Callback, ErrorInformation> {
        let (party, source) = (request.ids.as_path(), request.parties.source);
        check_party_path(&party).map_err(to_information)?;
        let inquiry = OracleRequest { party, currency, requester: source, headers: &request.headers };
        let mut body = Vec::with_capacity(160);
        let receiver = match wish {
            PartyOperation::Find => {
                let owners = self.owners(request, currency).await?;
                let owner = owners.known.first();
                let owner = owner.ok_or_else(|| ErrorInformation::new(ErrorCode::PARTY_NOT_FOUND, ""))?;
                write_fsp_id(&mut body, owner.as_str());
                source
            }
            PartyOperation::Note { operation, owner } => {
                let receiver = self.note(request, &inquiry, operation, owner).await?;
                let (id, sub_id) = (party.id_text(), party.sub_id_text());
                let entry = PartyEntry {
                    kind: party.kind.as_str(),
                    identifier: &id,
                    sub_id: sub_id.as_deref(),
                    fsp: Some(owner.as_str()),
                };
                write_party_list(&mut body, currency, [entry]);
                receiver
            }
            PartyOperation::Remove => {
                self.remove(&inquiry).await?;
                write_fsp_id(&mut body, source.as_str());
                source
            }
        };
        Ok(Callback { receiver, body })
    }

    /// Registers a party or changes its owner. Returns the receiver of the callback.
    async fn note(
        &self,
        request: &PartyRequest,
        inquiry: &OracleRequest<'_>,
        operation: Operation,
        owner: FspId,
    ) -> Result<FspId, ErrorInformation> {
        if owner != inquiry.requester {
            return Err(ErrorInformation::new(ErrorCode::PARTY_NOT_FOUND, "fspId must be the sender"));
        }
        let oracle = self.oracle(&inquiry.party, inquiry.currency)?;
        // Checked before anything is registered, because no participant would get the result.
        if request.parties.destination.is_some_and(|destination| !self.is_known(&destination)) {
            return Err(Unroutable::UnknownReceiver.to_error());
        }
        self.check_account(&owner, inquiry.currency)?;
        if operation == Operation::Change {
            self.check_ownership(&*oracle, inquiry, operation).await?;
        }
        let noted = match operation {
            Operation::Change => oracle.change(inquiry, owner).await,
            _ => oracle.register(inquiry, owner).await,
        };
        noted.map_err(|failure| failure.to_error(operation))?;
        Ok(request.parties.destination.unwrap_or(owner))
    }

    async fn remove(&self, inquiry: &OracleRequest<'_>) -> Result<(), ErrorInformation> {
        let oracle = self.oracle(&inquiry.party, inquiry.currency)?;
        self.check_ownership(&*oracle, inquiry, Operation::Remove).await?;
        oracle.remove(inquiry).await.map_err(|failure| failure.to_error(Operation::Remove))
    }

    /// Rejects a registration in a currency if the DFSP has no account in it. Such an entry would attract lookups for
    /// other DFSPs' customers.
    pub(super) fn check_account(
        &self,
        owner: &FspId,
        currency: Option<Currency>,
    ) -> Result<(), ErrorInformation> {
        let participants = self.relay.participants();
        if participants.dfsp(owner).is_some_and(|owner| participants.can_serve(owner, currency)) {
            return Ok(());
        }
        let currency = currency.as_ref().map_or("any currency", Currency::as_str);
        let detail = format!("{owner} has no account in {currency}");
        Err(ErrorInformation::new(ErrorCode::ADD_PARTY_INFORMATION, &detail))
    }

    /// Rejects a change or removal of a party that an external oracle has registered for other DFSPs only.
    async fn check_ownership(
        &self,
        oracle: &dyn Oracle,
        inquiry: &OracleRequest<'_>,
        operation: Operation,
    ) -> Result<(), ErrorInformation> {
        if !self.config.external_ownership_check || oracle.is_kept_by_hub() {
            return Ok(());
        }
        // A change may name another currency than the entry has.
        let inquiry = match operation {
            Operation::Change => OracleRequest { currency: None, ..*inquiry },
            _ => *inquiry,
        };
        let owners = oracle.find(&inquiry).await.map_err(|failure| failure.to_error(operation))?;
        let sub_id = inquiry.party.sub_id_text();
        let mut of_party =
            owners.iter().filter(|owner| owner.sub_id.as_deref() == sub_id.as_deref()).peekable();
        if of_party.peek().is_none() || of_party.any(|owner| owner.fsp == inquiry.requester) {
            return Ok(());
        }
        let code = match operation {
            Operation::Remove => ErrorCode::DELETE_PARTY_INFORMATION,
            _ => ErrorCode::ADD_PARTY_INFORMATION,
        };
        Err(ErrorInformation::new(code, "The party is registered by another DFSP"))
    }
}
