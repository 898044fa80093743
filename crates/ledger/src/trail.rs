//! The audit trail: who changed what, from where and why, each entry bound to all before it.

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Formatter};

use sha2::{Digest, Sha256};
use upesi_types::{Timestamp, hex};

use crate::codec::{Decoded, Decoder, Encoder};
use crate::event::Event;
use crate::show::{Names, Show, Shown};
use crate::stored::{Stored, stored_struct};

/// Longest text of an entry, in bytes; longer ones are cut.
pub const AUDIT_TEXT_BYTES_MAX: usize = 512;
/// Bytes of a digest that stands for a text.
const DIGEST_BYTES: usize = 16;

/// Who asks for a change, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribution {
    /// The operator; `anonymous` while the admin port asks nobody who they are.
    pub operator: Box<str>,
    /// How the operator was known: `nothing`, `bootstrap`, `token 3`, `session`, `certificate`.
    pub known_by: Box<str>,
    /// The address it was asked from.
    pub address: Option<Box<str>>,
    /// For whom: the operator who proposed what is approved.
    pub on_behalf_of: Option<Box<str>>,
    /// The permission that it needs.
    pub action: Box<str>,
    /// Why, in the operator's words.
    pub reason: Option<Box<str>>,
}

/// An entry of the audit trail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditEntry {
    /// Its number: from 1, without gaps.
    pub number: u64,
    /// When it was decided.
    pub at: Timestamp,
    /// Who asked, and how that is known.
    pub by: Attribution,
    /// What was changed.
    pub object: Box<str>,
    /// What it was before.
    pub before: Box<str>,
    /// What it is after.
    pub after: Box<str>,
    /// Why it was refused; `None` if it was done.
    pub refused: Option<Box<str>>,
    /// SHA-256 over that of the entry before, the digest of the record's other events, and this entry.
    pub chain: [u8; 32],
}

stored_struct! {
    Attribution { operator, known_by, address, on_behalf_of, action, reason }
    AuditEntry { number, at, by, object, before, after, refused, chain }
    Trail { count, head }
}

impl AuditEntry {
    /// What its `chain` must be, behind an entry with this one and in a record with these events.
    pub fn chain_after(&self, previous: &[u8; 32], events: &[Event]) -> [u8; 32] {
        self.chain_beside(previous, &effects_of(events))
    }

    /// The same by the digest of those events, which is all that an export has of them.
    pub fn chain_beside(&self, previous: &[u8; 32], effects: &[u8; 32]) -> [u8; 32] {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(previous);
        bytes.extend_from_slice(effects);
        Self { chain: [0; 32], ..self.clone() }.encode(&mut Encoder(&mut bytes));
        Sha256::digest(&bytes).into()
    }

    /// With its link to the entry before and to the record's other events.
    pub(crate) fn linked(mut self, previous: &[u8; 32], events: &[Event]) -> Self {
        self.chain = self.chain_after(previous, events);
        self
    }
}

/// SHA-256 over the events of a record that its entry is bound to.
pub fn effects_of(events: &[Event]) -> [u8; 32] {
    let mut bytes = Vec::new();
    let encoder = &mut Encoder(&mut bytes);
    for event in events.iter().filter(|event| is_bound(event)) {
        event.encode(encoder);
    }
    Sha256::digest(&bytes).into()
}

/// Whether an event is part of what an entry is bound to: not the entry itself, not the instant of the decision, which
/// the entry has, and not the start of the hub, which the engine adds.
const fn is_bound(event: &Event) -> bool {
    !matches!(event, Event::OperatorActed(_) | Event::DecidedAt(_) | Event::FirstWindowOpened(_))
}

/// A text, cut to what an entry may hold.
pub(crate) fn clip(text: impl Into<Box<str>>) -> Box<str> {
    let text = text.into();
    if text.len() <= AUDIT_TEXT_BYTES_MAX { text } else { cut(&text, AUDIT_TEXT_BYTES_MAX).into() }
}

