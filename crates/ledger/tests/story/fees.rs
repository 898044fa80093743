//! Fee rules in the notation of the stories.

use upesi_ledger::command::NewFeeRule;
use upesi_ledger::{AdminCommand, FeePayer, FeeTerms};
use upesi_types::{Amount, FspId};

use super::words::{self, Parsed, Words};

/// `create fee-rule NAME rate 6000 paid-by PAYER KES`, with `fixed 1`, `decimals 2`, `payers a,b`, `payees c`,
/// `least 10`, `most 100`, `from 12:00:10`, `until 12:00:20`.
pub(super) fn create(words: &mut Words) -> Parsed<AdminCommand> {
    let amount = |text: Option<String>| text.map(|text| words::amount(&text)).transpose();
    let rate = words.option("rate")?.unwrap_or_else(|| "0".to_owned());
    let decimals = words.option("decimals")?.unwrap_or_else(|| "2".to_owned());
    let paid_by = words.option("paid-by")?.ok_or("paid by whom?")?;
    let (fixed, least, most) = (words.option("fixed")?, words.option("least")?, words.option("most")?);
    let (payers, payees) = (words.option("payers")?, words.option("payees")?);
    let (from, until) = (words.option("from")?, words.option("until")?);
    let instant = |text: Option<String>| text.map(|text| words::instant(&text)).transpose();
    Ok(AdminCommand::CreateFeeRule(NewFeeRule {
        terms: FeeTerms {
            name: words.next("a name")?.into(),
            currency: words.currency()?,
            payers: names(payers)?,
            payees: names(payees)?,
            amount_min: amount(least)?.unwrap_or(Amount::ZERO),
            amount_max: amount(most)?,
            rate: rate.parse().map_err(|_| "no rate")?,
            decimals: decimals.parse().map_err(|_| "no number of decimals")?,
            fixed: amount(fixed)?.unwrap_or(Amount::ZERO),
            paid_by: FeePayer::parse(&paid_by).ok_or("PAYER or PAYEE pays")?,
        },
        from: instant(from)?,
        until: instant(until)?,
    }))
}

/// `end fee-rule NAME`, with `at 12:00:20`.
pub(super) fn end(words: &mut Words) -> Parsed<AdminCommand> {
    words.next("fee-rule")?;
    let until = words.option("at")?.map(|text| words::instant(&text)).transpose()?;
    Ok(AdminCommand::EndFeeRule { name: words.next("a name")?.into(), until })
}

fn names(list: Option<String>) -> Parsed<Vec<FspId>> {
    list.iter().flat_map(|list| list.split(',')).map(words::name).collect()
}
