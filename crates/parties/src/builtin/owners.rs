//! The rules of registration, over the owners of one identifier, the oldest registration first. They are pure functions
//! without access to the store.

use upesi_types::{Currency, ErrorCode, FspId};

use super::{OWNERS_MAX, RegisterError};
use crate::party::{DirectoryEntry, Owner};

/// Adds an owner. `false` if the same DFSP had already registered it.
///
/// An entry without a currency covers all of them: no other DFSP may then register one of them, and it cannot cover all
/// if another DFSP has one.
pub(crate) fn register(owners: &mut Vec<Owner>, entry: &DirectoryEntry) -> Result<bool, RegisterError> {
    if let Some(other) = owners.iter().find(|owner| owner.fsp != entry.fsp && owner.overlaps(entry)) {
        return Err(RegisterError::AlreadyRegistered { id: entry.id.clone(), fsp: other.fsp });
    }
    insert(owners, entry)
}

/// Adds an owner if no entry has its sub id and currency.
fn insert(owners: &mut Vec<Owner>, entry: &DirectoryEntry) -> Result<bool, RegisterError> {
    match position(owners, entry) {
        Some(_) => Ok(false),
        None if owners.len() == OWNERS_MAX => Err(RegisterError::TooManyOwners),
        None => {
            owners.push(entry.owner());
            Ok(true)
        }
    }
}

/// Replaces an owner. An entry of another DFSP counts as the newest registration.
fn replace(owners: &mut Vec<Owner>, at: usize, owner: Owner) {
    if owners[at].fsp == owner.fsp {
        owners[at] = owner;
    } else {
        owners.remove(at);
        owners.push(owner);
    }
}

/// Adds an owner, or replaces the one with the same sub id and currency. `false` if nothing changed.
pub(crate) fn put(owners: &mut Vec<Owner>, entry: &DirectoryEntry) -> Result<bool, RegisterError> {
    match position(owners, entry) {
        Some(at) if owners[at].fsp != entry.fsp => {
            replace(owners, at, entry.owner());
            Ok(true)
        }
        _ => insert(owners, entry),
    }
}

/// Assigns an existing entry to another DFSP. If it is the only one of its sub id, its currency may also change.
pub(crate) fn change(
    owners: &mut Vec<Owner>,
    entry: &DirectoryEntry,
    by: Option<&FspId>,
) -> Result<bool, RegisterError> {
    let at = match position(owners, entry) {
        Some(at) => at,
        None => only_one_of(owners, entry.sub_id.as_deref()).ok_or(RegisterError::NotRegistered)?,
    };
    if by.is_some_and(|by| owners[at].fsp != *by) {
        return Err(RegisterError::NotOwner { code: ErrorCode::ADD_PARTY_INFORMATION });
    }
    let owner = entry.owner();
    if owners[at] == owner {
        return Ok(false);
    }
    replace(owners, at, owner);
    Ok(true)
}

/// Removes the entries of one sub id, of one currency or of all. Returns their number.
pub(crate) fn remove(
    owners: &mut Vec<Owner>,
    sub_id: Option<&str>,
    currency: Option<Currency>,
    by: Option<&FspId>,
) -> Result<usize, RegisterError> {
    let before = owners.len();
    let is_meant = |owner: &Owner| {
        owner.sub_id.as_deref() == sub_id && (currency.is_none() || owner.currency == currency)
    };
    let is_allowed = |owner: &Owner| by.is_none_or(|by| owner.fsp == *by);
    let meant = owners.iter().filter(|owner| is_meant(owner)).count();
    owners.retain(|owner| !(is_meant(owner) && is_allowed(owner)));
    match before - owners.len() {
        0 if meant > 0 => Err(RegisterError::NotOwner { code: ErrorCode::DELETE_PARTY_INFORMATION }),
        removed => Ok(removed),
    }
}

fn position(owners: &[Owner], entry: &DirectoryEntry) -> Option<usize> {
    owners.iter().position(|owner| owner.slot() == entry.slot())
}

fn only_one_of(owners: &[Owner], sub_id: Option<&str>) -> Option<usize> {
    let mut found = (0..owners.len()).filter(|at| owners[*at].sub_id.as_deref() == sub_id);
    found.next().filter(|_| found.next().is_none())
}
