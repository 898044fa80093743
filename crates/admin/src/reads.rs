//! The typed data behind the API's reads, for pages. The JSON API and the pages use the same functions.

use upesi_ledger::{Ledger, ParticipantId};
use upesi_types::FspId;

use crate::call::Call;
use crate::context::{AdminContext, Process};
use crate::error::ApiError;
use crate::parts::Directory;
use crate::{accounts, directory, endpoints, health, oracles, participants, signature_keys};

pub use crate::access::Caller;
pub use crate::accounts::{AccountView as OpenedAccount, PositionSummary, position_summaries};
pub use crate::approvals::{
    PolicyView, ProposalLists, ProposalView, SetChangeView, newest as newest_proposals, proposal,
};
pub use crate::audit::{Page as EntryPage, newest as newest_entries};
pub use crate::call::{Call as ReadCall, Parameters, Segments};
pub use crate::callbacks::{CallbackView, Page as CallbackPage, find as find_callbacks};
pub use crate::directory::DirectorySummary;
pub use crate::endpoints::EndpointView;
pub use crate::find::{Page as TransferPage, find as find_transfers};
pub use crate::funds::{FundsLists, MovementView, newest_funds};
pub use crate::health::{Health, Service};
pub use crate::json::{Code, Decimal, Flag, Instant};
pub use crate::lanes::{LaneReport, lane_reports};
pub use crate::operators::{CredentialView, OperatorView, operators};
pub use crate::oracles::OracleView;
pub use crate::participants::{BindingView, BlockView, ParticipantView, blocks};
pub use crate::progress::{
    ProgressView, SettlementView as TransferSettlement, ToldView, read as read_progress,
};
pub use crate::sessions::{SessionView, sessions};
pub use crate::settlement_models::deferred_models;
pub use crate::settlement_windows::{
    ContentView, PairKey, PairView, PairsView, WindowView, newest_windows, pairs_behind, window,
};
pub use crate::settlements::{
    AccountView as SettlementAccount, Party as SettlementParty, SettlementView, newest_settlements,
    settlement,
};
pub use crate::signature_keys::{KeyEntry, KeyState, SignerView};
pub use crate::transfers::{ErrorInformation, Party, TransferView, read as read_transfer};

/// A participant with everything that an operator may read about it.
pub struct ParticipantDetail {
    pub participant: ParticipantView,
    pub positions: Vec<PositionSummary>,
    pub accounts: Vec<OpenedAccount>,
    pub endpoints: Vec<EndpointView>,
    pub bindings: Vec<BindingView>,
}

/// A participant with its positions, accounts, endpoints and bindings.
///
/// # Errors
/// The participant does not exist.
pub fn participant(ledger: &Ledger, name: &str) -> Result<ParticipantDetail, ApiError> {
    let found = FspId::parse(name).and_then(|name| ledger.participant_named(&name));
    let participant = found.ok_or_else(|| ApiError::unknown_participant(name))?;
    Ok(ParticipantDetail {
        participant: ParticipantView::of(ledger, participant, ""),
        positions: accounts::position_summaries_of(ledger, participant).collect(),
        accounts: accounts::opened_accounts(ledger, participant),
        endpoints: endpoints::views(participant),
        bindings: participants::bindings_of(participant),
    })
}

/// The state of the hub and its parts.
pub fn health(call: &Call, context: &AdminContext) -> Health {
    let process =
        Process { version: context.version, started: context.started, started_at: context.started_at };
    let directory = Directory(context.directory.clone());
    health::report(call, process, &directory, context.provider_of_clients.as_ref())
}

/// How a participant connects to the hub.
pub struct Connection {
    pub name: String,
    pub is_active: bool,
    /// The proxy that connects the participant.
    pub proxied_by: Option<String>,
    pub bindings: Vec<BindingView>,
    /// Number of endpoints.
    pub endpoints: usize,
}

/// The connections of all participants except the hub.
pub fn connections(ledger: &Ledger) -> Vec<Connection> {
    let participants =
        ledger.participants().iter().filter(|participant| participant.id != ParticipantId::HUB);
    let connection = |participant| {
        let view = ParticipantView::of(ledger, participant, "");
        Connection {
            is_active: view.is_active.0,
            proxied_by: view.proxied_by,
            bindings: participants::bindings_of(participant),
            endpoints: endpoints::views(participant).len(),
            name: view.name,
        }
    };
    participants.map(connection).collect()
}

/// The participants with valid signature keys.
///
/// # Errors
/// The hub is stopping.
pub async fn signers(call: &Call, context: &AdminContext) -> Result<Vec<SignerView>, ApiError> {
    signature_keys::signers(call, &context.signature_keys).await
}

/// The built-in directory and the oracles; `None` if the hub has no directory.
pub fn directory(context: &AdminContext) -> Option<(DirectorySummary, Vec<OracleView>)> {
    let directory = Directory(context.directory.clone());
    let summary = directory::directory_summary(&directory).ok()?;
    Some((summary, oracles::views(&directory).ok()?))
}
