//! Sets and lifts blocks. One person can set them, but lifting them takes two.

use crate::base::ids::ParticipantId;
use crate::core::decision::Decision;
use crate::core::event::Event;
use crate::core::state::Ledger;
use crate::operators::outcome::AdminOutcome;
use crate::operators::refusal::AdminRefusal;
use crate::scheme::block::Block;

type Outcome = Result<AdminOutcome, AdminRefusal>;

impl Ledger {
    pub(crate) fn decide_set_block(&self, block: Block, out: &mut Decision) -> Outcome {
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

    pub(crate) fn decide_lift_block(&self, block: Block, out: &mut Decision) -> Outcome {
        if !self.blocks.contains_key(&block) {
            return Err(AdminRefusal::BlockUnknown);
        }
        out.events.push(Event::BlockLifted { block });
        Ok(AdminOutcome::Done)
    }
}
