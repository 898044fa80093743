//! Access to private keys: in files, or in tokens behind PKCS #11.

use upesi_keys::{Keys, TokenSettings, Tokens};
use upesi_settings::Settings;

use super::error::HubError;

/// Access to private keys.
pub(super) fn open(settings: &Settings) -> Result<Keys, HubError> {
    let pkcs11 = &settings.pkcs11;
    // No key can be in a token without both.
    let (Some(module), Some(pin_file)) = (pkcs11.module.clone(), pkcs11.pin_file.clone()) else {
        return Ok(Keys::in_files());
    };
    let tokens = Tokens::open(TokenSettings { module, pin_file, sessions_max: pkcs11.sessions_max });
    tokens.map(Keys::with_tokens).map_err(|source| HubError::PrivateKey { setting: "pkcs11.module", source })
}
