//! All keys and certificates of a hub and its DFSPs in one directory: for trials, demos and load runs on one machine.
//! In a real scheme every party creates its own keys.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use upesi_tls::{ClientFiles, Identity, ServerFiles, Trust};

use crate::files::write;
use crate::{Authority, KeyKind, Order, PkiError, SigningKey, Usage};

/// Name of the hub's files, and in messages.
const HUB: &str = "hub";
const HUB_CLIENT: &str = "hub-client";
const HUB_SIGNER: &str = "Hub";
/// Name of the certificate for the port of all simulated DFSPs.
const DFSPS: &str = "dfsps";
const OPERATOR: &str = "operator";
/// Names that no DFSP may have here.
const RESERVED: [&str; 5] = [HUB, HUB_CLIENT, HUB_SIGNER, DFSPS, OPERATOR];
/// Directory of the keys for signing messages.
const SIGNATURES: &str = "jws";
/// Directory of the operators' authority: every certificate of it authenticates an operator.
const OPERATORS: &str = "operators";
const AUTHORITY_DAYS: u32 = 3_650;
const LIST_DAYS: u32 = 366;

/// The directory.
///
/// | file | content |
/// |---|---|
/// | `ca.pem`, `crl.pem` | the scheme's authority |
/// | `hub.pem`, `hub-client.pem` | the hub's certificates: of its ports, and towards DFSPs |
/// | `dfsps.pem` | certificate of the port of simulated DFSPs |
/// | `NAME.pem` | certificate of a DFSP towards the hub |
/// | `operators/ca.pem`, `operators/operator.pem` | the operators' authority, and an operator |
/// | `NAME.curl`, `operator.curl` | certificate and key of a DFSP, or the operator, for `curl -K` |
/// | `jws/NAME.pem` | public key for the signatures of a DFSP, or of the `Hub` |
///
/// Each private key is next to its certificate or public key, as `.key`.
#[derive(Clone, Debug)]
pub struct Trial {
    directory: PathBuf,
    /// Names and bindings of the DFSPs.
    dfsps: Vec<(String, String)>,
}

impl Trial {
    /// Creates the files for DFSPs with these names. `hosts` are the host names of the hub and the DFSPs.
    pub fn make(directory: &Path, names: &[String], hosts: &[&str], now_s: i64) -> Result<Self, PkiError> {
        if let Some(name) = names.iter().find(|name| RESERVED.contains(&name.as_str())) {
            return Err(PkiError::Name(name.clone()));
        }
        let mut scheme = Authority::init(directory, "Trial scheme CA", now_s, AUTHORITY_DAYS, KeyKind::P256)?;
        scheme.make_list(now_s, LIST_DAYS)?;
        for name in [HUB, DFSPS] {
            scheme.issue(&Order::new(name, Usage::Server, now_s).with_hosts(hosts))?;
        }
        scheme.issue(&Order::new(HUB_CLIENT, Usage::Client, now_s))?;
        for name in names {
            scheme.issue(&Order::new(name, Usage::Client, now_s))?;
        }
        let operators = directory.join(OPERATORS);
        let mut operators =
            Authority::init(&operators, "Trial operators CA", now_s, AUTHORITY_DAYS, KeyKind::P256)?;
        operators.issue(&Order::new(OPERATOR, Usage::Client, now_s))?;
        make_signing_keys(&directory.join(SIGNATURES), names)?;
        let this = Self::open(directory)?;
        this.write_curl(OPERATOR, &this.operator())?;
        names.iter().try_for_each(|name| this.write_curl(name, &this.dfsp(name)))?;
        Ok(this)
    }

    /// Opens an existing directory.
    pub fn open(directory: &Path) -> Result<Self, PkiError> {
        let scheme = Authority::open(directory)?;
        let is_dfsp = |name: &str| !RESERVED.contains(&name);
        let dfsps = scheme
            .entries()
            .iter()
            .filter(|entry| entry.usage == Usage::Client.name() && is_dfsp(&entry.name))
            .map(|entry| (entry.name.clone(), format!("spki-sha256:{}", entry.spki_sha256)))
            .collect();
        Ok(Self { directory: directory.to_owned(), dfsps })
    }

