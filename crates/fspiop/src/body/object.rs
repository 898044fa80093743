//! Finds the properties of JSON objects that a schema names.

use alloc::format;
use core::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use upesi_types::ErrorCode;

use super::json::{Document, Kind, unescape, unquote};
use crate::SyncError;
use crate::fingerprint::end_of_string;

/// Maximum nesting of objects and arrays in a body. A transfer needs four levels. Other parsers have various limits,
/// and a forwarded body should be within all of them.
pub const JSON_DEPTH_MAX: usize = 128;

/// Maximum number of values in a body, including names of properties. Each takes 16 bytes while the body is read,
/// however short it is. The largest message that the schema allows, a batch of 10 000 parties with all extensions, has
/// fewer.
pub(crate) const JSON_VALUES_MAX: usize = 1_000_000;

/// The positions of an object's properties in a document, in the order of the schema.
pub(crate) struct Properties<const N: usize> {
    pub(crate) positions: [Option<u32>; N],
    /// The first name that is not in the schema.
    pub(crate) unknown: Option<usize>,
}

/// The reason why a body is not an object.
pub(crate) enum Unreadable {
    Encoding,
    Depth,
    NotObject,
    NotJson(serde_json::Error),
}

impl Unreadable {
    /// Whether the bytes are not JSON at all, as opposed to JSON of another shape.
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
/// Errors: the body is not JSON, is nested too deeply, is not an object, or contains a property of the schema twice.
/// Two parsers could read two different messages from such a body. An empty body is read as an object without
/// properties.
pub(crate) fn read_body<'a, const N: usize>(
    body: &'a [u8],
    names: &[&str; N],
) -> Result<(Document<'a>, Properties<N>), Unreadable> {
    let text = core::str::from_utf8(body).map_err(|_| Unreadable::Encoding)?;
    if body.trim_ascii().is_empty() {
        return Ok((Document::empty(), Properties { positions: [None; N], unknown: None }));
    }
    if let Some(document) = Document::parse(text)
        && document.kind(Document::ROOT) == Kind::Object
        && let Some(properties) = find_properties(&document, Document::ROOT, names)
    {
        return Ok((document, properties));
    }
    check_depth(body)?;
    if !text.trim_ascii_start().starts_with('{') {
        return Err(match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Unreadable::NotObject,
            Err(error) => Unreadable::NotJson(error),
        });
    }
    Err(Unreadable::NotJson(what_is_wrong(text, names)))
}

/// Reads an object inside a document. `path` is its path in the body.
pub(crate) fn read_nested<const N: usize>(
    document: &Document<'_>,
    object: usize,
    path: impl fmt::Display,
    names: &[&str; N],
) -> Result<Properties<N>, SyncError> {
    if document.kind(object) != Kind::Object {
        return Err(SyncError::new(ErrorCode::MALFORMED_SYNTAX, &format!("{path} must be object")));
    }
    find_properties(document, object, names)
        .ok_or_else(|| not_json(&what_is_wrong(document.json(object), names)))
}

/// Finds the properties. Returns `None` if a property of the schema occurs twice or a name cannot be decoded.
pub(super) fn find_properties<const N: usize>(
    document: &Document<'_>,
    object: usize,
    names: &[&str; N],
) -> Option<Properties<N>> {
    let mut properties = Properties { positions: [None; N], unknown: None };
    for position in document.names(object) {
        let json = document.json(position);
        let known = match document.kind(position) {
            Kind::EscapedText => index_of(&unescape(json).ok()?, names),
            _ => index_of(unquote(json), names),
        };
        match known {
            None => properties.unknown = properties.unknown.or(Some(position)),
            Some(known) if properties.positions[known].is_some() => return None,
            Some(known) => properties.positions[known] = Some(position as u32 + 1),
        }
    }
    Some(properties)
}

/// The index of a name in a schema. Most names differ in length or first letter, which are faster to compare.
pub(crate) fn index_of(name: &str, names: &[&str]) -> Option<usize> {
    let (length, first) = (name.len(), name.as_bytes().first());
    names
        .iter()
        .position(|known| known.len() == length && known.as_bytes().first() == first && *known == name)
}

fn not_json(error: &serde_json::Error) -> SyncError {
    SyncError::new(ErrorCode::MALFORMED_SYNTAX, &format!("/requestBody is not valid JSON: {error}"))
}

/// Reads a rejected object again to find the first violation.
fn what_is_wrong<const N: usize>(text: &str, names: &[&str; N]) -> serde_json::Error {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let outcome = deserializer.deserialize_map(ObjectVisitor { names }).and_then(|()| deserializer.end());
    outcome.err().unwrap_or_else(|| Error::custom(format_args!("more than {JSON_VALUES_MAX} values")))
}

/// Fails if a property of the schema occurs a second time.
struct ObjectVisitor<'n, const N: usize> {
    names: &'n [&'n str; N],
}

impl<'de, const N: usize> Visitor<'de> for ObjectVisitor<'_, N> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = [false; N];
        while let Some(position) = map.next_key_seed(KeySeed { names: self.names })? {
            if let Some(position) = position
                && core::mem::replace(&mut seen[position], true)
            {
                let name = self.names[position];
                return Err(A::Error::custom(format_args!("property '{name}' occurs twice")));
            }
            map.next_value::<IgnoredAny>()?;
        }
        Ok(())
    }
}

/// Reads a key as its index among the names of the schema.
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
        Ok(index_of(key, self.names))
    }
}

/// Rejects bodies nested deeper than [`JSON_DEPTH_MAX`], before any other violation.
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
