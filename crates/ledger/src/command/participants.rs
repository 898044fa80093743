//! Participants, their accounts, endpoints and limits.

use alloc::boxed::Box;
use alloc::format;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, ErrorCode, FspId};

use super::{AdminOutcome, Decision, Refusal};
use crate::Ledger;
use crate::account::{AccountId, LedgerAccountTypeId};
use crate::endpoint::EndpointType;
use crate::event::Event;
use crate::participant::{Participant, ParticipantId};

/// Most participants of a scheme, the hub included.
pub const PARTICIPANTS_MAX: usize = 10_000;
/// Most accounts of all participants.
pub const ACCOUNTS_MAX: usize = 1_000_000;
/// Longest endpoint value, in bytes.
pub const ENDPOINT_VALUE_BYTES_MAX: usize = 512;
/// Alarm threshold of a limit set without one, in hundredths of a percent. Reference hubs set 10 %, which nearly every DFSP is
/// beyond at all times.
const ALARM_BASIS_POINTS_DEFAULT: u16 = 8_000;

type Outcome = Result<AdminOutcome, Refusal>;

impl Ledger {
    fn known_participant(&self, name: &FspId) -> Result<&Participant, Refusal> {
        self.participant_named(name).ok_or_else(|| Refusal::unknown_participant(name.as_str()))
    }

