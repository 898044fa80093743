//! Reads objects and arrays inside a body, with their paths for error messages.

use alloc::format;
use alloc::string::String;
use core::fmt;

use upesi_types::ErrorCode;

use super::json::{Document, Kind, unescape};
use super::object::{Properties, Unreadable, index_of, read_body, read_nested};
use crate::SyncError;

/// The path of a value in a body. It is converted to text only for an error.
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
    /// The path of the body itself.
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
#[derive(Clone, Copy)]
pub(crate) struct Value<'a, 'p> {
    document: &'p Document<'a>,
    position: usize,
    path: Path<'p>,
}

impl<'a> Value<'a, '_> {
    pub(crate) fn kind(&self) -> Kind {
        self.document.kind(self.position)
    }

    /// The value as it is written in the body.
    pub(crate) fn json(&self) -> &'a str {
        self.document.json(self.position)
    }

    /// An error about this value.
    pub(crate) fn refuse(&self, code: ErrorCode, violation: impl fmt::Display) -> SyncError {
        SyncError::new(code, &format!("{} {violation}", self.path))
    }
}

/// The schema of an object: the names of its properties, the required ones first.
pub(crate) struct Schema<const N: usize> {
    names: [&'static str; N],
    required: usize,
    closed: bool,
}

impl<const N: usize> Schema<N> {
    /// The schema of an object that may have further properties.
    pub(crate) const fn open(required: usize, names: [&'static str; N]) -> Self {
        assert!(required <= N);
        Self { names, required, closed: false }
    }

    /// The schema of an object without further properties. Only a whole body can have such a schema.
    pub(crate) const fn closed(required: usize, names: [&'static str; N]) -> Self {
        Self { closed: true, ..Self::open(required, names) }
    }

    pub(crate) fn read_body<'a, 's>(&'s self, body: &'a [u8]) -> Result<Object<'a, 's, 'a, N>, SyncError> {
        self.read_body_or(body, SyncError::from)
    }

    /// Reads a body, with a custom error for a body that is not an object.
    pub(crate) fn read_body_or<'a, 's>(
        &'s self,
        body: &'a [u8],
        refuse: impl FnOnce(Unreadable) -> SyncError,
    ) -> Result<Object<'a, 's, 'a, N>, SyncError> {
        let (document, properties) = read_body(body, &self.names).map_err(refuse)?;
        self.check_required(&properties, &Path::BODY)?;
        if let Some(name) = properties.unknown.filter(|_| self.closed) {
            // Finding the name required decoding it, so this cannot fail.
            let name = unescape(document.json(name)).unwrap_or_default();
            let start: String = name.chars().take(UNKNOWN_NAME_CHARS_MAX).collect();
            let detail = format!("{} must NOT have additional properties: '{start}'", Path::BODY);
            return Err(SyncError::new(ErrorCode::TOO_MANY_ELEMENTS, &detail));
        }
        let positions = properties.positions;
        Ok(Object { schema: self, document: Source::Body(document), positions, path: Path::BODY })
    }

    /// Reads an object inside a body.
    pub(crate) fn read<'a, 's, 'p>(
        &'s self,
        value: Value<'a, 'p>,
    ) -> Result<Object<'a, 's, 'p, N>, SyncError> {
        debug_assert!(!self.closed, "only a body as a whole is closed");
        let Value { document, position, path } = value;
        let properties = read_nested(document, position, path, &self.names)?;
        self.check_required(&properties, &path)?;
        Ok(Object { schema: self, document: Source::Part(document), positions: properties.positions, path })
    }

    fn check_required(&self, properties: &Properties<N>, path: &Path<'_>) -> Result<(), SyncError> {
        let Some(missing) = properties.positions[..self.required].iter().position(Option::is_none) else {
            return Ok(());
        };
        let detail = format!("{path} must have required property '{}'", self.names[missing]);
        Err(SyncError::new(ErrorCode::MISSING_ELEMENT, &detail))
    }
}

/// Maximum number of characters of an unknown name in an error description.
const UNKNOWN_NAME_CHARS_MAX: usize = 32;

/// The document that contains an object. The object of the body owns it.
enum Source<'a, 'p> {
    Body(Document<'a>),
    Part(&'p Document<'a>),
}

/// An object that has all required properties.
pub(crate) struct Object<'a, 's, 'p, const N: usize> {
    schema: &'s Schema<N>,
    document: Source<'a, 'p>,
    positions: [Option<u32>; N],
    path: Path<'p>,
}

impl<'a, const N: usize> Object<'a, '_, '_, N> {
    /// A required property.
    pub(crate) fn required(&self, name: &'static str) -> Value<'a, '_> {
        let index = self.index(name);
        debug_assert!(index < self.schema.required, "{name} is not required");
        // Reading the object checked that the property exists.
        self.value(name, self.positions[index].unwrap_or_default())
    }

    /// An optional property.
    pub(crate) fn optional(&self, name: &'static str) -> Option<Value<'a, '_>> {
        let index = self.index(name);
        debug_assert!(index >= self.schema.required, "{name} is required");
        self.positions[index].map(|position| self.value(name, position))
    }

    fn index(&self, name: &str) -> usize {
        index_of(name, &self.schema.names).expect("only properties of the schema are requested")
    }

    fn value<'v>(&'v self, name: &'static str, position: u32) -> Value<'a, 'v> {
        let document = match &self.document {
            Source::Body(document) => document,
            Source::Part(document) => *document,
        };
        let path = Path { parent: Some(&self.path), step: Step::Name(name) };
        Value { document, position: position as usize, path }
    }
}

/// The items of an array.
pub(crate) struct Array<'a, 'p> {
    array: Value<'a, 'p>,
}

impl<'a> Array<'a, '_> {
    /// All items, with their index in the path.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Value<'a, '_>> {
        let Value { document, position, .. } = self.array;
        document.children(position).enumerate().map(move |(index, position)| {
            let path = Path { parent: Some(&self.array.path), step: Step::Index(index) };
            Value { document, position, path }
        })
    }
}

/// Reads an array of `min` to `max` items.
pub(crate) fn read_array<'a, 'p>(
    value: Value<'a, 'p>,
    min: usize,
    max: usize,
) -> Result<Array<'a, 'p>, SyncError> {
    if value.kind() != Kind::Array {
        return Err(value.refuse(ErrorCode::MALFORMED_SYNTAX, "must be array"));
    }
    let items = value.document.children(value.position).count();
    if items > max {
        return Err(value.refuse(ErrorCode::VALIDATION, format_args!("must NOT have more than {max} items")));
    }
    if items < min {
        return Err(value.refuse(ErrorCode::VALIDATION, format_args!("must NOT have fewer than {min} items")));
    }
    Ok(Array { array: value })
}
