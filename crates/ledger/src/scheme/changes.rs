//! Operators' changes of participants as data, with their stored and printed forms.

use alloc::boxed::Box;

use upesi_types::{FspId, Timestamp};

use crate::base::stored::stored_struct;
use crate::base::table::shown_struct;
use crate::scheme::endpoint::EndpointType;
use crate::scheme::signature_key::PublicKeyDer;

/// An endpoint of a participant as it should be after the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointValue {
    pub kind: EndpointType,
    /// URL template or address.
    pub value: Box<str>,
}

/// A key to be added to a participant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSignatureKey {
    pub name: FspId,
    pub public_key: PublicKeyDer,
    /// Start of the validity of the key's certificate.
    pub not_before: Option<Timestamp>,
    /// End of the validity of the key's certificate.
    pub not_after: Option<Timestamp>,
    /// Time when the participant starts to sign with the key. If absent, now.
    pub starts_at: Option<Timestamp>,
    /// Hours during which earlier keys remain valid after this key has started.
    pub overlap_hours: u16,
}

stored_struct! {
    EndpointValue { kind, value }
    NewSignatureKey { name, public_key, not_before, not_after, starts_at, overlap_hours }
}

shown_struct! {
    EndpointValue { kind as "endpointType", value }
    NewSignatureKey {
        name, public_key as "publicKey", not_before as "notBefore", not_after as "notAfter", starts_at as "startsAt",
        overlap_hours as "overlapHours",
    }
}
