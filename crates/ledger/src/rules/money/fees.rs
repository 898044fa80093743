//! Manages rules for interchange fees, and charges the fees.

use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId, Timestamp};

use crate::base::ids::{AccountId, LedgerAccountTypeId, ParticipantId};
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::money::changes::NewFeeRule;
use crate::money::fee::{FEE_DECIMALS_MAX, FeePayer, FeeRule, FeeTerms, NoFee, RATE_WHOLE};
use crate::money::fx_transfer::FxTransferSide;
use crate::money::transfer::{Transfer, accounts_of};
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::scheme::participant::Participant;

/// Maximum number of DFSPs that a rule names on each side.
pub const FEE_RULE_PARTIES_MAX: usize = 100;

type Outcome = Result<AdminOutcome, AdminRefusal>;

fn check_terms(terms: &FeeTerms<FspId>) -> Result<(), AdminRefusal> {
    let is_name =
        (2..=30).contains(&terms.name.len()) && terms.name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if !is_name {
        return Err(AdminRefusal::FeeRuleName);
    }
    let charges = (1..=RATE_WHOLE).contains(&terms.rate) || (terms.rate == 0 && terms.fixed > Amount::ZERO);
    let is_sound = charges
        && !terms.fixed.is_negative()
        && terms.decimals <= FEE_DECIMALS_MAX
        && !terms.amount_min.is_negative()
        && terms.amount_max.is_none_or(|most| terms.amount_min <= most)
        && terms.payers.len().max(terms.payees.len()) <= FEE_RULE_PARTIES_MAX;
    if is_sound { Ok(()) } else { Err(AdminRefusal::FeeRuleInvalid) }
}

/// Whether a rule's fees can have more decimals than its currency.
fn charges_finer(terms: &FeeTerms<FspId>) -> bool {
    let decimals = terms.currency.decimals().unwrap_or(FEE_DECIMALS_MAX.into());
    let limits = [Some(terms.fixed), Some(terms.amount_min), terms.amount_max];
    (terms.rate > 0 && u32::from(terms.decimals) > decimals)
        || limits.into_iter().flatten().any(|amount| !terms.currency.has(amount))
}

impl Ledger {
    pub(crate) fn decide_create_fee_rule(
        &self,
        new: &NewFeeRule,
        now: Timestamp,
        out: &mut Decision,
    ) -> Outcome {
        let terms = &new.terms;
        check_terms(terms)?;
        if self.config.rejects_finer_amounts && charges_finer(terms) {
            return Err(AdminRefusal::FeeRuleFiner { currency: terms.currency });
        }
        let from = new.from.unwrap_or(now);
        if from < now || new.until.is_some_and(|until| until <= from) {
            return Err(AdminRefusal::FeeRuleTime);
        }
        if self.fee_rule_named(&terms.name).is_some() {
            return Err(AdminRefusal::FeeRuleExists);
        }
        let live = self.fee_rules().iter().filter(|rule| !rule.has_ended(now)).count();
        if self.fee_rules().len() >= self.config.limits.fee_rules || live >= self.config.limits.fee_rules_live
        {
            return Err(AdminRefusal::FeeRulesFull);
        }
        let (payers, payees) = (self.parties(&terms.payers)?, self.parties(&terms.payees)?);
        self.create_fee_accounts(terms.currency, out)?;
        out.events.push(Event::FeeRuleCreated(FeeRule {
            id: self.fee_rules().len() as u32 + 1,
            terms: terms.with_parties(payers, payees),
            from,
            until: new.until,
            created_at: now,
        }));
        Ok(AdminOutcome::Done)
    }

    fn parties(&self, names: &[FspId]) -> Result<Vec<ParticipantId>, AdminRefusal> {
        let id = |name: &FspId| {
            let id = self.participant_id(name).filter(|id| *id != ParticipantId::HUB);
            id.ok_or(AdminRefusal::ParticipantUnknown { name: *name })
        };
        let mut ids = names.iter().map(id).collect::<Result<Vec<_>, _>>()?;
        ids.sort_unstable();
        ids.dedup();
        Ok(ids)
    }

