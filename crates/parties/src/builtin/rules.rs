//! The rules of registration, over the owners of one identifier. Pure; the store is elsewhere.

use upesi_types::{Currency, ErrorCode, FspId};

use super::{OWNERS_MAX, RegisterError};
use crate::party::{Entry, Owner};

/// Adds an owner. `false`: it was there already, from an earlier registration by the same DFSP.
///
/// An entry without a currency claims all of them: nobody else may then take one of them away, nor claim all where
/// others have some.
pub(crate) fn register(owners: &mut Vec<Owner>, entry: &Entry) -> Result<bool, RegisterError> {
    if let Some(other) = owners.iter().find(|owner| owner.fsp != entry.fsp && owner.overlaps(entry)) {
        return Err(RegisterError::AlreadyRegistered { id: entry.id.clone(), fsp: other.fsp });
    }
    insert(owners, entry)
}

/// Adds an owner where its place is free.
fn insert(owners: &mut Vec<Owner>, entry: &Entry) -> Result<bool, RegisterError> {
    match position(owners, entry) {
        Ok(_) => Ok(false),
        Err(_) if owners.len() == OWNERS_MAX => Err(RegisterError::TooManyOwners),
        Err(at) => {
            owners.insert(at, entry.owner());
            Ok(true)
        }
    }
}

/// Adds an owner, or replaces whoever was in its place. `false`: nothing changed.
pub(crate) fn put(owners: &mut Vec<Owner>, entry: &Entry) -> Result<bool, RegisterError> {
    match position(owners, entry) {
        Ok(at) if owners[at].fsp != entry.fsp => {
            owners[at].fsp = entry.fsp;
            Ok(true)
        }
        _ => insert(owners, entry),
    }
}

/// Gives an entry that exists another DFSP or, if it is the only one of its sub id, another currency.
pub(crate) fn change(owners: &mut [Owner], entry: &Entry, by: Option<&FspId>) -> Result<bool, RegisterError> {
    let at = match position(owners, entry) {
        Ok(at) => at,
        Err(_) => only_one_of(owners, entry.sub_id.as_deref()).ok_or(RegisterError::NotRegistered)?,
    };
    if by.is_some_and(|by| owners[at].fsp != *by) {
        return Err(RegisterError::NotOwner { code: ErrorCode::ADD_PARTY_INFORMATION });
    }
    let owner = entry.owner();
    if owners[at] == owner {
        return Ok(false);
    }
    // The only one of its sub id, or in its own place: the order stays.
    owners[at] = owner;
    Ok(true)
}

/// Removes the entries of one sub id: those of one currency, or all. Returns how many.
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

fn position(owners: &[Owner], entry: &Entry) -> Result<usize, usize> {
    owners.binary_search_by(|owner| owner.slot().cmp(&entry.slot()))
}

fn only_one_of(owners: &[Owner], sub_id: Option<&str>) -> Option<usize> {
    let mut found = (0..owners.len()).filter(|at| owners[*at].sub_id.as_deref() == sub_id);
    found.next().filter(|_| found.next().is_none())
}
