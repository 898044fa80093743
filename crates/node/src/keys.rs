//! Access to private keys: in files, or in tokens behind PKCS #11.

use std::path::PathBuf;

use upesi_keys::{Keys, TokenSettings, Tokens};
use upesi_settings::Settings;

use super::error::HubError;
use super::options;

/// Access to private keys.
pub(super) fn open(settings: &Settings) -> Result<Keys, HubError> {
    let pkcs11 = &settings.pkcs11;
    if pkcs11.module.is_empty() {
        return Ok(Keys::in_files());
    }
    let tokens = Tokens::open(TokenSettings {
        module: PathBuf::from(&pkcs11.module),
        pin_file: PathBuf::from(&pkcs11.pin_file),
        sessions_max: options::size(pkcs11.sessions_max),
    });
    tokens.map(Keys::with_tokens).map_err(|source| HubError::PrivateKey { setting: "pkcs11.module", source })
}
