//! `GET /services/FXP[/{SourceCurrency}/{TargetCurrency}]`: lists the providers of foreign exchange.

use std::sync::Arc;

use upesi_delivery::relayed::Address;
use upesi_delivery::{Accepted, Request};
use upesi_engine::Participants;
use upesi_fspiop::render::write_providers;
use upesi_fspiop::{CurrencyPair, Ids, PathNames, SyncError};
use upesi_ledger::{EndpointType, LedgerAccountTypeId, Participant};
use upesi_types::FspId;

use super::DirectoryState;

/// Maximum number of providers in an answer (FSPIOP API v2.0).
const PROVIDERS_MAX: usize = 16;

impl DirectoryState {
    pub(super) fn take_services(
        self: Arc<Self>,
        request: Request<Option<CurrencyPair>>,
    ) -> Result<Accepted, SyncError> {
        self.check_requester(&request)?;
        let permit = self.relay.admit(&request.parties.source, request.headers.len())?;
        tokio::spawn(async move {
            let source = request.parties.source;
            let mut body = Vec::new();
            let participants = self.relay.participants();
            let providers = providers(&participants, request.ids, &source);
            write_providers(&mut body, providers.iter().map(FspId::as_str));
            let mut path = String::new();
            Ids::Providers(request.ids).write_path(request.resource(), false, &mut path);
            let to = Address::Base(EndpointType::SERVICES);
            let answer = request.answer(source, to, path.into(), body.into());
            // This resource has no error callback, so the sender can only repeat its request.
            if let Err(failure) = self.relay.send(&answer).await {
                let (receiver, path) = (source.as_str(), &*answer.path);
                tracing::warn!(receiver, path, %failure, "cannot deliver an answer");
            }
            drop(permit);
        });
        Ok(Accepted)
    }
}

/// Participants with the endpoints for FX quotes and FX transfers that hold both currencies; of any pair if none is
/// named. The first ones by name, without the sender.
fn providers(participants: &Participants, pair: Option<CurrencyPair>, asker: &FspId) -> Vec<FspId> {
    let converts = |participant: &&Participant| {
        let holds = |currency| participants.may_transact(participant, currency);
        let is_called = |kind| participant.endpoint(kind).is_some();
        let has_currencies = match pair {
            Some(CurrencyPair { source, target }) => source != target && holds(source) && holds(target),
            None => {
                let accounts = participant.accounts.iter();
                let positions = accounts.filter(|account| account.kind == LedgerAccountTypeId::POSITION);
                positions.filter(|account| holds(account.currency)).count() > 1
            }
        };
        participant.name != *asker
            && is_called(EndpointType::FX_QUOTES)
            && is_called(EndpointType::FX_TRANSFER_POST)
            && has_currencies
    };
    let all = participants.ids().filter_map(|id| participants.get(id));
    let mut names: Vec<FspId> = all.filter(converts).map(|participant| participant.name).collect();
    names.sort_unstable_by(|one, other| one.as_str().cmp(other.as_str()));
    names.truncate(PROVIDERS_MAX);
    names
}
