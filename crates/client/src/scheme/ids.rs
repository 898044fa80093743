//! Ids of movements of funds that must not be made twice.

use sha2::{Digest, Sha256};
use upesi_types::{Currency, TransferId};

/// The id of a scheme's deposit for a DFSP in a currency. There is only one: whatever happens to the account and the
/// file, it has the same id, which the hub books once.
pub(super) fn deposit_id(scheme: &str, name: &str, currency: Currency) -> TransferId {
    derived_id(&["upesi scheme deposit, once", scheme, name, currency.as_str()])
}

/// The id of a movement of funds that must not be made twice: it is derived from the movement's data.
pub fn derived_id(parts: &[&str]) -> TransferId {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    TransferId::from_random_bytes(bytes)
}
