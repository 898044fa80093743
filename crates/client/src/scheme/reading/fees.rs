//! Reads the rules for interchange fees in a scheme file.

use toml::Spanned;
use upesi_ledger::command::FEE_RULE_PARTIES_MAX;
use upesi_ledger::{FEE_DECIMALS_MAX, FeePayer, FeeTerms, RATE_WHOLE};
use upesi_types::{Amount, Currency, Timestamp};

use super::Reading;
use crate::scheme::fee_rule::FeeRule;
use crate::scheme::section::{DecimalText, Section};

/// Default number of decimals of a rounded share.
const DECIMALS_DEFAULT: u8 = 2;

impl Reading<'_> {
    /// The rules of the file; faults of each are reported.
    pub(super) fn fee_rules(&mut self, file: &mut Section<'_>, currencies: &[Currency]) -> Vec<FeeRule> {
        let mut rules: Vec<FeeRule> = Vec::new();
        for section in file.sections("fee_rule", &mut self.mistakes) {
            let start = section.start;
            let Some(rule) = self.fee_rule(section, currencies) else { continue };
            let name = &rule.terms.name;
            if rules.iter().any(|other| other.terms.name == *name) {
                self.mistake(start, format!("fee rule {name:?} is listed twice"));
            }
            rules.push(rule);
        }
        rules
    }

    fn fee_rule(&mut self, mut section: Section<'_>, currencies: &[Currency]) -> Option<FeeRule> {
        let start = section.start;
        let name = section.required::<String>("name", &mut self.mistakes);
        let currency = section.required::<String>("currency", &mut self.mistakes);
        let (payers, payees) =
            (self.fee_parties("payers", &mut section), self.fee_parties("payees", &mut section));
        let amount_min = self.fee_amount("amount_min", &mut section);
        let amount_max = self.fee_amount("amount_max", &mut section);
        let rate = self.fee_amount("rate_percent", &mut section);
        let fixed = self.fee_amount("fixed", &mut section);
        let decimals = section.optional::<u8>("decimals", &mut self.mistakes).map(Spanned::into_inner);
        let paid_by = section.required::<String>("paid_by", &mut self.mistakes);
        let (from, until) = (self.fee_instant("from", &mut section), self.fee_instant("until", &mut section));
        section.end(&mut self.mistakes);
        let (name, currency, paid_by) = (name?.into_inner(), currency?, paid_by?);
        let known = Currency::parse(currency.get_ref()).filter(|code| currencies.contains(code));
        if known.is_none() {
            let text = format!("{:?} is not among the scheme's currencies", currency.get_ref());
            self.mistake(currency.span().start, text);
        }
        let payer = FeePayer::parse(paid_by.get_ref());
        if payer.is_none() {
            self.mistake(paid_by.span().start, "paid_by must be \"PAYER\" or \"PAYEE\"");
        }
        let terms = FeeTerms {
            name: name.into(),
            currency: known?,
            payers,
            payees,
            amount_min: amount_min.unwrap_or(Amount::ZERO),
            amount_max,
            rate: u32::try_from(rate.unwrap_or(Amount::ZERO).units()).unwrap_or(u32::MAX),
            decimals: decimals.unwrap_or(DECIMALS_DEFAULT),
            fixed: fixed.unwrap_or(Amount::ZERO),
            paid_by: payer?,
        };
        self.check_fee_terms(start, &terms);
        if from.zip(until).is_some_and(|(from, until)| until <= from) {
            self.mistake(start, "until must be later than from");
        }
        Some(FeeRule { terms, place: self.place(start), from, until })
    }

    /// Reports terms that any hub would reject.
    fn check_fee_terms(&mut self, start: usize, terms: &FeeTerms<String>) {
        let name = &terms.name;
        if !(2..=30).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            self.mistake(
                start,
                format!("{name:?} is not a valid name of a fee rule: give 2 to 30 letters and digits"),
            );
        }
        if terms.rate > RATE_WHOLE {
            self.mistake(start, "rate_percent must be 0 to 100");
        }
        if terms.rate == 0 && terms.fixed == Amount::ZERO {
            self.mistake(start, "the rule charges nothing: give rate_percent, fixed, or both");
        }
        if terms.decimals > FEE_DECIMALS_MAX {
            self.mistake(start, format!("decimals must be 0 to {FEE_DECIMALS_MAX}"));
        }
        if terms.amount_max.is_some_and(|most| most < terms.amount_min) {
            self.mistake(start, "amount_max must not be below amount_min");
        }
        if terms.payers.len().max(terms.payees.len()) > FEE_RULE_PARTIES_MAX {
            self.mistake(start, format!("a rule names at most {FEE_RULE_PARTIES_MAX} DFSPs on a side"));
        }
    }

    fn fee_parties(&mut self, key: &'static str, section: &mut Section<'_>) -> Vec<String> {
        let names = section.optional::<Vec<String>>(key, &mut self.mistakes).map(Spanned::into_inner);
        let mut names = names.unwrap_or_default();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn fee_amount(&mut self, key: &'static str, section: &mut Section<'_>) -> Option<Amount> {
        let text = section.optional::<DecimalText>(key, &mut self.mistakes)?;
        self.amount(key, text)
    }

    fn fee_instant(&mut self, key: &'static str, section: &mut Section<'_>) -> Option<Timestamp> {
        let text = section.optional::<String>(key, &mut self.mistakes)?;
        let instant = Timestamp::parse_iso(text.get_ref());
        if instant.is_none() {
            let rule = "give a time in UTC, such as \"2031-04-01T12:00:00.000Z\"";
            self.mistake(text.span().start, format!("{key} {:?}: {rule}", text.get_ref()));
        }
        instant
    }
}
