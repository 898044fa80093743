//! Mistakes made on purpose, where the plan asks for them.

use std::collections::BTreeMap;

use bytes::Bytes;
use upesi_engine::EngineHandle;
use upesi_ledger::command::Prepare;
use upesi_ledger::{AdminCommand, Command};
use upesi_types::{Amount, TransferId};

use crate::plan::Bug;

/// The callback that is dropped, counted from the start of the process.
const DROPPED: u64 = 5;

/// What a hub does wrong.
pub(super) struct Bugs {
    bug: Option<Bug>,
    lives: u64,
    taken: u64,
    /// The prepares of this life, where a bug needs them.
    prepares: BTreeMap<[u8; 17], Prepare>,
}

impl Bugs {
    pub(super) const fn new(bug: Option<Bug>, lives: u64) -> Self {
        Self { bug, lives, taken: 0, prepares: BTreeMap::new() }
    }

    pub(super) fn is(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }

    pub(super) fn forgets_outbox(&self) -> bool {
        self.is(Bug::ForgetsOutbox) && self.lives > 0
    }

    pub(super) fn drops_this(&mut self) -> bool {
        self.taken += 1;
        self.is(Bug::DropsCallback) && self.taken == DROPPED
    }

    pub(super) fn body(&self, body: Bytes) -> Bytes {
        if self.is(Bug::AltersBodies) && !body.is_empty() {
            return [&body[..], b" "].concat().into();
        }
        body
    }

    /// Changes a command, or adds others, on its way to the engine.
    pub(super) fn distort(&mut self, command: &mut Command, handle: &EngineHandle) {
        if self.bug.is_none() {
            return;
        }
        match command {
            Command::Prepare(prepare) => {
                self.prepares.insert(prepare.id.to_bytes(), prepare.clone());
            }
            Command::Fulfil(fulfil) => {
                let prepare = fulfil.transfer.id().and_then(|id| self.prepares.get(&id.to_bytes()));
                let Some(prepare) = prepare.cloned() else { return };
                if self.is(Bug::BelievesStrangers) {
                    (fulfil.source, fulfil.destination) = (prepare.payee, Some(prepare.payer));
                }
                if self.is(Bug::PaysTwice) && fulfil.source == prepare.payee {
                    let mut bytes = [0; 16];
                    bytes.copy_from_slice(&prepare.id.to_bytes()[1..]);
                    bytes[0] ^= 1;
                    let id = TransferId::from_random_bytes(bytes);
                    let again = Prepare { id, ..prepare };
                    let fulfilled = upesi_ledger::command::Fulfil { transfer: id.into(), ..fulfil.clone() };
                    let _ = handle.submit_quietly(Command::Prepare(again));
                    let _ = handle.submit_quietly(Command::Fulfil(fulfilled));
                }
            }
            Command::Admin(AdminCommand::SetLimit { net_debit_cap, .. }) if self.is(Bug::IgnoresCaps) => {
                *net_debit_cap = Amount::from_units(1_000_000_000).unwrap_or(*net_debit_cap);
            }
            _ => {}
        }
    }
}
