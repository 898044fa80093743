//! The table of proposals: all pending ones and the most recent ended ones.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use upesi_types::Timestamp;

use crate::base::codec::{DecodeError, Decoded, Decoder, Encoder};
use crate::base::stored::Stored;
use crate::operators::change_set::ChangeSetProgress;
use crate::operators::policy::ApprovalPolicy;
use crate::operators::proposal::{Proposal, ProposalEnd};
use crate::operators::proposal_state::ProposalState;

/// Maximum number of pending proposals.
pub const PROPOSALS_MAX: usize = 256;
/// Maximum number of pending proposals of one operator.
pub const PROPOSALS_OF_MAKER_MAX: usize = 64;
/// Maximum total bytes of the changes of all pending proposals.
pub const PROPOSAL_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Number of ended proposals that are retained. The journal contains all of them.
pub const PROPOSALS_ENDED_MAX: usize = 1_000;

/// The approval policy and the proposals.
#[derive(Clone, Debug, Default)]
pub struct Approvals {
    policy: ApprovalPolicy,
    all: BTreeMap<u64, Proposal>,
    /// Pending proposals by expiry.
    deadlines: BTreeSet<(Timestamp, u64)>,
    /// Ended proposals by time of end.
    ended: BTreeSet<(Timestamp, u64)>,
    /// Change sets that were approved and have not ended.
    progress: BTreeMap<u64, ChangeSetProgress>,
    /// Total bytes of the changes of pending proposals.
    bytes: usize,
    made: u64,
}

impl Approvals {
    pub fn policy(&self) -> &ApprovalPolicy {
        &self.policy
    }

    /// A proposal, unless it ended long ago.
    pub fn get(&self, id: u64) -> Option<&Proposal> {
        self.all.get(&id)
    }

    /// Proposals whose number is greater than `id`, in order.
    pub fn after(&self, id: u64) -> impl Iterator<Item = &Proposal> {
        self.all.range(id.saturating_add(1)..).map(|(_, proposal)| proposal)
    }

    /// Proposals whose number is smaller than `id`, in falling order.
    pub fn before(&self, id: u64) -> impl Iterator<Item = &Proposal> {
        self.all.range(..id).rev().map(|(_, proposal)| proposal)
    }

    /// Pending proposals by expiry.
    pub fn pending(&self) -> impl ExactSizeIterator<Item = &Proposal> {
        self.deadlines.iter().map(|(_, id)| &self.all[id])
    }

    /// The state of a proposal, including the progress of its change set.
    pub fn state_of(&self, proposal: &Proposal) -> ProposalState {
        self.progress(proposal.id).map_or_else(|| proposal.state(), ChangeSetProgress::state)
    }

    /// The progress of a change set that was approved and has not ended.
    pub fn progress(&self, id: u64) -> Option<&ChangeSetProgress> {
        self.progress.get(&id)
    }

    /// The change sets that the hub is currently applying.
    pub fn applying(&self) -> impl Iterator<Item = u64> {
        self.progress.iter().filter(|(_, progress)| progress.stopped.is_none()).map(|(id, _)| *id)
    }

    /// Starts applying a change set, or continues it after it stopped.
    pub(crate) fn begin(&mut self, id: u64, by: ChangeSetProgress) {
        let made = self.progress(id).map_or(0, |before| before.made);
        self.progress.insert(id, ChangeSetProgress { made, stopped: None, ..by });
    }

    pub(crate) fn step(&mut self, id: u64, number: u32) {
        let progress = self.known_progress(id);
        assert!(progress.made + 1 == number, "change {number} of approval {id} is made in turn");
        progress.made = number;
    }

    pub(crate) fn stop(&mut self, id: u64, why: Box<str>) {
        self.known_progress(id).stopped = Some(why);
    }

    fn known_progress(&mut self, id: u64) -> &mut ChangeSetProgress {
        self.progress.get_mut(&id).unwrap_or_else(|| panic!("approval {id} is not being applied"))
    }

    /// Restores the progress from a snapshot.
    fn restore_progress(&mut self, id: u64, progress: ChangeSetProgress) -> Decoded<()> {
        let changes = self.get(id).and_then(Proposal::set).map(|set| set.changes.len());
        if changes.is_none_or(|count| progress.made as usize >= count) {
            return Err(DecodeError("its change sets contradict its approvals"));
        }
        self.progress.insert(id, progress);
        Ok(())
    }

