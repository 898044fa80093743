//! Names of participants and accounts, gathered from snapshots and records, so that prints need no running hub.

use std::collections::BTreeMap;

use upesi_ledger::{
    AccountId, BindingKind, Block, Cause, Event, Ledger, LedgerAccountTypeId, Participant, ParticipantId,
};
use upesi_types::{Currency, FspId};

/// Who is who in a journal.
#[derive(Clone, Debug)]
pub struct Names {
    participants: BTreeMap<ParticipantId, FspId>,
    accounts: BTreeMap<AccountId, (ParticipantId, Currency, LedgerAccountTypeId)>,
    account_types: BTreeMap<u8, String>,
    /// Keys and certificates by which participants are, or were, known.
    bound: BTreeMap<Block, ParticipantId>,
}

/// What would block the certificates of a binding.
fn block_of(kind: BindingKind, value: &str) -> Option<Block> {
    Block::parse(kind.name(), value)
}

impl Names {
    /// What a ledger knows.
    pub fn of(ledger: &Ledger) -> Self {
        let participants = ledger.participants().iter().map(|one| (one.id, one.name));
        let accounts =
            ledger.accounts().iter().map(|one| (one.id, (one.participant, one.currency, one.kind)));
        let bindings = |one: &Participant| {
            let id = one.id;
            let blocks = one.bindings.iter().filter_map(|binding| block_of(binding.kind, &binding.value));
            blocks.map(move |block| (block, id)).collect::<Vec<_>>()
        };
        let bound = ledger.participants().iter().flat_map(bindings);
        let account_types = ledger.account_types().iter().map(|kind| (kind.id.0, kind.name.to_string()));
        Self {
            participants: participants.collect(),
            accounts: accounts.collect(),
            account_types: account_types.collect(),
            bound: bound.collect(),
        }
    }

    /// Takes in what an event names.
    pub fn learn(&mut self, event: &Event) {
        match event {
            Event::ParticipantCreated { id, name, .. } => {
                self.participants.insert(*id, *name);
            }
            Event::AccountCreated { id, participant, currency, kind, .. } => {
                self.accounts.insert(*id, (*participant, *currency, *kind));
            }
            Event::LedgerAccountTypeCreated { id, name, .. } => {
                self.account_types.insert(id.0, name.to_string());
            }
            Event::BindingAdded { participant, kind, value } => {
                self.bound.extend(block_of(*kind, value).map(|block| (block, *participant)));
            }
            _ => {}
        }
    }

    /// Whom a block concerns: the participant, or whose key or certificate it is, or was at last.
    pub fn blocked(&self, block: &Block) -> Option<ParticipantId> {
        match block {
            Block::Participant(name) => self.id_of(*name),
            Block::Key(_) | Block::Certificate(_) => self.bound.get(block).copied(),
        }
    }

    /// A participant's name, or its number where the name is unknown.
    pub fn participant(&self, id: ParticipantId) -> String {
        self.participants.get(&id).map_or_else(|| format!("#{}", id.number()), ToString::to_string)
    }

    /// The same for an optional participant; `?` where a refused prepare named an unknown one.
    pub fn party(&self, id: Option<ParticipantId>) -> String {
        id.map_or_else(|| "?".to_owned(), |id| self.participant(id))
    }

    /// `greenbank KES POSITION`, or the account's number.
    pub fn account(&self, id: AccountId) -> String {
        match self.accounts.get(&id) {
            Some((owner, currency, kind)) => {
                format!("{} {currency} {}", self.participant(*owner), self.account_type(*kind))
            }
            None => format!("account {}", id.number()),
        }
    }

    /// The participant of this name.
    pub fn id_of(&self, name: FspId) -> Option<ParticipantId> {
        self.participants.iter().find(|(_, known)| **known == name).map(|(id, _)| *id)
    }

    /// Whose account it is.
    pub fn owner(&self, id: AccountId) -> Option<ParticipantId> {
        self.accounts.get(&id).map(|(owner, ..)| *owner)
    }

    /// The name of a ledger account type.
    pub fn account_type(&self, kind: LedgerAccountTypeId) -> String {
        self.account_types.get(&kind.0).cloned().unwrap_or_else(|| format!("type {}", kind.0))
    }
}

impl upesi_ledger::Names for Names {
    fn participant(&self, id: ParticipantId) -> String {
        Self::participant(self, id)
    }

    fn account(&self, id: AccountId) -> String {
        Self::account(self, id)
    }

    fn account_type(&self, id: LedgerAccountTypeId) -> String {
        Self::account_type(self, id)
    }

    fn cause(&self, cause: &Cause) -> String {
        let (code, description) = upesi_fspiop::refusal::cause(cause);
        format!("{code} {description:?}")
    }
}
