//! A ledger in memory, without queue, journal and answers.

use upesi_engine::{Clock as _, SystemClock};
use upesi_ledger::{
    AdminCommand, Archived, Callback, Command, Decision, DecisionInput, Ledger, LedgerConfig, Reply,
};
use upesi_types::Timestamp;

use super::IsolatedError;
use super::scheme::Scheme;

/// The configuration of the ledger and the engine: streams expire in 2099.
pub(super) fn config() -> LedgerConfig {
    LedgerConfig { transfer_validity_max_ms: i64::MAX, ..LedgerConfig::default() }
}

/// A ledger without a journal: every decision is folded at once.
pub(super) struct FoldedLedger {
    pub ledger: Ledger,
    decision: Decision,
    now: Timestamp,
}

impl FoldedLedger {
    /// A ledger with the participants of a scheme.
    pub fn onboarded(scheme: &Scheme) -> Result<Self, IsolatedError> {
        let now = SystemClock.now();
        let mut folded = Self { ledger: Ledger::new(config()), decision: Decision::default(), now };
        folded.operate(scheme.setup())?;
        let funds = scheme.funds(&folded.ledger);
        folded.operate(funds)?;
        Ok(folded)
    }

    fn operate(&mut self, commands: Vec<AdminCommand>) -> Result<(), IsolatedError> {
        for command in commands {
            self.decide(&Command::Admin(command));
            if let Reply::Admin(Err(refusal)) = &self.decision.reply {
                let reason = upesi_admin::rejection::describe(refusal);
                return Err(IsolatedError::Refused { what: "an operator's command", reason });
            }
        }
        Ok(())
    }

    /// Decides a command whose transfer is not in the archive, and folds the decision into the state.
    pub fn decide(&mut self, command: &Command) {
        self.now = Timestamp::from_ns(self.now.as_ns() + 1);
        self.decision.clear();
        self.ledger.decide(
            command,
            &DecisionInput::new(self.now.into(), &Archived::Absent),
            &mut self.decision,
        );
        if !self.decision.is_empty() {
            let Decision { events, callbacks, .. } = &mut self.decision;
            self.ledger.evolve(self.ledger.last_seq() + 1, self.now, events.drain(..), callbacks);
        }
    }

    /// The callbacks that the last decision owes.
    pub fn take_callbacks(&mut self) -> Vec<Callback> {
        std::mem::take(&mut self.decision.callbacks)
    }
}