    /// Creates a fee account for every DFSP with a position in the currency. Later DFSPs get theirs together with the
    /// position.
    fn create_fee_accounts(&self, currency: Currency, out: &mut Decision) -> Result<(), AdminRefusal> {
        let lacks = |participant: &&Participant| {
            participant.account(currency, LedgerAccountTypeId::POSITION).is_some()
                && participant.account(currency, LedgerAccountTypeId::INTERCHANGE_FEE).is_none()
        };
        let first = self.accounts().len() + 1;
        for (number, participant) in (first..).zip(self.participants().iter().filter(lacks)) {
            let id = u32::try_from(number)
                .ok()
                .filter(|_| number <= self.config.limits.accounts)
                .and_then(AccountId::new);
            out.events.push(Event::AccountCreated {
                id: id.ok_or(AdminRefusal::AccountsFull)?,
                participant: participant.id,
                currency,
                kind: LedgerAccountTypeId::INTERCHANGE_FEE,
                is_opened: true,
            });
        }
        Ok(())
    }

    pub(crate) fn decide_end_fee_rule(
        &self,
        name: &str,
        until: Option<Timestamp>,
        now: Timestamp,
        out: &mut Decision,
    ) -> Outcome {
        let rule = self.fee_rule_named(name).ok_or(AdminRefusal::FeeRuleUnknown)?;
        let until = until.unwrap_or(now);
        if rule.until == Some(until) {
            return Ok(AdminOutcome::AlreadyDone);
        }
        // Fees that were already charged, or not charged, remain correct.
        if until < now || rule.has_ended(now) {
            return Err(AdminRefusal::FeeRuleTime);
        }
        out.events.push(Event::FeeRuleEnded { id: rule.id, until });
        Ok(AdminOutcome::Done)
    }

    /// Charges the fees of a transfer that is committed now, one for each applicable rule. A fulfil is never rejected
    /// because of fees: a fee that cannot be charged is recorded as such.
    ///
    /// The owners of the reserved accounts owe the fees, because a DFSP may be behind another proxy by now.
    pub(crate) fn charge_fees(&self, transfer: &Transfer, now: Timestamp, out: &mut Decision) {
        let account = |position: AccountId| {
            let kind = LedgerAccountTypeId::INTERCHANGE_FEE;
            let owner = self.participant(self.account_ref(position).participant);
            let id = owner.account(transfer.currency, kind)?;
            Some((id, self.account_ref(id).balance))
        };
        let (debtor, payee) = accounts_of(transfer);
        let fx_transfer = self.fx_transfers.linked(transfer.id, FxTransferSide::Payer, transfer.payer);
        // An FXP pays a transfer after conversion. The payer has a reservation in the source currency.
        let converted = fx_transfer.and_then(|fx_transfer| fx_transfer.accounts);
        let payer = converted.map_or(debtor, |accounts| accounts.initiator_source);
        let mut accounts = account(payer).zip(account(payee));
        for rule in self.fee_rules() {
            let Some(amount) = rule.fee(transfer, now) else { continue };
            let charged = charge(accounts.as_mut(), rule.terms.paid_by, amount);
            let (transfer, rule) = (transfer.id, rule.id);
            out.events.push(match charged {
                Ok((payer, payee)) => Event::FeeCharged { transfer, rule, payer, payee, amount },
                Err(reason) => Event::FeeNotCharged { transfer, rule, amount, reason },
            });
        }
    }
}

/// Fee accounts of payer and payee, with their balances.
type FeeAccounts = ((AccountId, Amount), (AccountId, Amount));

/// Moves a fee between the balances of payer and payee. Returns debtor and creditor.
fn charge(
    accounts: Option<&mut FeeAccounts>,
    paid_by: FeePayer,
    amount: Amount,
) -> Result<(AccountId, AccountId), NoFee> {
    let (payer, payee) = accounts.ok_or(NoFee::Account)?;
    let (from, to) = match paid_by {
        FeePayer::Payer => (payer, payee),
        FeePayer::Payee => (payee, payer),
    };
    (from.1, to.1) = from.1.checked_add(amount).zip(to.1.checked_sub(amount)).ok_or(NoFee::Room)?;
    Ok((from.0, to.0))
}
