//! The auditor's data about the scheme: participants, their accounts with balances, caps, settlement models and fee
//! rules. All of it comes from the recorded events.

use std::collections::BTreeMap;

use upesi_ledger::{
    AccountId, Block, Event, FeeRule, Ledger, LedgerAccountTypeId, ParticipantId, SettlementModel,
};
use upesi_types::{Amount, Currency};

use super::entry::CheckResult;

/// Actions of a model at the stages.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Rules {
    pub resets_positions: bool,
    pub checks_liquidity: bool,
}

/// A position before a record, and its cap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub owner: ParticipantId,
    pub currency: Currency,
    pub units: i128,
    pub cap: i128,
}

impl Rules {
    /// The actions of a model at the stages.
    pub(super) fn of(model: &SettlementModel) -> Self {
        Self { resets_positions: model.auto_position_reset, checks_liquidity: model.require_liquidity_check }
    }
}

/// A balance as the auditor computes it.
#[derive(Clone, Debug)]
pub(super) struct BookAccount {
    pub(super) units: i128,
    /// Possible decrease of the balance by ends of reservations.
    pub(super) pending: i128,
    pub(super) is_active: bool,
    owner: ParticipantId,
    currency: Currency,
    kind: LedgerAccountTypeId,
}

/// A participant as the auditor knows it.
#[derive(Clone, Debug)]
struct Member {
    name: String,
    is_active: bool,
}

/// The books of the scheme.
#[derive(Debug)]
pub(super) struct SchemeBooks {
    participants: Vec<Member>,
    /// The proxy of each DFSP behind one.
    proxies: BTreeMap<ParticipantId, ParticipantId>,
    pub(super) accounts: Vec<BookAccount>,
    /// The account of a participant, by currency and type.
    account_ids: BTreeMap<(ParticipantId, Currency, LedgerAccountTypeId), AccountId>,
    account_types: usize,
    models: Vec<SettlementModel>,
    limits: BTreeMap<(ParticipantId, Currency), i128>,
    fee_rules: Vec<FeeRule>,
}

impl SchemeBooks {
    /// The scheme of a trusted state.
    pub(super) fn of(ledger: &Ledger) -> Self {
        let accounts = ledger.accounts().iter().map(|account| BookAccount {
            units: i128::from(account.balance.units()),
            pending: i128::from(account.pending_credits.units()),
            is_active: account.is_active,
            owner: account.participant,
            currency: account.currency,
            kind: account.kind,
        });
        let account_ids = ledger
            .accounts()
            .iter()
            .map(|account| ((account.participant, account.currency, account.kind), account.id));
        let participants = ledger.participants().iter().map(|participant| Member {
            name: participant.name.to_string(),
            is_active: participant.is_active,
        });
        let limits = ledger.participants().iter().flat_map(|participant| {
            let limits = participant.limits.iter();
            limits.map(|limit| ((participant.id, limit.currency), i128::from(limit.value.units())))
        });
        Self {
            participants: participants.collect(),
            proxies: ledger.proxied().collect(),
            accounts: accounts.collect(),
            account_ids: account_ids.collect(),
            account_types: ledger.account_types().len(),
            models: ledger.models().to_vec(),
            limits: limits.collect(),
            fee_rules: ledger.fee_rules().to_vec(),
        }
    }

