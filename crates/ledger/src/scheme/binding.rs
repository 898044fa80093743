//! Bindings: credentials that prove which participant a client is.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt::{self, Display, Formatter};

use upesi_types::{hex, unhex};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::show::shown_as_word;
use crate::base::stored::{Stored, stored_struct};

pub const BINDING_VALUE_BYTES_MAX: usize = 512;
/// Separates a part of the subject from the issuer in the value of [`BindingKind::Subject`].
const ISSUER: &str = ";issuer=";
/// Separates a name from the SHA-256 of the issuer's public key in the value of a binding by name.
const ISSUER_KEY: &str = ";issuer-key=";
/// Separates a gateway's certificate from the gateway's name for the participant in the value of
/// [`BindingKind::Gateway`].
const CLIENT: &str = ";client=";
/// Longest client identifier, in bytes.
const CLIENT_BYTES_MAX: usize = 128;

/// The property that a binding checks: a part of a certificate, or another proof of the client's identity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BindingKind {
    /// SHA-256 of the public key. The binding outlives the certificate.
    SpkiSha256,
    /// SHA-256 of the whole certificate.
    CertSha256,
    /// A URI in the subject alternative name.
    SanUri,
    /// A DNS name in the subject alternative name.
    SanDns,
    /// Common name, organisational unit or user id of the subject, together with the issuer.
    Subject,
    /// The client id that an OAuth 2.0 provider issues tokens to.
    OauthClient,
    /// A gateway, by its certificate, together with the gateway's name for the participant.
    Gateway,
}

impl BindingKind {
    pub const ALL: [Self; 7] = [
        Self::SpkiSha256,
        Self::CertSha256,
        Self::SanUri,
        Self::SanDns,
        Self::Subject,
        Self::OauthClient,
        Self::Gateway,
    ];

    /// Whether the kind checks only the client's certificate.
    pub const fn is_of_certificate(self) -> bool {
        !matches!(self, Self::OauthClient | Self::Gateway)
    }

    /// Whether the kind is a name that an authority certifies, as opposed to a key or a certificate.
    pub const fn is_of_name(self) -> bool {
        matches!(self, Self::SanUri | Self::SanDns | Self::Subject)
    }

    /// The kind's name, as operators write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SpkiSha256 => "spki-sha256",
            Self::CertSha256 => "cert-sha256",
            Self::SanUri => "san-uri",
            Self::SanDns => "san-dns",
            Self::Subject => "subject",
            Self::OauthClient => "oauth-client",
            Self::Gateway => "gateway",
        }
    }

    /// Finds the kind with a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The form that a value of this kind must have, for error messages.
    pub const fn demand(self) -> &'static str {
        match self {
            Self::SpkiSha256 | Self::CertSha256 => "must be 64 hexadecimal digits",
            Self::SanUri => {
                "must be a URI such as fspiop:scheme/greenbank, without blanks, and may end with ;issuer-key=SHA-256"
            }
            Self::SanDns => "must be a host name without wildcards, and may end with ;issuer-key=SHA-256",
            Self::Subject => {
                "must be CN=NAME;issuer=ISSUER (or OU, UID), and may end with ;issuer-key=SHA-256"
            }
            Self::OauthClient => {
                "must be a client's identifier of at most 128 letters, digits and signs, no ;"
            }
            Self::Gateway => {
                "must be KIND:VALUE;client=NAME, where KIND:VALUE is of the gateway's certificate"
            }
        }
    }
}

/// Whether a text is a valid client identifier. It must not contain the separator that ends a value of
/// [`BindingKind::Gateway`].
fn is_client(text: &str) -> bool {
    (1..=CLIENT_BYTES_MAX).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b';')
}

/// A credential that proves which participant a client is. Equal bindings have equal bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Binding {
    /// The property that the binding checks.
    pub kind: BindingKind,
    /// The value that the property must have.
    pub value: Box<str>,
}

