//! Kinds of settings that are written as one text.

use std::net::SocketAddr;
use std::path::PathBuf;

use upesi_admin::WebOrigin;
use upesi_fspiop::Version;
use upesi_gateway::IPV6_PREFIX_MAX;
use upesi_http::{Network, too_large_port};
use upesi_keys::{PrivateKeyLocation, read_limited_text};
use upesi_oidc::is_secure_issuer;
use upesi_process::values::why_no_port;
use upesi_quoting::Rules;
use upesi_types::FspId;

use super::directives::Directives;
use super::kind::{TextKind, refusal};

/// An IP address with a port.
#[derive(Debug)]
pub struct Address;

impl TextKind for Address {
    type Value = SocketAddr;

    fn wanted() -> String {
        "an address with port, such as 127.0.0.1:4000 or [::1]:4000".to_owned()
    }

    fn parse(text: &str) -> Result<SocketAddr, String> {
        text.parse().map_err(|_| format!("{}{}", refusal::<Self>(text), why_no_port(text)))
    }

    fn show(value: &SocketAddr) -> String {
        value.to_string()
    }
}

/// A path of the file system.
#[derive(Debug)]
pub struct FilePath;

impl TextKind for FilePath {
    type Value = PathBuf;

    fn wanted() -> String {
        "a path".to_owned()
    }

    fn parse(text: &str) -> Result<PathBuf, String> {
        if text.is_empty() { Err(refusal::<Self>(text)) } else { Ok(text.into()) }
    }

    fn show(value: &PathBuf) -> String {
        value.display().to_string()
    }
}

/// The location of a private key: a file, or an object of a PKCS #11 token.
#[derive(Debug)]
pub struct KeyLocation;

impl TextKind for KeyLocation {
    type Value = PrivateKeyLocation;

    fn wanted() -> String {
        "a path or pkcs11:…".to_owned()
    }

    fn parse(text: &str) -> Result<PrivateKeyLocation, String> {
        PrivateKeyLocation::parse(text).map_err(|error| error.to_string())
    }

    fn show(value: &PrivateKeyLocation) -> String {
        value.to_string()
    }
}

/// The name of a participant.
#[derive(Debug)]
pub struct Name;

impl TextKind for Name {
    type Value = FspId;

    fn wanted() -> String {
        "a name of 2 to 30 printable ASCII characters".to_owned()
    }

    fn parse(text: &str) -> Result<FspId, String> {
        let name = FspId::parse(text).filter(|_| (2..=30).contains(&text.len()));
        name.ok_or_else(|| refusal::<Self>(text))
    }

    fn show(value: &FspId) -> String {
        value.to_string()
    }
}

/// Free text of at most `BYTES_MAX` bytes.
#[derive(Debug)]
pub struct Text<const BYTES_MAX: usize>;

impl<const BYTES_MAX: usize> TextKind for Text<BYTES_MAX> {
    type Value = String;

    fn wanted() -> String {
        format!("a text of at most {BYTES_MAX} bytes")
    }

    fn wanted_list() -> String {
        "a list of texts".to_owned()
    }

    fn parse(text: &str) -> Result<String, String> {
        if text.len() <= BYTES_MAX { Ok(text.to_owned()) } else { Err(refusal::<Self>(text)) }
    }

    fn show(value: &String) -> String {
        value.clone()
    }
}

/// A host name or address, perhaps with a scheme and a port. Names are resolved when they are used.
#[derive(Debug)]
pub struct Host;

/// Maximum size of a host with its scheme and port, in bytes.
const HOST_BYTES_MAX: usize = 300;

impl TextKind for Host {
    type Value = String;

    fn wanted() -> String {
        "a host".to_owned()
    }

    fn wanted_list() -> String {
        "a list of hosts".to_owned()
    }

    fn parse(text: &str) -> Result<String, String> {
        let end = text.trim_end_matches('/');
        if too_large_port(end).is_some() {
            return Err(format!("{text:?} cannot be reached{}", why_no_port(end)));
        }
        Text::<HOST_BYTES_MAX>::parse(text)
    }

    fn show(value: &String) -> String {
        value.clone()
    }
}

/// The origin of a web page.
#[derive(Debug)]
pub struct PageOrigin;

impl TextKind for PageOrigin {
    type Value = WebOrigin;

    fn wanted() -> String {
        "an origin, such as https://portal.example".to_owned()
    }

    fn wanted_list() -> String {
        "a list of origins, such as https://portal.example".to_owned()
    }

    fn parse(text: &str) -> Result<WebOrigin, String> {
        let text = Host::parse(text)?;
        let origin = WebOrigin::parse(&text);
        origin.ok_or_else(|| format!("{text:?} is not an origin; write https://portal.example"))
    }

    fn show(value: &WebOrigin) -> String {
        value.to_string()
    }
}

/// The issuer identifier of an identity provider.
#[derive(Debug)]
pub struct Issuer;

/// Maximum size of an issuer identifier, in bytes.
const ISSUER_BYTES_MAX: usize = 1024;

impl TextKind for Issuer {
    type Value = String;

    fn wanted() -> String {
        "a URL with https://, or with http:// on this machine".to_owned()
    }

    fn parse(text: &str) -> Result<String, String> {
        let is_sound = text.len() <= ISSUER_BYTES_MAX && is_secure_issuer(text);
        if is_sound { Ok(text.to_owned()) } else { Err(refusal::<Self>(text)) }
    }

    fn show(value: &String) -> String {
        value.clone()
    }
}

/// A protocol version.
#[derive(Debug)]
pub struct ProtocolVersion;

impl TextKind for ProtocolVersion {
    type Value = Version;

    fn wanted() -> String {
        "a version, such as 1.1".to_owned()
    }