    /// Enters an event about the scheme; ignores others.
    #[expect(clippy::too_many_lines, reason = "one arm per event")]
    pub(super) fn enter(&mut self, event: &Event) -> CheckResult {
        match event {
            Event::ParticipantCreated { id, name, .. } => {
                next("participant", id.number() as usize, self.participants.len())?;
                self.participants.push(Member { name: name.to_string(), is_active: true });
            }
            Event::AccountCreated { id, participant, currency, kind, is_opened } => {
                next("account", id.number() as usize, self.accounts.len())?;
                self.check_participant(*participant)?;
                let (participant, currency, kind) = (*participant, *currency, *kind);
                self.account_ids.insert((participant, currency, kind), *id);
                let (is_active, owner) = (*is_opened, participant);
                self.accounts.push(BookAccount { units: 0, pending: 0, is_active, owner, currency, kind });
            }
            Event::LedgerAccountTypeCreated { id, .. } => {
                next("ledger account type", usize::from(id.0), self.account_types)?;
                self.account_types += 1;
            }
            Event::SettlementModelCreated(model) => {
                next("settlement model", model.id as usize, self.models.len())?;
                self.models.push(model.clone());
            }
            Event::SettlementModelActivitySet { id, is_active } => {
                let index = (*id as usize).checked_sub(1);
                let model = index.and_then(|index| self.models.get_mut(index));
                model.ok_or_else(|| format!("settlement model {id} does not exist"))?.is_active = *is_active;
            }
            Event::FeeRuleCreated(rule) => {
                next("fee rule", rule.id as usize, self.fee_rules.len())?;
                self.fee_rules.push(rule.clone());
            }
            Event::FeeRuleEnded { id, until } => {
                let rule = self.fee_rules.get_mut((*id as usize).wrapping_sub(1));
                rule.ok_or_else(|| format!("fee rule {id} does not exist"))?.until = Some(*until);
            }
            Event::LimitSet { participant, currency, value, .. } => {
                self.check_participant(*participant)?;
                self.limits.insert((*participant, *currency), i128::from(value.units()));
            }
            Event::CapRaised { account, amount, .. } => self.shift_cap(*account, amount.units().into())?,
            Event::CapReturned { account, amount, .. } => {
                self.shift_cap(*account, -i128::from(amount.units()))?;
            }
            Event::ParticipantActivitySet { id, is_active } => {
                self.check_participant(*id)?;
                self.participants[id.number() as usize - 1].is_active = *is_active;
            }
            Event::EndpointSet { participant, .. }
            | Event::BindingAdded { participant, .. }
            | Event::BindingRemoved { participant, .. }
            | Event::SignatureKeyAdded { participant, .. }
            | Event::SignatureKeyRevoked { participant, .. } => self.check_participant(*participant)?,
            Event::BlockSet { block: Block::Participant(name) } => {
                let known = self.participant_named(name.as_str());
                known.ok_or_else(|| format!("a block names {name}, which does not exist"))?;
            }
            Event::ProxiedAdded { participant, proxy } => {
                self.check_participant(*participant)?;
                self.check_participant(*proxy)?;
                let owns = self.accounts.iter().any(|account| account.owner == *participant);
                if owns || self.proxies.insert(*participant, *proxy).is_some() {
                    return Err(format!("participant {} cannot be behind a proxy", participant.number()));
                }
            }
            Event::ProxiedRemoved { participant, proxy } => {
                let before = self.proxies.remove(participant);
                if before != Some(*proxy) {
                    return Err(format!("participant {} is not behind that proxy", participant.number()));
                }
            }
            Event::AccountOpened { id } => self.account_mut(*id)?.is_active = true,
            Event::AccountActivitySet { id, is_active } => self.account_mut(*id)?.is_active = *is_active,
            _ => {}
        }
        Ok(())
    }

    pub(super) fn participant_named(&self, name: &str) -> Option<ParticipantId> {
        let index = self.participants.iter().position(|member| member.name == name)?;
        ParticipantId::new(index as u32 + 1)
    }

    pub(super) fn name_of(&self, id: ParticipantId) -> Option<String> {
        self.participants.get(id.number() as usize - 1).map(|member| member.name.clone())
    }

    /// Whether a participant is active, and so is its proxy.
    pub(super) fn is_active(&self, id: ParticipantId) -> bool {
        self.is_active_itself(id) && self.is_active_itself(self.liable(id))
    }

    /// Whether a participant is active, regardless of its proxy.
    pub(super) fn is_active_itself(&self, id: ParticipantId) -> bool {
        self.participants.get(id.number() as usize - 1).is_some_and(|member| member.is_active)
    }

    /// The participant that is liable for a sender: itself, or its proxy.
    pub(super) fn liable(&self, id: ParticipantId) -> ParticipantId {
        self.proxies.get(&id).copied().unwrap_or(id)
    }

    pub(super) fn account_of(
        &self,
        participant: ParticipantId,
        currency: Currency,
        kind: LedgerAccountTypeId,
    ) -> Option<&BookAccount> {
        self.account(self.account_id_of(participant, currency, kind)?).ok()
    }

    pub(super) fn account_id_of(
        &self,
        participant: ParticipantId,
        currency: Currency,
        kind: LedgerAccountTypeId,
    ) -> Option<AccountId> {
        self.account_ids.get(&(self.liable(participant), currency, kind)).copied()
    }

