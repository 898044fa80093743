//! The built-in directory: which DFSP serves which party, kept in the hub's own store.
//!
//! Identifiers are kept and compared exactly as they are given, byte by byte after percent-decoding:
//! `+26097` and `26097`, or `A@b.cd` and `a@b.cd`, are two parties. The scheme says which form is used; a hub that
//! guessed would send money to whom nobody meant.
//!
//! Sub id and currency tell entries of one identifier apart, and each such combination has one owner at most. An entry
//! without a currency stands for all of them: DFSPs cannot register what another's entry covers already; operators can.

pub(crate) mod owners;
#[cfg(test)]
mod tests;

use upesi_tables::TablesError;
use upesi_tables::store::{Store, Table, Transaction, Value};
use upesi_types::{Currency, ErrorCode, FspId};

use crate::party::{Entry, Owner, PartyIdType};

/// Entries that one identifier may have: sub ids times currencies. They lie together on disk, so a lookup stays one
/// read; whoever has businesses with more tills than that runs an oracle.
pub const OWNERS_MAX: usize = 1024;
/// Entries of one batch, as the schema of POST /participants has it in hubs in use.
pub const BATCH_ENTRIES_MAX: usize = 10_000;

pub(crate) const TABLE: &str = "parties";

/// How the built-in directory behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltInOptions {
    /// Whether only the DFSP that an entry belongs to may change or remove it. Operators always may.
    pub ownership_check: bool,
    /// Memory in which all parties are kept so that lookups need no disk, in bytes; about 13 for each party. Over it,
    /// and with 0, they are read from disk.
    pub memory_bytes_max: u64,
}

impl Default for BuiltInOptions {
    fn default() -> Self {
        Self { ownership_check: true, memory_bytes_max: 256 << 20 }
    }
}

/// The built-in directory. Cheap to clone. A change is durable when its future resolves, and visible from then on.
#[derive(Clone, Debug)]
pub struct BuiltInDirectory {
    store: Store,
    parties: Table,
    options: BuiltInOptions,
}

impl BuiltInDirectory {
    /// The directory in a store.
    pub fn open(store: &Store, options: BuiltInOptions) -> Result<Self, TablesError> {
        let parties = store.table(TABLE)?;
        if options.memory_bytes_max > 0 {
            store.keep_in_memory(&parties, options.memory_bytes_max);
        }
        Ok(Self { store: store.clone(), parties, options })
    }

    /// All entries of an identifier, in order of sub id and currency; empty: nobody serves it. Which of them fit a
    /// lookup's sub id and currency is for the caller to say.
    ///
    /// Usually from memory, in less than a microsecond. Soon after a start, or where the parties outgrew
    /// [`BuiltInOptions::memory_bytes_max`], a point read of microseconds, which may wait for the disk, and for a sync
    /// of a small file while the store takes in many changes.
    pub fn find(&self, kind: PartyIdType, id: &str) -> Result<Vec<Owner>, TablesError> {
        let mut owners = self.find_oldest_first(kind, id)?;
        owners.sort_unstable_by(|one, other| one.slot().cmp(&other.slot()));
        Ok(owners)
    }

    /// The same in the order of registration. A DFSP that took over an entry of another counts as registered then.
    pub fn find_oldest_first(&self, kind: PartyIdType, id: &str) -> Result<Vec<Owner>, TablesError> {
        owners_of(self.parties.get(&owners::key(kind, id))?)
    }

    /// Registers a party. Registering again what is registered already is a success, whoever repeats it.
    pub async fn register(&self, entry: &Entry) -> Result<(), RegisterError> {
        let entry = entry.clone();
        let (kind, id) = (entry.kind, entry.id.clone());
        let changed = self.change_owners(kind, id, move |owners| owners::register(owners, &entry));
        changed.await.map(drop)
    }

