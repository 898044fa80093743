//! Manages settlement models and ledger account types.

use upesi_types::{Currency, Timestamp};

use crate::base::ids::{AccountId, LedgerAccountTypeId};
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::settlement::changes::NewSettlementModel;
use crate::settlement::model::SettlementModel;

type Outcome = Result<AdminOutcome, AdminRefusal>;

impl Ledger {
    pub(crate) fn decide_create_model(
        &self,
        new: &NewSettlementModel,
        now: Timestamp,
        out: &mut Decision,
    ) -> Outcome {
        let is_name =
            (2..=30).contains(&new.name.len()) && new.name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if !is_name {
            return Err(AdminRefusal::ModelName);
        }
        if !SettlementModel::is_combination_allowed(new.granularity, new.interchange, new.delay) {
            let (delay, granularity, interchange) = (new.delay, new.granularity, new.interchange);
            return Err(AdminRefusal::ModelCombination { delay, granularity, interchange });
        }
        let kind = |name: &str| self.account_type_named(name).filter(|kind| kind.is_active);
        let settled = kind(&new.ledger_account_type).ok_or(AdminRefusal::LedgerTypeUnknown)?;
        if !settled.is_settleable {
            return Err(AdminRefusal::TypeNotSettled { kind: settled.name.clone() });
        }
        let ledger_account_type = settled.id;
        let settlement_account_type =
            kind(&new.settlement_account_type).ok_or(AdminRefusal::SettlementTypeUnknown)?.id;
        let is_cover = matches!(
            settlement_account_type,
            LedgerAccountTypeId::SETTLEMENT | LedgerAccountTypeId::INTERCHANGE_FEE_SETTLEMENT
        );
        if !is_cover {
            return Err(AdminRefusal::SettlementTypeNotAllowed);
        }
        // Deposits go to SETTLEMENT accounts. A position that other accounts cover could never receive cover.
        if ledger_account_type == LedgerAccountTypeId::POSITION
            && settlement_account_type != LedgerAccountTypeId::SETTLEMENT
        {
            let (kind, cover) = (new.ledger_account_type.clone(), new.settlement_account_type.clone());
            return Err(AdminRefusal::SettlementTypeOfAnother { kind, cover });
        }
        if self.model_named(&new.name).is_some() {
            return Err(AdminRefusal::ModelExists);
        }
        self.check_may_govern(new.currency, ledger_account_type)?;
        if self.models().len() >= self.config.limits.settlement_models {
            return Err(AdminRefusal::ModelsFull);
        }
        let model = SettlementModel {
            id: self.models().len() as u32 + 1,
            name: new.name.clone(),
            is_active: true,
            granularity: new.granularity,
            interchange: new.interchange,
            delay: new.delay,
            currency: new.currency,
            require_liquidity_check: new.require_liquidity_check,
            ledger_account_type,
            settlement_account_type,
            auto_position_reset: new.auto_position_reset,
            created_at: now,
        };
        self.create_cover_accounts(&model, out)?;
        out.events.push(Event::SettlementModelCreated(model));
        Ok(AdminOutcome::Done)
    }

    /// Checks whether a model may take effect. An inactive model can be replaced.
    fn check_may_govern(
        &self,
        currency: Option<Currency>,
        kind: LedgerAccountTypeId,
    ) -> Result<(), AdminRefusal> {
        let governs = |currency: Option<Currency>, kind: LedgerAccountTypeId| {
            let mut active = self.models().iter().filter(|model| model.is_active);
            active.find(|model| model.currency == currency && model.ledger_account_type == kind)
        };
        if let Some(other) = governs(currency, kind) {
            return Err(AdminRefusal::ModelGovernsAlready { model: other.name.clone() });
        }
        let position = LedgerAccountTypeId::POSITION;
        match currency {
            // The default models do not govern a currency that has its own model.
            Some(own)
                if kind != position
                    && governs(currency, position).is_none()
                    && governs(None, position).is_some() =>
            {
                Err(AdminRefusal::ModelStopsPositions { currency: own })
            }
            _ => Ok(()),
        }
    }

    /// Creates cover accounts for DFSPs that joined before the model for positions existed. Without one they could not
    /// pay.
    fn create_cover_accounts(&self, model: &SettlementModel, out: &mut Decision) -> Result<(), AdminRefusal> {
        let has_own = |currency: Currency| {
            self.models().iter().any(|other| other.is_active && other.currency == Some(currency))
        };
        let governs = |currency: Currency| match model.currency {
            Some(own) => own == currency,
            None => !has_own(currency),
        };
        if model.ledger_account_type != LedgerAccountTypeId::POSITION {
            return Ok(());
        }
        let mut number = self.accounts().len();
        for participant in self.participants() {
            let positions = participant.accounts.iter();
            for position in positions.filter(|account| account.kind == LedgerAccountTypeId::POSITION) {
                let (currency, kind) = (position.currency, model.settlement_account_type);
                if !governs(currency) || participant.account(currency, kind).is_some() {
                    continue;
                }
                number += 1;
                let id = u32::try_from(number).ok().filter(|_| number <= self.config.limits.accounts);
                out.events.push(Event::AccountCreated {
                    id: id.and_then(AccountId::new).ok_or(AdminRefusal::AccountsFull)?,
                    participant: participant.id,
                    currency,
                    kind,
                    is_opened: self.account_ref(position.id).is_opened,
                });
            }
        }
        Ok(())
    }

    pub(crate) fn decide_model_activity(&self, name: &str, is_active: bool, out: &mut Decision) -> Outcome {
        let Some(model) = self.model_named(name) else {
            return Err(AdminRefusal::ModelUnknown { name: name.into() });
        };
        if model.is_active == is_active {
            return Ok(AdminOutcome::AlreadyDone);
        }
        if is_active {
            self.check_may_govern(model.currency, model.ledger_account_type)?;
        }
        out.events.push(Event::SettlementModelActivitySet { id: model.id, is_active });
        Ok(AdminOutcome::Done)
    }

    pub(crate) fn decide_create_account_type(
        &self,
        name: &str,
        description: &str,
        is_active: bool,
        is_settleable: bool,
        out: &mut Decision,
    ) -> Outcome {
        let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if !(2..=30).contains(&name.len()) || !name.bytes().all(is_word) {
            return Err(AdminRefusal::AccountTypeName);
        }
        if self.account_type_named(name).is_some() {
            return Err(AdminRefusal::AccountTypeExists);
        }
        if self.account_types().len() >= self.config.limits.ledger_account_types {
            return Err(AdminRefusal::AccountTypesFull);
        }
        out.events.push(Event::LedgerAccountTypeCreated {
            id: LedgerAccountTypeId(self.account_types().len() as u8 + 1),
            name: name.into(),
            description: description.into(),
            is_active,
            is_settleable,
        });
        Ok(AdminOutcome::Done)
    }
}