    pub(super) fn fee_rules(&self) -> &[FeeRule] {
        &self.fee_rules
    }

    pub(super) fn cap(&self, participant: ParticipantId, currency: Currency) -> i128 {
        self.limits.get(&(self.liable(participant), currency)).copied().unwrap_or(0)
    }

    /// The type of the accounts that cover positions.
    pub(super) fn settlement_type(&self, currency: Currency) -> Option<LedgerAccountTypeId> {
        self.position_model(currency).map(|model| model.settlement_account_type)
    }

    /// The model of positions: one of the currency, otherwise the default one.
    pub(super) fn position_model(&self, currency: Currency) -> Option<&SettlementModel> {
        let active =
            |wanted| self.models.iter().filter(move |model| model.is_active && model.currency == wanted);
        let wanted = if active(Some(currency)).next().is_some() { Some(currency) } else { None };
        let position = |model: &&SettlementModel| model.ledger_account_type == LedgerAccountTypeId::POSITION;
        active(wanted).find(position)
    }

    pub(super) fn owner(&self, id: AccountId) -> Option<ParticipantId> {
        self.account(id).ok().map(|account| account.owner)
    }

    pub(super) fn account(&self, id: AccountId) -> Result<&BookAccount, String> {
        let index = id.number() as usize - 1;
        self.accounts.get(index).ok_or_else(|| format!("account {} does not exist", id.number()))
    }

    fn account_mut(&mut self, id: AccountId) -> Result<&mut BookAccount, String> {
        let index = id.number() as usize - 1;
        self.accounts.get_mut(index).ok_or_else(|| format!("account {} does not exist", id.number()))
    }

    pub(super) fn post(&mut self, id: AccountId, units: i128) -> CheckResult {
        let account = self.account_mut(id)?;
        account.units += units;
        if account.units.abs() > i128::from(Amount::MAX.units()) {
            return Err(format!("the balance of account {} exceeds the range of amounts", id.number()));
        }
        Ok(())
    }

    /// Records the possible decrease of a balance by the end of a reservation; negative once it has ended.
    pub(super) fn note_pending(&mut self, id: AccountId, units: i128) -> CheckResult {
        let account = self.account_mut(id)?;
        account.pending += units;
        if (0..=i128::from(Amount::MAX.units())).contains(&account.pending) {
            Ok(())
        } else {
            Err(format!("the reservations of account {} exceed the range of amounts", id.number()))
        }
    }

    /// Raises or lowers the net debit cap of a position.
    fn shift_cap(&mut self, position: AccountId, units: i128) -> CheckResult {
        let BookAccount { owner, currency, .. } = *self.account(position)?;
        let cap = self.limits.get_mut(&(owner, currency));
        *cap.ok_or_else(|| format!("account {} has no net debit cap", position.number()))? += units;
        Ok(())
    }

    pub(super) fn check_participant(&self, id: ParticipantId) -> CheckResult {
        if id.number() as usize <= self.participants.len() {
            Ok(())
        } else {
            Err(format!("participant {} does not exist", id.number()))
        }
    }

    pub(super) fn kind(&self, id: AccountId) -> Option<(Currency, LedgerAccountTypeId)> {
        self.account(id).ok().map(|account| (account.currency, account.kind))
    }

    /// The hub's account for settlement in a currency.
    pub(super) fn hub_account(&self, currency: Currency) -> Option<AccountId> {
        let kind = LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT;
        self.account_id_of(ParticipantId::HUB, currency, kind)
    }

    pub(super) fn rules(&self, model: u32) -> Rules {
        self.models.get((model as usize).wrapping_sub(1)).map_or_else(Rules::default, Rules::of)
    }

    /// Balance and net debit cap of a position; `None` without a cap.
    pub(super) fn position(&self, id: AccountId) -> Option<Position> {
        let BookAccount { owner, currency, kind, units, .. } = *self.account(id).ok()?;
        let cap = *self.limits.get(&(owner, currency))?;
        (kind == LedgerAccountTypeId::POSITION).then_some(Position { owner, currency, units, cap })
    }
}

fn next(what: &str, number: usize, count: usize) -> CheckResult {
    if number == count + 1 { Ok(()) } else { Err(format!("{what} {number} follows {what} {count}")) }
}
