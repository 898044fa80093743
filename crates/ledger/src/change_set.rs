//! Change sets: several operator changes that are proposed, approved and applied together.
//!
//! 1. An operator proposes the changes, in order. The proposal stores them and the state before each change
//!    ([`SetChange::before`]).
//! 2. A second person approves the set once. The hub decides all changes again on a draft of the state
//!    ([`Ledger::preview`]). If one of them is rejected, or its object has changed since the proposal, nothing is
//!    applied.
//! 3. The hub makes one change after the other. Each is a record with its own entry in the audit trail, which names the
//!    set. The progress of the set ([`Progress`]) is part of the state, so a restart continues it.
//! 4. If the rules reject a change at its turn, the set stops. An approver can continue it. Otherwise it is rejected,
//!    withdrawn or expires, and the changes made until then stay in effect.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use crate::approval::{AdminAction, ProposalState};
use crate::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::command::AdminCommand;
use crate::show::{Show, Shown};
use crate::state::Ledger;
use crate::stored::{Stored, stored_struct};

/// Maximum number of changes in a set.
pub const CHANGE_SET_CHANGES_MAX: usize = 2_000;
/// Maximum size of a set in bytes, including the descriptions of its objects.
pub const CHANGE_SET_BYTES_MAX: usize = 512 * 1024;
/// Maximum number of pending sets of one operator.
pub const CHANGE_SETS_OF_MAKER_MAX: usize = 4;

/// Changes that are proposed, approved and applied together, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeSet {
    /// The maker's description of the set.
    pub name: Box<str>,
    /// The changes.
    pub changes: Vec<SetChange>,
}

/// A change of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetChange {
    /// The change.
    pub command: AdminCommand,
    /// The state before the change when the set was proposed. The hub fills this in.
    pub before: Box<str>,
}

impl SetChange {
    /// Creates a change whose prior state is not known yet.
    pub fn new(command: AdminCommand) -> Self {
        Self { command, before: "".into() }
    }
}

impl ChangeSet {
    /// The set's title in lists and in the audit trail. The name is quoted, because it could look like a number of
    /// changes.
    pub fn title(&self) -> String {
        let Self { name, changes } = self;
        format!("change set {name:?}, {}", counted(changes.len(), ("change", "changes")))
    }

    /// The actions of the changes, with the number of changes for each.
    pub(crate) fn summary(&self, ledger: &Ledger) -> String {
        let mut counts = BTreeMap::<AdminAction, usize>::new();
        for change in &self.changes {
            *counts.entry(ledger.action_of(&change.command)).or_default() += 1;
        }
        let parts: Vec<_> =
            counts.iter().map(|(action, count)| format!("{count} {}", action.name())).collect();
        parts.join(", ")
    }

    /// Appends the content that the digest covers: name and changes, without the states before them.
    pub(crate) fn encode_content(&self, encoder: &mut Encoder<'_>) {
        self.name.encode(encoder);
        encoder.list(self.changes.iter(), |encoder, change| change.command.encode(encoder));
    }
}

/// A number with its noun.
pub(crate) fn counted(count: usize, (one, many): (&str, &str)) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

impl AdminCommand {
    /// The changes of a set, or the single change itself.
    pub fn parts(&self) -> impl Iterator<Item = &Self> {
        let (set, own) = match self {
            Self::ChangeSet(set) => (Some(set), None),
            other => (None, Some(other)),
        };
        set.into_iter().flat_map(|set| &set.changes).map(|change| &change.command).chain(own)
    }

    /// Whether the change may be part of a set. Operators, their credentials and the policy are changed individually.
    pub(crate) const fn may_be_in_set(&self) -> bool {
        !matches!(
            self,
            Self::ChangeSet(_)
                | Self::SetOperator(_)
                | Self::AddCredential(_)
                | Self::RemoveCredential { .. }
                | Self::SetApprovalPolicy(_)
                | Self::AcceptClock { .. }
        )
    }
}

impl Stored for SetChange {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        self.command.encode(encoder);
        self.before.encode(encoder);
    }

    fn decode(decoder: &mut Decoder<'_>) -> Decoded<Self> {
        // Otherwise damaged bytes could make the decoder recurse through nested sets without limit.
        let mut ahead = *decoder;
        if ahead.u8()? == AdminCommand::CHANGE_SET_TAG {
            return Err(DecodeError("a change set is part of a change set"));
        }
        Ok(Self { command: Stored::decode(decoder)?, before: Stored::decode(decoder)? })
    }
}

stored_struct! {
    ChangeSet { name, changes }
    Progress { operator, known_by, address, comment, made, stopped }
}

impl Show for ChangeSet {
    fn show(&self) -> Shown<'_> {
        Shown::Fields(vec![("name", self.name.show()), ("changes", self.changes.show())])
    }
}

impl Show for SetChange {
    fn show(&self) -> Shown<'_> {
        let mut fields = vec![("type", Shown::Text(self.command.name().into()))];
        fields.extend(self.command.fields());
        Shown::Fields(fields)
    }
}

/// The progress of an approved set, and its most recent approver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The operator who approved it last.
    pub operator: Box<str>,
    /// How that operator was authenticated.
    pub known_by: Box<str>,
    /// The address from which it was approved.
    pub address: Option<Box<str>>,
    /// The approver's comment.
    pub comment: Option<Box<str>>,
    /// Number of changes that were made, from the first on.
    pub made: u32,
    /// The reason why the next change was not made; `None` while the hub applies the set.
    pub stopped: Option<Box<str>>,
}

impl Progress {
    /// The state of the set.
    pub fn state(&self) -> ProposalState {
        if self.stopped.is_some() { ProposalState::Stopped } else { ProposalState::Applying }
    }
}

// The snapshot section; it follows the proposals.

pub(crate) fn write(ledger: &Ledger, encoder: &mut Encoder<'_>) {
    encoder.list(ledger.approvals.all_progress(), |encoder, (id, progress)| {
        encoder.u64(*id);
        encoder.sized(|encoder| progress.encode(encoder));
    });
}

pub(crate) fn read(ledger: &mut Ledger, d: &mut Decoder<'_>) -> Decoded<()> {
    let all: Vec<(u64, Progress)> = d.list(|d| Ok((d.u64()?, Stored::decode(&mut d.sized()?)?)))?;
    for (id, progress) in all {
        ledger.approvals.restore_progress(id, progress)?;
    }
    Ok(())
}
