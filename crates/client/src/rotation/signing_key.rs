//! Replaces the signing key of a DFSP: the new one is valid from its start on, and the hub ends the earlier ones
//! automatically after the overlap.

use std::fmt::Write as _;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::json;
use upesi_http::Method;
use upesi_jws::SubmittedKey;
use upesi_process::exit::{Exit, Failure, read_named};
use upesi_process::times::Zone;
use upesi_types::text::path;
use upesi_types::{FspId, Timestamp};

use crate::admin_api::AdminApi;
use crate::admin_api::admin_failure;

/// Maximum size of a public key's file, in bytes.
const FILE_BYTES_MAX: u64 = 16 * 1024;

/// Options of the rotation.
#[derive(Clone, Debug)]
pub struct SigningKeyRotation {
    pub name: FspId,
    /// Its new public key: PEM of a key or a certificate, or a JSON Web Key.
    pub file: PathBuf,
    /// Start of its validity; immediately if absent.
    pub starts: Option<Timestamp>,
    /// How long the earlier keys stay valid after that; the hub's default if absent.
    pub overlap_hours: Option<u32>,
}

/// The keys of a DFSP after the rotation.
#[derive(Clone, Debug, Serialize)]
pub struct SigningKeys {
    participant: String,
    /// `added` or `already added`.
    state: &'static str,
    keys: Vec<Key>,
}

#[derive(Clone, Debug, Deserialize)]
struct Listing {
    keys: Vec<Key>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Key {
    sha256: String,
    state: String,
    source: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    starts: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ends: Option<String>,
}

impl Key {
    fn counts(&self) -> bool {
        !matches!(&*self.state, "retired" | "revoked")
    }
}

impl SigningKeyRotation {
    /// Performs the rotation.
    ///
    /// # Errors
    /// 65 if the file has no public key, 66 if it cannot be read, 75 if an approval is pending, 69 and 1 by the hub's
    /// answer.
    pub async fn run(&self, api: &AdminApi) -> Result<SigningKeys, Failure> {
        let text = read_named(&self.file, FILE_BYTES_MAX)?;
        // The hub decides whether keys on P-256 are accepted. A private key is rejected here, so that it does not leave
        // this machine.
        let key = SubmittedKey::read(&text, true)
            .map_err(|problem| Failure::new(Exit::Data, format!("{} {problem}", self.file.display())))?;
        let keys = path(&["participants", self.name.as_str(), "signatureKeys"]);
        let listed = async || api.get::<Listing>(&keys).await.map_err(|error| admin_failure(&error));
        let changes_times = self.starts.is_some() || self.overlap_hours.is_some();
        let is_there = |one: &Key| one.sha256 == key.sha256 && one.source == "ledger" && one.counts();
        let before = listed().await?;
        if before.keys.iter().any(is_there) && !changes_times {
            return Ok(self.shown("already added", before));
        }
        let mut body = json!({ "publicKey": text });
        if let Some(starts) = self.starts {
            body["starts"] = starts.to_string().into();
        }
        if let Some(hours) = self.overlap_hours {
            body["overlapHours"] = hours.into();
        }
        api.send(Method::POST, &keys, &body.to_string()).await.map_err(|error| admin_failure(&error))?;
        Ok(self.shown("added", listed().await?))
    }

    fn shown(&self, state: &'static str, listing: Listing) -> SigningKeys {
        let keys = listing.keys.into_iter().filter(Key::counts).collect();
        SigningKeys { participant: self.name.to_string(), state, keys }
    }
}

impl SigningKeys {
    /// The result as text: one line per valid key, with times in a zone.
    pub fn text(&self, zone: &Zone) -> String {
        let mut text = format!("{}, {}\n", self.participant, self.state);
        for Key { sha256, state, source, starts, ends } in &self.keys {
            let starts = starts.as_ref().map(|starts| format!(", since {}", zone.show_text(starts)));
            let ends = ends.as_ref().map(|ends| format!(", until {}", zone.show_text(ends)));
            let times = [starts, ends].into_iter().flatten().collect::<String>();
            // Writing into a String cannot fail.
            let _ = writeln!(text, "  {state:<9} sha256:{sha256}, {source}{times}");
        }
        text
    }
}
