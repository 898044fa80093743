//! Commands: requests to change or query the state of the ledger. Each subject is decided in its own file.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::TransferId;

use crate::base::ids::CallbackKey;
use crate::core::actor::Actor;
use crate::core::decision::{Decision, Reply};
use crate::core::event::Event;
use crate::core::facts::{Archived, DecisionInput};
use crate::core::state::Ledger;

pub use crate::money::changes::{Deposit, FundsAction, FundsEnd, FundsPrepare, NewFeeRule};
pub use crate::operators::admin_command::AdminCommand;
pub use crate::operators::changes::{NewCredential, NewOperator};
pub use crate::operators::outcome::AdminOutcome;
pub use crate::operators::refusal::AdminRefusal;
pub use crate::rules::money::abort::Abort;
pub use crate::rules::money::bulks::{AbortBulk, BulkCommand, FulfilBulk, GetBulk, PrepareBulk};
pub use crate::rules::money::expire::Expire;
pub use crate::rules::money::fees::FEE_RULE_PARTIES_MAX;
pub use crate::rules::money::fulfil::{Fulfil, FulfilState, Fulfilment};
pub use crate::rules::money::fx_transfers::{
    AbortFxTransfer, AskedMoney, FulfilFxTransfer, FxTransferCommand, GetFxTransfer, PrepareFxTransfer,
};
pub use crate::rules::money::get::Get;
pub use crate::rules::money::prepare::Prepare;
pub use crate::rules::operators::approvals::{ProposalDecision, ProposalDecisionKind, Words};
pub use crate::rules::operators::audited_command::{AuditedCommand, Authority, OperatorAction};
pub use crate::rules::operators::change_sets::ApplyNext;
pub use crate::rules::operators::change_sets::draft::Preview;
pub use crate::rules::operators::credential_action::{CredentialAction, CredentialActionKind};
pub use crate::rules::scheme::participants::ENDPOINT_VALUE_BYTES_MAX;
pub use crate::scheme::binding::BINDING_VALUE_BYTES_MAX;
pub use crate::scheme::changes::{EndpointValue, NewSignatureKey};
pub use crate::settlement::changes::{
    AdvanceFault, AdvanceItem, CoverItem, NewSettlement, NewSettlementModel, SettlementAbort,
    SettlementAdvance, SettlementCover,
};

/// A request to change or query the state of the ledger.
#[derive(Clone, Debug)]
pub enum Command {
    /// `POST /transfers`.
    Prepare(Prepare),
    /// `PUT /transfers/{ID}`.
    Fulfil(Fulfil),
    /// `PUT /transfers/{ID}/error`.
    Abort(Abort),
    /// `GET /transfers/{ID}`.
    Get(Get),
    /// `/fxTransfers`.
    FxTransfer(FxTransferCommand),
    /// `/bulkTransfers`.
    Bulk(BulkCommand),
    /// The next bulk transfer in the queue takes its next step.
    StepBulk,
    /// Time has passed: expire everything whose deadline is reached.
    Tick,
    /// An operator expires a reservation.
    Expire(Expire),
    /// The courier reports that these callbacks were delivered.
    Delivered(Vec<CallbackKey>),
    /// The courier gave up a callback.
    Park {
        key: CallbackKey,
        /// Number of delivery attempts.
        attempts: u32,
        /// The last error.
        reason: Box<str>,
    },
    /// An operator requests redelivery of parked callbacks.
    Redeliver(Vec<CallbackKey>),
    /// Sets the nodes of the cluster that deliver callbacks from now on.
    SetCouriers(Vec<u32>),
    /// Retention closes a division of the archive.
    DivideArchive,
    /// Retention is about to remove the transfers that finished up to this record from the archive.
    RemoveFinished {
        /// The sequence number of the last such record.
        to_seq: u64,
    },
    /// An operator's change.
    Admin(AdminCommand),
    /// An operator's change or attempt, with its entry in the audit trail.
    Audited(Box<AuditedCommand>),
}

impl Command {
    /// The actor that causes the command.
    pub const fn actor(&self) -> Actor {
        match self {
            Self::Prepare(prepare) => Actor::Dfsp(prepare.source),
            Self::Fulfil(fulfil) => Actor::Dfsp(fulfil.source),
            Self::Abort(abort) => Actor::Dfsp(abort.source),
            Self::Get(get) => Actor::Dfsp(get.source),
            Self::FxTransfer(command) => Actor::Dfsp(command.source()),
            Self::Bulk(command) => Actor::Dfsp(command.source()),
            Self::StepBulk => Actor::Bulks,
            Self::Tick => Actor::Clock,
            Self::Delivered(_) | Self::Park { .. } | Self::SetCouriers(_) => Actor::Delivery,
            Self::DivideArchive | Self::RemoveFinished { .. } => Actor::Retention,
            Self::Expire(_) | Self::Redeliver(_) | Self::Admin(_) | Self::Audited(_) => Actor::Operator,
        }
    }