    /// Registers many parties with one sync. One answer for each entry, in their order; a refusal of one does not touch
    /// the others. With a [`RegisterError::Store`] as the outer error none was registered.
    ///
    /// # Panics
    /// With more than [`BATCH_ENTRIES_MAX`] entries.
    pub async fn register_batch(
        &self,
        entries: Vec<Entry>,
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

    /// Gives the entry with this sub id and currency to `entry.fsp`. If there is none, but one with this sub id and
    /// another currency, that one is changed: who registered without a currency may name it later.
    ///
    /// `by`: the DFSP that asks, `None` for the operator.
    ///
    /// Errors: [`RegisterError::NotRegistered`] when there is none or several with other currencies;
    /// [`RegisterError::NotOwner`] when it belongs to another DFSP than `by` and ownership is checked.
    pub async fn change(&self, entry: &Entry, by: Option<&FspId>) -> Result<(), RegisterError> {
        let (entry, by) = (entry.clone(), self.checked(by));
        let (kind, id) = (entry.kind, entry.id.clone());
        let changed = self.change_owners(kind, id, move |owners| owners::change(owners, &entry, by.as_ref()));
        changed.await.map(drop)
    }

    /// Registers a party, or gives it to another DFSP: for operators, who may.
    pub async fn put(&self, entry: &Entry) -> Result<(), RegisterError> {
        let entry = entry.clone();
        let (kind, id) = (entry.kind, entry.id.clone());
        self.change_owners(kind, id, move |owners| owners::put(owners, &entry)).await.map(drop)
    }

    /// Removes the entries with this sub id (`None`: those without one), of one currency or of all. Returns how many
    /// were removed; 0 is a success, so that a removal can be repeated.
    ///
    /// `by`: the DFSP that asks, `None` for the operator. If ownership is checked, only its own entries are removed.
    ///
    /// Errors: [`RegisterError::NotOwner`] when there are such entries and all are of others.
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

    /// Number of identifiers, an overestimate by those that were changed lately. Costs nothing.
    pub fn parties_estimate(&self) -> u64 {
        self.parties.entries_estimate()
    }

    /// The store that it lies in.
    pub fn store(&self) -> &Store {
        &self.store
    }

    pub(crate) fn parties(&self) -> &Table {
        &self.parties
    }

    /// Who has to own what is changed; `None`: nobody asks.
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

/// What a rule says it changed.
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

/// Reads the owners of an identifier, applies a rule, and writes them back if it changed them.
pub(crate) fn change_in<T: Changed>(
    transaction: &mut Transaction<'_>,
    parties: &Table,
    kind: PartyIdType,
    id: &str,
    rule: impl FnOnce(&mut Vec<Owner>) -> Result<T, RegisterError>,
) -> Result<Result<T, RegisterError>, TablesError> {
    let key = owners::key(kind, id);
    let mut owners = owners_of(transaction.get(parties, &key)?)?;
    let outcome = rule(&mut owners);
    if outcome.as_ref().is_ok_and(Changed::is_change) {
        match owners.is_empty() {
            true => transaction.delete(parties, &key)?,
            false => transaction.put(parties, &key, &owners::encode(&owners))?,
        }
    }
    Ok(outcome)
}

fn owners_of(value: Option<Value>) -> Result<Vec<Owner>, TablesError> {
    match value {
        None => Ok(Vec::new()),
        Some(value) => {
            owners::decode(&value).ok_or_else(|| TablesError::content("an entry of the directory"))
        }
    }
}

// Why the built-in directory refuses.

/// A registration, change or removal that was refused. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// Another DFSP is registered for this identifier, sub id and currency.
    #[error("Party already exists [id: {id}]")]
    AlreadyRegistered {
        /// The identifier.
        id: Box<str>,
        /// Who is registered; not for the eyes of other DFSPs.
        fsp: FspId,
    },
    /// The identifier has as many sub ids and currencies as it may have.
    #[error("The party has {} entries, which is the most", OWNERS_MAX)]
    TooManyOwners,
    /// There is no such entry to change.
    #[error("Party not found")]
    NotRegistered,
    /// The entry belongs to another DFSP, and the directory checks that.
    #[error("The party is registered by another DFSP")]
    NotOwner {
        /// 3003 for a change, 3040 for a removal.
        code: ErrorCode,
    },
    /// The store failed or was busy.
    #[error(transparent)]
    Store(#[from] TablesError),
}

impl RegisterError {
    /// The FSPIOP code to answer with; the error's text is the detail.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::AlreadyRegistered { .. } | Self::TooManyOwners | Self::NotRegistered => {
                ErrorCode::ADD_PARTY_INFORMATION
            }
            Self::NotOwner { code } => *code,
            Self::Store(error) => error.code(),
        }
    }
}