impl Binding {
    /// Creates a binding whose value is in the canonical form for comparison. Returns `None` if the value is invalid
    /// for the kind.
    pub fn new(kind: BindingKind, value: &str) -> Option<Self> {
        if value.is_empty() || value.len() > BINDING_VALUE_BYTES_MAX {
            return None;
        }
        if kind.is_of_name()
            && let Some((name, key)) = value.rsplit_once(ISSUER_KEY)
        {
            let key = unhex(&key.to_ascii_lowercase())?;
            return Self::new(kind, name)?.by_issuer(&key);
        }
        let value: Box<str> = match kind {
            BindingKind::SpkiSha256 | BindingKind::CertSha256 => {
                let digest: [u8; 32] = unhex(&value.to_ascii_lowercase())?;
                hex(&digest).into()
            }
            BindingKind::SanUri => {
                let (scheme, rest) = value.split_once(':')?;
                let is_uri = !scheme.is_empty()
                    && !rest.is_empty()
                    && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte))
                    && rest.bytes().all(|byte| byte.is_ascii_graphic());
                is_uri.then(|| Box::from(value))?
            }
            BindingKind::SanDns => {
                let is_label = |label: &str| {
                    (1..=63).contains(&label.len())
                        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
                };
                let is_name = value.len() <= 253 && value.split('.').all(is_label);
                is_name.then(|| value.to_ascii_lowercase())?.into()
            }
            BindingKind::Subject => {
                let (name, issuer) = value.split_once(ISSUER)?;
                let (attribute, text) = name.split_once('=')?;
                // With a second issuer, the end of the name would be ambiguous.
                let is_subject = ["CN", "OU", "UID"].contains(&attribute)
                    && !text.is_empty()
                    && !issuer.is_empty()
                    && !issuer.contains(ISSUER)
                    && !value.chars().any(char::is_control);
                is_subject.then(|| Box::from(value))?
            }
            BindingKind::OauthClient => is_client(value).then(|| Box::from(value))?,
            BindingKind::Gateway => {
                let (peer, client) = value.rsplit_once(CLIENT)?;
                let peer = Self::parse(peer).filter(|peer| peer.kind.is_of_certificate())?;
                return is_client(client).then(|| Self::by_gateway(&peer, client));
            }
        };
        Some(Self { kind, value })
    }

    /// Adds the key of the issuer to a binding by name. Returns `None` if the binding is not by name, already names an
    /// issuer's key, or would be too long.
    pub fn by_issuer(&self, key_sha256: &[u8; 32]) -> Option<Self> {
        let value = format!("{}{ISSUER_KEY}{}", self.value, hex(key_sha256));
        let may_have = self.kind.is_of_name() && !self.has_issuer_key();
        let fits = value.len() <= BINDING_VALUE_BYTES_MAX;
        (may_have && fits).then(|| Self { kind: self.kind, value: value.into() })
    }

    /// Whether the binding is by name and names the issuer's key.
    pub fn has_issuer_key(&self) -> bool {
        self.kind.is_of_name() && self.value.contains(ISSUER_KEY)
    }

    /// The binding of a participant that a gateway calls `client`; `peer` is a binding of the gateway's certificate. It
    /// is canonical if `peer` is. No participant has the binding of an invalid `client`.
    pub fn by_gateway(peer: &Self, client: &str) -> Self {
        Self { kind: BindingKind::Gateway, value: format!("{peer}{CLIENT}{client}").into() }
    }

    /// The binding of the gateway's certificate, if this binding is a [`BindingKind::Gateway`].
    pub fn gateway(&self) -> Option<Self> {
        let (peer, _) = self.value.rsplit_once(CLIENT).filter(|_| self.kind == BindingKind::Gateway)?;
        Self::parse(peer)
    }

    /// Whether the binding is through a gateway whose certificate has this binding, in display form.
    pub(crate) fn is_by(&self, peer: &str) -> bool {
        self.kind == BindingKind::Gateway
            && self.value.rsplit_once(CLIENT).is_some_and(|(own, _)| own == peer)
    }

    /// Reads the display form `KIND:VALUE`.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, value) = text.split_once(':')?;
        Self::new(BindingKind::parse(kind)?, value)
    }

    /// The value of a [`BindingKind::Subject`] for a part of a subject and its issuer.
    pub fn subject(attribute: &str, text: &str, issuer: &str) -> String {
        format!("{attribute}={text}{ISSUER}{issuer}")
    }
}

impl Display for Binding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind.name(), self.value)
    }
}

impl Stored for BindingKind {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u8(match self {
            Self::SpkiSha256 => 1,
            Self::CertSha256 => 2,
            Self::SanUri => 3,
            Self::SanDns => 4,
            Self::Subject => 5,
            Self::OauthClient => 6,
            Self::Gateway => 7,
        });
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            1 => Ok(Self::SpkiSha256),
            2 => Ok(Self::CertSha256),
            3 => Ok(Self::SanUri),
            4 => Ok(Self::SanDns),
            5 => Ok(Self::Subject),
            6 => Ok(Self::OauthClient),
            7 => Ok(Self::Gateway),
            _ => Err(DecodeError("unknown kind of binding")),
        }
    }
}

stored_struct! {
    Binding { kind, value }
}

