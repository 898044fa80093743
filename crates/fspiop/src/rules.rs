//! Texts of violated rules that apply to bodies and to paths.

/// The form of an id.
pub(crate) const ID_RULE: &str = "a UUID in lower case, or a ULID";
/// The rule of an enumeration.
pub(crate) const NOT_ALLOWED: &str = "must be equal to one of the allowed values";
