//! A change that waits for a second person, or waited for one.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Formatter};

use sha2::{Digest, Sha256};
use upesi_types::Timestamp;

use super::AdminAction;
use crate::codec::{Decoded, Decoder, Encoder};
use crate::command::AdminCommand;
use crate::settlement_model::wire_enum;
use crate::show::{Names, Show, Shown};
use crate::stored::{Stored, stored_struct};

wire_enum! {
    /// Where a proposal stands. All but the first are final.
    ProposalState {
        /// It waits for a second person.
        Pending = 1 "pending",
        /// It was approved, and the change was made in the same record.
        Executed = 2 "executed",
        /// It was approved, and the rules refused the change.
        Failed = 3 "failed",
        /// The second person said no.
        Rejected = 4 "rejected",
        /// Nobody decided in time.
        Expired = 5 "expired",
        /// Its maker took it back.
        Withdrawn = 6 "withdrawn",
    }
}

/// How a proposal ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalEnd {
    /// The state it ended in.
    pub state: ProposalState,
    /// When.
    pub at: Timestamp,
    /// Who decided; `None` if time did.
    pub by: Option<Box<str>>,
    /// What they said to it.
    pub comment: Option<Box<str>>,
    /// What came of the change, or why it failed.
    pub result: Option<Box<str>>,
}

/// A change that waits for a second person, or waited for one. Nothing of it changes but its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Its number, from 1.
    pub id: u64,
    /// The change; dropped when the proposal ends.
    pub command: Option<AdminCommand>,
    /// SHA-256 of the stored form of the change.
    pub digest: [u8; 32],
    /// What it is.
    pub action: AdminAction,
    /// What is changed.
    pub object: Box<str>,
    /// What it was when this was proposed. If it is something else when this is approved, the change is not made.
    pub before: Box<str>,
    /// What it is to be.
    pub after: Box<str>,
    /// Its maker's reason.
    pub reason: Box<str>,
    /// Who proposed it.
    pub maker: Box<str>,
    /// When.
    pub created_at: Timestamp,
    /// From when on it cannot be approved.
    pub expires_at: Timestamp,
    /// How it ended.
    pub end: Option<ProposalEnd>,
}

stored_struct! {
    ProposalEnd { state, at, by, comment, result }
    Proposal {
        id, command, digest, action, object, before, after, reason, maker, created_at, expires_at, end,
    }
}

impl Proposal {
    /// Where it stands.
    pub fn state(&self) -> ProposalState {
        self.end.as_ref().map_or(ProposalState::Pending, |end| end.state)
    }

    /// The digest of a change, and how many bytes it takes.
    pub(crate) fn digest_of(command: &AdminCommand) -> ([u8; 32], usize) {
        let mut bytes = Vec::new();
        command.encode(&mut Encoder(&mut bytes));
        (Sha256::digest(&bytes).into(), bytes.len())
    }
}

impl Stored for Box<Proposal> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        Proposal::encode(self, encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        Proposal::decode(decoder).map(Self::new)
    }
}

impl Show for Box<Proposal> {
    fn show(&self) -> Shown<'_> {
        let change = self.command.as_ref().map_or(Shown::Absent, |command| Shown::Fields(command.fields()));
        Shown::Fields(vec![
            ("approvalId", self.id.show()),
            ("action", Shown::Text(self.action.name().into())),
            ("object", self.object.show()),
            ("before", self.before.show()),
            ("after", self.after.show()),
            ("change", change),
            ("digest", self.digest.show()),
            ("reason", self.reason.show()),
            ("maker", self.maker.show()),
            ("expiration", self.expires_at.show()),
        ])
    }

    fn describe(&self, _names: &dyn Names, f: &mut Formatter<'_>) -> fmt::Result {
        let Proposal { id, action, object, before, after, reason, maker, .. } = &**self;
        write!(f, "approval {id} wanted by {maker}: {}, {object}: {before} → {after}", action.name())?;
        write!(f, " \"{reason}\"")
    }
}
