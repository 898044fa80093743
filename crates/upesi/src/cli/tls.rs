//! TLS towards the admin port and the operator's token, for the commands that call it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use upesi_http::ClientTls;
use upesi_hub::exit::{Exit, Failure};
use upesi_hub::scheme::admin_api::AdminToken;
use upesi_keys::read_limited_text;
use upesi_tls::{ClientFiles, Identity, Trust};

/// The variable that has the operator's token. There is no flag for it: every user of the machine sees those.
pub const TOKEN_VARIABLE: &str = "UPESI_ADMIN_TOKEN";
/// Permission of users who are neither the owner nor of the group to read a file.
const OTHERS_READ: u32 = 0o004;
/// Longest file of a token, in bytes: tokens of identity providers can be long.
const TOKEN_FILE_BYTES_MAX: u64 = 64 * 1024;

/// Files for an admin port with TLS or authentication.
#[derive(Args, Clone, Debug)]
pub struct TlsArguments {
    /// PEM file of the authorities whose certificate the admin port must have; needed for https:// addresses.
    #[arg(long, value_name = "FILE")]
    pub anchors: Option<PathBuf>,
    /// PEM file of the operator's certificate, if the admin port asks for one.
    #[arg(long, value_name = "FILE", requires_all = ["anchors", "key"])]
    pub certificate: Option<PathBuf>,
    /// PEM file of its private key.
    #[arg(long, value_name = "FILE", requires = "certificate")]
    pub key: Option<PathBuf>,
    /// File with the operator's token, if the admin port asks for one; the variable UPESI_ADMIN_TOKEN has it otherwise.
    #[arg(long, value_name = "FILE", env = "UPESI_ADMIN_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
}

impl TlsArguments {
    /// Reads the files, if there are any.
    ///
    /// # Errors
    /// 64 if one cannot be used.
    pub fn load(self) -> Result<Option<ClientTls>, Failure> {
        let Some(anchors_file) = self.anchors else { return Ok(None) };
        let servers = Trust { anchors_file, crl_file: None, refuses_stale_crls: false };
        let files = self.certificate.zip(self.key);
        let identity = files.map(|(certificate_file, key_file)| Identity { certificate_file, key_file });
        let tls = ClientTls::load(ClientFiles { servers, identity });
        tls.map(Some).map_err(|error| Failure::new(Exit::Usage, error))
    }

    /// The operator's token, from the file or the environment.
    ///
    /// # Errors
    /// 64 if there is one that cannot be used.
    pub fn token(&self) -> Result<Option<AdminToken>, Failure> {
        let refuse = |what: String| Failure::new(Exit::Usage, what);
        let (text, place) = match &self.token_file {
            Some(file) => (read_token(file)?, file.display().to_string()),
            None => match std::env::var(TOKEN_VARIABLE) {
                Ok(text) => (text, TOKEN_VARIABLE.to_owned()),
                Err(std::env::VarError::NotPresent) => return Ok(None),
                Err(error) => return Err(refuse(format!("{TOKEN_VARIABLE}: {error}"))),
            },
        };
        let token = AdminToken::new(&text);
        token.map(Some).ok_or_else(|| refuse(format!("{place}: there is no token in it")))
    }
}

/// The text of a file that not every user may read.
pub(super) fn read_token(file: &Path) -> Result<String, Failure> {
    let refuse =
        |what: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{}: {what}", file.display()));
    let mode = fs::metadata(file).map_err(|error| refuse(&error))?.permissions().mode();
    if mode & OTHERS_READ != 0 {
        return Err(refuse(&"every user of this machine may read it (chmod o-r)"));
    }
    read_limited_text(file, TOKEN_FILE_BYTES_MAX).map_err(|error| refuse(&error))
}
