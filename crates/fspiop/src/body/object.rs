//! JSON objects as the raw texts of the properties that a schema names.

use core::fmt;

use alloc::format;
use alloc::string::String;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use upesi_types::ErrorCode;

use crate::SyncError;
use crate::fingerprint::end_of_string;

/// Deepest nesting of objects and arrays in a body. A transfer needs four; other parsers give up at various depths, so
/// what goes on to a DFSP should be within everyone's.
pub const JSON_DEPTH_MAX: usize = 128;

/// The properties of an object that a schema names, each as its JSON text, in the schema's order.
pub(crate) type Properties<'a, const N: usize> = [Option<&'a str>; N];

/// Why a body is no object.
pub(crate) enum Unreadable {
    Encoding,
    Depth,
    NotObject,
    NotJson(serde_json::Error),
}

impl Unreadable {
    /// Whether the bytes are no JSON at all, rather than JSON of another shape.
    pub(crate) fn is_syntax(&self) -> bool {
        match self {
            Self::Encoding => true,
            Self::NotJson(error) => !error.is_data(),
            Self::Depth | Self::NotObject => false,
        }
    }
}

impl From<Unreadable> for SyncError {
    fn from(unreadable: Unreadable) -> Self {
        let detail = match unreadable {
            Unreadable::Encoding => "/requestBody is not valid UTF-8".into(),
            Unreadable::Depth => format!("/requestBody is nested deeper than {JSON_DEPTH_MAX} levels"),
            Unreadable::NotObject => "/requestBody must be object".into(),
            Unreadable::NotJson(error) => return not_json(&error),
        };
        Self::new(ErrorCode::MALFORMED_SYNTAX, &detail)
    }
}

/// Reads a body as an object.
///
/// Errors: 3101 for what is not JSON, is nested too deep, is not an object or has a property of the schema twice (two
/// parsers could take it for two different messages). A body without content counts as an object without properties.
pub(crate) fn read_body<'a, const N: usize>(
    body: &'a [u8],
    names: &[&str; N],
) -> Result<Properties<'a, N>, SyncError> {
    Ok(read_bytes(body, names, None)?)
}

/// The same, and the first name that the schema does not have goes into `unknown`.
pub(crate) fn read_bytes<'a, const N: usize>(
    body: &'a [u8],
    names: &[&str; N],
    unknown: Option<&mut String>,
) -> Result<Properties<'a, N>, Unreadable> {
    let text = core::str::from_utf8(body).map_err(|_| Unreadable::Encoding)?;
    if body.trim_ascii().is_empty() {
        return Ok([None; N]);
    }
    check_depth(body)?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Unreadable::NotObject,
            Err(error) => Unreadable::NotJson(error),
        });
    }
    read_text(text, names, unknown).map_err(Unreadable::NotJson)
}

/// Reads the text of a nested property as an object; `path` is where it stands in the body.
pub(crate) fn read_nested<'a, const N: usize>(
    text: &'a str,
    path: impl fmt::Display,
    names: &[&str; N],
) -> Result<Properties<'a, N>, SyncError> {
    if !text.starts_with('{') {
        return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, &format!("{path} must be object")));
    }
    read_text(text, names, None).map_err(|error| not_json(&error))
}

/// The texts of the properties at these positions of the schema, or 3102 with the first that is missing.
pub(crate) fn require<'a, const N: usize, const R: usize>(
    properties: &Properties<'a, N>,
    names: &[&str; N],
    positions: [usize; R],
    path: &str,
) -> Result<[&'a str; R], SyncError> {
    let mut texts = [""; R];
    for (text, position) in texts.iter_mut().zip(positions) {
        let Some(found) = properties[position] else {
            let detail = format!("{path} must have required property '{}'", names[position]);
            return Err(SyncError::new(ErrorCode::MISSING_ELEMENT, &detail));
        };
        *text = found;
    }
    Ok(texts)
}

fn read_text<'a, const N: usize>(
    text: &'a str,
    names: &[&str; N],
    unknown: Option<&mut String>,
) -> Result<Properties<'a, N>, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let properties = deserializer.deserialize_map(ObjectVisitor { names, unknown })?;
    deserializer.end()?;
    Ok(properties)
}

fn not_json(error: &serde_json::Error) -> SyncError {
    SyncError::new(ErrorCode::MALFORMED_SYNTAX, &format!("/requestBody is not valid JSON: {error}"))
}

struct ObjectVisitor<'n, const N: usize> {
    names: &'n [&'n str; N],
    unknown: Option<&'n mut String>,
}

impl<'de, const N: usize> Visitor<'de> for ObjectVisitor<'_, N> {
    type Value = Properties<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut properties = [None; N];
        loop {
            let seed = KeySeed { names: self.names, unknown: self.unknown.as_deref_mut() };
            match map.next_key_seed(seed)? {
                None => return Ok(properties),
                Some(None) => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(Some(position)) if properties[position].is_some() => {
                    let name = self.names[position];
                    return Err(A::Error::custom(format_args!("property '{name}' occurs twice")));
                }
                Some(Some(position)) => properties[position] = Some(map.next_value::<&'de RawValue>()?.get()),
            }
        }
    }
}

/// Reads a key as its position among the names of the schema, and notes the first that is none of them.
struct KeySeed<'n> {
    names: &'n [&'n str],
    unknown: Option<&'n mut String>,
}

impl<'de> DeserializeSeed<'de> for KeySeed<'_> {
    type Value = Option<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeySeed<'_> {
    type Value = Option<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a property name")
    }

    fn visit_str<E: Error>(self, key: &str) -> Result<Self::Value, E> {
        let position = self.names.iter().position(|name| *name == key);
        if let (None, Some(unknown)) = (position, self.unknown)
            && unknown.is_empty()
        {
            // The empty name is one too.
            unknown.push('\'');
            unknown.extend(key.chars().take(UNKNOWN_NAME_CHARS_MAX));
            unknown.push('\'');
        }
        Ok(position)
    }
}

/// As much of an unknown name as a refusal has room for.
const UNKNOWN_NAME_CHARS_MAX: usize = 32;

/// Refuses bodies nested deeper than [`JSON_DEPTH_MAX`] before any parser descends into them.
fn check_depth(body: &[u8]) -> Result<(), Unreadable> {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(&byte) = body.get(at) {
        match byte {
            b'"' => {
                at = end_of_string(body, at);
                continue;
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > JSON_DEPTH_MAX {
            return Err(Unreadable::Depth);
        }
        at += 1;
    }
    Ok(())
}
