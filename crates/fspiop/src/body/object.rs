//! JSON objects as the raw texts of the properties that a schema names.

use core::fmt;

use alloc::format;
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

/// Reads a body as an object.
///
/// Errors: 3101 for what is not JSON, is nested too deep, is not an object or has a property of the schema twice (two
/// parsers could take it for two different messages). A body without content counts as an object without properties.
pub(crate) fn read_body<'a, const N: usize>(
    body: &'a [u8],
    names: &[&str; N],
) -> Result<Properties<'a, N>, SyncError> {
    let Ok(text) = core::str::from_utf8(body) else {
        return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, "/requestBody is not valid UTF-8"));
    };
    if body.trim_ascii().is_empty() {
        return Ok([None; N]);
    }
    check_depth(body)?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => SyncError::new(ErrorCode::MALFORMED_SYNTAX, "/requestBody must be object"),
            Err(error) => not_json(&error),
        });
    }
    read_text(text, names)
}

/// Reads the text of a nested property as an object; `path` is where it stands in the body.
pub(crate) fn read_nested<'a, const N: usize>(
    text: &'a str,
    path: &str,
    names: &[&str; N],
) -> Result<Properties<'a, N>, SyncError> {
    if !text.starts_with('{') {
        return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, &format!("{path} must be object")));
    }
    read_text(text, names)
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

fn read_text<'a, const N: usize>(text: &'a str, names: &[&str; N]) -> Result<Properties<'a, N>, SyncError> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let properties = deserializer.deserialize_map(ObjectVisitor { names });
    properties.and_then(|found| deserializer.end().map(|()| found)).map_err(|error| not_json(&error))
}

fn not_json(error: &serde_json::Error) -> SyncError {
    SyncError::new(ErrorCode::MALFORMED_SYNTAX, &format!("/requestBody is not valid JSON: {error}"))
}

struct ObjectVisitor<'n, const N: usize> {
    names: &'n [&'n str; N],
}

impl<'de, const N: usize> Visitor<'de> for ObjectVisitor<'_, N> {
    type Value = Properties<'de, N>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut properties = [None; N];
        while let Some(position) = map.next_key_seed(KeySeed { names: self.names })? {
            match position {
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
                Some(position) if properties[position].is_some() => {
                    let name = self.names[position];
                    return Err(A::Error::custom(format_args!("property '{name}' occurs twice")));
                }
                Some(position) => properties[position] = Some(map.next_value::<&'de RawValue>()?.get()),
            }
        }
        Ok(properties)
    }
}

/// Reads a key as its position among the names of the schema.
struct KeySeed<'n> {
    names: &'n [&'n str],
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
        Ok(self.names.iter().position(|name| *name == key))
    }
}

/// Refuses bodies nested deeper than [`JSON_DEPTH_MAX`] before any parser descends into them.
fn check_depth(body: &[u8]) -> Result<(), SyncError> {
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
            let detail = format!("/requestBody is nested deeper than {JSON_DEPTH_MAX} levels");
            return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, &detail));
        }
        at += 1;
    }
    Ok(())
}
