//! Net debit caps that follow the balances at the bank.

use serde::Deserialize;
use upesi_http::Method;
use upesi_types::Amount;

use super::super::{Done, Hub, SettlementError};
use super::Entry;
use super::apply::Applied;
use super::file::Line;
use crate::scheme::admin_api::ApiAmount;

/// Which caps become the balance.
#[derive(Clone, Copy, Debug)]
pub(super) struct Caps {
    /// Those above it.
    pub(super) lowers: bool,
    /// Those below it.
    pub(super) raises: bool,
}

impl Caps {
    /// The cap to set, if it is another one; below zero there is none.
    pub(super) fn wanted(self, cap: Amount, balance: Amount) -> Option<Amount> {
        let balance = balance.max(Amount::ZERO);
        (self.lowers && balance < cap || self.raises && balance > cap).then_some(balance)
    }
}

#[derive(Deserialize)]
struct Listing {
    limit: Limit,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Limit {
    value: ApiAmount,
    alarm_percentage: ApiAmount,
}

impl Hub {
    pub(super) async fn set_caps(&self, entries: &[Entry], caps: Caps, applied: &mut Applied) -> Done<()> {
        if !caps.lowers && !caps.raises {
            return Ok(());
        }
        for entry in entries {
            let set = self.set_cap(entry, caps).await;
            applied.note(entry, set);
        }
        Ok(())
    }

    async fn set_cap(&self, entry: &Entry, caps: Caps) -> Done<()> {
        let Line { name, currency, balance, .. } = &entry.line;
        let path = format!("/participants/{name}/limits");
        let found: Vec<Listing> = self.api.0.get(&format!("{path}?currency={currency}")).await?;
        let none = || SettlementError::Stopped(format!("it has no net debit cap in {currency}"));
        let Limit { value, alarm_percentage } = found.into_iter().next().ok_or_else(none)?.limit;
        let Some(cap) = caps.wanted(value.0, *balance) else { return Ok(()) };
        // Amounts are written by their digits.
        let body = format!(
            r#"{{"currency":"{currency}","limit":{{"type":"NET_DEBIT_CAP","value":{cap},"alarmPercentage":{}}}}}"#,
            alarm_percentage.0
        );
        Ok(self.api.0.send(Method::PUT, &path, &body).await?)
    }
}
