//! Manages participants, their accounts, endpoints and limits.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::scheme::changes::EndpointValue;
use crate::scheme::endpoint::EndpointType;
use crate::scheme::participant::{Limit, Participant};

pub const ENDPOINT_VALUE_BYTES_MAX: usize = 512;

type Outcome = Result<AdminOutcome, AdminRefusal>;

/// The opening of a participant's accounts in a currency.
struct Opening {
    currency: Currency,
    position: AccountId,
    net_debit_cap: Amount,
    initial_position: Amount,
}

impl Ledger {
    pub(crate) fn known_participant(&self, name: &FspId) -> Result<&Participant, AdminRefusal> {
        self.participant_named(name).ok_or(AdminRefusal::ParticipantUnknown { name: *name })
    }

    pub(crate) fn decide_create_participant(
        &self,
        name: FspId,
        currency: Currency,
        is_proxy: bool,
        out: &mut Decision,
    ) -> Outcome {
        if !(2..=30).contains(&name.as_str().len()) {
            return Err(AdminRefusal::ParticipantName);
        }
        let hub = self.participant(ParticipantId::HUB);
        for kind in
            [LedgerAccountTypeId::HUB_RECONCILIATION, LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT]
        {
            if hub.account(currency, kind).is_none() {
                return Err(AdminRefusal::HubAccountMissing { kind });
            }
        }
        let existing = self.participant_named(&name);
        if existing.is_none() && self.participant_id_ignoring_case(&name).is_some() {
            // Fulfils may name their parties in any case, so two names must differ in more than case.
            return Err(AdminRefusal::ParticipantNameInOtherCase);
        }
        if existing.is_none() && FspId::parse_new(name.as_str()).is_none() {
            return Err(AdminRefusal::ParticipantNameUnusable);
        }
        self.check_not_proxied(existing)?;
        let has_currency = |participant: &Participant| {
            participant.accounts.iter().any(|account| account.currency == currency)
        };
        if existing.is_some_and(has_currency) {
            return Err(AdminRefusal::CurrencyRegistered);
        }
        let kinds: Vec<_> = self.account_kinds_for(currency).collect();
        if kinds.is_empty() {
            return Err(AdminRefusal::ModelMissing);
        }
        if existing.is_none() && self.participants().len() >= self.config.limits.participants {
            return Err(AdminRefusal::ParticipantsFull);
        }
        let participant = match existing {
            Some(participant) => participant.id,
            None => {
                let id = self.next_participant_id();
                out.events.push(Event::ParticipantCreated { id, name, is_proxy });
                id
            }
        };
        self.create_accounts(participant, currency, &kinds, false, out)
    }

