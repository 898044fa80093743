//! Macros for the printed forms of structs and of enums that are stored under a tag.

/// A `stored_enum` that is also printed. In JSON a field is printed under its own name, or under another name:
/// `field as "name": Type`.
macro_rules! shown_enum {
    (
        $(#[$enum_doc:meta])*
        $enum:ident, $unknown:literal {
            $($(#[$doc:meta])* $tag:literal $name:ident $(as $printed:literal)?
                $(($value:ident: $single:ty))?
                $({ $($(#[$field_doc:meta])* $field:ident $(as $key:literal)?: $type:ty),* $(,)? })?;)*
        }
    ) => {
        $crate::base::stored_enum::stored_enum! {
            $(#[$enum_doc])*
            $enum, $unknown {
                $($(#[$doc])* $tag $name $(as $printed)?
                    $(($value: $single))?
                    $({ $($(#[$field_doc])* $field $(as $key)?: $type),* })?;)*
            }
        }

        impl $enum {
            /// The fields by name. For a single value, the fields of that value.
            pub fn fields(&self) -> alloc::vec::Vec<(&'static str, $crate::base::show::PrintedValue<'_>)> {
                match self {
                    $(Self::$name $(($value))? $({ $($field),* })? => {
                        $(if let $crate::base::show::PrintedValue::Fields(fields) = $crate::base::show::Show::show($value) {
                            return fields;
                        })?
                        alloc::vec![
                            $((stringify!($value), $crate::base::show::Show::show($value)))?
                            $($(($crate::base::table::key!($field $($key)?), $crate::base::show::Show::show($field))),*)?
                        ]
                    })*
                }
            }
        }
    };
}

/// A [`shown_enum`] whose rows end with `= "text for users, {field} by {field}"`.
macro_rules! events {
    (
        $(#[$enum_doc:meta])*
        $enum:ident, $unknown:literal {
            $($(#[$doc:meta])* $tag:literal $name:ident $(as $printed:literal)?
                $(($value:ident: $single:ty))?
                $({ $($(#[$field_doc:meta])* $field:ident $(as $key:literal)?: $type:ty),* $(,)? })?
                = $text:literal;)*
        }
    ) => {
        $crate::base::table::shown_enum! {
            $(#[$enum_doc])*
            $enum, $unknown {
                $($(#[$doc])* $tag $name $(as $printed)?
                    $(($value: $single))?
                    $({ $($(#[$field_doc])* $field $(as $key)?: $type),* })?;)*
            }
        }

        impl $enum {
            /// Writes the event as text for users.
            pub fn describe(
                &self,
                names: &dyn $crate::base::show::Names,
                f: &mut core::fmt::Formatter<'_>,
            ) -> core::fmt::Result {
                match self {
                    $(Self::$name $(($value))? $({ $($field),* })? => {
                        $(let $value = $crate::base::show::WithNames($value, names);)?
                        $($(let $field = $crate::base::show::WithNames($field, names);)*)?
                        $(let _ = &$value;)?
                        $($(let _ = &$field;)*)?
                        write!(f, $text)
                    })*
                }
            }
        }
    };
}

/// The name under which a field is printed.
macro_rules! key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident $key:literal) => {
        $key
    };
}

/// Implements `Show` for structs: they are printed field by field, under the names of their fields or other names.
macro_rules! shown_struct {
    ($($type:ident { $($field:ident $(as $key:literal)?),* $(,)? })*) => {
        $(impl $crate::base::show::Show for $type {
            fn show(&self) -> $crate::base::show::PrintedValue<'_> {
                $crate::base::show::PrintedValue::Fields(alloc::vec![
                    $(($crate::base::table::key!($field $($key)?), $crate::base::show::Show::show(&self.$field))),*
                ])
            }
        })*
    };
}

pub(crate) use {events, key, shown_enum, shown_struct};
