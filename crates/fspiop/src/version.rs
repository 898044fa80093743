//! Protocol versions, and the versions that this hub supports.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::Resource;

/// A version of an FSPIOP resource, `major.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Changes when older parties can no longer understand messages.
    pub major: u16,
    /// Changes when something is added.
    pub minor: u16,
}

impl Version {
    /// FSPIOP API 1.0: a payee answers `COMMITTED`, and no `PATCH` exists.
    pub const V1_0: Self = Self::new(1, 0);
    /// FSPIOP API 1.1: a payee may answer `RESERVED` and receives the outcome by `PATCH`.
    pub const V1_1: Self = Self::new(1, 1);
    /// FSPIOP API 2.0, the draft with currency conversion.
    pub const V2_0: Self = Self::new(2, 0);

    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Reads `1.1`. Returns `None` if the text is not two numbers without leading zeros.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, minor) = text.split_once('.')?;
        Some(Self::new(parse_number(major)?, parse_number(minor)?))
    }

    /// Whether a payee may answer `RESERVED` in this version: from 1.1 on (FSPIOP API v1.1 §6.7.2).
    pub fn allows_reserved(self) -> bool {
        self > Self::V1_0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Reads a number in canonical decimal form only, because other hubs compare versions as texts, so `01` is not `1`.
pub(crate) fn parse_number(digits: &str) -> Option<u16> {
    let canonical = digits == "0" || !digits.starts_with('0');
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    if canonical && plain { digits.parse().ok() } else { None }
}

/// The versions that the hub accepts, and the version of messages that it creates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Accepted in `Content-Type`. An `Accept` may name any of them, or only the major number of one. Version errors
    /// list them in this order.
    pub accepted: Vec<Version>,
    /// The version of messages that the hub creates.
    pub hub_made: Version,
}

impl Default for Versions {
    /// Accepts 1.0, 1.1 and 2.0, and creates messages of version 1.1.
    fn default() -> Self {
        Self { accepted: vec![Version::V1_0, Version::V1_1, Version::V2_0], hub_made: Version::V1_1 }
    }
}

impl Versions {
    /// Whether the `Content-Type` of a message may have this version.
    pub fn accepts(&self, version: Version) -> bool {
        self.accepted.contains(&version)
    }

    /// Whether an `Accept` may request this major version, with any minor version.
    pub fn accepts_major(&self, major: u16) -> bool {
        self.accepted.iter().any(|version| version.major == major)
    }

    /// The version of a message of this family that the hub creates. It is the configured version, or the highest
    /// accepted one if the family is newer.
    pub fn hub_made_of(&self, resource: Resource) -> Version {
        if self.hub_made < resource.since() {
            return self.accepted.iter().copied().max().unwrap_or(self.hub_made);
        }
        self.hub_made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hub_made_messages_have_a_version_of_their_family() {
        let versions = |hub_made| Versions { hub_made, ..Versions::default() };
        for (configured, resource, stamped) in [
            (Version::V1_1, Resource::Quotes, Version::V1_1),
            (Version::V2_0, Resource::Quotes, Version::V2_0),
            (Version::V1_0, Resource::Authorizations, Version::V1_0),
            (Version::V1_1, Resource::TransactionRequests, Version::V1_1),
            (Version::V2_0, Resource::TransactionRequests, Version::V2_0),
            (Version::V1_1, Resource::FxQuotes, Version::V2_0),
            (Version::V2_0, Resource::FxQuotes, Version::V2_0),
        ] {
            assert_eq!(versions(configured).hub_made_of(resource), stamped, "{configured} {resource:?}");
        }
        let old = Versions { accepted: vec![Version::V1_0], hub_made: Version::V1_0 };
        assert_eq!(old.hub_made_of(Resource::FxQuotes), Version::V1_0);
        let new = Versions { accepted: vec![Version::V2_0], hub_made: Version::V2_0 };
        assert_eq!(new.hub_made_of(Resource::Authorizations), Version::V2_0);
    }
}
