//! The authority: its key, its certificates and their revocation.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams, CertificateSigningRequestParams,
    DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose,
    PKCS_ECDSA_P256_SHA256, PKCS_RSA_SHA256, RevokedCertParams, RsaKeySize, SerialNumber, date_time_ymd,
};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use upesi_keys::read_limited_text;
use upesi_tls::CertificateFacts;

use crate::PkiError;
use crate::files::{failed, write, write_secret};
use crate::index::{Index, IndexEntry};
use crate::order::{KeyKind, Order, Usage};

const DAY_S: i64 = 24 * 3600;
/// Maximum size of the file with the authority's key or certificate, in bytes.
const AUTHORITY_FILE_BYTES_MAX: u64 = 256 * 1024;

/// A certificate becomes valid this long before its issue, because clocks differ.
const EARLY_S: i64 = 300;
/// Number of random bytes in a serial number.
const SERIAL_BYTES: usize = 16;

/// A certificate authority in a directory.
#[derive(Debug)]
pub struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
    /// SHA-256 of its public key.
    spki_sha256: String,
    index: Index,
}

/// A new certificate.
#[derive(Clone, Debug)]
pub struct IssuedCertificate {
    pub entry: IndexEntry,
    pub certificate_file: PathBuf,
    /// File of its key, if the authority created it.
    pub key_file: Option<PathBuf>,
}

impl Authority {
    /// Creates an authority, and its first, empty revocation list.
    pub fn init(directory: &Path, name: &str, now_s: i64, days: u32, key: KeyKind) -> Result<Self, PkiError> {
        fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
        if directory.join("ca.key").exists() {
            return Err(PkiError::Exists(directory.to_owned()));
        }
        let pair = new_key(key)?;
        let mut params = params_of(name, now_s, days)?;
        params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let certificate = params.self_signed(&pair)?;
        write_secret(&directory.join("ca.key"), &pair.serialize_pem())?;
        write(&directory.join("ca.pem"), &certificate.pem())?;
        let spki_sha256 = read_facts(certificate.der())?.spki_sha256.to_string();
        let (directory, issuer) = (directory.to_owned(), Issuer::new(params, pair));
        let mut authority = Self { directory, issuer, spki_sha256, index: Index::default() };
        authority.make_list(now_s, 30)?;
        Ok(authority)
    }

    /// Opens an authority.
    pub fn open(directory: &Path) -> Result<Self, PkiError> {
        if !directory.join("ca.key").exists() {
            return Err(PkiError::None(directory.to_owned()));
        }
        let read = |name: &str| {
            let file = directory.join(name);
            read_limited_text(&file, AUTHORITY_FILE_BYTES_MAX).map_err(|source| failed(&file, source))
        };
        let pair = KeyPair::from_pem(&read("ca.key")?)?;
        let pem = read("ca.pem")?;
        let certificate = CertificateDer::from_pem_slice(pem.as_bytes());
        let certificate = certificate.map_err(|_| PkiError::None(directory.to_owned()))?;
        let spki_sha256 = read_facts(&certificate)?.spki_sha256.to_string();
        let issuer = Issuer::from_ca_cert_pem(&pem, pair)?;
        let index = Index::read(&directory.join("index.json"))?;
        Ok(Self { directory: directory.to_owned(), issuer, spki_sha256, index })
    }

    /// All issued certificates, oldest first.
    pub fn entries(&self) -> &[IndexEntry] {
        &self.index.certificates
    }

