//! The built-in directory as an oracle.

use upesi_delivery::relayed::ErrorInformation;
use upesi_parties::builtin::{BuiltInDirectory, RegisterError};
use upesi_parties::party::{DirectoryEntry, Owner};
use upesi_tables::TablesError;
use upesi_types::{Currency, FspId};

use super::{BatchInquiry, BatchOutcome, Oracle, OracleFailure, OracleFuture, OracleRequest};

/// Answers from the hub's store.
#[derive(Clone, Debug)]
pub struct BuiltInOracle(BuiltInDirectory);

impl BuiltInOracle {
    pub const fn new(directory: BuiltInDirectory) -> Self {
        Self(directory)
    }
}

impl From<RegisterError> for OracleFailure {
    fn from(error: RegisterError) -> Self {
        Self::Told { error: told(&error), is_not_found: matches!(error, RegisterError::NotRegistered) }
    }
}

fn told(error: &RegisterError) -> ErrorInformation {
    match error {
        RegisterError::Store(TablesError::NotLeading { .. }) => {
            ErrorInformation::new(error.code(), "Another node of the hub takes over")
        }
        RegisterError::Store(failed) => {
            tracing::error!(error = %failed, "cannot change the built-in directory");
            ErrorInformation::new(error.code(), "The directory cannot be changed now")
        }
        error => ErrorInformation::new(error.code(), &error.to_string()),
    }
}

impl Oracle for BuiltInOracle {
    fn is_kept_by_hub(&self) -> bool {
        true
    }

    fn has_moved(&self) -> bool {
        self.0.store().is_superseded()
    }

    fn find<'a>(&'a self, inquiry: &'a OracleRequest<'a>) -> OracleFuture<'a, Vec<Owner>> {
        let found = self.0.find_oldest_first(inquiry.party.kind, &inquiry.party.id_text());
        let found = found.map(|owners| in_currency(owners, inquiry.currency));
        Box::pin(std::future::ready(found.map_err(|error| {
            tracing::error!(%error, "cannot read the built-in directory");
            let error = ErrorInformation::new(error.code(), "The directory cannot be read now");
            OracleFailure::Told { error, is_not_found: false }
        })))
    }

    fn register<'a>(&'a self, inquiry: &'a OracleRequest<'a>, owner: FspId) -> OracleFuture<'a, ()> {
        Box::pin(async move { Ok(self.0.register(&entry(inquiry, owner)).await?) })
    }

    fn change<'a>(&'a self, inquiry: &'a OracleRequest<'a>, owner: FspId) -> OracleFuture<'a, ()> {
        Box::pin(async move { Ok(self.0.change(&entry(inquiry, owner), Some(&inquiry.requester)).await?) })
    }

    fn remove<'a>(&'a self, inquiry: &'a OracleRequest<'a>) -> OracleFuture<'a, ()> {
        Box::pin(async move {
            let OracleRequest { party, currency, requester, .. } = inquiry;
            let (id, sub_id) = (party.id_text(), party.sub_id_text());
            self.0.remove(party.kind, &id, sub_id.as_deref(), *currency, Some(requester)).await?;
            Ok(())
        })
    }

    fn register_batch<'a>(&'a self, batch: &'a BatchInquiry<'a>) -> OracleFuture<'a, BatchOutcome> {
        Box::pin(async move {
            let outcomes = self.0.register_batch(batch.entries.to_vec()).await?;
            Ok(outcomes.into_iter().map(|outcome| outcome.map_err(|error| told(&error))).collect())
        })
    }
}

pub(super) fn entry(inquiry: &OracleRequest<'_>, fsp: FspId) -> DirectoryEntry {
    let OracleRequest { party, currency, .. } = inquiry;
    DirectoryEntry {
        kind: party.kind,
        id: party.id_text().into(),
        sub_id: party.sub_id_text().map(Into::into),
        currency: *currency,
        fsp,
    }
}

/// The owners in a currency: for each sub id, the owner registered for this currency by name, otherwise the owner for
/// any currency. Without a currency all owners, in the given order.
fn in_currency(mut owners: Vec<Owner>, currency: Option<Currency>) -> Vec<Owner> {
    let Some(currency) = currency else { return owners };
    owners.retain(|owner| owner.currency.is_none_or(|of| of == currency));
    owners.sort_by(|one, other| (&one.sub_id, one.currency).cmp(&(&other.sub_id, other.currency)));
    // Ordered by sub id, owners for any currency first; such an owner is dropped if another one for the same sub id
    // follows.
    let mut fitting: Vec<Owner> = Vec::with_capacity(owners.len());
    for owner in owners {
        match fitting.last_mut() {
            Some(last) if last.sub_id == owner.sub_id => *last = owner,
            _ => fitting.push(owner),
        }
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lookup_with_currency_prefers_owners_registered_for_it() {
        let owner = |fsp: &str, currency: &str, sub_id: &str| Owner {
            fsp: FspId::parse(fsp).unwrap(),
            currency: Currency::parse(currency),
            sub_id: (!sub_id.is_empty()).then(|| sub_id.into()),
        };
        let owners = vec![
            owner("any", "", ""),
            owner("kes", "KES", ""),
            owner("usd", "USD", ""),
            owner("shop-any", "", "shop"),
            owner("till-kes", "KES", "till"),
        ];
        let names = |currency| {
            let found = in_currency(owners.clone(), Currency::parse(currency));
            found.into_iter().map(|owner| owner.fsp.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(names("USD"), ["usd", "shop-any"]);
        assert_eq!(names("KES"), ["kes", "shop-any", "till-kes"]);
        assert_eq!(names("EUR"), ["any", "shop-any"]);
        assert_eq!(names("").len(), 5);
    }
}
