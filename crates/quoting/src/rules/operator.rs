//! Operators of conditions, which compare the found value with the rule's value.

use std::cmp::Ordering;

use super::decimal;
use super::json::Json;

macro_rules! operators {
    ($($name:ident = $text:literal;)*) => {
        /// An operator of a condition.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Operator { $($name,)* }

        impl Operator {
            /// Every operator.
            #[cfg(test)]
            pub(crate) const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Parses its name.
            pub(crate) fn parse(text: &str) -> Option<Self> {
                match text { $($text => Some(Self::$name),)* _ => None }
            }

            /// Its name.
            #[cfg(test)]
            pub(crate) const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

operators! {
    Equal = "equal";
    NotEqual = "notEqual";
    In = "in";
    NotIn = "notIn";
    Contains = "contains";
    DoesNotContain = "doesNotContain";
    LessThan = "lessThan";
    LessThanInclusive = "lessThanInclusive";
    GreaterThan = "greaterThan";
    GreaterThanInclusive = "greaterThanInclusive";
    ArrayEqual = "arrayEqual";
    ArrayNotEqual = "arrayNotEqual";
    DeepEqual = "deepEqual";
    NotDeepEqual = "notDeepEqual";
    Truthy = "truthy";
    IsString = "isString";
    IsArray = "isArray";
    IsObject = "isObject";
}

impl Operator {
    /// The fault of a value in a rule, if there is one: a condition that can never hold is a mistake.
    pub(crate) fn problem_with(self, value: &Json) -> Option<&'static str> {
        let (fits, expected) = match self {
            Self::In | Self::NotIn => (matches!(value, Json::Array(_)), "has to be a list"),
            Self::LessThan | Self::LessThanInclusive | Self::GreaterThan | Self::GreaterThanInclusive => {
                (value.decimal().is_some(), "has to be a number")
            }
            Self::Truthy | Self::IsString | Self::IsArray | Self::IsObject => {
                (matches!(value, Json::Bool(_)), "has to be true or false")
            }
            _ => (true, ""),
        };
        (!fits).then_some(expected)
    }

    /// Whether the condition holds for the found value, which may be missing.
    pub(crate) fn holds(self, found: Option<&Json>, value: Option<&Json>) -> bool {
        match self {
            Self::Equal | Self::DeepEqual => found == value,
            Self::NotEqual | Self::NotDeepEqual => found != value,
            Self::In => is_in(found, value),
            Self::NotIn => !is_in(found, value),
            Self::Contains => is_in(value, found),
            Self::DoesNotContain => matches!(found, Some(Json::Array(_))) && !is_in(value, found),
            Self::LessThan => compare(found, value).is_some_and(Ordering::is_lt),
            Self::LessThanInclusive => compare(found, value).is_some_and(Ordering::is_le),
            Self::GreaterThan => compare(found, value).is_some_and(Ordering::is_gt),
            Self::GreaterThanInclusive => compare(found, value).is_some_and(Ordering::is_ge),
            Self::ArrayEqual => is_only(found, value),
            Self::ArrayNotEqual => !is_only(found, value),
            Self::Truthy => asks(value, found.is_some_and(Json::is_truthy)),
            Self::IsString => asks(value, matches!(found, Some(Json::Text(_)))),
            Self::IsArray => asks(value, matches!(found, Some(Json::Array(_)))),
            Self::IsObject => asks(value, matches!(found, Some(Json::Object(_)))),
        }
    }
}

fn is_in(item: Option<&Json>, list: Option<&Json>) -> bool {
    match (item, list) {
        (Some(item), Some(Json::Array(items))) => items.contains(item),
        _ => false,
    }
}

/// Whether the value is equal, or a list with only that value.
fn is_only(found: Option<&Json>, value: Option<&Json>) -> bool {
    match (found, value) {
        (Some(Json::Array(items)), Some(value)) if items.len() == 1 && items[0] == *value => true,
        _ => found == value,
    }
}

fn compare(found: Option<&Json>, value: Option<&Json>) -> Option<Ordering> {
    decimal::compare_decimals(found?.decimal()?, value?.decimal()?)
}

fn asks(value: Option<&Json>, is_so: bool) -> bool {
    matches!(value, Some(Json::Bool(wanted)) if *wanted == is_so)
}
