//! The typed data behind the API's reads, for pages. The JSON API and the pages use the same functions.

use upesi_ledger::Ledger;
use upesi_types::FspId;

use crate::call::Call;
use crate::context::{AdminContext, Process};
use crate::error::ApiError;
use crate::parts::Directory;
use crate::{accounts, endpoints, health, participants};

pub use crate::access::Caller;
pub use crate::accounts::{AccountView as OpenedAccount, PositionSummary, position_summaries};
pub use crate::approvals::{ProposalLists, ProposalView, newest as newest_proposals};
pub use crate::audit::{Page as EntryPage, newest as newest_entries};
pub use crate::call::{Call as ReadCall, Parameters, Segments};
pub use crate::callbacks::{CallbackView, Page as CallbackPage, find as find_callbacks};
pub use crate::endpoints::EndpointView;
pub use crate::find::{Page as TransferPage, find as find_transfers};
pub use crate::health::{Health, Service};
pub use crate::json::{Code, Decimal, Flag, Instant};
pub use crate::lanes::{LaneReport, lane_reports};
pub use crate::participants::{BindingView, ParticipantView};
pub use crate::progress::{
    ProgressView, SettlementView as TransferSettlement, ToldView, read as read_progress,
};
pub use crate::settlement_windows::{
    ContentView, PairKey, PairView, PairsView, WindowView, newest_windows, pairs_behind, window,
};
pub use crate::settlements::{
    AccountView as SettlementAccount, Party as SettlementParty, SettlementView, newest_settlements,
    settlement,
};
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
