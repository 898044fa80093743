//! Little-endian binary encoding of journal records and snapshots.
//!
//! Composite values that may grow have a length prefix, so that a reader can skip fields that a newer writer added.

use alloc::boxed::Box;
use alloc::vec::Vec;

use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

/// The reason why stored bytes cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeError(pub &'static str);

impl core::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "stored data cannot be read: {}", self.0)
    }
}

impl core::error::Error for DecodeError {}

/// Maximum number of list items that memory is reserved for before they are decoded.
const LIST_ITEMS_AT_ONCE_MAX: usize = 64;

/// The result of reading a stored value.
pub type Decoded<T> = Result<T, DecodeError>;

/// Appends values to a buffer.
#[derive(Debug)]
pub struct Encoder<'a>(pub &'a mut Vec<u8>);

macro_rules! integers {
    ($($name:ident: $type:ty),*) => {
        impl Encoder<'_> {
            $(#[doc = concat!("A `", stringify!($type), "`.")] pub fn $name(&mut self, value: $type) {
                self.0.extend_from_slice(&value.to_le_bytes());
            })*
        }
        impl Decoder<'_> {
            $(#[doc = concat!("A `", stringify!($type), "`.")] pub fn $name(&mut self) -> Decoded<$type> {
                Ok(<$type>::from_le_bytes(self.array()?))
            })*
        }
    };
}

integers!(u8: u8, u16: u16, u32: u32, u64: u64, i64: i64);

impl Encoder<'_> {
    /// Reserves space for approximately this many bytes.
    pub fn reserve(&mut self, bytes: usize) {
        self.0.reserve(bytes);
    }

    /// Bytes without a length prefix.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Bytes with a length prefix.
    pub fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.raw(bytes);
    }

    /// A text with a length prefix.
    pub fn text(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    /// One byte, 0 or 1.
    pub fn bool(&mut self, value: bool) {
        self.u8(u8::from(value));
    }

    /// A presence byte, followed by the value if present.
    pub fn option<T>(&mut self, value: Option<T>, write: impl FnOnce(&mut Self, T)) {
        self.bool(value.is_some());
        if let Some(value) = value {
            write(self, value);
        }
    }

    pub fn transfer_id(&mut self, id: TransferId) {
        self.raw(&id.to_bytes());
    }

    /// A participant's name.
    pub fn fsp_id(&mut self, name: FspId) {
        self.u8(name.as_str().len() as u8);
        self.raw(name.as_str().as_bytes());
    }

    /// An amount in ten-thousandths.
    pub fn amount(&mut self, amount: Amount) {
        self.i64(amount.units());
    }

    /// A currency code.
    pub fn currency(&mut self, currency: Currency) {
        self.raw(&currency.to_bytes());
    }

    pub fn timestamp(&mut self, instant: Timestamp) {
        self.i64(instant.as_ns());
    }

    /// A composite value with a length prefix; `write` encodes it.
    pub fn sized(&mut self, write: impl FnOnce(&mut Self)) {
        let at = self.0.len();
        self.u32(0);
        write(self);
        let length = (self.0.len() - at - 4) as u32;
        self.0[at..at + 4].copy_from_slice(&length.to_le_bytes());
    }

    /// A list with a count prefix.
    pub fn list<T>(&mut self, items: impl ExactSizeIterator<Item = T>, mut write: impl FnMut(&mut Self, T)) {
        self.u32(items.len() as u32);
        for item in items {
            write(self, item);
        }
    }
}

/// Reads values from the front of a slice.
#[derive(Clone, Copy, Debug)]
pub struct Decoder<'a>(pub &'a [u8]);

impl<'a> Decoder<'a> {
    /// The next `length` bytes.
    pub fn raw(&mut self, length: usize) -> Decoded<&'a [u8]> {
        let (head, tail) = self.0.split_at_checked(length).ok_or(DecodeError("the data ends too early"))?;
        self.0 = tail;
        Ok(head)
    }

    /// A fixed number of bytes.
    pub fn array<const N: usize>(&mut self) -> Decoded<[u8; N]> {
        self.raw(N)?.try_into().map_err(|_| DecodeError("the data ends too early"))
    }

    /// Bytes with a length prefix.
    pub fn bytes(&mut self) -> Decoded<&'a [u8]> {
        let length = self.u32()? as usize;
        self.raw(length)
    }

    /// A text with a length prefix.
    pub fn text(&mut self) -> Decoded<&'a str> {
        core::str::from_utf8(self.bytes()?).map_err(|_| DecodeError("a text is not UTF-8"))
    }

    /// An owned text with a length prefix.
    pub fn boxed_text(&mut self) -> Decoded<Box<str>> {
        Ok(self.text()?.into())
    }

    /// One byte, 0 or 1.
    pub fn bool(&mut self) -> Decoded<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(DecodeError("a flag is neither 0 nor 1")),
        }
    }

    /// A presence byte, followed by the value if present.
    pub fn option<T>(&mut self, read: impl FnOnce(&mut Self) -> Decoded<T>) -> Decoded<Option<T>> {
        if self.bool()? { read(self).map(Some) } else { Ok(None) }
    }

    pub fn transfer_id(&mut self) -> Decoded<TransferId> {
        TransferId::from_bytes(&self.array()?).ok_or(DecodeError("unknown form of transfer id"))
    }

    /// A participant's name.
    pub fn fsp_id(&mut self) -> Decoded<FspId> {
        let length = usize::from(self.u8()?);
        let text = core::str::from_utf8(self.raw(length)?).map_err(|_| DecodeError("a name is not UTF-8"))?;
        FspId::parse(text).ok_or(DecodeError("not a participant name"))
    }

    /// An amount in ten-thousandths.
    pub fn amount(&mut self) -> Decoded<Amount> {
        Amount::from_units(self.i64()?).ok_or(DecodeError("an amount is out of range"))
    }

    /// A currency code.
    pub fn currency(&mut self) -> Decoded<Currency> {
        let text = core::str::from_utf8(self.raw(3)?).map_err(|_| DecodeError("a currency is not UTF-8"))?;
        Currency::parse(text).ok_or(DecodeError("unknown currency"))
    }

    /// An instant.
    pub fn timestamp(&mut self) -> Decoded<Timestamp> {
        Ok(Timestamp::from_ns(self.i64()?))
    }

    /// A composite value with a length prefix, as a separate decoder.
    pub fn sized(&mut self) -> Decoded<Decoder<'a>> {
        Ok(Decoder(self.bytes()?))
    }

    /// A list with a count prefix.
    pub fn list<T>(&mut self, read: impl FnMut(&mut Self) -> Decoded<T>) -> Decoded<Vec<T>> {
        let mut items = Vec::new();
        self.list_into(&mut items, read)?;
        Ok(items)
    }

    /// Like [`Self::list`], appending the items to an existing vector.
    pub fn list_into<T>(
        &mut self,
        items: &mut Vec<T>,
        mut read: impl FnMut(&mut Self) -> Decoded<T>,
    ) -> Decoded<()> {
        let count = self.u32()? as usize;
        // A damaged count must not allocate much memory before the data ends.
        items.reserve_exact(count.min(LIST_ITEMS_AT_ONCE_MAX));
        for _ in 0..count {
            items.push(read(self)?);
        }
        Ok(())
    }

    /// Succeeds if no bytes are left.
    pub fn finish(self) -> Decoded<()> {
        if self.0.is_empty() { Ok(()) } else { Err(DecodeError("the data is longer than expected")) }
    }
}
