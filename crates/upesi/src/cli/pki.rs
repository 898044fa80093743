//! `upesi pki`: a certificate authority for a small scheme.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand, ValueEnum};
use upesi_client::scheme;
use upesi_client::scheme::file::Scheme;
use upesi_http::ClientTls;
use upesi_keys::read_limited_text;
use upesi_pki::{Authority, IndexEntry, KeyKind, KeyWithRequest, Order, PkiError, SigningKey, Trial, Usage};
use upesi_process::exit::{Exit, Failure, Outcome, read_named, write_out};
use upesi_process::values::dfsp_name;
use upesi_settings::trial::{SecuredParts, settings};
use upesi_sim::{SecurityError, SimSecurity};
use upesi_tls::{CertificateFacts, Protocols, present_s, read_certificates};
use upesi_types::text::Escaped;
use upesi_types::{FspId, Timestamp};

/// Maximum size of a signing request, in bytes.
const REQUEST_BYTES_MAX: u64 = 64 * 1024;
/// Maximum size of a file of certificates, in bytes.
const CERTIFICATES_BYTES_MAX: u64 = 1 << 20;
/// Maximum size of a trial's scheme file, in bytes.
const SCHEME_BYTES_MAX: u64 = 16 << 20;

/// Subcommands of `upesi pki`.
#[derive(Debug, Subcommand)]
pub enum PkiCommand {
    /// Create an authority: its key, its certificate, an empty revocation list.
    ///
    /// ca.pem is the anchors_file of listeners and clients, crl.pem their crl_file. Keep ca.key offline.
    Init(InitArguments),
    /// Issue a certificate.
    ///
    /// If a PKCS#10 signing request is given, its signature is verified and only its public key is used; the arguments
    /// determine name, hosts and purpose. Without a request, the command creates a key. It prints the files, the serial
    /// number and the binding of the key, in the form that the admin API and scheme files accept.
    Issue(IssueArguments),
    /// Revoke a certificate, and create a new revocation list.
    Revoke(RevokeArguments),
    /// Create a new revocation list, before the current one is stale.
    Crl(ListArguments),
    /// Create a signing key for the messages of a DFSP or the hub (JWS).
    ///
    /// Writes NAME.key, which stays with its owner, and NAME.pem. Put a DFSP's NAME.pem into jws.keys_dir of the hub;
    /// give the hub's NAME.pem to the DFSPs. Existing files are not overwritten.
    SigningKey(SigningKeyArguments),
    /// Create a key and a signing request, for a certificate from another authority.
    ///
    /// Writes NAME.key, which stays with its owner, and NAME.csr for the authority. Existing files are not overwritten.
    Request(RequestArguments),
    /// Create a signing key for checkpoints of the audit trail (Ed25519).
    ///
    /// Writes NAME.key for admin.audit_key_file, and NAME.pem for verification. Existing files are not overwritten.
    AuditKey(AuditKeyArguments),
    /// Print the certificates of a PEM file, with the bindings by key and by certificate.
    ///
    /// The digest of an authority's key is the issuer-key of bindings by name. The command does not verify
    /// certificates.
    Show(ShowArguments),
    /// Create everything for a trial on this machine: an authority, certificates and signing keys of a hub and of
    /// DFSPs, the hub's settings (hub.toml) and a scheme that binds the DFSPs to their keys (scheme.toml).
    ///
    /// The trial's hub requires client certificates on all ports and signatures on all messages. `upesi sim --trial`
    /// runs the DFSPs. All private keys are stored in one directory, so use them for trials only.
    Trial(TrialArguments),
    /// Print all issued certificates: serial number, name, purpose, state, end of validity, binding of the key.
    List(DirectoryArguments),
}

/// The authority's directory.
#[derive(Args, Clone, Debug)]
pub struct DirectoryArguments {
    /// Directory of the authority.
    #[arg(long, value_name = "DIR", default_value = "pki")]
    pub dir: PathBuf,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Kind of a key.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Key {
    /// ECDSA on P-256.
    P256,
    /// RSA with 2048 bits.
    Rsa2048,
}

/// Side of a connection.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Purpose {
    /// For a server.
    Server,
    /// For a client.
    Client,
    /// For a node of a cluster: server and client.
    Node,
}

