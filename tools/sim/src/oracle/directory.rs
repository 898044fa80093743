//! Owners of parties: registrations, and rules for all other parties.

use std::collections::BTreeSet;
use std::hash::BuildHasher;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use hashbrown::HashMap;
use upesi_types::{Currency, FspId};

use super::OracleRule;

/// Maximum number of registrations, without rules.
pub const PARTIES_MAX: usize = 10_000_000;
const SHARDS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Owner {
    pub fsp: FspId,
    pub currency: Option<Currency>,
    pub sub_id: Option<String>,
}

/// The oracle has no space for another registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the simulated oracle holds its maximum of {PARTIES_MAX} parties; use rules for more")]
pub struct OracleFull;

type ByKey = HashMap<String, Vec<Owner>, foldhash::fast::RandomState>;

/// Owners by `Type/Identifier`, not encoded.
pub(super) struct Directory {
    hasher: foldhash::fast::RandomState,
    /// A party without owners was removed, although rules assign an owner to it.
    registered: Box<[Mutex<ByKey>]>,
    count: AtomicUsize,
    /// By `Type/Prefix`.
    rules: ByKey,
    /// The lengths of all prefixes, so that the longest is tried first.
    prefix_bytes: BTreeSet<usize>,
    fsps: Vec<FspId>,
}

impl Directory {
    pub fn new(rules: Vec<OracleRule>) -> Self {
        let (mut by_prefix, mut prefix_bytes, mut fsps) =
            (ByKey::default(), BTreeSet::new(), BTreeSet::new());
        for OracleRule { kind, prefix, fsp, currency } in rules {
            prefix_bytes.insert(prefix.len());
            fsps.insert(fsp);
            by_prefix.entry(format!("{kind}/{prefix}")).or_default().push(Owner {
                fsp,
                currency,
                sub_id: None,
            });
        }
        Self {
            hasher: foldhash::fast::RandomState::default(),
            registered: (0..SHARDS).map(|_| Mutex::default()).collect(),
            count: AtomicUsize::new(0),
            rules: by_prefix,
            prefix_bytes,
            fsps: fsps.into_iter().collect(),
        }
    }

    fn shard(&self, key: &str) -> MutexGuard<'_, ByKey> {
        let index = self.hasher.hash_one(key) as usize % SHARDS;
        self.registered[index].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn by_rule(&self, key: &str) -> &[Owner] {
        let start = key.find('/').map_or(key.len(), |slash| slash + 1);
        let prefixes = self.prefix_bytes.iter().rev().filter_map(|length| key.get(..start + length));
        prefixes.filter_map(|prefix| self.rules.get(prefix)).next().map_or(&[], Vec::as_slice)
    }

    /// Passes the owners of a party to `look`.
    pub fn look_up<R>(&self, key: &str, look: impl FnOnce(&[Owner]) -> R) -> R {
        let shard = self.shard(key);
        match shard.get(key) {
            Some(owners) => look(owners),
            None => {
                drop(shard);
                look(self.by_rule(key))
            }
        }
    }

    /// Adds an owner. Returns false if the party, with that sub-identifier and currency, is registered. Rules do not
    /// prevent this, and no longer apply to this party.
    pub fn register(&self, key: &str, owner: Owner) -> Result<bool, OracleFull> {
        let mut shard = self.shard(key);
        let owners = shard.get(key).map_or(&[][..], Vec::as_slice);
        if owners.iter().any(|one| one.sub_id == owner.sub_id && one.currency == owner.currency) {
            return Ok(false);
        }
        self.make_room()?;
        shard.entry_ref(key).or_default().push(owner);
        Ok(true)
    }

    /// Replaces the owner of the party with that sub-identifier. Returns false if there is none.
    pub fn change(&self, key: &str, owner: Owner) -> Result<bool, OracleFull> {
        let mut shard = self.shard(key);
        if let Some(owners) = shard.get_mut(key) {
            let fits = |one: &&mut Owner| one.sub_id == owner.sub_id && one.currency == owner.currency;
            return Ok(owners.iter_mut().find(fits).map(|one| *one = owner).is_some());
        }
        if self.by_rule(key).is_empty() {
            return Ok(false);
        }
        self.make_room()?;
        shard.insert(key.to_owned(), vec![owner]);
        Ok(true)
    }

