//! Bindings: what proves that a caller is a participant.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::String;
use core::fmt::{self, Display, Formatter};

use upesi_types::{hex, unhex};

use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::stored::{Stored, stored_struct};

/// Longest value of a binding, in bytes.
pub const BINDING_VALUE_BYTES_MAX: usize = 512;
/// Between a part of the subject and the issuer in the value of [`BindingKind::Subject`].
const ISSUER: &str = ";issuer=";

/// The part of a certificate that a binding looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BindingKind {
    /// SHA-256 of the public key: it outlives the certificate.
    SpkiSha256,
    /// SHA-256 of the whole certificate.
    CertSha256,
    /// A URI of the subject alternative name.
    SanUri,
    /// A DNS name of the subject alternative name.
    SanDns,
    /// Common name, unit or user id of the subject, and the issuer.
    Subject,
}

impl BindingKind {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::SpkiSha256, Self::CertSha256, Self::SanUri, Self::SanDns, Self::Subject];

    /// As operators write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SpkiSha256 => "spki-sha256",
            Self::CertSha256 => "cert-sha256",
            Self::SanUri => "san-uri",
            Self::SanDns => "san-dns",
            Self::Subject => "subject",
        }
    }

    /// The kind of a name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// What a value of the kind must be.
    pub const fn demand(self) -> &'static str {
        match self {
            Self::SpkiSha256 | Self::CertSha256 => "must be 64 hexadecimal digits",
            Self::SanUri => "must be a URI such as fspiop:scheme/greenbank, without blanks",
            Self::SanDns => "must be a host name without wildcards",
            Self::Subject => "must be CN=NAME;issuer=ISSUER, likewise with OU or UID",
        }
    }
}

/// What proves that a caller is a participant. Equal bindings have equal bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Binding {
    /// The part of the certificate.
    pub kind: BindingKind,
    /// What must stand there.
    pub value: Box<str>,
}

impl Binding {
    /// A binding with its value in the one form in which it is compared; `None` if the value is no such value.
    pub fn new(kind: BindingKind, value: &str) -> Option<Self> {
        if value.is_empty() || value.len() > BINDING_VALUE_BYTES_MAX {
            return None;
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
                // A second issuer would leave open where the name ends.
                let is_subject = ["CN", "OU", "UID"].contains(&attribute)
                    && !text.is_empty()
                    && !issuer.is_empty()
                    && !issuer.contains(ISSUER)
                    && !value.chars().any(char::is_control);
                is_subject.then(|| Box::from(value))?
            }
        };
        Some(Self { kind, value })
    }

    /// Reads `KIND:VALUE`, as it is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let (kind, value) = text.split_once(':')?;
        Self::new(BindingKind::parse(kind)?, value)
    }

    /// The value of [`BindingKind::Subject`] that a part of a subject and its issuer have.
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
        });
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            1 => Ok(Self::SpkiSha256),
            2 => Ok(Self::CertSha256),
            3 => Ok(Self::SanUri),
            4 => Ok(Self::SanDns),
            5 => Ok(Self::Subject),
            _ => Err(DecodeError("unknown kind of binding")),
        }
    }
}

stored_struct! {
    Binding { kind, value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<String> {
        use alloc::string::ToString;
        Binding::parse(text).map(|binding| binding.to_string())
    }

    #[test]
    fn values_have_one_form() {
        let digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        for (text, form) in [
            (format!("spki-sha256:{}", digest.to_uppercase()), format!("spki-sha256:{digest}")),
            (format!("cert-sha256:{digest}"), format!("cert-sha256:{digest}")),
            ("san-uri:fspiop:scheme/greenbank".into(), "san-uri:fspiop:scheme/greenbank".into()),
            ("san-uri:spiffe://scheme/Green".into(), "san-uri:spiffe://scheme/Green".into()),
            ("san-dns:Green.Bank.example".into(), "san-dns:green.bank.example".into()),
            ("subject:CN=a b;issuer=CN=CA, O=X".into(), "subject:CN=a b;issuer=CN=CA, O=X".into()),
        ] {
            assert_eq!(read(&text), Some(form), "{text}");
        }
        assert_eq!(Binding::subject("CN", "a b", "CN=CA, O=X"), "CN=a b;issuer=CN=CA, O=X");
    }

    #[test]
    fn other_values_are_refused() {
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
            &long,
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