/// Arguments of `upesi pki init`.
#[derive(Args, Clone, Debug)]
pub struct InitArguments {
    /// Directory, created if missing.
    #[arg(long, value_name = "DIR", default_value = "pki")]
    pub dir: PathBuf,
    /// Name of the authority.
    #[arg(long, value_name = "NAME", default_value = "Upesi scheme CA")]
    pub name: String,
    /// Validity in days.
    #[arg(long, value_name = "DAYS", default_value = "3650", value_parser = clap::value_parser!(u32).range(1..=7300))]
    pub days: u32,
    /// Kind of the authority's key.
    #[arg(long, value_enum, default_value = "p256")]
    pub key: Key,
}

/// Arguments of `upesi pki issue`.
#[derive(Args, Clone, Debug)]
pub struct IssueArguments {
    /// The authority.
    #[command(flatten)]
    pub directory: DirectoryArguments,
    /// Common name of the DFSP or host, and name of the files.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Usage: server, client or node.
    #[arg(long = "for", value_enum)]
    pub purpose: Purpose,
    /// Host name or address of a server. May be repeated.
    #[arg(long = "host", value_name = "HOST", required_if_eq_any([("purpose", "server"), ("purpose", "node")]))]
    pub hosts: Vec<String>,
    /// Signing request in PEM.
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub csr: Option<PathBuf>,
    /// Kind of the created key.
    #[arg(long, value_enum, default_value = "p256")]
    pub key: Key,
    /// Validity in days.
    #[arg(long, value_name = "DAYS", default_value = "365", value_parser = clap::value_parser!(u32).range(1..=397))]
    pub days: u32,
    /// Issue the certificate although the name has a valid one, for example for a renewal. Replaces the files.
    #[arg(long)]
    pub replace: bool,
}

