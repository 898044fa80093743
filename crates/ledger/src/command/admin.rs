//! Operators' changes.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

use super::fees::NewFeeRule;
use super::funds::{FundsEnd, FundsPrepare};
use super::operators::{NewCredential, NewOperator};
use super::settlement_models::NewSettlementModel;
use super::settlements::{AdvanceFault, NewSettlement, SettlementAbort, SettlementAdvance};
use super::{AdminRefusal, Decision};
use crate::Ledger;
use crate::account::AccountId;
use crate::binding::BindingKind;
use crate::endpoint::EndpointType;
use crate::event::Event;
use crate::facts::Facts;
use crate::funds::FundsState;
use crate::window::{SettlementId, WindowId};

/// An operator's change. Participants are named as operators name them.
#[derive(Clone, Debug)]
pub enum AdminCommand {
    /// `POST /participants`: a new DFSP, or a new currency for one.
    CreateParticipant {
        /// Name, 2–30 characters.
        name: FspId,
        /// Currency.
        currency: Currency,
        /// Whether it stands for other schemes.
        is_proxy: bool,
    },
    /// `PUT /participants/{name}`.
    SetParticipantActivity {
        /// The name of the participant.
        name: FspId,
        /// The new flag.
        is_active: bool,
    },
    /// `POST /participants/{name}/endpoints`.
    SetEndpoint {
        /// The name of the participant.
        name: FspId,
        /// The type of endpoint.
        kind: EndpointType,
        /// URL template or address.
        value: Box<str>,
    },
    /// `POST /participants/{name}/bindings`.
    AddBinding {
        /// The name of the participant.
        name: FspId,
        /// The part of the caller's certificate.
        kind: BindingKind,
        /// What must stand there.
        value: Box<str>,
    },
    /// `DELETE /participants/{name}/bindings`.
    RemoveBinding {
        /// The name of the participant.
        name: FspId,
        /// The part of the caller's certificate.
        kind: BindingKind,
        /// What no longer suffices.
        value: Box<str>,
    },
    /// `POST /participants/{proxy}/proxied`.
    AddProxied {
        /// The proxy.
        proxy: FspId,
        /// The DFSP behind it.
        name: FspId,
    },
    /// `DELETE /participants/{proxy}/proxied/{name}`.
    RemoveProxied {
        /// The proxy.
        proxy: FspId,
        /// The DFSP that was behind it.
        name: FspId,
    },
    /// `POST /participants/{name}/initialPositionAndLimits`.
    OpenAccounts {
        /// The name of the participant.
        name: FspId,
        /// In which currency.
        currency: Currency,
        /// Net debit cap.
        net_debit_cap: Amount,
        /// Position to begin with.
        initial_position: Amount,
    },
    /// `PUT /participants/{name}/limits`.
    SetLimit {
        /// The name of the participant.
        name: FspId,
        /// In which currency.
        currency: Currency,
        /// Net debit cap.
        net_debit_cap: Amount,
        /// Alarm threshold in hundredths of a percent.
        alarm_basis_points: u16,
    },
    /// `POST /participants/{hub}/accounts`.
    CreateHubAccount {
        /// Must be the hub.
        name: FspId,
        /// Currency.
        currency: Currency,
        /// Name of the ledger account type.
        kind: Box<str>,
    },
    /// `PUT /participants/{name}/accounts/{id}`.
    SetAccountActivity {
        /// The name of the participant.
        name: FspId,
        /// The account.
        account: AccountId,
        /// The new flag.
        is_active: bool,
    },
    /// `POST /participants/{name}/accounts/{id}`: funds in, or the first step of funds out.
    PrepareFunds(FundsPrepare),
    /// `PUT /participants/{name}/accounts/{id}/transfers/{transferId}`: the second step of funds out.
    EndFunds(FundsEnd),
    /// `POST /clock/accept`: the wall clock is right, although it jumped.
    AcceptClock {
        /// Why, in the operator's words.
        reason: Box<str>,
    },
    /// `POST /settlementModels`.
    CreateSettlementModel(NewSettlementModel),
    /// `PUT /settlementModels/{name}`.
    SetSettlementModelActivity {
        /// The name of the model.
        name: Box<str>,
        /// The new flag.
        is_active: bool,
    },
    /// `POST /settlementWindows/{id}`: closes the open window and opens the next one.
    CloseWindow {
        /// The open window.
        id: WindowId,
        /// The operator's reason.
        reason: Box<str>,
    },
    /// `POST /settlements`.
    CreateSettlement(NewSettlement),
    /// `PUT /settlements/{id}` with accounts.
    AdvanceSettlement(SettlementAdvance),
    /// `PUT /settlements/{id}` with the state ABORTED.
    AbortSettlement(SettlementAbort),
    /// A new rule for interchange fees.
    CreateFeeRule(NewFeeRule),
    /// The end of a rule for interchange fees.
    EndFeeRule {
        /// The name of the rule.
        name: Box<str>,
        /// First instant that it does not apply to any more; now, if not given.
        until: Option<Timestamp>,
    },
    /// `POST /ledgerAccountTypes`.
    CreateLedgerAccountType {
        /// Name, 2–30 word characters.
        name: Box<str>,
        /// Free text.
        description: Box<str>,
        /// Whether it may be used.
        is_active: bool,
        /// Whether settlement models may settle it.
        is_settleable: bool,
    },
    /// `POST /operators`, `PUT /operators/{name}`.
    SetOperator(NewOperator),
    /// `POST /operators/{name}/tokens`.
    AddCredential(NewCredential),
    /// `DELETE /operators/{name}/credentials/{id}`.
    RemoveCredential {
        /// The name of the operator.
        name: Box<str>,
        /// The number of the credential.
        id: u32,
    },
}

