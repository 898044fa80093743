//! Proposals: changes that wait for a second person, or that were decided.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::{self, Formatter};

use sha2::{Digest, Sha256};
use upesi_types::Timestamp;

use crate::base::codec::{Decoded, Decoder, Encoder};
use crate::base::show::{Names, PrintedValue, Show};
use crate::base::stored::{Stored, stored_struct};
use crate::operators::action::AdminAction;
use crate::operators::admin_command::{AdminCommand, ChangeSet};
use crate::operators::proposal_state::ProposalState;

/// Minimum length of a proposal's reason, in characters.
pub const PROPOSAL_REASON_CHARS_MIN: usize = 10;

/// The end of a proposal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProposalEnd {
    /// The final state.
    pub state: ProposalState,
    pub at: Timestamp,
    /// The operator who decided; `None` if the proposal expired.
    pub by: Option<Box<str>>,
    pub comment: Option<Box<str>>,
    /// The outcome of the change, or the reason why it failed.
    pub result: Option<Box<str>>,
}

/// A proposed change. A proposal never changes, except that it ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// Number of the proposal, from 1.
    pub id: u64,
    /// The proposed change; dropped when the proposal ends.
    pub command: Option<AdminCommand>,
    /// SHA-256 of the stored form of the change.
    pub digest: [u8; 32],
    /// The kind of the change.
    pub action: AdminAction,
    pub object: Box<str>,
    /// The object's state when the change was proposed. If the state is different when the proposal is approved, the
    /// change is not made.
    pub before: Box<str>,
    /// The object's state after the change.
    pub after: Box<str>,
    /// The maker's reason.
    pub reason: Box<str>,
    /// The operator who proposed the change.
    pub maker: Box<str>,
    pub created_at: Timestamp,
    /// The end of the time for approval.
    pub expires_at: Timestamp,
    pub end: Option<ProposalEnd>,
}

stored_struct! {
    ProposalEnd { state, at, by, comment, result }
    Proposal {
        id, command, digest, action, object, before, after, reason, maker, created_at, expires_at, end,
    }
}

impl Proposal {
    pub fn state(&self) -> ProposalState {
        self.end.as_ref().map_or(ProposalState::Pending, |end| end.state)
    }

    /// The change set, if the proposal contains one and has not ended.
    pub fn set(&self) -> Option<&ChangeSet> {
        match &self.command {
            Some(AdminCommand::ChangeSet(set)) => Some(set),
            _ => None,
        }
    }

    /// The digest of a change. The digest of a change set covers its changes, but not the states before them.
    pub(crate) fn digest_of(command: &AdminCommand) -> [u8; 32] {
        let mut bytes = Vec::new();
        let encoder = &mut Encoder(&mut bytes);
        match command {
            AdminCommand::ChangeSet(set) => set.encode_content(encoder),
            command => command.encode(encoder),
        }
        Sha256::digest(&bytes).into()
    }

    /// Length of the stored form of a change, in bytes.
    pub(crate) fn bytes_of(command: &AdminCommand) -> usize {
        let mut bytes = Vec::new();
        command.encode(&mut Encoder(&mut bytes));
        bytes.len()
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
    fn show(&self) -> PrintedValue<'_> {
        let change = self
            .command
            .as_ref()
            .map_or(PrintedValue::Absent, |command| PrintedValue::Fields(command.fields()));
        PrintedValue::Fields(vec![
            ("approvalId", self.id.show()),
            ("action", PrintedValue::Text(self.action.name().into())),
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
