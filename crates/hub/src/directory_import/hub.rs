//! What the hub is asked, and what it answers.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use upesi_http::Bytes;

use crate::exit::{Exit, Failure};
use crate::scheme::admin_api::{AdminApi, AdminError};

/// How often a chunk is sent before the import gives up for now.
const ATTEMPTS_MAX: u32 = 8;
/// The wait after the first attempt; it doubles each time.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// How far an import got.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Progress {
    pub(super) next_line: u64,
    pub(super) taken: u64,
    pub(super) refused: u64,
    #[serde(default)]
    pub(super) chunk: Option<ChunkAnswer>,
}

/// What became of a chunk.
#[derive(Debug, Deserialize)]
pub(super) struct ChunkAnswer {
    pub(super) refusals: Vec<RefusedLine>,
}

/// A line that was refused.
#[derive(Clone, Debug, Deserialize, Serialize, PartialEq, Eq)]
pub struct RefusedLine {
    /// Its number in the file.
    pub line: u64,
    /// The reason.
    pub reason: String,
}

/// An identifier's entries.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Party {
    pub(super) party_id_type: String,
    pub(super) party_identifier: String,
    pub(super) entries: Vec<PartyEntry>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PartyEntry {
    pub(super) fsp_id: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) currency: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) party_sub_id_or_type: Option<String>,
}

/// An import into a hub.
pub(super) struct HubImport {
    api: AdminApi,
    name: String,
    /// What follows `from` in the query of every chunk.
    query: String,
}

impl HubImport {
    pub(super) fn new(api: AdminApi, name: &str, header: &str, replace: bool) -> Self {
        let replace = if replace { "&replace=true" } else { "" };
        let query = format!("&columns={}{replace}", encode(header));
        Self { api, name: encode(name), query }
    }

    pub(super) async fn progress(&self) -> Result<Progress, Failure> {
        self.api.get(&format!("/directory/imports/{}", self.name)).await.map_err(|error| failure(&error))
    }

    /// Sends a chunk, again if need be: a chunk that was taken already is answered the same.
    pub(super) async fn take(&self, from: u64, lines: Bytes) -> Result<Progress, Failure> {
        let path = format!("/directory/imports/{}/chunks?from={from}{}", self.name, self.query);
        let mut delay = RETRY_DELAY;
        for _ in 1..ATTEMPTS_MAX {
            match self.api.post(&path, "text/csv", lines.clone()).await {
                Err(AdminError::Send { .. } | AdminError::Refused { status: 503, .. }) => {}
                other => return other.map_err(|error| failure(&error)),
            }
            tokio::time::sleep(delay).await;
            delay *= 2;
        }
        self.api.post(&path, "text/csv", lines).await.map_err(|error| {
            let failure = failure(&error);
            let again = "what was taken is kept: the same command goes on from there";
            Failure::new(failure.exit, format!("{failure}\n{again}"))
        })
    }
}

pub(super) async fn get(api: &AdminApi, kind: &str, id: &str) -> Result<Party, Failure> {
    let path = format!("/directory/parties/{}/{}", encode(kind), encode(id));
    api.get(&path).await.map_err(|error| failure(&error))
}

pub(super) fn failure(error: &AdminError) -> Failure {
    let exit = match error {
        AdminError::Url(_) => Exit::Usage,
        AdminError::Refused { status: 503, .. } => Exit::Temporary,
        AdminError::Send { .. } | AdminError::Malformed { .. } => Exit::Unavailable,
        AdminError::Refused { .. } => Exit::Failure,
        AdminError::Waiting { .. } => Exit::Temporary,
    };
    Failure::new(exit, error)
}

/// As a part of a URL (RFC 3986 §2.1).
fn encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}