    /// The operator's change that the command makes.
    pub fn admin(&self) -> Option<&AdminCommand> {
        match self {
            Self::Admin(command) => Some(command),
            Self::Audited(act) => match &act.action {
                OperatorAction::Change(command) => Some(command),
                _ => None,
            },
            _ => None,
        }
    }

    /// The proposal that the command approves. The decision depends on the change in it.
    const fn approved(&self) -> Option<u64> {
        match self {
            Self::Audited(act) => match &act.action {
                OperatorAction::Decide(ProposalDecision {
                    id,
                    kind: ProposalDecisionKind::Approve(_),
                    ..
                }) => Some(*id),
                _ => None,
            },
            _ => None,
        }
    }

    /// The change set whose next change the command makes.
    const fn applied_set(&self) -> Option<u64> {
        match self {
            Self::Audited(act) => match &act.action {
                OperatorAction::ApplyNext(next) => Some(next.id),
                _ => None,
            },
            _ => None,
        }
    }

    /// The transfer whose state influences the decision. If it is not in memory, it may be in the archive.
    pub fn transfer_id(&self) -> Option<TransferId> {
        match self {
            Self::Prepare(prepare) => Some(prepare.id),
            Self::Fulfil(fulfil) => fulfil.transfer.id(),
            Self::Abort(abort) => abort.transfer.id(),
            Self::Get(get) => get.transfer.id(),
            Self::Expire(expire) => Some(expire.transfer),
            Self::Admin(command) => command.new_funds(),
            Self::Audited(act) => match &act.action {
                OperatorAction::Expire(expire) => Some(expire.transfer),
                OperatorAction::Change(command) => command.new_funds(),
                _ => None,
            },
            _ => None,
        }
    }
}

impl Ledger {
    /// Decides a command, given the facts, without changing the state. `out` must be empty.
    ///
    /// The decision takes effect through [`Ledger::evolve`], after it was added to the journal's next batch.
    pub fn decide(&self, command: &Command, facts: &DecisionInput<'_>, out: &mut Decision) {
        debug_assert!(out.is_empty(), "the decision is reused without clearing it");
        let now = facts.now();
        out.actor = command.actor();
        if matches!(facts.archived, Archived::Unknown) && self.needs_archive_for_funds(command) {
            return out.reply = Reply::NeedsArchive;
        }
        match command {
            Command::Prepare(prepare) => self.decide_prepare(prepare, facts, out),
            Command::Fulfil(fulfil) => self.decide_fulfil(fulfil, facts, out),
            Command::Abort(abort) => self.decide_abort(abort, facts, out),
            Command::Get(get) => self.decide_get(get, facts, out),
            Command::FxTransfer(command) => self.decide_fx_transfer(command, facts, out),
            Command::Bulk(command) => self.decide_bulk(command, facts, out),
            Command::StepBulk => self.decide_bulk_step(facts.present, out),
            Command::Tick => self.decide_tick(now, out),
            Command::Expire(expire) => self.decide_expire(expire, facts, out),
            Command::Delivered(keys) => self.decide_delivered(keys, out),
            Command::Park { key, attempts, reason } => self.decide_park(*key, *attempts, reason, out),
            Command::Redeliver(keys) => self.decide_redeliver(keys, out),
            Command::SetCouriers(nodes) => self.decide_couriers(nodes, out),
            Command::DivideArchive => out.events.push(Event::ArchiveDivided),
            Command::RemoveFinished { to_seq } => self.decide_removal(*to_seq, out),
            Command::Admin(command) => self.decide_change(command, facts, out),
            Command::Audited(act) => self.decide_operator_action(act, facts, out),
        }
        if !self.fx_transfers.has_no_live() {
            self.cascade(now, out);
        }
        if let Command::Audited(act) = command {
            self.record_audited(act, now, out);
        }
    }

    /// The id of the transfer that must be looked up in the archive for a command.
    pub fn archive_id_of(&self, command: &Command) -> Option<TransferId> {
        let of_proposal = || {
            let proposal = self.approvals.get(command.approved()?)?;
            proposal.command.as_ref()?.new_funds()
        };
        let of_set = || self.next_of_set(command.applied_set()?)?.new_funds();
        command.transfer_id().or_else(of_proposal).or_else(of_set)
    }

    /// Whether a command has a movement of funds whose id may belong to an archived transfer.
    fn needs_archive_for_funds(&self, command: &Command) -> bool {
        if !matches!(command, Command::Admin(_) | Command::Audited(_)) {
            return false;
        }
        let is_new = |id: TransferId| self.funds(id).is_none() && self.transfer(id).is_none();
        let is_expiry =
            matches!(command, Command::Audited(act) if matches!(act.action, OperatorAction::Expire(_)));
        !is_expiry && self.archive_id_of(command).is_some_and(is_new)
    }
}