    /// Issues a certificate.
    pub fn issue(&mut self, order: &Order) -> Result<IssuedCertificate, PkiError> {
        check_name(&order.name)?;
        order.hosts.iter().try_for_each(|host| check_host(host))?;
        let in_force = self.entries().iter().find(|entry| {
            entry.name == order.name && entry.usage == order.usage.name() && entry.is_in_force(order.from_s)
        });
        if let (Some(entry), false) = (in_force, order.replaces) {
            return Err(PkiError::Taken { name: order.name.clone(), serial: entry.serial.clone() });
        }
        let params = leaf_params(order)?;
        let (certificate, pair) = match &order.request {
            Some(pem) => {
                // Checks the request's signature, which proves that its sender holds the key. Only the key is used; the
                // authority decides name, hosts and purpose.
                let mut request = CertificateSigningRequestParams::from_pem(pem)
                    .map_err(|error| PkiError::Request(error.to_string()))?;
                request.params = params;
                (request.signed_by(&self.issuer)?, None)
            }
            None => {
                let pair = new_key(order.key)?;
                (params.signed_by(&pair, &self.issuer)?, Some(pair))
            }
        };
        let facts = read_facts(certificate.der())?;
        let spki_sha256 = facts.spki_sha256.to_string();
        if spki_sha256 == self.spki_sha256 {
            return Err(PkiError::OwnKey);
        }
        if let Some(seen) = self.entries().iter().find(|entry| entry.spki_sha256 == spki_sha256) {
            return Err(PkiError::KeySeen { name: seen.name.clone(), serial: seen.serial.clone() });
        }
        let entry = IndexEntry {
            serial: facts.serial,
            name: order.name.clone(),
            usage: order.usage.name().to_owned(),
            not_after_s: facts.not_after_s,
            spki_sha256,
            revoked_at_s: None,
        };
        // The index first, because a certificate that is not in it could not be revoked.
        self.index.certificates.push(entry.clone());
        self.write_index()?;
        let file = |ending: &str| self.directory.join(format!("{}.{ending}", order.name));
        let key_file = pair.as_ref().map(|_| file("key"));
        if let (Some(pair), Some(key_file)) = (&pair, &key_file) {
            write_secret(key_file, &pair.serialize_pem())?;
        }
        write(&file("pem"), &certificate.pem())?;
        Ok(IssuedCertificate { entry, certificate_file: file("pem"), key_file })
    }

    /// Revokes a certificate by its serial number, or by its name if only one is valid, and creates a new list.
    pub fn revoke(&mut self, which: &str, now_s: i64, list_days: u32) -> Result<IndexEntry, PkiError> {
        let serials: Vec<String> = self
            .entries()
            .iter()
            .filter(|entry| entry.is_in_force(now_s) && (entry.serial == which || entry.name == which))
            .map(|entry| entry.serial.clone())
            .collect();
        let serial = match &*serials {
            [] => return Err(PkiError::Unknown(which.to_owned())),
            [serial] => serial,
            several => {
                let (count, serials) = (several.len(), several.join(", "));
                return Err(PkiError::Ambiguous { name: which.to_owned(), count, serials });
            }
        };
        let entry = self.index.certificates.iter_mut().find(|entry| entry.serial == *serial);
        let entry = entry.ok_or_else(|| PkiError::Unknown(which.to_owned()))?;
        entry.revoked_at_s = Some(now_s);
        let entry = entry.clone();
        self.make_list(now_s, list_days)?;
        Ok(entry)
    }

    /// Creates a new revocation list, valid for `days`. Returns its file.
    pub fn make_list(&mut self, now_s: i64, days: u32) -> Result<PathBuf, PkiError> {
        self.index.crl_number += 1;
        let revoked_certs = self
            .entries()
            .iter()
            .filter_map(|entry| {
                Some(RevokedCertParams {
                    serial_number: SerialNumber::from_slice(&bytes_of(&entry.serial)?),
                    revocation_time: date_time_ymd(1970, 1, 1) + seconds(entry.revoked_at_s?),
                    reason_code: None,
                    invalidity_date: None,
                })
            })
            .collect();
        let list = CertificateRevocationListParams {
            this_update: date_time_ymd(1970, 1, 1) + seconds(now_s),
            next_update: date_time_ymd(1970, 1, 1) + seconds(now_s + i64::from(days) * DAY_S),
            crl_number: SerialNumber::from(self.index.crl_number),
            issuing_distribution_point: None,
            revoked_certs,
            key_identifier_method: KeyIdMethod::Sha256,
        };
        let pem = list.signed_by(&self.issuer)?.pem()?;
        self.write_index()?;
        let file = self.directory.join("crl.pem");
        write(&file, &pem)?;
        Ok(file)
    }