/// Arguments of `upesi pki show`.
#[derive(Args, Clone, Debug)]
pub struct ShowArguments {
    /// PEM file of certificates.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Print a JSON array.
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `upesi pki audit-key`.
#[derive(Args, Clone, Debug)]
pub struct AuditKeyArguments {
    /// Name of the files.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Directory of the files, created if missing.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
}

/// Arguments of `upesi pki request`.
#[derive(Args, Clone, Debug)]
pub struct RequestArguments {
    /// Common name, and the name of the files.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Directory of the files, created if missing.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Kind of the key.
    #[arg(long, value_enum, default_value = "p256")]
    pub key: Key,
}

/// Arguments of `upesi pki signing-key`.
#[derive(Args, Clone, Debug)]
pub struct SigningKeyArguments {
    /// Name of the participant, and of the files.
    #[arg(value_name = "NAME")]
    pub name: String,
    /// Directory of the files, created if missing.
    #[arg(long, value_name = "DIR", default_value = "jws")]
    pub dir: PathBuf,
    /// Kind of the key. The standard requires RSA.
    #[arg(long, value_enum, default_value = "rsa2048")]
    pub key: Key,
}

/// Arguments of `upesi pki revoke`.
#[derive(Args, Clone, Debug)]
pub struct RevokeArguments {
    /// Serial number of the certificate, or its name if only one certificate of the name is valid.
    #[arg(value_name = "SERIAL|NAME")]
    pub which: String,
    /// Options of the revocation list.
    #[command(flatten)]
    pub list: ListArguments,
}

/// Arguments about a revocation list.
#[derive(Args, Clone, Debug)]
pub struct ListArguments {
    /// The authority.
    #[command(flatten)]
    pub directory: DirectoryArguments,
    /// Days until the next list is due.
    #[arg(long, value_name = "DAYS", default_value = "30", value_parser = clap::value_parser!(u32).range(1..=366))]
    pub days: u32,
}

/// Runs a subcommand.
pub fn run(command: PkiCommand) -> Outcome {
    let now_s = upesi_tls::present_s();
    match command {
        PkiCommand::Init(arguments) => init(&arguments, now_s),
        PkiCommand::Issue(arguments) => issue(&arguments, now_s),
        PkiCommand::Revoke(RevokeArguments { which, list }) => {
            let ListArguments { directory, days } = list;
            let entry = open(&directory)?.revoke(&which, now_s, days).map_err(failure)?;
            let text = format!(
                "revoked {} ({}), serial {}; new list {}\n",
                entry.name,
                entry.usage,
                entry.serial,
                directory.dir.join("crl.pem").display()
            );
            print(&directory, &entry, || text)
        }
        PkiCommand::Crl(ListArguments { directory, days }) => {
            let file = open(&directory)?.make_list(now_s, days).map_err(failure)?;
            let file = file.display().to_string();
            print(&directory, &serde_json::json!({ "crl": file }), || format!("{file}\n"))
        }
        PkiCommand::SigningKey(SigningKeyArguments { name, dir, key }) => {
            print_key(&SigningKey::make(&dir, &name, kind(key)).map_err(failure)?)
        }
        PkiCommand::AuditKey(AuditKeyArguments { name, dir }) => {
            print_key(&SigningKey::make_for_audit(&dir, &name).map_err(failure)?)
        }
        PkiCommand::Request(RequestArguments { name, dir, key }) => {
            let made = KeyWithRequest::make(&dir, &name, kind(key)).map_err(failure)?;
            let (private, request) = (made.key_file.display(), made.request_file.display());
            write_out(&format!("private key {private}\nrequest     {request}\n"))
        }
        PkiCommand::Show(arguments) => show(&arguments),
        PkiCommand::Trial(arguments) => make_trial(&arguments),
        PkiCommand::List(directory) => {
            let authority = open(&directory)?;
            let lines = || authority.entries().iter().map(|entry| line(entry, now_s)).collect();
            print(&directory, authority.entries(), lines)
        }
    }
}

fn print_key(made: &SigningKey) -> Outcome {
    let (private, public) = (made.key_file.display(), made.public_file.display());
    write_out(&format!("private key {private}\npublic key  {public}\n"))
}

/// Prints the certificates of a file.
fn show(ShowArguments { file, json }: &ShowArguments) -> Outcome {
    let text = read_named(file, CERTIFICATES_BYTES_MAX)?;
    let all = read_certificates(text.as_bytes())
        .map_err(|problem| Failure::new(Exit::Data, format!("{} {problem}", file.display())))?;
    if *json {
        let all: Vec<_> = all.iter().map(certificate_json).collect();
        return write_out(&format!("{}\n", serde_json::Value::from(all)));
    }
    write_out(&all.iter().map(certificate_text).collect::<Vec<_>>().join("\n"))
}

/// The bindings by its key and by itself.
fn bindings_of(facts: &CertificateFacts) -> [String; 2] {
    [format!("spki-sha256:{}", facts.spki_sha256), format!("cert-sha256:{}", facts.certificate_sha256)]
}

fn certificate_json(facts: &CertificateFacts) -> serde_json::Value {
    serde_json::json!({
        "subject": facts.subject,
        "issuer": facts.issuer,
        "serial": facts.serial,
        "notBefore": instant(facts.not_before_s).to_string(),
        "notAfter": instant(facts.not_after_s).to_string(),
        "names": facts.dns.iter().chain(&facts.uris).collect::<Vec<_>>(),
        "bindings": bindings_of(facts),
    })
}

fn certificate_text(facts: &CertificateFacts) -> String {
    let names = facts.dns.iter().chain(&facts.uris).map(|name| ("name", name.clone()));
    let bindings = bindings_of(facts).map(|binding| ("binding", binding));
    let valid = format!("{} to {}", day(facts.not_before_s), day(facts.not_after_s));
    let first = [
        ("subject", facts.subject.clone()),
        ("issuer", facts.issuer.clone()),
        ("serial", facts.serial.clone()),
        ("valid", valid),
    ];
    let lines = first.into_iter().chain(names).chain(bindings);
    lines.map(|(what, value)| format!("{what:<8} {}\n", Escaped(&value))).collect()
}

fn open(directory: &DirectoryArguments) -> Result<Authority, Failure> {
    Authority::open(&directory.dir).map_err(failure)
}

fn print<T: serde::Serialize + ?Sized>(
    directory: &DirectoryArguments,
    value: &T,
    text: impl FnOnce() -> String,
) -> Outcome {
    if !directory.json {
        return write_out(&text());
    }
    let json = serde_json::to_string(value).map_err(|error| Failure::new(Exit::Software, error))?;
    write_out(&(json + "\n"))
}

fn init(arguments: &InitArguments, now_s: i64) -> Outcome {
    let InitArguments { dir, name, days, key } = arguments;
    Authority::init(dir, name, now_s, *days, kind(*key)).map_err(failure)?;
    let file = |name: &str| dir.join(name).display().to_string();
    write_out(&format!(
        "authority   {}\nkey         {}, keep it offline\nlist        {}\n",
        file("ca.pem"),
        file("ca.key"),
        file("crl.pem")
    ))
}

fn issue(arguments: &IssueArguments, now_s: i64) -> Outcome {
    let mut authority = open(&arguments.directory)?;
    let request = arguments.csr.as_deref().map(|file| read_named(file, REQUEST_BYTES_MAX)).transpose()?;
    let usage = match arguments.purpose {
        Purpose::Server => Usage::Server,
        Purpose::Client => Usage::Client,
        Purpose::Node => Usage::Node,
    };
    let order = Order {
        hosts: arguments.hosts.clone(),
        request,
        key: kind(arguments.key),
        days: arguments.days,
        replaces: arguments.replace,
        ..Order::new(&arguments.name, usage, now_s)
    };
    let issued = authority.issue(&order).map_err(failure)?;
    let key = issued.key_file.map_or_else(|| "of the request".to_owned(), |file| file.display().to_string());
    let entry = issued.entry;
    let text = || {
        format!(
            "certificate {}\nkey         {key}\nserial      {}\nvalid until {}\nbinding     spki-sha256:{}\n",
            issued.certificate_file.display(),
            entry.serial,
            day(entry.not_after_s),
            entry.spki_sha256
        )
    };
    print(&arguments.directory, &entry, text)
}

fn line(entry: &IndexEntry, now_s: i64) -> String {
    let IndexEntry { serial, name, usage, not_after_s, spki_sha256, revoked_at_s } = entry;
    let state = match revoked_at_s {
        Some(_) => "revoked",
        None if entry.is_in_force(now_s) => "valid",
        None => "expired",
    };
    format!("{serial}  {name}  {usage}  {state}  until {}  spki-sha256:{spki_sha256}\n", day(*not_after_s))
}

/// A date, such as `2027-11-23`.
fn day(seconds: i64) -> String {
    let instant = instant(seconds).to_string();
    instant.get(..10).unwrap_or(&instant).to_owned()
}

const fn instant(seconds: i64) -> Timestamp {
    Timestamp::from_ms(seconds.saturating_mul(1000))
}

const fn kind(key: Key) -> KeyKind {
    match key {
        Key::P256 => KeyKind::P256,
        Key::Rsa2048 => KeyKind::Rsa2048,
    }
}

pub(super) fn failure(error: PkiError) -> Failure {
    let exit = match &error {
        PkiError::File { .. } => Exit::InputOutput,
        PkiError::None(_) => Exit::NoInput,
        PkiError::Exists(_) | PkiError::KeyExists(_) => Exit::CannotCreate,
        PkiError::Index { .. }
        | PkiError::Request(_)
        | PkiError::KeySeen { .. }
        | PkiError::OwnKey
        | PkiError::Library(_) => Exit::Data,
        PkiError::Name(_)
        | PkiError::Host(_)
        | PkiError::Taken { .. }
        | PkiError::Unknown(_)
        | PkiError::Ambiguous { .. } => Exit::Usage,
    };
    Failure::new(exit, error)
}

// `upesi pki trial`: creates everything for a secured hub and simulated DFSPs on this machine.

/// Hosts of the hub and DFSPs of a trial, in addition to the hosts of --host.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const SETTINGS: &str = "hub.toml";
/// Default base URL of the DFSPs of a trial.
const BASE_URL: &str = "https://127.0.0.1:5000/{name}";
/// The scheme file of a trial.
const SCHEME: &str = "scheme.toml";

/// Arguments of `upesi pki trial`.
#[derive(Args, Clone, Debug)]
pub struct TrialArguments {
    /// Names of the DFSPs.
    #[arg(value_name = "DFSP", required = true, value_parser = dfsp_name)]
    pub names: Vec<FspId>,
    /// Directory, created if missing.
    #[arg(long, value_name = "DIR", default_value = "trial")]
    pub dir: PathBuf,
    /// Another host name or address of hub and DFSPs, in addition to localhost.
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
}

/// Creates the files of a trial.
pub fn make_trial(arguments: &TrialArguments) -> Outcome {
    let TrialArguments { names, dir, hosts } = arguments;
    // The files name each other, so their paths must be valid everywhere.
    let dir = std::path::absolute(dir).map_err(|error| cannot_write(dir, &error))?;
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let hosts: Vec<&str> = HOSTS.into_iter().chain(hosts.iter().map(String::as_str)).collect();
    let trial = Trial::make(&dir, &names, &hosts, present_s()).map_err(failure)?;
    for (name, text) in [(SETTINGS, hub_text(&trial)), (SCHEME, scheme_text(&trial))] {
        let file = dir.join(name);
        fs::write(&file, text).map_err(|error| cannot_write(&file, &error))?;
    }
    let shown = arguments.dir.display();
    write_out(&format!(
        "{} DFSPs, their authority and keys in {shown}\n\
         hub     upesi serve --config {shown}/{SETTINGS}\n\
         DFSPs   upesi sim --trial {shown}\n",
        names.len()
    ))
}

fn cannot_write(file: &Path, error: &std::io::Error) -> Failure {
    Failure::new(Exit::CannotCreate, format!("{}: {error}", file.display()))
}

/// The settings of the hub, by section.
fn hub_text(trial: &Trial) -> String {
    let mut text =
        "# A hub with mutual TLS on all ports, which verifies and creates signatures: upesi pki trial.\n"
            .to_owned();
    let mut section = String::new();
    for (key, value) in settings(trial, SecuredParts::ALL) {
        let (of, name) = key.split_once('.').unwrap_or(("", &key));
        if of != section {
            let _ = write!(text, "\n[{of}]\n");
            of.clone_into(&mut section);
        }
        let _ = match &*value {
            "true" | "false" => writeln!(text, "{name} = {value}"),
            _ => writeln!(text, "{name} = {value:?}"),
        };
    }
    text
}

/// A scheme that binds each DFSP to its key.
fn scheme_text(trial: &Trial) -> String {
    let mut text = "# The scheme of a trial: upesi pki trial. examples/scheme.toml explains the keys.\n\
        name = \"trial\"\ncurrencies = [\"KES\"]\n\n\
        [[model]]\nname = \"DEFERREDNETKES\"\ncurrency = \"KES\"\n\n\
        [defaults]\nbase_url = \"https://127.0.0.1:5000/{name}\"\n\n\
        [defaults.accounts.KES]\nnet_debit_cap = 1_000_000\nfunds = 2_000_000\n"
        .to_owned();
    for (name, binding) in trial.dfsps() {
        let _ = write!(text, "\n[[dfsp]]\nname = {name:?}\nbindings = [{binding:?}]\n");
    }
    text
}

/// A trial whose DFSPs are simulated in this process.
pub(super) struct SimulatedTrial {
    trial: Trial,
    pub names: Vec<FspId>,
}

impl SimulatedTrial {
    /// Opens the directory of a trial.
    pub fn open(directory: &Path) -> Result<Self, Failure> {
        let trial = Trial::open(directory).map_err(failure)?;
        let names = trial.dfsps().iter().filter_map(|(name, _)| FspId::parse(name)).collect();
        Ok(Self { trial, names })
    }

