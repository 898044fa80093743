//! Protocol versions and which of them this hub speaks.

use alloc::vec;
use alloc::vec::Vec;
use core::fmt;

use crate::Resource;

/// A version of an FSPIOP resource, `major.minor`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// Changes when messages are no longer understood by older parties.
    pub major: u16,
    /// Changes when something is added.
    pub minor: u16,
}

impl Version {
    /// FSPIOP API 1.0: a payee answers `COMMITTED`, and no `PATCH` exists.
    pub const V1_0: Self = Self::new(1, 0);
    /// FSPIOP API 1.1: a payee may answer `RESERVED` and is told the outcome by `PATCH`.
    pub const V1_1: Self = Self::new(1, 1);
    /// FSPIOP API 2.0, the draft with currency conversion.
    pub const V2_0: Self = Self::new(2, 0);

    /// `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }

    /// Reads `1.1`; `None` when it is not two numbers without leading zeros.
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

/// The canonical decimal form only: versions are compared as texts by other hubs, so `01` is not `1`.
pub(crate) fn parse_number(digits: &str) -> Option<u16> {
    let canonical = digits == "0" || !digits.starts_with('0');
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit());
    if canonical && plain { digits.parse().ok() } else { None }
}

/// Which versions the hub accepts, and which one it stamps on messages it makes itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versions {
    /// Accepted in `Content-Type`; an `Accept` may name any of them, or only the major number of one.
    /// Version errors list them in this order.
    pub accepted: Vec<Version>,
    /// Stamped on hub-made messages.
    pub hub_made: Version,
}

impl Default for Versions {
    /// Accepts 1.0, 1.1 and 2.0, and makes 1.1.
    fn default() -> Self {
        Self { accepted: vec![Version::V1_0, Version::V1_1, Version::V2_0], hub_made: Version::V1_1 }
    }
}

impl Versions {
    /// Whether the `Content-Type` of a message may carry this version.
    pub fn accepts(&self, version: Version) -> bool {
        self.accepted.contains(&version)
    }

    /// Whether an `Accept` may ask for this major version, whatever the minor.
    pub fn accepts_major(&self, major: u16) -> bool {
        self.accepted.iter().any(|version| version.major == major)
    }

    /// The version that the hub stamps on a message of this family that it makes itself: the configured one, or the
    /// highest accepted one if the family is newer than that.
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
