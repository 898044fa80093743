//! A macro for enums that are stored under a tag. Their rows define tags, names and stored forms.

/// An enum whose rows are `tag Name(value: Type);` or `tag Name { field: Type, … };`. A name for printing may follow
/// the name of a row or of a field: `tag Name as "name" (value: Type);`, `field as "name": Type`.
macro_rules! stored_enum {
    (
        $(#[$enum_doc:meta])*
        $enum:ident, $unknown:literal {
            $($(#[$doc:meta])* $tag:literal $name:ident $(as $printed:literal)?
                $(($value:ident: $single:ty))?
                $({ $($(#[$field_doc:meta])* $field:ident $(as $key:literal)?: $type:ty),* $(,)? })?;)*
        }
    ) => {
        $(#[$enum_doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
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
                match self { $(Self::$name { .. } => [$($printed,)? stringify!($name)][0]),* }
            }

            fn encode_fields(&self, encoder: &mut $crate::base::codec::Encoder<'_>) {
                match self {
                    $(Self::$name $(($value))? $({ $($field),* })? => {
                        $($crate::base::stored::Stored::encode($value, encoder);)?
                        $($($crate::base::stored::Stored::encode($field, encoder);)*)?
                    })*
                }
                let _ = encoder;
            }

            fn decode_fields(tag: u8, decoder: &mut $crate::base::codec::Decoder<'_>) -> $crate::base::codec::Decoded<Self> {
                let _ = &decoder;
                Ok(match tag {
                    $($tag => Self::$name
                        $((<$single as $crate::base::stored::Stored>::decode(decoder)?))?
                        $({ $($field: <$type as $crate::base::stored::Stored>::decode(decoder)?),* })?,)*
                    _ => return Err($crate::base::codec::DecodeError($unknown)),
                })
            }
        }

        /// A tag, a length, then the fields.
        impl $crate::base::stored::Stored for $enum {
            fn encode(&self, encoder: &mut $crate::base::codec::Encoder<'_>) {
                encoder.u8(self.tag());
                encoder.sized(|encoder| self.encode_fields(encoder));
            }

            fn decode(decoder: &mut $crate::base::codec::Decoder<'_>) -> $crate::base::codec::Decoded<Self> {
                let tag = decoder.u8()?;
                Self::decode_fields(tag, &mut decoder.sized()?)
            }
        }
    };
}

pub(crate) use stored_enum;
