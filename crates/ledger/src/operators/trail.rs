//! The audit trail: the operator, object, address and reason of each change. Each entry is chained to all earlier ones.

use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::fmt::{self, Formatter};

use sha2::{Digest, Sha256};
use upesi_types::{Timestamp, hex};

use crate::base::codec::{Decoded, Decoder, Encoder};
use crate::base::show::{Names, PrintedValue, Show};
use crate::base::stored::{Stored, stored_struct};

/// Longest text of an entry, in bytes. Longer texts are cut.
pub const AUDIT_TEXT_BYTES_MAX: usize = 512;
/// Length of a digest that represents a text, in bytes.
const DIGEST_BYTES: usize = 16;

/// The operator who requests a change, and how the operator was authenticated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditActor {
    /// The operator; `anonymous` if the admin port requires no authentication.
    pub operator: Box<str>,
    /// How the operator was authenticated: `nothing`, `bootstrap`, `token 3`, `session`, `certificate`.
    pub known_by: Box<str>,
    /// The address that sent the request.
    pub address: Option<Box<str>>,
    /// The operator who proposed the change, if this is an approval.
    pub on_behalf_of: Option<Box<str>>,
    /// The permission that the request needs.
    pub action: Box<str>,
    pub reason: Option<Box<str>>,
}

/// An entry of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Number of the entry, from 1 without gaps.
    pub number: u64,
    /// Time of the decision.
    pub at: Timestamp,
    /// The operator who requested it, and how the operator was authenticated.
    pub by: AuditActor,
    pub object: Box<str>,
    /// The object's state before.
    pub before: Box<str>,
    /// The object's state after.
    pub after: Box<str>,
    /// The reason of the rejection; `None` if the change was made.
    pub refused: Option<Box<str>>,
    /// SHA-256 of the previous entry's chain value, the digest of the record's other events, and this entry.
    pub chain: [u8; 32],
}

stored_struct! {
    AuditActor { operator, known_by, address, on_behalf_of, action, reason }
    AuditEntry { number, at, by, object, before, after, refused, chain }
    Trail { count, head }
}

impl AuditEntry {
    /// Like [`Self::chain_after`], given the digest of the events. An export contains only that digest.
    pub fn chain_beside(&self, previous: &[u8; 32], effects: &[u8; 32]) -> [u8; 32] {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(previous);
        bytes.extend_from_slice(effects);
        Self { chain: [0; 32], ..self.clone() }.encode(&mut Encoder(&mut bytes));
        Sha256::digest(&bytes).into()
    }
}

/// Cuts a text to the length that an entry allows.
pub(crate) fn clip(text: impl Into<Box<str>>) -> Box<str> {
    let text = text.into();
    if text.len() <= AUDIT_TEXT_BYTES_MAX { text } else { cut(&text, AUDIT_TEXT_BYTES_MAX).into() }
}

/// The beginning of a text that is too long.
fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_string();
    }
    let room = bytes_max.saturating_sub('…'.len_utf8());
    let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

/// Joins a text and an end that must not be cut. The text is cut to the length that an entry allows.
pub(crate) fn clip_before(text: &str, end: &str) -> String {
    let room = AUDIT_TEXT_BYTES_MAX.saturating_sub(end.len());
    format!("{}{end}", cut(text, room))
}

/// Cuts a text to the length that an entry allows. A long text ends with its digest, so that two different texts stay
/// different.
pub(crate) fn clip_with_digest(text: &str) -> Box<str> {
    if text.len() <= AUDIT_TEXT_BYTES_MAX {
        return text.into();
    }
    clip_before(text, &format!(" sha256:{}", short_digest(text))).into()
}

/// The beginning of the text's SHA-256 in hexadecimal, long enough to prevent collisions.
pub(crate) fn short_digest(text: &str) -> String {
    hex(&Sha256::digest(text)[..DIGEST_BYTES])
}

/// The end of the audit trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Number of entries.
    pub count: u64,
    /// The chain value of the last entry; zeros before the first.
    pub head: [u8; 32],
}

impl Trail {
    pub(crate) fn add(&mut self, entry: &AuditEntry) {
        assert!(entry.number == self.count + 1, "entries of the audit trail are numbered without gaps");
        *self = Self { count: entry.number, head: entry.chain };
    }
}

impl Stored for Box<AuditEntry> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        AuditEntry::encode(self, encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        AuditEntry::decode(decoder).map(Self::new)
    }
}

impl Show for Box<AuditEntry> {
    fn show(&self) -> PrintedValue<'_> {
        let AuditActor { operator, known_by, address, on_behalf_of, action, reason } = &self.by;
        PrintedValue::Fields(vec![
            ("number", self.number.show()),
            ("at", self.at.show()),
            ("operator", operator.show()),
            ("knownBy", known_by.show()),
            ("address", address.show()),
            ("onBehalfOf", on_behalf_of.show()),
            ("action", action.show()),
            ("reason", reason.show()),
            ("object", self.object.show()),
            ("before", self.before.show()),
            ("after", self.after.show()),
            ("refused", self.refused.show()),
            ("chain", self.chain.show()),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let AuditEntry { number, by, object, before, after, .. } = &**self;
        write!(f, "audit {number}: {} by {}", by.action, by.operator)?;
        if let Some(other) = &by.on_behalf_of {
            write!(f, " for {other}")?;
        }
        match &self.refused {
            None => write!(f, ", {object}: {before} → {after}"),
            Some(why) => write!(f, " refused, {object}: {why}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_between_characters() {
        let cut = clip("é".repeat(300));
        assert!(cut.len() <= AUDIT_TEXT_BYTES_MAX && cut.ends_with("é…"), "{cut}");
        assert_eq!(&*clip("a".repeat(AUDIT_TEXT_BYTES_MAX)), "a".repeat(AUDIT_TEXT_BYTES_MAX));
    }

    #[test]
    fn truncated_text_keeps_its_end_and_a_digest() {
        let named = clip_before(&"é".repeat(300), ", by change set 1");
        assert!(named.len() <= AUDIT_TEXT_BYTES_MAX && named.ends_with("é…, by change set 1"), "{named}");
        assert_eq!(clip_before("a cap", ", by change set 1"), "a cap, by change set 1");
        let texts = ["x", "y"].map(|end| "a".repeat(AUDIT_TEXT_BYTES_MAX) + end);
        let kept = texts.each_ref().map(|text| clip_with_digest(text));
        assert!(kept.iter().all(|text| text.len() <= AUDIT_TEXT_BYTES_MAX), "{kept:?}");
        assert_ne!(kept[0], kept[1]);
        assert_eq!(&*clip_with_digest("a cap"), "a cap");
    }
}