    /// Total bytes of the changes of pending proposals.
    pub(crate) fn pending_bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.made + 1
    }

    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.undecided().next().map(|(at, _)| at)
    }

    /// Proposals that were not decided before they expired.
    pub(crate) fn due(&self, now: Timestamp) -> impl Iterator<Item = u64> {
        self.undecided().take_while(move |(at, _)| *at <= now).map(|(_, id)| id)
    }

    /// Proposals that wait for a decision, by expiry. A change set that is being applied was already approved in time.
    fn undecided(&self) -> impl Iterator<Item = (Timestamp, u64)> {
        let is_applied = |id| self.progress(id).is_some_and(|progress| progress.stopped.is_none());
        self.deadlines.iter().copied().filter(move |(_, id)| !is_applied(*id))
    }

    pub(crate) fn set_policy(&mut self, policy: ApprovalPolicy) {
        self.policy = policy;
    }

    pub(crate) fn add(&mut self, proposal: Proposal) {
        assert!(proposal.id == self.next_id(), "proposals are numbered without gaps");
        self.made = proposal.id;
        self.insert(proposal);
    }

    pub(crate) fn end(&mut self, id: u64, end: ProposalEnd) {
        let Some(proposal) = self.all.get_mut(&id) else { panic!("proposal {id} ends but was never made") };
        assert!(proposal.end.is_none(), "proposal {id} ends once");
        self.deadlines.remove(&(proposal.expires_at, id));
        self.progress.remove(&id);
        self.ended.insert((end.at, id));
        if let Some(command) = proposal.command.take() {
            self.bytes -= Proposal::bytes_of(&command);
        }
        proposal.end = Some(end);
        if self.ended.len() > PROPOSALS_ENDED_MAX
            && let Some((_, oldest)) = self.ended.pop_first()
        {
            self.all.remove(&oldest);
        }
    }

    fn insert(&mut self, proposal: Proposal) {
        match (&proposal.end, &proposal.command) {
            (Some(end), _) => {
                self.ended.insert((end.at, proposal.id));
            }
            (None, command) => {
                self.deadlines.insert((proposal.expires_at, proposal.id));
                self.bytes += command.as_ref().map_or(0, Proposal::bytes_of);
            }
        }
        self.all.insert(proposal.id, proposal);
    }

    /// Violations of the rules about who may end a proposal.
    pub(crate) fn findings(&self) -> impl Iterator<Item = alloc::string::String> {
        self.all.values().filter_map(|proposal| {
            let by = proposal.end.as_ref().and_then(|end| end.by.as_deref());
            let is_own = by == Some(&*proposal.maker);
            let is_withdrawn = proposal.state() == ProposalState::Withdrawn;
            let id = proposal.id;
            (is_own != is_withdrawn)
                .then(|| alloc::format!("approval {id} was decided by an operator who must not decide it"))
        })
    }
}

impl Approvals {
    /// Writes the snapshot section. The progress of change sets follows the proposals.
    pub(crate) fn encode(&self, encoder: &mut Encoder<'_>) {
        self.policy.encode(encoder);
        encoder.u64(self.made);
        encoder
            .list(self.all.values(), |encoder, proposal| encoder.sized(|encoder| proposal.encode(encoder)));
        encoder.list(self.progress.iter(), |encoder, (id, progress)| {
            encoder.u64(*id);
            encoder.sized(|encoder| progress.encode(encoder));
        });
    }

    pub(crate) fn decode(d: &mut Decoder<'_>) -> Decoded<Self> {
        let mut approvals = Self::decode_of_version_1(d)?;
        let all: Vec<(u64, ChangeSetProgress)> =
            d.list(|d| Ok((d.u64()?, Stored::decode(&mut d.sized()?)?)))?;
        for (id, progress) in all {
            approvals.restore_progress(id, progress)?;
        }
        Ok(approvals)
    }

    /// Reads the format of the time before change sets.
    pub(crate) fn decode_of_version_1(d: &mut Decoder<'_>) -> Decoded<Self> {
        let mut approvals = Self { policy: Stored::decode(d)?, made: d.u64()?, ..Self::default() };
        let proposals: Vec<Box<Proposal>> = d.list(|d| Stored::decode(&mut d.sized()?))?;
        for proposal in proposals {
            let is_in_order = approvals.all.last_key_value().is_none_or(|(last, _)| *last < proposal.id);
            let has_either = proposal.command.is_some() != proposal.end.is_some();
            if !is_in_order || !has_either || !(1..=approvals.made).contains(&proposal.id) {
                return Err(DecodeError("its approvals contradict each other"));
            }
            approvals.insert(*proposal);
        }
        Ok(approvals)
    }
}