impl AdminCommand {
    /// Why it is wanted, if it says so itself.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::PrepareFunds(funds) => Some(&funds.reason),
            Self::EndFunds(end) => Some(&end.reason),
            Self::AcceptClock { reason } | Self::CloseWindow { reason, .. } => Some(reason),
            Self::CreateSettlement(new) => Some(&new.reason),
            Self::AbortSettlement(abort) => Some(&abort.reason),
            Self::AdvanceSettlement(advance) => advance.items.first().map(|item| &*item.reason),
            _ => None,
        }
    }
}

/// What came of an operator's change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminOutcome {
    /// It was made.
    Done,
    /// It had been made before; nothing changed.
    AlreadyDone,
    /// A movement of funds now stands there.
    Funds(TransferId, FundsState),
    /// So many parked callbacks are owed again.
    Redelivered(usize),
    /// A window was closed; this one is open now.
    WindowOpened(WindowId),
    /// A settlement was created.
    SettlementCreated(SettlementId),
    /// Accounts of a settlement advanced, except those with a fault: by their place in the command, from 0.
    SettlementAdvanced {
        /// The faults.
        faults: Vec<(u32, AdvanceFault)>,
    },
}

impl Ledger {
    pub(super) fn decide_admin(
        &self,
        command: &AdminCommand,
        facts: &Facts<'_>,
        out: &mut Decision,
    ) -> Result<AdminOutcome, AdminRefusal> {
        match command {
            AdminCommand::CreateParticipant { name, currency, is_proxy } => {
                self.decide_create_participant(*name, *currency, *is_proxy, out)
            }
            AdminCommand::SetParticipantActivity { name, is_active } => {
                self.decide_participant_activity(name, *is_active, out)
            }
            AdminCommand::SetEndpoint { name, kind, value } => {
                self.decide_set_endpoint(name, *kind, value, out)
            }
            AdminCommand::AddBinding { name, kind, value } => {
                self.decide_add_binding(name, *kind, value, out)
            }
            AdminCommand::RemoveBinding { name, kind, value } => {
                self.decide_remove_binding(name, *kind, value, out)
            }
            AdminCommand::AddProxied { proxy, name } => self.decide_add_proxied(proxy, name, out),
            AdminCommand::RemoveProxied { proxy, name } => self.decide_remove_proxied(proxy, name, out),
            AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position } => {
                self.decide_open_accounts(name, *currency, *net_debit_cap, *initial_position, out)
            }
            AdminCommand::SetLimit { name, currency, net_debit_cap, alarm_basis_points } => {
                self.decide_set_limit(name, *currency, *net_debit_cap, *alarm_basis_points, out)
            }
            AdminCommand::CreateHubAccount { name, currency, kind } => {
                self.decide_create_hub_account(name, *currency, kind, out)
            }
            AdminCommand::SetAccountActivity { name, account, is_active } => {
                self.decide_account_activity(name, *account, *is_active, out)
            }
            AdminCommand::PrepareFunds(funds) => self.decide_prepare_funds(funds, facts.now(), out),
            AdminCommand::EndFunds(end) => self.decide_end_funds(end, facts.now(), out),
            AdminCommand::AcceptClock { .. } if facts.clock_jump_ms == 0 => Ok(AdminOutcome::AlreadyDone),
            AdminCommand::AcceptClock { reason } => {
                let jump_ms = facts.clock_jump_ms;
                out.events.push(Event::ClockAccepted { jump_ms, reason: reason.clone() });
                Ok(AdminOutcome::Done)
            }
            AdminCommand::CreateSettlementModel(model) => self.decide_create_model(model, facts.now(), out),
            AdminCommand::SetSettlementModelActivity { name, is_active } => {
                self.decide_model_activity(name, *is_active, out)
            }
            AdminCommand::CloseWindow { id, reason } => self.decide_close_window(*id, reason, out),
            AdminCommand::CreateSettlement(new) => self.decide_create_settlement(new, out),
            AdminCommand::AdvanceSettlement(advance) => self.decide_advance_settlement(advance, out),
            AdminCommand::AbortSettlement(abort) => self.decide_abort_settlement(abort, out),
            AdminCommand::CreateFeeRule(new) => self.decide_create_fee_rule(new, facts.now(), out),
            AdminCommand::EndFeeRule { name, until } => {
                self.decide_end_fee_rule(name, *until, facts.now(), out)
            }
            AdminCommand::CreateLedgerAccountType { name, description, is_active, is_settleable } => {
                self.decide_create_account_type(name, description, *is_active, *is_settleable, out)
            }
            AdminCommand::SetOperator(new) => self.decide_set_operator(new, out),
            AdminCommand::AddCredential(new) => self.decide_add_credential(new, facts.now(), out),
            AdminCommand::RemoveCredential { name, id } => self.decide_remove_credential(name, *id, out),
        }
    }
}
