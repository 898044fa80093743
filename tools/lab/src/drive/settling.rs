//! Settlement during a run: `upesi settlement run` closes and settles the window at intervals. The amounts of each
//! settlement are recorded for the audit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Deserialize;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use upesi_client::settlement::{self, Action, HubOptions, Job, SettlementState};
use upesi_process::times::Zone;
use upesi_types::{Amount, Currency};

use crate::admin_client::{AdminClient, AdminError};
use crate::result::schema::SettlementResult;

/// Maximum number of account pairs that the hub reports at once.
const PAIRS_PAGE: usize = 10_000;

/// Amounts of settlements by currency and participant; positive if the participant paid.
pub(crate) type Nets = BTreeMap<String, BTreeMap<String, i128>>;

#[derive(Debug, Default)]
pub(crate) struct SettlementOutcome {
    pub nets: Nets,
    pub result: SettlementResult,
    pub findings: Vec<String>,
}

/// Settlements beside the load.
pub(crate) struct Settling {
    task: JoinHandle<SettlementOutcome>,
    stop: Arc<Notify>,
}

/// The output of `upesi settlement run`.
#[derive(Deserialize)]
struct SettlementOutput {
    windows: Vec<ShownWindow>,
    settlements: Vec<ShownSettlement>,
}

#[derive(Deserialize)]
struct ShownWindow {
    state: String,
}

#[derive(Deserialize)]
struct ShownSettlement {
    id: u32,
    state: String,
    accounts: Vec<ShownAccount>,
}

#[derive(Deserialize)]
struct ShownAccount {
    dfsp: String,
    currency: String,
    net: String,
}

impl Settling {
    /// Settles at this interval until it is stopped, then once more.
    pub fn start(admin_url: &str, nonce: u64, every: Duration) -> Self {
        let hub = HubOptions {
            admin_url: admin_url.to_owned(),
            admin_tls: None,
            admin_token: None,
            wait: Duration::ZERO,
            json: true,
            zone: Zone::utc(),
        };
        let stop = Arc::new(Notify::new());
        let told = Arc::clone(&stop);
        let task = tokio::spawn(async move {
            let mut settled = SettlementOutcome::default();
            for number in 0_u64.. {
                let is_last = tokio::time::timeout(every, told.notified()).await.is_ok();
                settled.settle(&hub, format!("lab-{:08x}-{number}", nonce as u32)).await;
                if is_last {
                    break;
                }
            }
            settled
        });
        Self { task, stop }
    }

    /// Settles the rest, and ends.
    pub async fn finish(self) -> SettlementOutcome {
        self.stop.notify_one();
        self.task.await.unwrap_or_else(|error| {
            let findings = vec![format!("the settlements ended early: {error}")];
            SettlementOutcome { findings, ..SettlementOutcome::default() }
        })
    }
}

impl SettlementOutcome {
    async fn settle(&mut self, hub: &HubOptions, name: String) {
        let began = Instant::now();
        let mut output = Vec::new();
        let done = match name.parse() {
            Ok(name) => {
                let job = Job::unattended(name, SettlementState::Settled);
                settlement::run(hub, &Action::Run(job), &mut output).await.map_err(|error| error.to_string())
            }
            Err(error) => Err(error),
        };
        let shown = done.and_then(|()| {
            serde_json::from_slice::<SettlementOutput>(&output)
                .map_err(|error| format!("its output is unusable: {error}"))
        });
        match shown {
            Ok(shown) => self.note(&shown, began.elapsed()),
            Err(error) => self.findings.push(format!("run {} of settlement: {error}", self.result.runs)),
        }
        self.result.runs += 1;
    }

    fn note(&mut self, shown: &SettlementOutput, took: Duration) {
        let result = &mut self.result;
        result.windows += shown.windows.iter().filter(|window| window.state != "OPEN").count() as u64;
        result.settlements += shown.settlements.len() as u64;
        result.slowest_ms = result.slowest_ms.max(u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        for settlement in &shown.settlements {
            if settlement.state != SettlementState::Settled.as_str() {
                self.findings.push(format!("settlement {} is {}", settlement.id, settlement.state));
            }
            let mut sums = BTreeMap::<&str, i128>::new();
            for account in &settlement.accounts {
                let Ok(net) = Amount::parse_decimal(&account.net) else {
                    self.findings
                        .push(format!("settlement {}: net {} is not an amount", settlement.id, account.net));
                    continue;
                };
                let net = i128::from(net.units());
                *sums.entry(&account.currency).or_default() += net;
                let nets = self.nets.entry(account.currency.clone()).or_default();
                *nets.entry(account.dfsp.clone()).or_default() += net;
            }
            for (currency, sum) in sums.into_iter().filter(|(_, sum)| *sum != 0) {
                let sum = upesi_sim::units_text(sum);
                self.findings
                    .push(format!("settlement {}: its nets in {currency} sum to {sum}", settlement.id));
            }
        }
    }
}

/// Number of commits in all settlement windows, for positions in a currency. Fails if the hub does not answer.
pub(crate) async fn commits_in_windows(admin: &AdminClient, currency: Currency) -> Result<u64, AdminError> {
    #[derive(Deserialize)]
    struct Page {
        pairs: Vec<Pair>,
        next: Option<String>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Pair {
        currency: String,
        ledger_account_type: String,
        transfers: u64,
    }
    #[derive(Deserialize)]
    struct Window {
        #[serde(alias = "settlementWindowId")]
        id: u32,
    }
    let windows: Vec<Window> =
        admin.read("/v2/settlementWindows?fromDateTime=1970-01-01T00:00:00.000Z").await?;
    let mut commits = 0;
    for Window { id } in windows {
        let mut after = String::new();
        loop {
            let path = format!("/v2/settlementWindows/{id}/pairs?limit={PAIRS_PAGE}{after}");
            let page: Page = admin.read(&path).await?;
            let of_positions = page
                .pairs
                .iter()
                .filter(|pair| pair.currency == currency.as_str() && pair.ledger_account_type == "POSITION");
            commits += of_positions.map(|pair| pair.transfers).sum::<u64>();
            match page.next {
                Some(next) => after = format!("&after={next}"),
                None => break,
            }
        }
    }
    Ok(commits)
}