    /// The scheme of the trial, for DFSPs that listen at an address.
    pub fn scheme(&self, address: SocketAddr) -> Result<Scheme, Failure> {
        let file = self.trial.directory().join(SCHEME);
        let text = read_limited_text(&file, SCHEME_BYTES_MAX)
            .map_err(|error| Failure::new(Exit::NoInput, format!("{}: {error}", file.display())))?;
        let text = text.replace(BASE_URL, &format!("https://{address}/{{name}}"));
        scheme::reading::parse(SCHEME, &text)
            .map_err(|mistakes| Failure::new(Exit::Data, mistakes.join("\n")))
    }

    pub fn security(&self) -> Result<SimSecurity, Failure> {
        SimSecurity::of_trial(&self.trial, &self.names, Some(Protocols::Http1), true).map_err(unusable)
    }

    /// TLS settings for the hub's FSPIOP port.
    pub fn caller(&self) -> Result<ClientTls, Failure> {
        ClientTls::load(self.trial.caller()).map_err(unusable)
    }

    /// TLS settings for the hub's admin port.
    pub fn operator(&self) -> Result<ClientTls, Failure> {
        ClientTls::load(self.trial.operator()).map_err(unusable)
    }
}

fn unusable(error: impl Into<SecurityError>) -> Failure {
    let error = error.into();
    Failure::new(Exit::NoInput, error)
}
