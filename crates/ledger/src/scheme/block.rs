//! Blocks: participants, keys and certificates that the hub no longer admits, although a certificate or binding still
//! identifies them.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::ToString;
use core::fmt::{self, Display, Formatter};

use upesi_types::{FspId, hex, unhex};

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::show::{PrintedValue, Show};
use crate::base::stored::Stored;

/// A blocked participant, key or certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Block {
    /// SHA-256 of a public key. Blocks certificates with this key, of clients and of authorities.
    Key([u8; 32]),
    /// SHA-256 of a certificate, of a client or of an authority.
    Certificate([u8; 32]),
    /// A participant, whatever proves its identity.
    Participant(FspId),
}

impl Block {
    /// The names of the kinds, as operators write them.
    pub const KINDS: [&'static str; 3] = ["spki-sha256", "cert-sha256", "participant"];

    /// The name of the block's kind.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Key(_) => Self::KINDS[0],
            Self::Certificate(_) => Self::KINDS[1],
            Self::Participant(_) => Self::KINDS[2],
        }
    }

    /// The block's value: a digest in hexadecimal, or a name.
    pub fn value(&self) -> Box<str> {
        match self {
            Self::Key(digest) | Self::Certificate(digest) => hex(digest).into(),
            Self::Participant(name) => name.as_str().into(),
        }
    }

    /// Reads a kind and a value.
    pub fn parse(kind: &str, value: &str) -> Option<Self> {
        let digest = || unhex(&value.to_ascii_lowercase());
        match kind {
            "spki-sha256" => digest().map(Self::Key),
            "cert-sha256" => digest().map(Self::Certificate),
            "participant" => FspId::parse(value).map(Self::Participant),
            _ => None,
        }
    }
}

impl Display for Block {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind(), self.value())
    }
}

impl Show for Block {
    fn show(&self) -> PrintedValue<'_> {
        PrintedValue::Text(Cow::Owned(self.to_string()))
    }
}

impl Stored for Block {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        match self {
            Self::Key(digest) => {
                encoder.u8(1);
                digest.encode(encoder);
            }
            Self::Certificate(digest) => {
                encoder.u8(2);
                digest.encode(encoder);
            }
            Self::Participant(name) => {
                encoder.u8(3);
                name.encode(encoder);
            }
        }
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        match decoder.u8()? {
            1 => Stored::decode(decoder).map(Self::Key),
            2 => Stored::decode(decoder).map(Self::Certificate),
            3 => Stored::decode(decoder).map(Self::Participant),
            _ => Err(DecodeError("unknown kind of block")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_written_form_of_a_block_is_read() {
        let digest = "9F86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        for (kind, value) in [("spki-sha256", digest), ("cert-sha256", digest), ("participant", "Green Bank")]
        {
            let block = Block::parse(kind, value).expect(kind);
            assert_eq!((block.kind(), Block::parse(kind, &block.value())), (kind, Some(block)));
        }
        for (kind, value) in [
            ("spki-sha256", &digest[1..]),
            ("cert-sha256", ""),
            ("cert-sha256", "zf86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
            ("san-dns", "green.example"),
            ("participant", ""),
        ] {
            assert_eq!(Block::parse(kind, value), None, "{kind}:{value}");
        }
    }
}
