//! The hub that a command calls: selected by flags, by variables, or by a saved context.
//!
//! 1. `--context NAME` selects a saved context; `--admin URL` selects an address without a context. They exclude each
//!    other.
//! 2. Without these flags, the variables UPESI_CONTEXT or UPESI_ADMIN_URL decide, and then the current context.
//! 3. Files come from their flags, then from the context of `--context`, then from their variables, then from the
//!    current context if it is used. Therefore a token of a context is never sent to an address that is not the
//!    context's.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use tokio::runtime::Runtime;
use upesi_client::admin_api::{AdminApi, AdminError, AdminToken};
use upesi_client::remedy;
use upesi_http::{ClientTls, Target, TlsFault};
use upesi_keys::read_limited_text;
use upesi_process::exit::{Exit, Failure, Outcome};
use upesi_tls::{ClientFiles, Identity, Trust};

use upesi_types::text::url_part;

use super::context::{Context, Contexts, make_directory};

/// The hub's address without flags, variables and contexts.
const ADMIN_DEFAULT: &str = "http://127.0.0.1:4001";
const ADMIN_VARIABLE: &str = "UPESI_ADMIN_URL";
const CONTEXT_VARIABLE: &str = "UPESI_CONTEXT";
const ANCHORS_VARIABLE: &str = "UPESI_ADMIN_ANCHORS";
const CERTIFICATE_VARIABLE: &str = "UPESI_ADMIN_CERTIFICATE";
const KEY_VARIABLE: &str = "UPESI_ADMIN_KEY";
const TOKEN_FILE_VARIABLE: &str = "UPESI_ADMIN_TOKEN_FILE";
/// The variable with the operator's token. A flag would show the token to every user of the machine.
const TOKEN_VARIABLE: &str = "UPESI_ADMIN_TOKEN";
/// Read permission of users who are neither the owner nor in the group.
const OTHERS_READ: u32 = 0o004;
/// Maximum size of a token file, in bytes. Tokens of identity providers can be long.
const TOKEN_FILE_BYTES_MAX: u64 = 64 * 1024;
/// Maximum length of a reason, in bytes. The hub rejects a longer header.
const REASON_BYTES_MAX: usize = 512;

/// The hub to call.
#[derive(Args, Clone, Debug, Default)]
pub struct HubArguments {
    /// Call the hub of this saved context (`upesi context`; variable UPESI_CONTEXT) instead of the current one.
    #[arg(long, value_name = "NAME", conflicts_with = "admin")]
    pub context: Option<String>,
    /// Base URL of the hub's admin API, without a context; variable UPESI_ADMIN_URL, default http://127.0.0.1:4001.
    #[arg(long, value_name = "URL")]
    pub admin: Option<String>,
    /// PEM file of the authorities that may have issued the admin port's certificate. Required for https:// addresses.
    /// Variable UPESI_ADMIN_ANCHORS.
    #[arg(long, value_name = "FILE")]
    pub anchors: Option<PathBuf>,
    /// PEM file of the operator's certificate, if the admin port requires one; variable UPESI_ADMIN_CERTIFICATE.
    #[arg(long, value_name = "FILE")]
    pub certificate: Option<PathBuf>,
    /// PEM file of its private key; variable UPESI_ADMIN_KEY.
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
    /// File with the operator's token, if the admin port requires one; variable UPESI_ADMIN_TOKEN_FILE. The variable
    /// UPESI_ADMIN_TOKEN can contain the token itself. By default, the session of `upesi admin login`.
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// A hub, with the files for calls to it.
#[derive(Debug)]
pub struct Hub {
    /// Base URL of the admin API.
    pub url: String,
    /// TLS settings, for `https://`.
    pub tls: Option<ClientTls>,
    token: TokenSource,
}

/// Location of the operator's token.
#[derive(Debug)]
enum TokenSource {
    File(PathBuf),
    Variable(String),
    /// The file of the session of a context or an address, which `upesi admin login` writes.
    Session(PathBuf),
    Nowhere,
}

/// The value of an environment variable; `None` if it is empty.
fn variable(name: &str) -> Result<Option<String>, Failure> {
    match std::env::var(name) {
        Ok(value) => Ok(Some(value).filter(|value| !value.is_empty())),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error) => Err(Failure::new(Exit::Usage, format!("{name}: {error}"))),
    }
}