shown_as_word!(BindingKind: name);

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    fn read(text: &str) -> Option<String> {
        Binding::parse(text).map(|binding| binding.to_string())
    }

    #[test]
    fn binding_values_have_one_form() {
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        for (text, form) in [
            (format!("spki-sha256:{}", digest.to_uppercase()), format!("spki-sha256:{digest}")),
            (format!("cert-sha256:{digest}"), format!("cert-sha256:{digest}")),
            ("san-uri:fspiop:scheme/greenbank".into(), "san-uri:fspiop:scheme/greenbank".into()),
            ("san-uri:spiffe://scheme/Green".into(), "san-uri:spiffe://scheme/Green".into()),
            ("san-dns:Green.Bank.example".into(), "san-dns:green.bank.example".into()),
            ("subject:CN=a b;issuer=CN=CA, O=X".into(), "subject:CN=a b;issuer=CN=CA, O=X".into()),
            (
                format!("san-dns:Green.example;issuer-key={}", digest.to_uppercase()),
                format!("san-dns:green.example;issuer-key={digest}"),
            ),
            (
                format!("san-uri:fspiop:scheme/green;issuer-key={digest}"),
                format!("san-uri:fspiop:scheme/green;issuer-key={digest}"),
            ),
            (
                format!("gateway:subject:CN=edge;issuer=CN=CA;issuer-key={digest};client=g"),
                format!("gateway:subject:CN=edge;issuer=CN=CA;issuer-key={digest};client=g"),
            ),
            ("oauth-client:Green-1".into(), "oauth-client:Green-1".into()),
            (
                format!("gateway:spki-sha256:{};client=Green", digest.to_uppercase()),
                format!("gateway:spki-sha256:{digest};client=Green"),
            ),
            ("gateway:san-dns:Edge.example;client=g".into(), "gateway:san-dns:edge.example;client=g".into()),
            (
                "gateway:subject:CN=edge;issuer=CN=CA;client=g".into(),
                "gateway:subject:CN=edge;issuer=CN=CA;client=g".into(),
            ),
        ] {
            assert_eq!(read(&text), Some(form), "{text}");
        }
        let edge = Binding::parse("san-dns:edge.example").unwrap();
        let green = Binding::by_gateway(&edge, "g");
        assert_eq!(Binding::parse(&green.to_string()), Some(green.clone()));
        assert_eq!((green.gateway(), edge.gateway()), (Some(edge.clone()), None));
        let (key, name) = ([0xab; 32], Binding::parse("san-dns:edge.example").unwrap());
        let by_key = name.by_issuer(&key).unwrap();
        assert_eq!(Binding::parse(&by_key.to_string()), Some(by_key.clone()));
        assert_eq!((name.has_issuer_key(), by_key.has_issuer_key()), (false, true));
        assert_eq!((by_key.by_issuer(&key), green.by_issuer(&key)), (None, None), "one key, of a name");
        assert_eq!(Binding::subject("CN", "a b", "CN=CA, O=X"), "CN=a b;issuer=CN=CA, O=X");
    }

    #[test]
    fn invalid_binding_values_are_rejected() {
        let long = format!("san-uri:x:{}", "y".repeat(BINDING_VALUE_BYTES_MAX));
        for text in [
            "spki-sha256:9f86",
            "spki-sha256:zf86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "spki-sha256",
            "key:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            "san-uri:",
            "san-uri:greenbank",
            "san-uri:a:b c",
            "san-uri:ä:b",
            "san-dns:",
            "san-dns:*.bank.example",
            "san-dns:bank..example",
            "san-dns:bank example",
            "san-dns:bänk",
            "subject:CN=green",
            "subject:O=green;issuer=CN=CA",
            "subject:CN=;issuer=CN=CA",
            "subject:CN=green;issuer=",
            "subject:CN=green;issuer=CN=CA;issuer=CN=CA",
            "subject:CN=green\n;issuer=CN=CA",
            "san-dns:green.example;issuer-key=",
            "san-dns:green.example;issuer-key=9f86",
            "san-uri:fspiop:scheme/green;issuer-key=CN=CA",
            "subject:CN=green;issuer-key=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
            &format!("san-uri:a:b;issuer-key={0};issuer-key={0}", "9f86".repeat(16)),
            "oauth-client:",
            "oauth-client:green bank",
            "oauth-client:grünbank",
            "oauth-client:green;client=blue",
            &format!("oauth-client:{}", "y".repeat(CLIENT_BYTES_MAX + 1)),
            "gateway:san-dns:edge.example",
            "gateway:san-dns:edge.example;client=",
            "gateway:san-dns:edge.example;client=green bank",
            "gateway:san-dns:*.example;client=green",
            "gateway:edge.example;client=green",
            "gateway:oauth-client:edge;client=green",
            "gateway:gateway:san-dns:edge.example;client=a;client=green",
            &long,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