    fn write_index(&self) -> Result<(), PkiError> {
        write(&self.directory.join("index.json"), &self.index.to_json())
    }
}

pub(crate) fn new_key(kind: KeyKind) -> Result<KeyPair, PkiError> {
    Ok(match kind {
        KeyKind::P256 => KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256)?,
        KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048)?,
    })
}

fn params_of(name: &str, from_s: i64, days: u32) -> Result<CertificateParams, PkiError> {
    let mut params = CertificateParams::default();
    params.distinguished_name.remove(DnType::CommonName);
    params.distinguished_name.push(DnType::CommonName, name);
    params.not_before = date_time_ymd(1970, 1, 1) + seconds(from_s - EARLY_S);
    params.not_after = date_time_ymd(1970, 1, 1) + seconds(from_s + i64::from(days) * DAY_S);
    params.use_authority_key_identifier_extension = true;
    params.serial_number = Some(new_serial()?);
    Ok(params)
}

fn leaf_params(order: &Order) -> Result<CertificateParams, PkiError> {
    let mut params = params_of(&order.name, order.from_s, order.days)?;
    params.subject_alt_names = CertificateParams::new(order.hosts.clone())?.subject_alt_names;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = match order.usage {
        Usage::Server => vec![ExtendedKeyUsagePurpose::ServerAuth],
        Usage::Client => vec![ExtendedKeyUsagePurpose::ClientAuth],
        Usage::Node => vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth],
    };
    Ok(params)
}

/// A random, positive serial number of full length.
fn new_serial() -> Result<SerialNumber, PkiError> {
    let mut bytes = [0; SERIAL_BYTES];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| PkiError::Request("the system has no random numbers".to_owned()))?;
    bytes[0] = bytes[0] & 0x7f | 0x40;
    Ok(SerialNumber::from_slice(&bytes))
}

fn bytes_of(hexadecimal: &str) -> Option<Vec<u8>> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(str::from_utf8(pair).ok()?, 16).ok()).collect()
}

fn seconds(count: i64) -> Duration {
    Duration::from_secs(u64::try_from(count).unwrap_or(0))
}

pub(crate) fn check_name(name: &str) -> Result<(), PkiError> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let is_reserved = matches!(name, "ca" | "crl" | "index");
    let is_sound = (1..=64).contains(&name.len())
        && name.bytes().all(is_plain)
        && !name.starts_with('.')
        && !is_reserved;
    if is_sound { Ok(()) } else { Err(PkiError::Name(name.to_owned())) }
}

fn read_facts(certificate: &[u8]) -> Result<CertificateFacts, PkiError> {
    CertificateFacts::read(certificate).map_err(|error| PkiError::Request(error.to_string()))
}

/// Checks an address, or a host name of letters, digits, dashes and underscores. A wildcard may replace the first label
/// (RFC 9525 §6.3) if at least two labels follow.
fn check_host(host: &str) -> Result<(), PkiError> {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    let is_name = |name: &str| {
        let last = name.rsplit('.').next().unwrap_or_default();
        // Rejects texts that look like an address but are not, such as 127.1.
        name.split('.').all(is_label) && !last.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_host = match host.strip_prefix("*.") {
        Some(parent) => parent.contains('.') && is_name(parent),
        None => host.parse::<IpAddr>().is_ok() || is_name(host),
    };
    if is_host && host.len() <= 253 { Ok(()) } else { Err(PkiError::Host(host.to_owned())) }
}