impl HubArguments {
    /// The selected hub, with its files read.
    ///
    /// # Errors
    /// 64 if the context is unknown or a file cannot be used.
    pub fn resolve(self) -> Result<Hub, Failure> {
        let (name, context) = self.saved()?.unzip();
        let from_context = context.unwrap_or_default();
        let is_named = self.context.is_some();
        let pick = |flag: &Option<PathBuf>, saved: &Option<PathBuf>, name: &str| -> Result<_, Failure> {
            let variable = variable(name)?.map(PathBuf::from);
            let saved = saved.clone();
            Ok(flag.clone().or(if is_named { saved.or(variable) } else { variable.or(saved) }))
        };
        let anchors = pick(&self.anchors, &from_context.anchors, ANCHORS_VARIABLE)?;
        let certificate = pick(&self.certificate, &from_context.certificate, CERTIFICATE_VARIABLE)?;
        let key = pick(&self.key, &from_context.key, KEY_VARIABLE)?;
        let url = match (self.admin, name.is_some()) {
            (Some(url), _) => url,
            (None, true) => from_context.admin,
            (None, false) => variable(ADMIN_VARIABLE)?.unwrap_or_else(|| ADMIN_DEFAULT.to_owned()),
        };
        // The session of an address without a context belongs only to that address.
        let session = Contexts::session_file(&name.unwrap_or_else(|| url_part(&url)));
        let token = TokenSource::of(self.token_file, from_context.token_file, session, is_named)?;
        Ok(Hub { tls: load_tls(&url, anchors, certificate, key)?, url, token })
    }

    /// The saved context, with its name.
    fn saved(&self) -> Result<Option<(String, Context)>, Failure> {
        if let Some(name) = &self.context {
            return Contexts::read()?.named(name).map(Some);
        }
        if self.admin.is_some() {
            return Ok(None);
        }
        match (variable(CONTEXT_VARIABLE)?, variable(ADMIN_VARIABLE)?) {
            (Some(_), Some(_)) => Err(Failure::new(
                Exit::Usage,
                format!("{CONTEXT_VARIABLE} and {ADMIN_VARIABLE} are both set: unset one of them"),
            )),
            (Some(name), None) => Contexts::read()?.named(&name).map(Some),
            (None, Some(_)) => Ok(None),
            (None, None) => Contexts::read()?.current(),
        }
    }
}

impl TokenSource {
    fn of(
        flag: Option<PathBuf>,
        saved: Option<PathBuf>,
        session: Option<PathBuf>,
        is_named: bool,
    ) -> Result<Self, Failure> {
        let of_context = saved.map(Self::File).or(session.map(Self::Session));
        let of_variables = match variable(TOKEN_FILE_VARIABLE)? {
            Some(file) => Some(Self::File(file.into())),
            None => variable(TOKEN_VARIABLE)?.map(Self::Variable),
        };
        let found = if is_named { of_context.or(of_variables) } else { of_variables.or(of_context) };
        Ok(flag.map(Self::File).or(found).unwrap_or(Self::Nowhere))
    }
}

/// TLS settings for an address.
///
/// # Errors
/// 64 if `https://` has no anchors, or a file cannot be used.
pub(super) fn load_tls(
    url: &str,
    anchors: Option<PathBuf>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
) -> Result<Option<ClientTls>, Failure> {
    let refuse = |what: &str| Err(Failure::new(Exit::Usage, what));
    let target = Target::parse(url).map_err(|error| Failure::new(Exit::Usage, format!("{url}: {error}")))?;
    let identity = match (certificate, key) {
        (Some(certificate_file), Some(key_file)) => Some(Identity { certificate_file, key_file }),
        (None, None) => None,
        (Some(_), None) => return refuse("the certificate needs its private key: --key, or UPESI_ADMIN_KEY"),
        (None, Some(_)) => {
            return refuse("the key needs its certificate: --certificate, or UPESI_ADMIN_CERTIFICATE");
        }
    };
    let anchors_file = match anchors {
        _ if !target.origin.is_secure() => return Ok(None),
        Some(file) => file,
        None => return refuse(&format!("{url}: {}", remedy(TlsFault::NoAnchors))),
    };
    let servers = Trust { anchors_file, crl_file: None, refuses_stale_crls: false };
    let tls = ClientTls::load(ClientFiles { servers, identity });
    tls.map(Some).map_err(|error| Failure::new(Exit::Usage, error))
}

