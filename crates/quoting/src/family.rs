//! What differs between the resources.

use upesi_delivery::relayed::Address;
use upesi_fspiop::Resource;
use upesi_ledger::EndpointType;

/// Where messages of a resource go, or `None` for a resource that is not served here.
pub(crate) const fn address(resource: Resource) -> Option<Address> {
    Some(Address::Base(match resource {
        Resource::Quotes => EndpointType::QUOTES,
        Resource::BulkQuotes => EndpointType::BULK_QUOTES,
        Resource::FxQuotes => EndpointType::FX_QUOTES,
        Resource::TransactionRequests => EndpointType::TRX_REQ_SERVICE,
        Resource::Authorizations => EndpointType::AUTHORIZATIONS,
        _ => return None,
    }))
}

/// What a message is called in texts to DFSPs.
pub(crate) const fn noun(resource: Resource) -> &'static str {
    match resource {
        Resource::TransactionRequests => "transaction request",
        Resource::Authorizations => "authorization",
        _ => "quote",
    }
}