/// The beginning of a text that does not fit.
fn cut(text: &str, bytes_max: usize) -> String {
    if text.len() <= bytes_max {
        return text.to_string();
    }
    let room = bytes_max.saturating_sub('…'.len_utf8());
    let end = (0..=room).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

/// A text with an end that stays whole, cut to the length of an entry's texts.
pub(crate) fn clip_before(text: &str, end: &str) -> String {
    let room = AUDIT_TEXT_BYTES_MAX.saturating_sub(end.len());
    format!("{}{end}", cut(text, room))
}

/// A text, cut to the length of an entry's texts. A long text ends with its digest, so that two different texts stay
/// different.
pub(crate) fn clip_with_digest(text: &str) -> Box<str> {
    if text.len() <= AUDIT_TEXT_BYTES_MAX {
        return text.into();
    }
    clip_before(text, &format!(" sha256:{}", short_digest(text))).into()
}

/// The beginning of SHA-256 over a text, as digits. It is long enough against collisions.
pub(crate) fn short_digest(text: &str) -> String {
    hex(&Sha256::digest(text)[..DIGEST_BYTES])
}

/// The end of the audit trail.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trail {
    /// Its entries.
    pub count: u64,
    /// The `chain` of the last one; zeros before the first.
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
    fn show(&self) -> Shown<'_> {
        let Attribution { operator, known_by, address, on_behalf_of, action, reason } = &self.by;
        Shown::Fields(vec![
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

    fn entry() -> AuditEntry {
        let by = Attribution {
            operator: "amina".into(),
            known_by: "token 1".into(),
            address: Some("127.0.0.1".into()),
            on_behalf_of: None,
            action: "limit.raise".into(),
            reason: None,
        };
        AuditEntry {
            number: 1,
            at: Timestamp::from_ms(5),
            by,
            object: "cap".into(),
            before: "1".into(),
            after: "2".into(),
            refused: None,
            chain: [0; 32],
        }
    }

    /// A change of any field, of an event beside it or of the entry before changes the chain.
    #[test]
    fn the_chain_is_over_everything() {
        let events = [Event::FeeRuleEnded { id: 1, until: Timestamp::EPOCH }];
        let base = entry().chain_after(&[0; 32], &events);
        let other = |change: fn(&mut AuditEntry)| {
            let mut changed = entry();
            change(&mut changed);
            changed.chain_after(&[0; 32], &events)
        };
        let changed = [
            other(|entry| entry.number = 2),
            other(|entry| entry.at = Timestamp::from_ms(6)),
            other(|entry| entry.by.operator = "brian".into()),
            other(|entry| entry.by.known_by = "session".into()),
            other(|entry| entry.by.address = None),
            other(|entry| entry.by.on_behalf_of = Some("amina".into())),
            other(|entry| entry.by.action = "limit.lower".into()),
            other(|entry| entry.by.reason = Some("".into())),
            other(|entry| entry.object = "caps".into()),
            other(|entry| entry.before = "2".into()),
            other(|entry| entry.after = "3".into()),
            other(|entry| entry.refused = Some("no".into())),
            entry().chain_after(&[1; 32], &events),
            entry().chain_after(&[0; 32], &[]),
        ];
        for (index, one) in changed.iter().enumerate() {
            assert_ne!(*one, base, "change {index}");
        }
        // Neither the link itself nor the instant of the decision, which the entry has.
        let with_instant = [&[Event::DecidedAt(Timestamp::EPOCH)][..], &events].concat();
        assert_eq!(entry().linked(&[0; 32], &events).chain_after(&[0; 32], &with_instant), base);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let cut = clip("é".repeat(300));
        assert!(cut.len() <= AUDIT_TEXT_BYTES_MAX && cut.ends_with("é…"), "{cut}");
        assert_eq!(&*clip("a".repeat(AUDIT_TEXT_BYTES_MAX)), "a".repeat(AUDIT_TEXT_BYTES_MAX));
    }

    #[test]
    fn an_end_stays_whole_and_a_digest_tells_texts_apart() {
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
