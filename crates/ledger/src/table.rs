//! Macros for enums that are stored under a tag. Their rows define tags, names, stored forms and fields.

/// An enum whose rows are `tag Name(value: Type);` or `tag Name { field: Type, … };`. In JSON a field is printed under
/// its own name, or under another name: `field as "name": Type`.
macro_rules! stored_enum {
    (
        $(#[$enum_doc:meta])*
        $enum:ident, $unknown:literal {
            $($(#[$doc:meta])* $tag:literal $name:ident
                $(($value:ident: $single:ty))?
                $({ $($(#[$field_doc:meta])* $field:ident $(as $key:literal)?: $type:ty),* $(,)? })?;)*
        }
    ) => {
        $(#[$enum_doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[expect(missing_docs, reason = "fields are named by what they are")]
        pub enum $enum {
            $($(#[$doc])* $name $(($single))? $({ $($(#[$field_doc])* $field: $type),* })?,)*
        }

        impl $enum {
            /// The stored numbers of all variants.
            pub const TAGS: &'static [u8] = &[$($tag),*];

            /// The stored number of the variant.
            pub const fn tag(&self) -> u8 {
                match self { $(Self::$name { .. } => $tag),* }
            }

            /// The name of the variant.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$name { .. } => stringify!($name)),* }
            }

            /// The fields by name. For a single value, the fields of that value.
            pub fn fields(&self) -> alloc::vec::Vec<(&'static str, $crate::show::Shown<'_>)> {
                match self {
                    $(Self::$name $(($value))? $({ $($field),* })? => {
                        $(if let $crate::show::Shown::Fields(fields) = $crate::show::Show::show($value) {
                            return fields;
                        })?
                        alloc::vec![
                            $((stringify!($value), $crate::show::Show::show($value)))?
                            $($(($crate::table::key!($field $($key)?), $crate::show::Show::show($field))),*)?
                        ]
                    })*
                }
            }

            fn encode_fields(&self, encoder: &mut $crate::codec::Encoder<'_>) {
                match self {
                    $(Self::$name $(($value))? $({ $($field),* })? => {
                        $($crate::stored::Stored::encode($value, encoder);)?
                        $($($crate::stored::Stored::encode($field, encoder);)*)?
                    })*
                }
                let _ = encoder;
            }

            fn decode_fields(tag: u8, decoder: &mut $crate::codec::Decoder<'_>) -> $crate::codec::Decoded<Self> {
                let _ = &decoder;
                Ok(match tag {
                    $($tag => Self::$name
                        $((<$single as $crate::stored::Stored>::decode(decoder)?))?
                        $({ $($field: <$type as $crate::stored::Stored>::decode(decoder)?),* })?,)*
                    _ => return Err($crate::codec::DecodeError($unknown)),
                })
            }
        }

        /// A tag, a length, then the fields.
        impl $crate::stored::Stored for $enum {
            fn encode(&self, encoder: &mut $crate::codec::Encoder<'_>) {
                encoder.u8(self.tag());
                encoder.sized(|encoder| self.encode_fields(encoder));
            }

            fn decode(decoder: &mut $crate::codec::Decoder<'_>) -> $crate::codec::Decoded<Self> {
                let tag = decoder.u8()?;
                Self::decode_fields(tag, &mut decoder.sized()?)
            }
        }
    };
}

/// A [`stored_enum`] whose rows end with `= "text for users, {field} by {field}"`.
macro_rules! events {
    (
        $(#[$enum_doc:meta])*
        $enum:ident, $unknown:literal {
            $($(#[$doc:meta])* $tag:literal $name:ident
                $(($value:ident: $single:ty))?
                $({ $($(#[$field_doc:meta])* $field:ident $(as $key:literal)?: $type:ty),* $(,)? })?
                = $text:literal;)*
        }
    ) => {
        $crate::table::stored_enum! {
            $(#[$enum_doc])*
            $enum, $unknown {
                $($(#[$doc])* $tag $name
                    $(($value: $single))?
                    $({ $($(#[$field_doc])* $field $(as $key)?: $type),* })?;)*
            }
        }

        impl $enum {
            /// Writes the event as text for users.
            pub fn describe(
                &self,
                names: &dyn $crate::show::Names,
                f: &mut core::fmt::Formatter<'_>,
            ) -> core::fmt::Result {
                match self {
                    $(Self::$name $(($value))? $({ $($field),* })? => {
                        $(let $value = $crate::show::Named($value, names);)?
                        $($(let $field = $crate::show::Named($field, names);)*)?
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
        $(impl $crate::show::Show for $type {
            fn show(&self) -> $crate::show::Shown<'_> {
                $crate::show::Shown::Fields(alloc::vec![$(($crate::table::key!($field $($key)?), $crate::show::Show::show(&self.$field))),*])
            }
        })*
    };
}

pub(crate) use {events, key, shown_struct, stored_enum};
