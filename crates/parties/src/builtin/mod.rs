//! The built-in directory: the DFSP that serves each party, in the hub's store.
//!
//! Identifiers are stored and compared exactly as given, byte by byte after percent-decoding: `+26097` and `26097`, or
//! `A@b.cd` and `a@b.cd`, are two parties. The scheme defines the form in use; a hub that guessed could send money to
//! an unintended receiver.
//!
//! Sub id and currency distinguish the entries of one identifier, and each such combination has at most one owner. An
//! entry without a currency applies to all of them: DFSPs cannot register an entry that another DFSP's entry already
//! covers; operators can.

mod error;
pub(crate) mod owners;
mod stored;
#[cfg(test)]
mod tests;

use upesi_tables::TablesError;
use upesi_tables::store::{Store, Table, Transaction, Value};
use upesi_types::{Currency, FspId};

pub use self::error::RegisterError;
use crate::party::{DirectoryEntry, Owner, PartyIdType};

/// Maximum number of entries of one identifier: sub ids times currencies. They are stored together, so a lookup is one
/// read. A business with more tills needs an external oracle.
pub const OWNERS_MAX: usize = 1024;
/// Maximum number of entries in one batch, as in Mojaloop's schema of POST /participants.
pub const BATCH_ENTRIES_MAX: usize = 10_000;

pub(crate) const TABLE: &str = "parties";

/// Options of the built-in directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltInOptions {
    /// Whether only the DFSP of an entry may change or remove it. Operators always may.
    pub ownership_check: bool,
    /// Maximum memory in bytes for storing all parties, so that lookups need no disk; about 13 bytes per party. If it
    /// is exceeded, or 0, parties are read from disk.
    pub memory_bytes_max: u64,
}

impl Default for BuiltInOptions {
    fn default() -> Self {
        Self { ownership_check: true, memory_bytes_max: 256 << 20 }
    }
}

/// The built-in directory. Cheap to clone. When the future of a change resolves, the change is durable and visible.
#[derive(Clone, Debug)]
pub struct BuiltInDirectory {
    store: Store,
    parties: Table,
    options: BuiltInOptions,
}

impl BuiltInDirectory {
    /// Opens the directory in a store.
    pub fn open(store: &Store, options: BuiltInOptions) -> Result<Self, TablesError> {
        let parties = store.table(TABLE)?;
        if options.memory_bytes_max > 0 {
            store.keep_in_memory(&parties, options.memory_bytes_max);
        }
        Ok(Self { store: store.clone(), parties, options })
    }

    /// All entries of an identifier, ordered by sub id and currency; empty if no DFSP serves it. The caller selects
    /// the entries that match a lookup's sub id and currency.
    ///
    /// Usually the entries come from memory, in less than a microsecond. Shortly after a start, or if the parties
    /// exceed [`BuiltInOptions::memory_bytes_max`], this is a point read of microseconds. It may wait for the disk and,
    /// while the store receives many changes, for a sync of a small file.
    pub fn find(&self, kind: PartyIdType, id: &str) -> Result<Vec<Owner>, TablesError> {
        let mut owners = self.find_oldest_first(kind, id)?;
        owners.sort_unstable_by(|one, other| one.slot().cmp(&other.slot()));
        Ok(owners)
    }

    /// All entries of an identifier in the order of registration. If a DFSP took over an entry, the entry counts as
    /// registered at that time.
    pub fn find_oldest_first(&self, kind: PartyIdType, id: &str) -> Result<Vec<Owner>, TablesError> {
        owners_of(self.parties.get(&stored::key(kind, id))?)
    }

    /// Registers a party. Registering an existing entry again is a success.
    pub async fn register(&self, entry: &DirectoryEntry) -> Result<(), RegisterError> {
        let entry = entry.clone();
        let (kind, id) = (entry.kind, entry.id.clone());
        let changed = self.change_owners(kind, id, move |owners| owners::register(owners, &entry));
        changed.await.map(drop)
    }

    /// Registers many parties with one sync. Returns one result for each entry, in their order; a rejected entry does
    /// not affect the others. If the outer result is [`RegisterError::Store`], no entry was registered.
    ///
    /// # Panics
    /// With more than [`BATCH_ENTRIES_MAX`] entries.
    pub async fn register_batch(
        &self,
        entries: Vec<DirectoryEntry>,
    ) -> Result<Vec<Result<(), RegisterError>>, RegisterError> {
        assert!(entries.len() <= BATCH_ENTRIES_MAX, "a batch of {} entries", entries.len());
        let parties = self.parties.clone();
        let registered = self.store.update(move |transaction| {
            let mut answers = Vec::with_capacity(entries.len());
            for entry in &entries {
                let answer = change_in(transaction, &parties, entry.kind, &entry.id, |owners| {
                    owners::register(owners, entry)
                })?;
                answers.push(answer.map(drop));
            }
            Ok(answers)
        });
        Ok(registered.await?)
    }

