//! `upesi admin policy`: the changes that need the approval of a second person.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use clap::Args;
use serde::Deserialize;
use serde_json::json;
use upesi_client::admin_api::ApiAmount;
use upesi_http::Method;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::values;
use upesi_types::text::Escaped;
use upesi_types::{Amount, Currency};

use super::calls::{Calls, Money};
use super::hub::{HubArguments, reason};

const PATH: &str = "/approvals/policy";

/// Arguments of `upesi admin policy`.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub struct PolicyArguments {
    /// Changes of this kind now need a second person, such as window.close. May be repeated.
    #[arg(long = "second-person", value_name = "ACTION", requires = "reason")]
    pub second_person: Vec<String>,
    /// Changes of this kind now need one person only. May be repeated.
    #[arg(long = "one-person", value_name = "ACTION", requires = "reason")]
    pub one_person: Vec<String>,
    /// Deposits up to this amount now need one person only, such as KES=10000. May be repeated.
    #[arg(long = "waive", value_name = "CODE=AMOUNT", value_parser = waiver, requires = "reason")]
    pub waive: Vec<(Currency, Amount)>,
    /// Remove the waiver for deposits in this currency, so that --second-person applies to all of them. May be
    /// repeated.
    #[arg(long = "no-waiver", value_name = "CODE", value_parser = values::currency, requires = "reason")]
    pub no_waiver: Vec<Currency>,
    /// Reason, recorded in the audit trail and shown to the second person.
    #[arg(long, value_name = "TEXT", value_parser = reason)]
    pub reason: Option<String>,
    /// Print the hub's response as JSON.
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub hub: HubArguments,
}

fn waiver(text: &str) -> Result<(Currency, Amount), String> {
    let (code, amount) = text.split_once('=').ok_or("write it as CODE=AMOUNT, such as KES=10000")?;
    Ok((values::currency(code)?, values::amount(amount)?))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Policy {
    second_person: BTreeSet<String>,
    waived: Vec<Money>,
}

impl Policy {
    /// The policy after the changes that the arguments name.
    fn changed(mut self, arguments: &PolicyArguments) -> Result<Self, Failure> {
        let PolicyArguments { second_person, one_person, waive, no_waiver, .. } = arguments;
        let unknown = |what: String| Failure::new(Exit::Usage, what);
        for action in one_person {
            if !self.second_person.remove(action) {
                return Err(unknown(format!("--one-person {action}: one person can already do this")));
            }
        }
        self.second_person.extend(second_person.iter().cloned());
        for currency in no_waiver {
            let before = self.waived.len();
            self.waived.retain(|waiver| waiver.currency != currency.as_str());
            if self.waived.len() == before {
                return Err(unknown(format!(
                    "--no-waiver {currency}: deposits in this currency have no waiver"
                )));
            }
        }
        for (currency, amount) in waive {
            self.waived.retain(|waiver| waiver.currency != currency.as_str());
            self.waived.push(Money { amount: ApiAmount(*amount), currency: currency.to_string() });
        }
        Ok(self)
    }

    fn body(&self) -> serde_json::Value {
        let waiver = |one: &Money| json!({"currency": one.currency, "amount": one.amount.0.to_string()});
        let waived: Vec<_> = self.waived.iter().map(waiver).collect();
        json!({"secondPerson": self.second_person, "waived": waived})
    }

    fn text(&self) -> String {
        let mut text = String::new();
        for action in &self.second_person {
            // Writing into a String cannot fail.
            let _ = writeln!(text, "second person  {}", Escaped(action));
        }
        for waiver in &self.waived {
            let _ = writeln!(text, "one person     deposits of at most {}", waiver.text());
        }
        text
    }
}

/// Changes the policy if the arguments name a change, and prints it.
pub fn run(arguments: PolicyArguments) -> Outcome {
    let PolicyArguments { second_person, one_person, waive, no_waiver, .. } = &arguments;
    let has_change =
        !(second_person.is_empty() && one_person.is_empty() && waive.is_empty() && no_waiver.is_empty());
    let mut calls = Calls::to(arguments.hub.clone())?;
    if let Some(reason) = &arguments.reason {
        calls = calls.because(reason);
    }
    if has_change {
        let changed = calls.get::<Policy>(PATH)?.changed(&arguments)?;
        calls.send(Method::PUT, PATH, &changed.body())?;
    }
    if arguments.json {
        return calls.print(PATH);
    }
    write_out(&calls.get::<Policy>(PATH)?.text())
}