    /// The DFSPs with the bindings of their keys, in the order of their names at creation.
    pub fn dfsps(&self) -> &[(String, String)] {
        &self.dfsps
    }

    /// Directory of the files.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Certificate and key of the hub's ports.
    pub fn hub(&self) -> Identity {
        self.identity(HUB)
    }

    /// Certificate and key of the hub towards DFSPs.
    pub fn hub_client(&self) -> Identity {
        self.identity(HUB_CLIENT)
    }

    /// Trust anchors of hub and DFSPs.
    pub fn trust(&self) -> Trust {
        let file = |name: &str| self.directory.join(name);
        Trust { anchors_file: file("ca.pem"), crl_file: Some(file("crl.pem")), refuses_stale_crls: false }
    }

    /// Trust anchors of the admin port.
    pub fn operators(&self) -> Trust {
        let anchors_file = self.directory.join(OPERATORS).join("ca.pem");
        Trust { anchors_file, crl_file: None, refuses_stale_crls: false }
    }

    /// TLS of an operator's calls.
    pub fn operator(&self) -> ClientFiles {
        let identity = self.identity(&format!("{OPERATORS}/{OPERATOR}"));
        ClientFiles { servers: self.trust(), identity: Some(identity) }
    }

    /// TLS of a DFSP's calls to the hub.
    pub fn dfsp(&self, name: &str) -> ClientFiles {
        ClientFiles { servers: self.trust(), identity: Some(self.identity(name)) }
    }

    /// TLS of a stand-in for the hub, towards DFSPs.
    pub fn caller(&self) -> ClientFiles {
        ClientFiles { servers: self.trust(), identity: Some(self.hub_client()) }
    }

    /// TLS of a stand-in for the hub, for calls from DFSPs.
    pub fn port(&self) -> ServerFiles {
        ServerFiles { identity: self.hub(), clients: Some(self.trust()) }
    }

    /// TLS of the port of simulated DFSPs.
    pub fn dfsps_port(&self) -> ServerFiles {
        ServerFiles { identity: self.identity(DFSPS), clients: Some(self.trust()) }
    }

    /// Directory of all public keys for signatures.
    pub fn signers(&self) -> PathBuf {
        self.directory.join(SIGNATURES)
    }

    /// Private key for a DFSP's signatures.
    pub fn signing_key(&self, name: &str) -> PathBuf {
        self.signers().join(format!("{name}.key"))
    }

    /// Private key for the hub's signatures.
    pub fn hub_signing_key(&self) -> PathBuf {
        self.signing_key(HUB_SIGNER)
    }

    /// Writes certificate and key for `curl -K`, which reads its arguments from a file.
    fn write_curl(&self, name: &str, files: &ClientFiles) -> Result<(), PkiError> {
        let mut lines = format!("cacert = {:?}\n", files.servers.anchors_file);
        if let Some(Identity { certificate_file, key_file }) = &files.identity {
            let _ = writeln!(lines, "cert = {certificate_file:?}\nkey = {key_file:?}");
        }
        write(&self.directory.join(format!("{name}.curl")), &lines)
    }

    fn identity(&self, name: &str) -> Identity {
        let file = |ending: &str| self.directory.join(format!("{name}.{ending}"));
        Identity { certificate_file: file("pem"), key_file: file("key") }
    }
}

/// Uses all cores, because creating RSA keys takes long.
fn make_signing_keys(directory: &Path, names: &[String]) -> Result<(), PkiError> {
    let mut names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.push(HUB_SIGNER);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let make = |part: Vec<&str>| {
            part.into_iter()
                .try_for_each(|name| SigningKey::make(directory, name, KeyKind::Rsa2048).map(drop))
        };
        let parts = (0..threads).map(|first| names.iter().skip(first).step_by(threads).copied().collect());
        let makers: Vec<_> = parts.map(|part: Vec<&str>| scope.spawn(move || make(part))).collect();
        makers.into_iter().try_for_each(|maker| match maker.join() {
            Ok(made) => made,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
}
