//! Which resource of the wire a kind of the ledger's is.

use upesi_ledger::ResourceKind;

use crate::Resource;

impl From<ResourceKind> for Resource {
    fn from(kind: ResourceKind) -> Self {
        match kind {
            ResourceKind::Transfer => Self::Transfers,
            ResourceKind::Conversion => Self::FxTransfers,
            ResourceKind::Bulk => Self::BulkTransfers,
        }
    }
}