    pub(super) fn decide_create_participant(
        &self,
        name: FspId,
        currency: Currency,
        is_proxy: bool,
        out: &mut Decision,
    ) -> Outcome {
        if !(2..=30).contains(&name.as_str().len()) {
            return Err(Refusal::new(
                ErrorCode::MALFORMED_SYNTAX,
                "\"name\" length must be 2 to 30 characters",
            ));
        }
        let hub = self.participant(ParticipantId::HUB);
        for (kind, title) in [
            (LedgerAccountTypeId::HUB_RECONCILIATION, "reconciliation"),
            (LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT, "multilateral net settlement"),
        ] {
            if hub.account(currency, kind).is_none() {
                let detail = format!("Hub {title} account for the specified currency does not exist");
                return Err(Refusal::new(ErrorCode::ADD_PARTY_INFORMATION, detail));
            }
        }
        let existing = self.participant_named(&name);
        if existing.is_none() && self.participant_id_ignoring_case(&name).is_some() {
            // Fulfils name their parties in any case, so two names may not differ in nothing else.
            return Err(Refusal::new(
                ErrorCode::CLIENT,
                "Participant name differs from another one in case only",
            ));
        }
        let has_currency = |participant: &Participant| {
            participant.accounts.iter().any(|account| account.currency == currency)
        };
        if existing.is_some_and(has_currency) {
            return Err(Refusal::new(ErrorCode::CLIENT, "Participant currency has already been registered"));
        }
        let kinds: Vec<_> = self.account_kinds_for(currency).collect();
        if kinds.is_empty() {
            let detail = "Unable to find a matching or default, Settlement Model";
            return Err(Refusal::new(ErrorCode::SETTLEMENT, detail));
        }
        if existing.is_none() && self.participants().len() >= PARTICIPANTS_MAX {
            return Err(Refusal::validation(format!("A scheme has at most {PARTICIPANTS_MAX} participants")));
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

    /// The account types that the models of a currency use: its own models, else the default ones.
    fn account_kinds_for(&self, currency: Currency) -> impl Iterator<Item = LedgerAccountTypeId> {
        let mut kinds = Vec::new();
        for model in self.models_governing(currency) {
            for kind in [model.ledger_account_type, model.settlement_account_type] {
                if !kinds.contains(&kind) {
                    kinds.push(kind);
                }
            }
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
        if self.accounts().len() + kinds.len() > ACCOUNTS_MAX {
            return Err(Refusal::validation(format!("A scheme has at most {ACCOUNTS_MAX} accounts")));
        }
        for (offset, kind) in kinds.iter().enumerate() {
            let Some(id) = AccountId::new((first + offset) as u32) else {
                unreachable!("accounts count from 1")
            };
            out.events.push(Event::AccountCreated { id, participant, currency, kind: *kind, is_opened });
        }
        Ok(AdminOutcome::Done)
    }

    pub(super) fn decide_participant_activity(
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

    pub(super) fn decide_set_endpoint(
        &self,
        name: &FspId,
        kind: EndpointType,
        value: &str,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(name)?;
        if value.is_empty() || value.len() > ENDPOINT_VALUE_BYTES_MAX {
            let detail = format!("\"value\" length must be 1 to {ENDPOINT_VALUE_BYTES_MAX} characters");
            return Err(Refusal::new(ErrorCode::MALFORMED_SYNTAX, detail));
        }
        if participant.endpoint(kind) == Some(value) {
            return Ok(AdminOutcome::AlreadyDone);
        }
        out.events.push(Event::EndpointSet { participant: participant.id, kind, value: Box::from(value) });
        Ok(AdminOutcome::Done)
    }

    /// Sets the first net debit cap, gives the currency's accounts a balance and activates them.
    pub(super) fn decide_open_accounts(
        &self,
        name: &FspId,
        currency: Currency,
        net_debit_cap: Amount,
        initial_position: Amount,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(name)?;
        let Some(position) = participant.account(currency, LedgerAccountTypeId::POSITION) else {
            let detail = format!("Participant '{name}' has no POSITION account in {currency}");
            return Err(Refusal::new(ErrorCode::ID_NOT_FOUND, detail));
        };
        if participant.limit(currency).is_some() || self.account_ref(position).is_opened {
            return Err(Refusal::validation("Participant Limit or Initial Position already set"));
        }
        if net_debit_cap.is_negative() {
            return Err(Refusal::new(ErrorCode::MALFORMED_SYNTAX, "\"limit.value\" must not be negative"));
        }
        // A model that came after the participant: its accounts are created on demand.
        let missing: Vec<_> = self
            .account_kinds_for(currency)
            .filter(|kind| participant.account(currency, *kind).is_none())
            .collect();
        self.create_accounts(participant.id, currency, &missing, true, out)?;
        for account in participant.accounts.iter().filter(|account| account.currency == currency) {
            out.events.push(Event::AccountOpened { id: account.id });
        }
        let alarm_basis_points = ALARM_BASIS_POINTS_DEFAULT;
        let participant = participant.id;
        out.events.push(Event::LimitSet { participant, currency, value: net_debit_cap, alarm_basis_points });
        if initial_position != Amount::ZERO {
            // Double entry holds from the first posting on: what one begins with, the hub's settlement account answers for.
            let hub = self.participant(ParticipantId::HUB);
            let credit =
                hub.account(currency, LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT).ok_or_else(|| {
                    Refusal::validation(format!(
                        "The hub has no HUB_MULTILATERAL_SETTLEMENT account in {currency}"
                    ))
                })?;
            if self.account_ref(credit).balance.checked_sub(initial_position).is_none() {
                return Err(Refusal::validation(
                    "The initial position is beyond what the hub's account can hold",
                ));
            }
            out.events.push(Event::Posted { debit: position, credit, amount: initial_position });
        }
        Ok(AdminOutcome::Done)
    }

    pub(super) fn decide_set_limit(
        &self,
        name: &FspId,
        currency: Currency,
        value: Amount,
        alarm_basis_points: u16,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(name)?;
        let Some(limit) = participant.limit(currency) else {
            let detail = format!(
                "Participant '{name}' has no limit in {currency} yet: set initialPositionAndLimits first"
            );
            return Err(Refusal::new(ErrorCode::ID_NOT_FOUND, detail));
        };
        if value.is_negative() || alarm_basis_points > 10_000 {
            let detail =
                "\"limit.value\" must not be negative and \"limit.alarmPercentage\" must be 0 to 100";
            return Err(Refusal::new(ErrorCode::MALFORMED_SYNTAX, detail));
        }
        if limit.value == value && limit.alarm_basis_points == alarm_basis_points {
            return Ok(AdminOutcome::AlreadyDone);
        }
        out.events.push(Event::LimitSet { participant: participant.id, currency, value, alarm_basis_points });
        Ok(AdminOutcome::Done)
    }

    pub(super) fn decide_create_hub_account(
        &self,
        name: &FspId,
        currency: Currency,
        kind: &str,
        out: &mut Decision,
    ) -> Outcome {
        let refuse = |detail: &str| Err(Refusal::new(ErrorCode::ADD_PARTY_INFORMATION, detail));
        let Some(kind) = self.account_type_named(kind) else {
            return refuse("Ledger account type was not found.");
        };
        let Some(participant) = self.participant_named(name) else {
            return refuse("Participant was not found.");
        };
        if participant.account(currency, kind.id).is_some() {
            return refuse("Hub account has already been registered.");
        }
        if participant.id != ParticipantId::HUB {
            return refuse("Endpoint is reserved for creation of Hub account types only.");
        }
        let is_hub_type = matches!(
            kind.id,
            LedgerAccountTypeId::HUB_RECONCILIATION | LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT
        );
        if !is_hub_type && &*kind.name != LedgerAccountTypeId::HUB_FEE_NAME {
            return refuse("The requested hub operator account type is not allowed.");
        }
        self.create_accounts(participant.id, currency, &[kind.id], true, out)
    }

    pub(super) fn decide_account_activity(
        &self,
        name: &FspId,
        account: AccountId,
        is_active: bool,
        out: &mut Decision,
    ) -> Outcome {
        let participant = self.known_participant(name)?;
        let Some(account) = self.account(account) else {
            return Err(Refusal::validation("Account not found"));
        };
        if account.participant != participant.id {
            return Err(Refusal::validation("Participant/account mismatch"));
        }
        if account.kind != LedgerAccountTypeId::POSITION {
            return Err(Refusal::validation("Only position account update is permitted"));
        }
        if !account.is_opened {
            let detail = "The account has no balance yet: set initialPositionAndLimits first";
            return Err(Refusal::validation(detail));
        }
        if account.is_active == is_active {
            return Ok(AdminOutcome::AlreadyDone);
        }
        out.events.push(Event::AccountActivitySet { id: account.id, is_active });
        Ok(AdminOutcome::Done)
    }
}
