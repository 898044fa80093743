//! Names of participants and accounts, gathered from snapshots and records, so that the output needs no running hub.

use std::collections::BTreeMap;

use upesi_ledger::{
    AccountId, BindingKind, Block, Cause, Event, Ledger, LedgerAccountTypeId, Participant, ParticipantId,
};
use upesi_types::{Currency, FspId};

/// The names in a journal.
#[derive(Clone, Debug)]
pub struct Names {
    participants: BTreeMap<ParticipantId, FspId>,
    accounts: BTreeMap<AccountId, (ParticipantId, Currency, LedgerAccountTypeId)>,
    account_types: BTreeMap<u8, String>,
    /// Current and former participants by their keys and certificates.
    bound: BTreeMap<Block, ParticipantId>,
}

/// The block that would match the certificates of a binding.
fn block_of(kind: BindingKind, value: &str) -> Option<Block> {
    Block::parse(kind.name(), value)
}

impl Names {
    /// The names in a ledger.
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

    /// Adds the names in an event.
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

    /// The participant that a block concerns: the blocked one, or the last owner of the blocked key or certificate.
    pub fn blocked(&self, block: &Block) -> Option<ParticipantId> {
        match block {
            Block::Participant(name) => self.id_of(*name),
            Block::Key(_) | Block::Certificate(_) => self.bound.get(block).copied(),
        }
    }

    /// A participant's name, or its number if the name is unknown.
    pub fn participant(&self, id: ParticipantId) -> String {
        self.participants.get(&id).map_or_else(|| format!("#{}", id.number()), ToString::to_string)
    }

    /// The name of an optional participant; `?` if a rejected prepare named an unknown one.
    pub fn party(&self, id: Option<ParticipantId>) -> String {
        id.map_or_else(|| "?".to_owned(), |id| self.participant(id))
    }

    /// An account as `greenbank KES POSITION`, or its number.
    pub fn account(&self, id: AccountId) -> String {
        match self.accounts.get(&id) {
            Some((owner, currency, kind)) => {
                format!("{} {currency} {}", self.participant(*owner), self.account_type(*kind))
            }
            None => format!("account {}", id.number()),
        }
    }

    pub fn id_of(&self, name: FspId) -> Option<ParticipantId> {
        self.participants.iter().find(|(_, known)| **known == name).map(|(id, _)| *id)
    }

    pub fn owner(&self, id: AccountId) -> Option<ParticipantId> {
        self.accounts.get(&id).map(|(owner, ..)| *owner)
    }

    /// The currency and type of an account, which identify a content of a window.
    pub fn content_of(&self, id: AccountId) -> Option<(Currency, LedgerAccountTypeId)> {
        self.accounts.get(&id).map(|(_, currency, kind)| (*currency, *kind))
    }

    /// The currency of an account, and the name of its type.
    pub fn currency_and_type(&self, id: AccountId) -> Option<(String, String)> {
        let (_, currency, kind) = self.accounts.get(&id)?;
        Some((currency.to_string(), self.account_type(*kind)))
    }

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
        let (code, description) = upesi_delivery::rejection::cause(cause);
        format!("{code} {description:?}")
    }
}
