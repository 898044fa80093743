//! A hub that runs already, of any make: where its services and its metrics are, and which processes it is.

use serde::{Deserialize, Serialize};
use upesi_http::ClientTls;
use upesi_sim::ServiceUrls;

/// A hub that is already running, of any make.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetHub {
    /// Base URL of the FSPIOP API: of everything that has no URL of its own below.
    pub fspiop_url: String,
    /// Base URL for `/parties` and `/participants`, where it is another.
    pub lookups_url: Option<String>,
    /// Base URL for `/quotes`, `/bulkQuotes` and `/fxQuotes`, where it is another.
    pub quotes_url: Option<String>,
    /// Base URL for `/transfers`, where it is another.
    pub transfers_url: Option<String>,
    /// Base URL of the admin API.
    pub admin_url: String,
    /// Where metrics are, each of a part of the hub: URLs of the texts, or base URLs of what has them at `/metrics`.
    /// None: at the admin API, if there.
    pub metrics_urls: Vec<String>,
    /// Its processes on this machine, if CPU and memory are to be measured.
    pub pids: Vec<u32>,
    /// TLS of its admin API, and of metrics there.
    pub admin_tls: Option<ClientTls>,
    /// Whether it makes transfers durable before it answers, as far as the operator knows.
    pub durable: Option<bool>,
}

/// How a hub that ran already was reached, as results tell it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TargetRecord {
    /// Base URL for lookups.
    pub lookups: String,
    /// For quotes.
    pub quotes: String,
    /// For transfers.
    pub transfers: String,
    /// Base URL of the admin API.
    pub admin: String,
    /// Where metrics were asked for.
    pub metrics: Vec<String>,
    /// The processes that were measured.
    pub pids: Vec<u32>,
}

impl TargetHub {
    /// A hub that has all of its FSPIOP API at one URL.
    pub fn at(fspiop_url: impl Into<String>, admin_url: impl Into<String>) -> Self {
        Self { fspiop_url: fspiop_url.into(), admin_url: admin_url.into(), ..Self::default() }
    }

    /// The base URLs by what is sent there.
    pub fn services(&self) -> ServiceUrls {
        let or_usual = |url: &Option<String>| url.as_ref().unwrap_or(&self.fspiop_url).clone();
        ServiceUrls {
            lookups: or_usual(&self.lookups_url),
            quotes: or_usual(&self.quotes_url),
            transfers: or_usual(&self.transfers_url),
            others: self.fspiop_url.clone(),
        }
    }

    /// The base URLs of its FSPIOP API, each once.
    pub(crate) fn fspiop_urls(&self) -> Vec<String> {
        let ServiceUrls { lookups, quotes, transfers, others } = self.services();
        let mut urls = vec![others, lookups, quotes, transfers];
        urls.sort();
        urls.dedup();
        urls
    }

    /// Whether it runs on this machine, as far as its addresses and processes tell.
    pub(crate) fn is_local(&self) -> bool {
        let is_loopback =
            |url: &String| ["//127.", "//localhost", "//[::1]"].iter().any(|host| url.contains(host));
        !self.pids.is_empty() || self.fspiop_urls().iter().any(is_loopback)
    }

    /// For the record.
    pub(crate) fn record(&self) -> TargetRecord {
        let ServiceUrls { lookups, quotes, transfers, .. } = self.services();
        let metrics = if self.metrics_urls.is_empty() {
            vec![self.admin_url.clone()]
        } else {
            self.metrics_urls.clone()
        };
        let (admin, pids) = (self.admin_url.clone(), self.pids.clone());
        TargetRecord { lookups, quotes, transfers, admin, metrics, pids }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_url_of_its_own_is_at_the_usual_one() {
        let whole = TargetHub::at("http://hub:4000", "http://hub:4001");
        assert_eq!(whole.fspiop_urls(), ["http://hub:4000"]);
        assert_eq!(whole.record().metrics, ["http://hub:4001"]);
        let parts = TargetHub {
            quotes_url: Some("http://quoting:3002".to_owned()),
            transfers_url: Some("http://ml:3000".to_owned()),
            metrics_urls: vec!["http://ml:3000".to_owned(), "http://quoting:3002".to_owned()],
            pids: vec![4, 7],
            ..whole
        };
        let record = parts.record();
        assert_eq!(
            [record.lookups.as_str(), &record.quotes, &record.transfers],
            ["http://hub:4000", "http://quoting:3002", "http://ml:3000"]
        );
        assert_eq!((record.metrics.len(), record.pids), (2, vec![4, 7]));
        assert_eq!(parts.fspiop_urls().len(), 3);
    }

    #[test]
    fn one_service_or_process_here_makes_the_hub_share_this_machine() {
        let away = || TargetHub::at("http://10.0.0.7:4000", "http://127.0.0.1:1");
        let here = Some("http://localhost:3000".to_owned());
        for (target, is_local) in [
            (away(), false),
            (TargetHub { pids: vec![7], ..away() }, true),
            (TargetHub { transfers_url: here, ..away() }, true),
            (TargetHub::at("http://[::1]:4000", ""), true),
        ] {
            assert_eq!(target.is_local(), is_local, "{target:?}");
        }
    }
}
