//! The algorithms of signatures. The key decides which are possible; the protected header only selects one of them.

use aws_lc_rs::digest;

/// An algorithm of RFC 7518.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    Rs256,
    Rs384,
    Rs512,
    Es256,
}

impl Algorithm {
    /// The algorithm with a name. All other names are unknown, in particular `none` and the MACs.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        [Self::Rs256, Self::Rs384, Self::Rs512, Self::Es256].into_iter().find(|known| known.name() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Rs256 => "RS256",
            Self::Rs384 => "RS384",
            Self::Rs512 => "RS512",
            Self::Es256 => "ES256",
        }
    }

    pub(crate) fn digest(self) -> &'static digest::Algorithm {
        match self {
            Self::Rs256 | Self::Es256 => &digest::SHA256,
            Self::Rs384 => &digest::SHA384,
            Self::Rs512 => &digest::SHA512,
        }
    }
}
