//! The state of a hub after a day, counted over its admin API.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use upesi_client::admin_api::{AdminApi, AdminError};
use upesi_fspiop::uri::encode_segment;

/// Numbers of objects by state.
pub(super) type ByState = BTreeMap<String, u64>;

/// The objects of a hub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Counts {
    /// By state, with the error code, if there is one: `ABORTED_ERROR 5104`.
    pub transfers: ByState,
    pub callbacks: ByState,
    pub approvals: ByState,
    pub settlement_windows: ByState,
    pub settlements: ByState,
    pub dfsps: ByState,
}

#[derive(Deserialize)]
struct TransferPage {
    transfers: Vec<Transfer>,
    next: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Transfer {
    internal_state: String,
    error_information: Option<ErrorInformation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ErrorInformation {
    error_code: String,
}

#[derive(Deserialize)]
struct CallbackPage {
    callbacks: Vec<serde::de::IgnoredAny>,
}

#[derive(Deserialize)]
struct ApprovalPage {
    approvals: Vec<Stated>,
}

#[derive(Deserialize)]
struct Stated {
    state: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Participant {
    name: String,
    is_active: upesi_client::admin_api::ApiFlag,
}

fn count(sums: &mut ByState, state: impl Into<String>) {
    *sums.entry(state.into()).or_default() += 1;
}

fn by_state(objects: Vec<Stated>) -> ByState {
    let mut sums = ByState::new();
    objects.into_iter().for_each(|object| count(&mut sums, object.state));
    sums
}

/// Number of parked callbacks of a DFSP, or of all, up to a thousand.
pub(super) async fn parked(api: &AdminApi, dfsp: Option<&str>) -> Result<u64, AdminError> {
    let of_dfsp = dfsp.map_or(String::new(), |dfsp| format!("&fsp={dfsp}"));
    let page: CallbackPage = api.get(&format!("/callbacks?state=parked&limit=1000{of_dfsp}")).await?;
    Ok(page.callbacks.len() as u64)
}

impl Counts {
    /// Counts everything. Fails if the hub does not answer.
    pub async fn read(api: &AdminApi) -> Result<Self, AdminError> {
        let approvals: ApprovalPage = api.get("/approvals?limit=1000").await?;
        let windows = api.get("/v2/settlementWindows?fromDateTime=1970-01-01T00:00:00.000Z").await?;
        let settlements = api.get("/v2/settlements?fromDateTime=1970-01-01T00:00:00.000Z").await?;
        let mut dfsps = ByState::new();
        let participants: Vec<Participant> = api.get("/participants").await?;
        for dfsp in participants.iter().filter(|dfsp| dfsp.name != "Hub") {
            count(&mut dfsps, if dfsp.is_active.0 { "active" } else { "suspended" });
        }
        Ok(Self {
            transfers: transfers(api).await?,
            callbacks: ByState::from([("parked".to_owned(), parked(api, None).await?)]),
            approvals: by_state(approvals.approvals),
            settlement_windows: by_state(windows),
            settlements: by_state(settlements),
            dfsps,
        })
    }

    /// The lines of a table.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        let rows = [
            ("transfers", &self.transfers),
            ("callbacks", &self.callbacks),
            ("approvals", &self.approvals),
            ("settlement windows", &self.settlement_windows),
            ("settlements", &self.settlements),
            ("DFSPs", &self.dfsps),
        ];
        rows.into_iter().flat_map(|(name, sums)| {
            let line = move |(place, (state, count)): (usize, (&String, &u64))| {
                format!("   {:<20}{count:>6}  {state}", if place == 0 { name } else { "" })
            };
            sums.iter().enumerate().map(line)
        })
    }
}

async fn transfers(api: &AdminApi) -> Result<ByState, AdminError> {
    let mut sums = ByState::new();
    let mut cursor = String::new();
    loop {
        let page: TransferPage = api.get(&format!("/transfers?limit=1000{cursor}")).await?;
        for transfer in page.transfers {
            let code = transfer.error_information.map(|error| format!(" {}", error.error_code));
            count(&mut sums, transfer.internal_state + code.as_deref().unwrap_or_default());
        }
        let Some(next) = page.next else { return Ok(sums) };
        "&cursor=".clone_into(&mut cursor);
        encode_segment(&next, &mut cursor);
    }
}