impl Hub {
    /// The operator's token.
    ///
    /// # Errors
    /// 64 if the token cannot be used.
    pub fn token(&self) -> Result<Option<AdminToken>, Failure> {
        match &self.token {
            TokenSource::Nowhere => Ok(None),
            TokenSource::Session(file) if !file.exists() => Ok(None),
            TokenSource::File(file) | TokenSource::Session(file) => token_of(file).map(Some),
            TokenSource::Variable(text) => {
                let refuse = || Failure::new(Exit::Usage, format!("{TOKEN_VARIABLE}: contains no token"));
                AdminToken::new(text).map(Some).ok_or_else(refuse)
            }
        }
    }

    /// The file for the token of a session.
    pub fn session_file(&self) -> Option<&Path> {
        match &self.token {
            TokenSource::File(file) | TokenSource::Session(file) => Some(file),
            TokenSource::Variable(_) | TokenSource::Nowhere => None,
        }
    }

    /// Creates the directory of all sessions if the session's file is in it.
    ///
    /// # Errors
    /// 73 if it cannot be created.
    pub fn prepare_session_file(&self) -> Outcome {
        match &self.token {
            TokenSource::Session(file) => file.parent().map_or(Ok(()), make_directory),
            TokenSource::File(_) | TokenSource::Variable(_) | TokenSource::Nowhere => Ok(()),
        }
    }

    /// The admin API for calls without a token.
    ///
    /// # Errors
    /// 64 if the URL cannot be called.
    pub fn api_without_token(&self) -> Result<AdminApi, Failure> {
        AdminApi::with_tls(&self.url, self.tls.clone()).map_err(|error| Failure::new(Exit::Usage, error))
    }

    /// The admin API.
    ///
    /// # Errors
    /// 64 if URL or token cannot be used.
    pub fn api(&self) -> Result<AdminApi, Failure> {
        Ok(self.api_without_token()?.with_token(self.token()?))
    }
}

/// The API of a hub, and a runtime for its calls.
///
/// # Errors
/// 64 if the hub cannot be called with these arguments.
pub(super) fn connect(hub: HubArguments) -> Result<(AdminApi, Runtime), Failure> {
    Ok((hub.resolve()?.api()?, runtime()?))
}

/// The runtime for API calls.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Failure::new(Exit::Temporary, error))
}

pub(super) fn failure(error: &AdminError) -> Failure {
    let exit = match error {
        AdminError::Refused { .. } | AdminError::Malformed { .. } => Exit::Failure,
        AdminError::Waiting { .. } => Exit::Temporary,
        AdminError::WrongPort { .. } => Exit::Usage,
        AdminError::Url(_) | AdminError::Send { .. } | AdminError::Tls { .. } => Exit::Unavailable,
    };
    Failure::new(exit, error)
}

/// Reads the token in a file.
///
/// # Errors
/// 64 if it cannot be used.
pub(super) fn token_of(file: &Path) -> Result<AdminToken, Failure> {
    let refuse = || Failure::new(Exit::Usage, format!("{}: contains no token", file.display()));
    AdminToken::new(&read_token(file)?).ok_or_else(refuse)
}

/// Reads a file that must not be readable by every user.
pub(super) fn read_token(file: &Path) -> Result<String, Failure> {
    let refuse =
        |what: &dyn std::fmt::Display| Failure::new(Exit::Usage, format!("{}: {what}", file.display()));
    let mode = fs::metadata(file).map_err(|error| refuse(&error))?.permissions().mode();
    if mode & OTHERS_READ != 0 {
        return Err(refuse(&"every user of this machine can read it (chmod o-r)"));
    }
    read_limited_text(file, TOKEN_FILE_BYTES_MAX).map_err(|error| refuse(&error))
}

/// Parses a reason, which is sent to the hub as a header.
///
/// # Errors
/// If the reason is empty, too long or not ASCII.
pub(super) fn reason(text: &str) -> Result<String, String> {
    let is_plain = text.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic());
    let fits = !text.trim().is_empty() && text.len() <= REASON_BYTES_MAX && is_plain;
    fits.then(|| text.to_owned())
        .ok_or_else(|| format!("give 1 to {REASON_BYTES_MAX} printable ASCII characters"))
}
