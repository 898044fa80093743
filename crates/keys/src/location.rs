//! Location of a key.

use std::fmt;
use std::path::{Path, PathBuf};

const PKCS11: &str = "pkcs11:";

/// Location of a private key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrivateKeyLocation {
    /// A PEM file.
    File(PathBuf),
    /// An object of a PKCS #11 token.
    Token(TokenKeyName),
}

/// The name of a key in a PKCS #11 token, as in its URI (RFC 7512).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenKeyName {
    pub token: String,
    /// Label of the key, if the name has one.
    pub object: Option<String>,
    /// Identifier of the key, if the name has one.
    pub id: Option<Vec<u8>>,
}

/// The text is not a location of a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}: a key in a token is pkcs11:token=LABEL;object=LABEL, or with id=%01 instead of the object")]
pub struct NotALocation(String);

impl PrivateKeyLocation {
    /// Parses a path, or the URI of a key in a token: `pkcs11:token=hub;object=signing`.
    ///
    /// # Errors
    /// A URI does not name a key, or has an unknown part.
    pub fn parse(text: &str) -> Result<Self, NotALocation> {
        match text.strip_prefix(PKCS11) {
            None => Ok(Self::File(PathBuf::from(text))),
            Some(path) => {
                TokenKeyName::parse(path).map(Self::Token).ok_or_else(|| NotALocation(text.to_owned()))
            }
        }
    }

    /// The file, if this is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Token(_) => None,
        }
    }
}

impl TokenKeyName {
    fn parse(path: &str) -> Option<Self> {
        if path.contains('?') {
            return None;
        }
        let (mut token, mut object, mut id) = (None, None, None);
        for attribute in path.split(';') {
            let (name, value) = attribute.split_once('=')?;
            let value = percent_decoded(value).filter(|value| !value.is_empty())?;
            let is_first = match name {
                "token" => token.replace(String::from_utf8(value).ok()?).is_none(),
                "object" => object.replace(String::from_utf8(value).ok()?).is_none(),
                "id" => id.replace(value).is_none(),
                "type" => value == b"private",
                _ => false,
            };
            if !is_first {
                return None;
            }
        }
        let named = Self { token: token?, object, id };
        (named.object.is_some() || named.id.is_some()).then_some(named)
    }
}

fn percent_decoded(text: &str) -> Option<Vec<u8>> {
    let (mut decoded, mut bytes) = (Vec::new(), text.bytes());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            decoded.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        decoded.push(u8::try_from(digit()? * 16 + digit()?).ok()?);
    }
    Some(decoded)
}

fn write_encoded(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    for byte in bytes {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                write!(f, "{}", char::from(*byte))?;
            }
            byte => write!(f, "%{byte:02X}")?,
        }
    }
    Ok(())
}

impl fmt::Display for TokenKeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PKCS11}token=")?;
        write_encoded(f, self.token.as_bytes())?;
        if let Some(object) = &self.object {
            f.write_str(";object=")?;
            write_encoded(f, object.as_bytes())?;
        }
        if let Some(id) = &self.id {
            f.write_str(";id=")?;
            write_encoded(f, id)?;
        }
        Ok(())
    }
}

impl fmt::Display for PrivateKeyLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            Self::Token(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn key_location_is_a_path_or_a_pkcs11_uri() {
        for (text, token, object, id) in [
            ("pkcs11:token=hub;object=signing", "hub", Some("signing"), None),
            ("pkcs11:object=a%20b;token=my%20hub", "my hub", Some("a b"), None),
            ("pkcs11:token=hub;id=%01%fF", "hub", None, Some(vec![1, 255])),
            ("pkcs11:token=hub;object=k;id=%01;type=private", "hub", Some("k"), Some(vec![1])),
        ] {
            let expected =
                TokenKeyName { token: token.to_owned(), object: object.map(str::to_owned), id: id.clone() };
            let place = PrivateKeyLocation::parse(text).unwrap();
            assert_eq!(place, PrivateKeyLocation::Token(expected), "{text}");
            assert_eq!(
                PrivateKeyLocation::parse(&place.to_string()),
                Ok(place),
                "{text} is printed as it is read"
            );
        }
        assert_eq!(
            PrivateKeyLocation::parse("/etc/hub.key").unwrap().file(),
            Some(Path::new("/etc/hub.key"))
        );
        for text in [
            "pkcs11:",
            "pkcs11:token=hub",
            "pkcs11:object=signing",
            "pkcs11:token=hub;object=",
            "pkcs11:token=hub;object=a;object=b",
            "pkcs11:token=hub;object=%zz",
            "pkcs11:token=hub;object=%4",
            "pkcs11:token=hub;object=%ff",
            "pkcs11:token=hub;object=a;type=public",
            "pkcs11:token=hub;object=a;serial=1",
            "pkcs11:token=hub;object=a?pin-value=1234",
        ] {
            assert!(PrivateKeyLocation::parse(text).is_err(), "{text}");
        }
    }
}
