//! A hub with mutual TLS for DFSPs and TLS for operators, and the certificates of its attackers.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::ClientConfig;
use rustls::client::Resumption;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use upesi_http::ClientTls;
use upesi_lab::HubTls;
use upesi_pki::Trial;
use upesi_settings::trial::{SecuredParts, settings};
use upesi_sim::SimSecurity;
use upesi_tls::{ClientFiles, Protocols, present_s};
use upesi_types::FspId;

use super::dial::{Dialer, HTTP_2};
use super::flood::AttackTraffic;
use super::list::{Attack, Credential, HOSTILE};
use super::told;

const HOSTS: [&str; 3] = ["127.0.0.1", "::1", "localhost"];
/// Name of a trial's authority. Every certificate of an attacker's chain has it.
const AUTHORITY: &str = "Trial scheme CA";
/// Number of certificates between the attacker's own and the end of the chain.
const CHAIN: usize = 10;

/// The files of hub, DFSPs and operators.
pub struct MutualTlsFiles {
    trial: Trial,
    operators: ClientTls,
}

impl MutualTlsFiles {
    /// Creates all keys and certificates. Fails if a file cannot be written or read.
    pub fn make(directory: &Path, dfsps: usize) -> Result<Self, String> {
        let names: Vec<String> = (1..=dfsps).map(|number| format!("dfsp-{number}")).collect();
        let trial = Trial::make(&directory.join("keys"), &names, &HOSTS, present_s()).map_err(told)?;
        let operators = ClientFiles { servers: trial.trust(), identity: None };
        Ok(Self { operators: ClientTls::load(operators).map_err(told)?, trial })
    }

    /// Arguments of the hub.
    pub fn arguments(&self) -> Vec<String> {
        let mut settings = settings(&self.trial, SecuredParts { tls: true, ..SecuredParts::default() });
        let own = self.trial.hub();
        for (key, value) in [
            ("mode", "tls".to_owned()),
            ("certificate_file", own.certificate_file.display().to_string()),
            ("key_file", own.key_file.display().to_string()),
        ] {
            settings.push((format!("admin_tls.{key}"), value));
        }
        settings.iter().map(|(key, value)| format!("--set={key}={value}")).collect()
    }

    pub const fn trial(&self) -> &Trial {
        &self.trial
    }

    /// TLS of calls to the admin port.
    pub const fn operators(&self) -> &ClientTls {
        &self.operators
    }

    /// TLS of calls to both ports. Fails if a file cannot be read.
    pub fn calls(&self) -> Result<HubTls, String> {
        let fspiop = ClientTls::load(self.trial.caller()).map_err(told)?;
        Ok(HubTls { fspiop: Some(fspiop), admin: Some(self.operators.clone()) })
    }

    /// TLS of the simulated DFSPs. Fails if a file cannot be read.
    pub fn simulated(&self, dfsps: &[FspId]) -> Result<SimSecurity, String> {
        SimSecurity::of_trial(&self.trial, dfsps, Some(Protocols::Http1), false).map_err(told)
    }

    /// TLS of an honest DFSP's new connections. Fails if a file cannot be read.
    pub fn honest(&self, name: &str) -> Result<Arc<ClientConfig>, String> {
        without_sessions(&ClientTls::load(self.trial.dfsp(name)).map_err(told)?)
    }

    /// TLS of an operator's new connections. Fails if a file cannot be read.
    pub fn operator(&self) -> Result<Arc<ClientConfig>, String> {
        without_sessions(&self.operators)
    }

    /// The dialer of an attacker. Fails if its certificates cannot be made.
    pub fn dialer(&self, attack: &Attack, target: SocketAddr) -> Result<Dialer, String> {
        let mut config = match attack.credential {
            Credential::None => return Ok(Dialer::clear(target)),
            Credential::Anonymous => self.operator()?,
            Credential::Dfsp => self.honest(HOSTILE)?,
            Credential::LongChain => long_chain(&*self.operator()?)?,
        };
        if matches!(attack.means, AttackTraffic::Streams(_)) {
            Arc::make_mut(&mut config).alpn_protocols = vec![HTTP_2.to_vec()];
        }
        Ok(Dialer::secured(target, config))
    }
}

/// A configuration that resumes no session, because a resumed session costs almost nothing.
fn without_sessions(tls: &ClientTls) -> Result<Arc<ClientConfig>, String> {
    let mut config = ClientConfig::clone(&*tls.config().map_err(told)?);
    config.resumption = Resumption::disabled();
    Ok(Arc::new(config))
}

/// A certificate below ten authorities that all have the trusted authority's name and their own keys.
fn long_chain(like: &ClientConfig) -> Result<Arc<ClientConfig>, String> {
    let mut chain = Vec::new();
    let mut issuer = None;
    for _ in 0..CHAIN {
        let key = KeyPair::generate().map_err(told)?;
        let params = authority()?;
        chain.push(params.self_signed(&key).map_err(told)?.der().clone());
        issuer = Some(Issuer::new(params, key));
    }
    let issuer = issuer.ok_or("a chain has a certificate")?;
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, "attacker");
    params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate().map_err(told)?;
    chain.insert(0, params.signed_by(&key, &issuer).map_err(told)?.der().clone());
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::clone(like.crypto_provider());
    let certified = rustls::sign::CertifiedKey::from_der(chain, key, &provider).map_err(told)?;
    let mut config = like.clone();
    config.client_auth_cert_resolver = Arc::new(rustls::sign::SingleCertAndKey::from(certified));
    Ok(Arc::new(config))
}

fn authority() -> Result<CertificateParams, String> {
    let mut params = CertificateParams::new(Vec::<String>::new()).map_err(told)?;
    params.distinguished_name.push(DnType::CommonName, AUTHORITY);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    Ok(params)
}