    /// The account types that the models of a currency use: its own models, or else the default models. The fee account
    /// type is included if fee rules exist.
    fn account_kinds_for(&self, currency: Currency) -> impl Iterator<Item = LedgerAccountTypeId> {
        let mut kinds = Vec::new();
        for model in self.models_governing(currency) {
            for kind in [model.ledger_account_type, model.settlement_account_type] {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
        }
        let has_fees =
            !kinds.is_empty() && self.fee_rules().iter().any(|rule| rule.terms.currency == currency);
        if has_fees && !kinds.contains(&LedgerAccountTypeId::INTERCHANGE_FEE) {
            kinds.push(LedgerAccountTypeId::INTERCHANGE_FEE);
        }
        kinds.into_iter()
    }

    fn create_accounts(
        &self,
        participant: ParticipantId,
        currency: Currency,
        kinds: &[LedgerAccountTypeId],
        is_opened: bool,
        out: &mut Decision,
    ) -> Outcome {
        let first = self.accounts().len() + 1;
        if self.accounts().len() + kinds.len() > self.config.limits.accounts {
            return Err(AdminRefusal::AccountsFull);
        }
        for (offset, kind) in kinds.iter().enumerate() {
            let Some(id) = AccountId::new((first + offset) as u32) else {
                unreachable!("accounts count from 1")
            };
            out.events.push(Event::AccountCreated { id, participant, currency, kind: *kind, is_opened });
        }
        Ok(AdminOutcome::Done)
    }

    pub(crate) fn decide_participant_activity(
        &self,
        name: &FspId,
        is_active: bool,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(name)?;
        if participant.is_active == is_active {
            return Ok(AdminOutcome::AlreadyDone);
        }
        out.events.push(Event::ParticipantActivitySet { id: participant.id, is_active });
        Ok(AdminOutcome::Done)
    }

    pub(crate) fn decide_set_endpoint(
        &self,
        name: &FspId,
        kind: EndpointType,
        value: &str,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(name)?;
        self.check_not_proxied(Some(participant))?;
        if value.is_empty() || value.len() > ENDPOINT_VALUE_BYTES_MAX {
            return Err(AdminRefusal::EndpointValue);
        }
        if participant.endpoint(kind) == Some(value) {
            return Ok(AdminOutcome::AlreadyDone);
        }
        out.events.push(Event::EndpointSet { participant: participant.id, kind, value: Box::from(value) });
        Ok(AdminOutcome::Done)
    }

    /// Sets several endpoints. Endpoints of other types stay.
    pub(crate) fn decide_set_endpoints(
        &self,
        name: &FspId,
        endpoints: &[EndpointValue],
        out: &mut Decision,
    ) -> Outcome {
        let mut outcome = AdminOutcome::AlreadyDone;
        for EndpointValue { kind, value } in endpoints {
            if self.decide_set_endpoint(name, *kind, value, out)? == AdminOutcome::Done {
                outcome = AdminOutcome::Done;
            }
        }
        Ok(outcome)
    }

    /// Sets the first net debit cap, opens the currency's accounts with a balance, and activates them.
    pub(crate) fn decide_open_accounts(
        &self,
        name: &FspId,
        currency: Currency,
        net_debit_cap: Amount,
        initial_position: Amount,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(name)?;
        let Some(position) = participant.account(currency, LedgerAccountTypeId::POSITION) else {
            return Err(AdminRefusal::PositionAccountMissing { name: *name, currency });
        };
        if participant.limit(currency).is_some() || self.account_ref(position).is_opened {
            let opening = Opening { currency, position, net_debit_cap, initial_position };
            return self.decide_correct_position(participant, opening, out);
        }
        check_opening(net_debit_cap, initial_position)?;
        // A model may have been created after the participant. Its accounts are created on demand.
        let missing: Vec<_> = self
            .account_kinds_for(currency)
            .filter(|kind| participant.account(currency, *kind).is_none())
            .collect();
        self.create_accounts(participant.id, currency, &missing, true, out)?;
        for account in participant.accounts.iter().filter(|account| account.currency == currency) {
            out.events.push(Event::AccountOpened { id: account.id });
        }
        let alarm_basis_points = Limit::ALARM_BASIS_POINTS_DEFAULT;
        let participant = participant.id;
        out.events.push(Event::LimitSet { participant, currency, value: net_debit_cap, alarm_basis_points });
        self.post_initial_position(currency, position, initial_position, out)
    }

    /// Posts the initial position. Double entry holds from the first posting on: the contra account is the hub's
    /// settlement account.
    fn post_initial_position(
        &self,
        currency: Currency,
        position: AccountId,
        amount: Amount,
        out: &mut Decision,
    ) -> Outcome {
        if amount != Amount::ZERO {
            let hub = self.participant(ParticipantId::HUB);
            let credit = hub
                .account(currency, LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT)
                .ok_or(AdminRefusal::HubSettlementAccountMissing { currency })?;
            if self.account_ref(credit).balance.checked_sub(amount).is_none() {
                return Err(AdminRefusal::InitialPositionTooLarge);
            }
            out.events.push(Event::Posted { debit: position, credit, amount });
        }
        Ok(AdminOutcome::Done)
    }

    /// Corrects the initial position and the cap while the position contains only the initial one.
    fn decide_correct_position(
        &self,
        participant: &Participant,
        opening: Opening,
        out: &mut Decision,
    ) -> Outcome {
        let Opening { currency, position, net_debit_cap, initial_position } = opening;
        let before = self.account_ref(position).balance;
        let limit = participant.limit(currency);
        let Some(limit) = limit.filter(|_| before != initial_position && self.is_position_unused(position))
        else {
            return Err(AdminRefusal::AccountsOpened);
        };
        check_opening(net_debit_cap, initial_position)?;
        if limit.value != net_debit_cap {
            let (participant, alarm_basis_points) = (participant.id, limit.alarm_basis_points);
            out.events.push(Event::LimitSet {
                participant,
                currency,
                value: net_debit_cap,
                alarm_basis_points,
            });
        }
        let correction = initial_position.checked_sub(before).ok_or(AdminRefusal::InitialPositionTooLarge)?;
        self.post_initial_position(currency, position, correction, out)
    }

    /// Whether no transfer affects a position: none is reserved, in a window or in a settlement.
    fn is_position_unused(&self, position: AccountId) -> bool {
        let mut pairs = self.windows.open_pairs().into_iter();
        let mut nets =
            self.windows().iter().flat_map(|window| &window.contents).flat_map(|content| &content.nets);
        self.account_ref(position).pending_credits == Amount::ZERO
            && pairs.all(|pair| pair.payer != position && pair.payee != position)
            && nets.all(|net| net.account != position)
            && self.settlements().iter().all(|settlement| settlement.account(position).is_none())
    }

    pub(crate) fn decide_set_limit(
        &self,
        name: &FspId,
        currency: Currency,
        value: Amount,
        alarm_basis_points: u16,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(name)?;
        let Some(limit) = participant.limit(currency) else {
            return Err(AdminRefusal::LimitMissing { name: *name, currency });
        };
        if value.is_negative() || alarm_basis_points > 10_000 {
            return Err(AdminRefusal::LimitOrAlarmInvalid);
        }
        if limit.value == value && limit.alarm_basis_points == alarm_basis_points {
            return Ok(AdminOutcome::AlreadyDone);
        }
        out.events.push(Event::LimitSet { participant: participant.id, currency, value, alarm_basis_points });
        Ok(AdminOutcome::Done)
    }

    pub(crate) fn decide_create_hub_account(
        &self,
        name: &FspId,
        currency: Currency,
        kind: &str,
        out: &mut Decision,
    ) -> Outcome {
        let Some(kind) = self.account_type_named(kind) else {
            return Err(AdminRefusal::AccountTypeUnknown);
        };
        let Some(participant) = self.participant_named(name) else {
            return Err(AdminRefusal::HubAccountParticipantUnknown);
        };
        if participant.account(currency, kind.id).is_some() {
            return Err(AdminRefusal::HubAccountRegistered);
        }
        if participant.id != ParticipantId::HUB {
            return Err(AdminRefusal::HubAccountForDfsp);
        }
        let is_hub_type = matches!(
            kind.id,
            LedgerAccountTypeId::HUB_RECONCILIATION | LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT
        );
        if !is_hub_type && &*kind.name != LedgerAccountTypeId::HUB_FEE_NAME {
            return Err(AdminRefusal::HubAccountTypeNotAllowed);
        }
        self.create_accounts(participant.id, currency, &[kind.id], true, out)
    }

    pub(crate) fn decide_account_activity(
        &self,
        name: &FspId,
        account: AccountId,
        is_active: bool,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(name)?;
        let Some(account) = self.account(account) else {
            return Err(AdminRefusal::AccountUnknown);
        };
        if account.participant != participant.id {
            return Err(AdminRefusal::AccountOfAnother);
        }
        if account.kind != LedgerAccountTypeId::POSITION {
            return Err(AdminRefusal::AccountNotPosition);
        }
        if !account.is_opened {
            return Err(AdminRefusal::AccountUnopened);
        }
        if account.is_active == is_active {
            return Ok(AdminOutcome::AlreadyDone);
        }
        out.events.push(Event::AccountActivitySet { id: account.id, is_active });
        Ok(AdminOutcome::Done)
    }
}

/// Checks a first cap and position. A negative cap is rejected. A position beyond the cap would block every payment, so
/// it is treated as a mistake.
fn check_opening(net_debit_cap: Amount, initial_position: Amount) -> Result<(), AdminRefusal> {
    if net_debit_cap.is_negative() {
        return Err(AdminRefusal::LimitNegative);
    }
    if initial_position > net_debit_cap {
        return Err(AdminRefusal::InitialPositionBeyondCap);
    }
    Ok(())
}
