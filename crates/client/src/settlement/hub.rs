//! The hub that the command calls.

use std::time::Duration;

use upesi_http::ClientTls;
use upesi_process::exit::Failure;
use upesi_process::times::Zone;
use upesi_types::FspId;

use super::api::{SettlementApi, Window};
use super::error::{Done, SettlementError};
use crate::admin_api::{AdminApi, AdminToken, admin_failure};
use crate::await_hub::await_admin;

/// The hub to call, and the form of the output.
#[derive(Clone, Debug)]
pub struct HubOptions {
    /// Base URL of the hub's admin API.
    pub admin_url: String,
    /// TLS for an `https://` URL.
    pub admin_tls: Option<ClientTls>,
    /// The operator's token, if the admin port requires one.
    pub admin_token: Option<AdminToken>,
    /// Time to wait for a hub that does not answer yet.
    pub wait: Duration,
    /// Print one JSON object instead of text.
    pub json: bool,
    /// Time zone of the times in texts. JSON and reports are in UTC.
    pub zone: Zone,
}

/// The hub whose settlements the command reads and changes.
pub(super) struct Hub {
    pub(super) api: SettlementApi,
    pub(super) zone: Zone,
}

impl Hub {
    pub(super) async fn connect(options: &HubOptions) -> Result<Self, Failure> {
        let tls = options.admin_tls.clone();
        let api = AdminApi::with_tls(&options.admin_url, tls).map_err(|error| admin_failure(&error))?;
        let api = api.with_token(options.admin_token.clone());
        await_admin(&options.admin_url, options.admin_tls.as_ref(), options.wait).await?;
        Ok(Self { api: SettlementApi(api), zone: options.zone.clone() })
    }

    /// Sets a reason for every call.
    pub(super) fn with_reason(self, reason: &str) -> Self {
        Self { api: SettlementApi(self.api.0.with_reason(reason)), ..self }
    }

    /// The accounts of a DFSP; `None` for all accounts.
    pub(super) async fn accounts_of(&self, dfsp: Option<&FspId>) -> Done<Option<Vec<u32>>> {
        let Some(dfsp) = dfsp else { return Ok(None) };
        let names = self.api.names().await?;
        let own = names.iter().filter(|(_, name)| name.as_str() == dfsp.as_str());
        let accounts: Vec<u32> = own.map(|(account, _)| *account).collect();
        if accounts.is_empty() {
            return Err(SettlementError::Stopped(format!("participant {dfsp} does not exist")));
        }
        Ok(Some(accounts))
    }

    pub(super) async fn open_window(&self) -> Done<Window> {
        let open = self.api.windows("state=OPEN").await?;
        open.into_iter().next().ok_or_else(|| SettlementError::Stopped("no window is open".to_owned()))
    }

    /// The windows that are closed and not settled.
    pub(super) async fn unsettled_windows(&self) -> Done<Vec<Window>> {
        let mut windows = Vec::new();
        for state in ["CLOSED", "ABORTED", "PENDING_SETTLEMENT"] {
            windows.extend(self.api.windows(&format!("state={state}")).await?);
        }
        windows.sort_by_key(|window| window.id);
        Ok(windows)
    }
}
