//! Objects and arrays inside a body, and where they stand in it.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;
use upesi_types::ErrorCode;

use super::object::{Properties, Unreadable, read_bytes, read_nested};
use super::text::Property;
use crate::SyncError;

/// Where a value stands in a body, put into words only when it is refused.
#[derive(Clone, Copy)]
pub(crate) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Name(&'p str),
    Index(usize),
}

impl Path<'static> {
    /// The body itself.
    const BODY: Self = Self { parent: None, step: Step::Name("requestBody") };
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            fmt::Display::fmt(parent, f)?;
        }
        match self.step {
            Step::Name(name) => write!(f, "/{name}"),
            Step::Index(index) => write!(f, "/{index}"),
        }
    }
}

/// A value somewhere in a body.
pub(crate) type Value<'a, 'p> = Property<'a, Path<'p>>;

impl<'a> Value<'a, 'static> {
    /// The value of a property of the body itself.
    pub(crate) fn of_body(name: &'static str, json: &'a str) -> Self {
        Property::new(json, Path { parent: Some(&Path::BODY), step: Step::Name(name) })
    }
}

/// What an object has to be like: the names of its properties, of which the first ones are required.
pub(crate) struct Schema<const N: usize> {
    names: [&'static str; N],
    required: usize,
    closed: bool,
}

impl<const N: usize> Schema<N> {
    /// An object that may have properties beyond these.
    pub(crate) const fn open(required: usize, names: [&'static str; N]) -> Self {
        assert!(required <= N);
        Self { names, required, closed: false }
    }

    /// An object of exactly these properties. Only a body as a whole can be one.
    pub(crate) const fn closed(required: usize, names: [&'static str; N]) -> Self {
        Self { closed: true, ..Self::open(required, names) }
    }

    /// Reads a body.
    pub(crate) fn read_body<'a, 's>(
        &'s self,
        body: &'a [u8],
    ) -> Result<Object<'a, 's, 'static, N>, SyncError> {
        self.read_body_or(body, SyncError::from)
    }

    /// Reads a body, with one's own words for what is no object.
    pub(crate) fn read_body_or<'a, 's>(
        &'s self,
        body: &'a [u8],
        refuse: impl FnOnce(Unreadable) -> SyncError,
    ) -> Result<Object<'a, 's, 'static, N>, SyncError> {
        let mut unknown = String::new();
        let properties =
            read_bytes(body, &self.names, self.closed.then_some(&mut unknown)).map_err(refuse)?;
        let object = self.complete(properties, Path::BODY)?;
        if unknown.is_empty() {
            return Ok(object);
        }
        let detail = format!("{} must NOT have additional properties: {unknown}", object.path);
        Err(SyncError::new(ErrorCode::TOO_MANY_ELEMENTS, &detail))
    }

    /// Reads an object inside a body.
    pub(crate) fn read<'a, 's, 'p>(
        &'s self,
        value: Value<'a, 'p>,
    ) -> Result<Object<'a, 's, 'p, N>, SyncError> {
        debug_assert!(!self.closed, "only a body as a whole is closed");
        self.complete(read_nested(value.json, value.path, &self.names)?, value.path)
    }

    fn complete<'a, 's, 'p>(
        &'s self,
        properties: Properties<'a, N>,
        path: Path<'p>,
    ) -> Result<Object<'a, 's, 'p, N>, SyncError> {
        match properties[..self.required].iter().position(Option::is_none) {
            None => Ok(Object { schema: self, properties, path }),
            Some(missing) => {
                let detail = format!("{path} must have required property '{}'", self.names[missing]);
                Err(SyncError::new(ErrorCode::MISSING_ELEMENT, &detail))
            }
        }
    }
}

/// An object that has what its schema requires.
pub(crate) struct Object<'a, 's, 'p, const N: usize> {
    schema: &'s Schema<N>,
    properties: Properties<'a, N>,
    path: Path<'p>,
}

impl<'a, const N: usize> Object<'a, '_, '_, N> {
    /// A property that the schema requires.
    pub(crate) fn required(&self, name: &'static str) -> Value<'a, '_> {
        let position = self.position(name);
        debug_assert!(position < self.schema.required, "{name} is not required");
        // Reading saw to it that there is one.
        self.value(name, self.properties[position].unwrap_or_default())
    }

    /// A property that may be there.
    pub(crate) fn optional(&self, name: &'static str) -> Option<Value<'a, '_>> {
        let position = self.position(name);
        debug_assert!(position >= self.schema.required, "{name} is required");
        self.properties[position].map(|json| self.value(name, json))
    }

    fn position(&self, name: &str) -> usize {
        let position = self.schema.names.iter().position(|known| *known == name);
        position.expect("the schema has every property that is asked for")
    }

    fn value<'v>(&'v self, name: &'static str, json: &'a str) -> Value<'a, 'v> {
        Property::new(json, Path { parent: Some(&self.path), step: Step::Name(name) })
    }
}

/// The items of an array.
pub(crate) struct Array<'a, 'p> {
    items: Vec<&'a RawValue>,
    path: Path<'p>,
}

impl<'a> Array<'a, '_> {
    /// Every item with its place.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = Value<'a, '_>> {
        self.items.iter().enumerate().map(|(index, item)| {
            Property::new(item.get(), Path { parent: Some(&self.path), step: Step::Index(index) })
        })
    }
}

/// Reads an array of `min` to `max` items.
pub(crate) fn read_array<'a, 'p>(
    value: Value<'a, 'p>,
    min: usize,
    max: usize,
) -> Result<Array<'a, 'p>, SyncError> {
    if !value.json.starts_with('[') {
        return Err(value.refuse(ErrorCode::MALFORMED_SYNTAX, "must be array"));
    }
    let mut deserializer = serde_json::Deserializer::from_str(value.json);
    let items = deserializer.deserialize_seq(ItemsVisitor { max }).map_err(|error| {
        value.refuse(ErrorCode::MALFORMED_SYNTAX, format_args!("is not valid JSON: {error}"))
    })?;
    let Some(items) = items else {
        return Err(value.refuse(ErrorCode::VALIDATION, format_args!("must NOT have more than {max} items")));
    };
    if items.len() < min {
        return Err(value.refuse(ErrorCode::VALIDATION, format_args!("must NOT have fewer than {min} items")));
    }
    Ok(Array { items, path: value.path })
}

/// Collects up to `max` items; `None` when there are more.
struct ItemsVisitor {
    max: usize,
}

impl<'de> Visitor<'de> for ItemsVisitor {
    type Value = Option<Vec<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while items.len() < self.max {
            match sequence.next_element()? {
                Some(item) => items.push(item),
                None => return Ok(Some(items)),
            }
        }
        let mut is_longer = false;
        while sequence.next_element::<IgnoredAny>()?.is_some() {
            is_longer = true;
        }
        Ok((!is_longer).then_some(items))
    }
}
