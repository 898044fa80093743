//! `upesi pki trial`: everything that a secured hub and simulated DFSPs on this machine need.

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::Args;
use upesi_http::ClientTls;
use upesi_hub::exit::{Exit, Failure, Outcome, write_out};
use upesi_hub::scheme;
use upesi_hub::scheme::file::Scheme;
use upesi_hub::trial::{Secured, settings};
use upesi_hub::values::dfsp_name;
use upesi_pki::Trial;
use upesi_sim::{SecurityError, SimSecurity};
use upesi_tls::{Protocols, present_s};
use upesi_types::FspId;

use super::pki::failure;

/// Where hub and DFSPs of a trial are called, beside the hosts that are given.
const HOSTS: [&str; 3] = ["localhost", "127.0.0.1", "::1"];
const SETTINGS: &str = "hub.toml";
/// Where the DFSPs of a trial are, unless they listen elsewhere.
const BASE_URL: &str = "https://127.0.0.1:5000/{name}";
/// The scheme file of a trial.
const SCHEME: &str = "scheme.toml";

/// Arguments of `upesi pki trial`.
#[derive(Args, Clone, Debug)]
pub struct TrialArguments {
    /// Names of the DFSPs.
    #[arg(value_name = "DFSP", required = true, value_parser = dfsp_name)]
    pub names: Vec<FspId>,
    /// Directory, made if missing.
    #[arg(long, value_name = "DIR", default_value = "trial")]
    pub dir: PathBuf,
    /// A further host name or address of hub and DFSPs; localhost is one.
    #[arg(long = "host", value_name = "HOST")]
    pub hosts: Vec<String>,
}

/// Makes the files.
pub fn make(arguments: &TrialArguments) -> Outcome {
    let TrialArguments { names, dir, hosts } = arguments;
    // The files name each other, wherever they are used.
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
        "# A hub with mutual TLS on all ports, that verifies and makes signatures: upesi pki trial.\n"
            .to_owned();
    let mut section = String::new();
    for (key, value) in settings(trial, Secured::ALL) {
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

/// A scheme in which each DFSP is bound to its key.
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

/// A trial whose DFSPs are simulated here.
pub(super) struct Simulated {
    trial: Trial,
    /// Its DFSPs.
    pub names: Vec<FspId>,
}

impl Simulated {
    pub fn open(directory: &Path) -> Result<Self, Failure> {
        let trial = Trial::open(directory).map_err(failure)?;
        let names = trial.dfsps().iter().filter_map(|(name, _)| FspId::parse(name)).collect();
        Ok(Self { trial, names })
    }

    /// Its scheme, for DFSPs that listen at an address.
    pub fn scheme(&self, address: SocketAddr) -> Result<Scheme, Failure> {
        let file = self.trial.directory().join(SCHEME);
        let text = fs::read_to_string(&file)
            .map_err(|error| Failure::new(Exit::NoInput, format!("{}: {error}", file.display())))?;
        let text = text.replace(BASE_URL, &format!("https://{address}/{{name}}"));
        scheme::file::parse(SCHEME, &text).map_err(|mistakes| Failure::new(Exit::Data, mistakes.join("\n")))
    }

    pub fn security(&self) -> Result<SimSecurity, Failure> {
        SimSecurity::of_trial(&self.trial, &self.names, Some(Protocols::Http1), true).map_err(unusable)
    }

    /// TLS to the hub's port for DFSPs.
    pub fn caller(&self) -> Result<ClientTls, Failure> {
        ClientTls::load(self.trial.caller()).map_err(unusable)
    }

    /// TLS to its admin port.
    pub fn operator(&self) -> Result<ClientTls, Failure> {
        ClientTls::load(self.trial.operator()).map_err(unusable)
    }
}

fn unusable(error: impl Into<SecurityError>) -> Failure {
    let error = error.into();
    Failure::new(Exit::NoInput, error)
}