    /// Assigns the entry with this sub id and currency to `entry.fsp`. If there is none, but one with this sub id and
    /// another currency, that one is changed: a DFSP that registered without a currency may name it later.
    ///
    /// `by`: the DFSP that requests the change, `None` for an operator.
    ///
    /// Errors: [`RegisterError::NotRegistered`] if the entry does not exist, or several with other currencies do;
    /// [`RegisterError::NotOwner`] if it belongs to a DFSP other than `by` and ownership is checked.
    pub async fn change(&self, entry: &DirectoryEntry, by: Option<&FspId>) -> Result<(), RegisterError> {
        let (entry, by) = (entry.clone(), self.checked(by));
        let (kind, id) = (entry.kind, entry.id.clone());
        let changed = self.change_owners(kind, id, move |owners| owners::change(owners, &entry, by.as_ref()));
        changed.await.map(drop)
    }

    /// Registers a party, or assigns it to another DFSP: for operators.
    pub async fn put(&self, entry: &DirectoryEntry) -> Result<(), RegisterError> {
        let entry = entry.clone();
        let (kind, id) = (entry.kind, entry.id.clone());
        self.change_owners(kind, id, move |owners| owners::put(owners, &entry)).await.map(drop)
    }

    /// Removes the entries with this sub id (`None`: those without one), of one currency or of all. Returns how many
    /// were removed; 0 is a success, so that a removal can be repeated.
    ///
    /// `by`: the DFSP that requests the removal, `None` for an operator. If ownership is checked, only its own entries
    /// are removed.
    ///
    /// Errors: [`RegisterError::NotOwner`] if there are such entries and all belong to others.
    pub async fn remove(
        &self,
        kind: PartyIdType,
        id: &str,
        sub_id: Option<&str>,
        currency: Option<Currency>,
        by: Option<&FspId>,
    ) -> Result<usize, RegisterError> {
        let (sub_id, by) = (sub_id.map(Box::<str>::from), self.checked(by));
        let remove =
            move |owners: &mut Vec<Owner>| owners::remove(owners, sub_id.as_deref(), currency, by.as_ref());
        self.change_owners(kind, id.into(), remove).await
    }

    /// Number of identifiers; recent changes make it an overestimate. Costs nothing.
    pub fn parties_estimate(&self) -> u64 {
        self.parties.entries_estimate()
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn parties(&self) -> &Table {
        &self.parties
    }

    /// The DFSP that must own a changed entry; `None` if ownership is not checked.
    fn checked(&self, by: Option<&FspId>) -> Option<FspId> {
        by.filter(|_| self.options.ownership_check).copied()
    }

    async fn change_owners<T: Changed>(
        &self,
        kind: PartyIdType,
        id: Box<str>,
        change: impl FnOnce(&mut Vec<Owner>) -> Result<T, RegisterError> + Send + 'static,
    ) -> Result<T, RegisterError> {
        let parties = self.parties.clone();
        let changed =
            self.store.update(move |transaction| change_in(transaction, &parties, kind, &id, change));
        changed.await?
    }
}

/// Whether the result of a rule includes a change.
pub(crate) trait Changed: Send + 'static {
    fn is_change(&self) -> bool;
}

impl Changed for bool {
    fn is_change(&self) -> bool {
        *self
    }
}

impl Changed for usize {
    fn is_change(&self) -> bool {
        *self > 0
    }
}

/// Reads the owners of an identifier, applies a rule, and writes them back if the rule changed them.
pub(crate) fn change_in<T: Changed>(
    transaction: &mut Transaction<'_>,
    parties: &Table,
    kind: PartyIdType,
    id: &str,
    rule: impl FnOnce(&mut Vec<Owner>) -> Result<T, RegisterError>,
) -> Result<Result<T, RegisterError>, TablesError> {
    let key = stored::key(kind, id);
    let mut owners = owners_of(transaction.get(parties, &key)?)?;
    let outcome = rule(&mut owners);
    if outcome.as_ref().is_ok_and(Changed::is_change) {
        match owners.is_empty() {
            true => transaction.delete(parties, &key)?,
            false => transaction.put(parties, &key, &stored::encode(&owners))?,
        }
    }
    Ok(outcome)
}

fn owners_of(value: Option<Value>) -> Result<Vec<Owner>, TablesError> {
    match value {
        None => Ok(Vec::new()),
        Some(value) => {
            stored::decode(&value).ok_or_else(|| TablesError::content("an entry of the directory"))
        }
    }
}
