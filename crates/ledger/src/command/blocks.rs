//! Blocks: one person sets them, two lift them.

use super::{AdminOutcome, AdminRefusal, Decision};
use crate::Ledger;
use crate::block::Block;
use crate::event::Event;
use crate::participant::ParticipantId;

type Outcome = Result<AdminOutcome, AdminRefusal>;

impl Ledger {
    pub(super) fn decide_set_block(&self, block: Block, out: &mut Decision) -> Outcome {
        if let Block::Participant(name) = &block
            && self.known_participant(name)?.id == ParticipantId::HUB
        {
            return Err(AdminRefusal::BlockOfHub);
        }
        if self.blocks.contains_key(&block) {
            return Ok(AdminOutcome::AlreadyDone);
        }
        if self.blocks.len() >= self.config.limits.blocks {
            return Err(AdminRefusal::BlocksFull);
        }
        out.events.push(Event::BlockSet { block });
        Ok(AdminOutcome::Done)
    }

    pub(super) fn decide_lift_block(&self, block: Block, out: &mut Decision) -> Outcome {
        if !self.blocks.contains_key(&block) {
            return Err(AdminRefusal::BlockUnknown);
        }
        out.events.push(Event::BlockLifted { block });
        Ok(AdminOutcome::Done)
    }
}
