//! A running hub of any kind: the addresses of its services and metrics, and its processes.

use upesi_http::ClientTls;
use upesi_sim::ServiceUrls;

/// A running hub of any kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TargetHub {
    /// Base URL of the FSPIOP API, for all resources without their own URL below.
    pub fspiop_url: String,
    /// Base URL for `/parties` and `/participants`, if it differs.
    pub lookups_url: Option<String>,
    /// Base URL for `/quotes`, `/bulkQuotes` and `/fxQuotes`, if it differs.
    pub quotes_url: Option<String>,
    /// Base URL for `/transfers`, if it differs.
    pub transfers_url: Option<String>,
    pub admin_url: String,
    /// Places of metrics, each of a part of the hub: URLs of the texts, or base URLs with the text at `/metrics`. If
    /// empty, the metrics are expected at the admin API.
    pub metrics_urls: Vec<String>,
    /// The hub's processes on this machine, if CPU and memory are to be measured.
    pub pids: Vec<u32>,
    /// TLS of its admin API, and of metrics at the same address.
    pub admin_tls: Option<ClientTls>,
    /// Whether it makes transfers durable before it answers, as far as the operator knows.
    pub durable: Option<bool>,
}

impl TargetHub {
    /// A hub that has its whole FSPIOP API at one URL.
    pub fn at(fspiop_url: impl Into<String>, admin_url: impl Into<String>) -> Self {
        Self { fspiop_url: fspiop_url.into(), admin_url: admin_url.into(), ..Self::default() }
    }

    /// The base URLs by resource.
    pub fn services(&self) -> ServiceUrls {
        let or_usual = |url: &Option<String>| url.as_ref().unwrap_or(&self.fspiop_url).clone();
        ServiceUrls {
            lookups: or_usual(&self.lookups_url),
            quotes: or_usual(&self.quotes_url),
            transfers: or_usual(&self.transfers_url),
            others: self.fspiop_url.clone(),
        }
    }

    /// The base URLs of its FSPIOP API, without duplicates.
    pub(crate) fn fspiop_urls(&self) -> Vec<String> {
        let ServiceUrls { lookups, quotes, transfers, others } = self.services();
        let mut urls = vec![others, lookups, quotes, transfers];
        urls.sort();
        urls.dedup();
        urls
    }

    /// Whether it runs on this machine, judging by its addresses and processes.
    pub(crate) fn is_local(&self) -> bool {
        let is_loopback =
            |url: &String| ["//127.", "//localhost", "//[::1]"].iter().any(|host| url.contains(host));
        !self.pids.is_empty() || self.fspiop_urls().iter().any(is_loopback)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_with_a_local_service_or_process_is_local() {
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