    fn wanted_list() -> String {
        "a list of versions, such as 1.0,1.1".to_owned()
    }

    fn parse(text: &str) -> Result<Version, String> {
        Version::parse(text).ok_or_else(|| refusal::<Self>(text))
    }

    fn show(value: &Version) -> String {
        value.to_string()
    }
}

/// A network of IP addresses.
#[derive(Debug)]
pub struct AddressNetwork;

impl TextKind for AddressNetwork {
    type Value = Network;

    fn wanted() -> String {
        "a network, such as 10.20.0.0/16".to_owned()
    }

    fn wanted_list() -> String {
        "a list of networks, such as 10.20.0.0/16".to_owned()
    }

    fn parse(text: &str) -> Result<Network, String> {
        text.parse().map_err(|error: upesi_http::NotANetwork| error.to_string())
    }

    fn show(value: &Network) -> String {
        value.to_string()
    }
}

/// A network of a DFSP's clients.
#[derive(Debug)]
pub struct DfspNetwork;

impl TextKind for DfspNetwork {
    type Value = Network;

    fn wanted() -> String {
        AddressNetwork::wanted()
    }

    fn wanted_list() -> String {
        AddressNetwork::wanted_list()
    }

    fn parse(text: &str) -> Result<Network, String> {
        let network = AddressNetwork::parse(text)?;
        if network.is_ipv6() && network.prefix() > IPV6_PREFIX_MAX {
            return Err(format!(
                "{text:?}: an IPv6 network of a DFSP has a prefix of at most {IPV6_PREFIX_MAX} bits"
            ));
        }
        Ok(network)
    }

    fn show(value: &Network) -> String {
        AddressNetwork::show(value)
    }
}

/// A TCP port.
#[derive(Debug)]
pub struct Port;

impl TextKind for Port {
    type Value = u16;

    fn wanted() -> String {
        "a port from 1 to 65535".to_owned()
    }

    fn wanted_list() -> String {
        "a list of ports, such as 443,8443".to_owned()
    }

    fn parse(text: &str) -> Result<u16, String> {
        let port = text.parse().ok().filter(|port| *port > 0);
        port.ok_or_else(|| {
            format!("{text:?} is not a port; write numbers from 1 to 65535, such as 443, 8443")
        })
    }

    fn show(value: &u16) -> String {
        value.to_string()
    }
}

/// A random UUID, with or without dashes.
#[derive(Debug)]
pub struct Uuid;

impl TextKind for Uuid {
    type Value = u128;

    fn wanted() -> String {
        "a UUID, with or without dashes".to_owned()
    }

    fn parse(text: &str) -> Result<u128, String> {
        let digits = text.replace('-', "");
        let is_uuid = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_uuid);
        number.ok_or_else(|| refusal::<Self>(text))
    }

    fn show(value: &u128) -> String {
        let digits = format!("{value:032x}");
        let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
        parts.join("-")
    }
}

/// The level of the log, or directives for single targets.
#[derive(Debug)]
pub struct LogLevel;

impl TextKind for LogLevel {
    type Value = Directives;

    fn wanted() -> String {
        "a level or directives".to_owned()
    }

    fn parse(text: &str) -> Result<Directives, String> {
        Directives::parse(text).map_err(|error| error.to_string())
    }

    fn show(value: &Directives) -> String {
        value.text().to_owned()
    }
}

/// A JSON file with rules for quotes. It is read together with the settings.
#[derive(Debug)]
pub struct QuoteRulesFile;

/// The rules for quotes, with the file that contains them.
#[derive(Clone, Debug)]
pub struct QuoteRules {
    /// The file.
    pub path: PathBuf,
    pub rules: Rules,
}

/// Maximum size of a file of quote rules, in bytes.
const RULES_FILE_BYTES_MAX: u64 = 1 << 20;

impl TextKind for QuoteRulesFile {
    type Value = QuoteRules;

    fn wanted() -> String {
        FilePath::wanted()
    }

    fn parse(text: &str) -> Result<QuoteRules, String> {
        let path = FilePath::parse(text)?;
        let content = read_limited_text(&path, RULES_FILE_BYTES_MAX);
        let content = content.map_err(|error| format!("{text}: {error}"))?;
        let rules = Rules::parse(&content).map_err(|error| format!("{text}: {error}"))?;
        Ok(QuoteRules { path, rules })
    }

    fn show(value: &QuoteRules) -> String {
        value.path.display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_may_omit_dashes() {
        let id = Some(0x5b1c_1a6a_6f1f_4f0d_9a4f_8a2b_7a3c_9d10);
        for (text, expected) in [
            ("5b1c1a6a6f1f4f0d9a4f8a2b7a3c9d10", id),
            ("5b1c1a6a-6f1f-4f0d-9a4f-8a2b7a3c9d10", id),
            ("5B1C1A6A-6F1F-4F0D-9A4F-8A2B7A3C9D10", id),
            ("", None),
            ("5b1c1a6a-6f1f-4f0d-9a4f-8a2b7a3c9d1", None),
            ("+b1c1a6a-6f1f-4f0d-9a4f-8a2b7a3c9d10", None),
            ("5b1c1a6a6f1f4f0d9a4f8a2b7a3c9d10ff", None),
        ] {
            assert_eq!(Uuid::parse(text).ok(), expected, "{text}");
        }
        assert_eq!(Uuid::show(&1), "00000000-0000-0000-0000-000000000001");
    }

    #[test]
    fn port_is_a_number_from_1_to_65535() {
        assert_eq!(Port::parse("65535"), Ok(65_535));
        for text in ["0", "65536", "https", "-1", ""] {
            let refused = Port::parse(text).unwrap_err();
            assert!(refused.contains("is not a port; write numbers from 1 to 65535"), "{refused}");
        }
    }
}