    /// Removes all owners of a party, or only the owners with that sub-identifier. Returns false if there was none.
    pub fn remove(&self, key: &str, sub_id: Option<&str>) -> Result<bool, OracleFull> {
        let mut shard = self.shard(key);
        let by_rule = !self.by_rule(key).is_empty();
        let Some(owners) = shard.get_mut(key) else {
            if !by_rule || sub_id.is_some() {
                return Ok(false);
            }
            self.make_room()?;
            shard.insert(key.to_owned(), Vec::new());
            return Ok(true);
        };
        let before = owners.len();
        owners.retain(|owner| sub_id.is_some() && owner.sub_id.as_deref() != sub_id);
        let removed = before - owners.len();
        self.count.fetch_sub(removed, Ordering::Relaxed);
        // A party without owners stays if a rule would give it an owner again.
        if owners.is_empty() && !by_rule {
            shard.remove(key);
        }
        Ok(removed > 0)
    }

    fn make_room(&self) -> Result<(), OracleFull> {
        if self.count.fetch_add(1, Ordering::Relaxed) < PARTIES_MAX {
            return Ok(());
        }
        self.count.fetch_sub(1, Ordering::Relaxed);
        Err(OracleFull)
    }

    /// A DFSP other than this one.
    pub fn other_than(&self, fsp: &FspId) -> Option<FspId> {
        self.fsps.iter().find(|one| *one != fsp).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fsp(name: &str) -> FspId {
        FspId::parse(name).unwrap()
    }

    fn owner(name: &str, sub_id: Option<&str>) -> Owner {
        Owner { fsp: fsp(name), currency: None, sub_id: sub_id.map(str::to_owned) }
    }

    fn directory() -> Directory {
        let rule = |kind: &str, prefix: &str, name| OracleRule {
            kind: kind.to_owned(),
            prefix: prefix.to_owned(),
            fsp: fsp(name),
            currency: None,
        };
        Directory::new(vec![
            rule("MSISDN", "26", "general"),
            rule("MSISDN", "2601", "special"),
            rule("MSISDN", "27", "one"),
            rule("MSISDN", "27", "two"),
            rule("ALIAS", "", "aliases"),
        ])
    }

    fn names(directory: &Directory, key: &str) -> Vec<String> {
        directory.look_up(key, |owners| owners.iter().map(|owner| owner.fsp.to_string()).collect())
    }

    #[test]
    fn longest_prefix_applies() {
        let directory = directory();
        for (key, expected) in [
            ("MSISDN/26097", &["general"][..]),
            ("MSISDN/260197", &["special"]),
            ("MSISDN/2601", &["special"]),
            ("MSISDN/26", &["general"]),
            ("MSISDN/2", &[]),
            ("MSISDN/271", &["one", "two"]),
            ("ALIAS/26", &["aliases"]),
            ("ALIAS/é", &["aliases"]),
            ("EMAIL/26", &[]),
            ("MSISDN", &[]),
        ] {
            assert_eq!(names(&directory, key), expected, "{key}");
        }
        for name in ["one", "two"] {
            assert!(directory.other_than(&fsp(name)).is_some_and(|other| other != fsp(name)));
        }
    }

    #[test]
    fn registration_overrides_rules_and_can_be_changed_and_removed() {
        let directory = directory();
        let key = "MSISDN/26097";
        assert_eq!(directory.register(key, owner("bluebank", None)), Ok(true));
        assert_eq!(directory.register(key, owner("greenbank", None)), Ok(false));
        assert_eq!(directory.register(key, owner("greenbank", Some("till"))), Ok(true));
        assert_eq!(names(&directory, key), ["bluebank", "greenbank"]);
        assert_eq!(directory.change(key, owner("redbank", Some("till"))), Ok(true));
        assert_eq!(directory.change(key, owner("redbank", Some("shop"))), Ok(false));
        assert_eq!(names(&directory, key), ["bluebank", "redbank"]);
        assert_eq!(directory.remove(key, Some("till")), Ok(true));
        assert_eq!(directory.remove(key, Some("till")), Ok(false));
        assert_eq!(directory.remove(key, None), Ok(true));
        assert_eq!(names(&directory, key), [""; 0]);
        assert_eq!(directory.remove(key, None), Ok(false));
        assert_eq!(directory.register(key, owner("bluebank", None)), Ok(true));
    }

    #[test]
    fn party_by_rule_can_be_changed_and_removed() {
        let directory = directory();
        assert_eq!(directory.remove("MSISDN/271", None), Ok(true));
        assert_eq!(names(&directory, "MSISDN/271"), [""; 0]);
        assert_eq!(directory.change("MSISDN/272", owner("three", None)), Ok(true));
        assert_eq!(names(&directory, "MSISDN/272"), ["three"]);
        for key in ["MSISDN/1", "EMAIL/x"] {
            assert_eq!(directory.change(key, owner("three", None)), Ok(false));
            assert_eq!(directory.remove(key, None), Ok(false));
        }
    }
}
