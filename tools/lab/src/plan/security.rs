//! The authentication of hub, DFSPs and baselines in a run.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use upesi_tls::Protocols;

use crate::plan::section::Section;

/// Maximum number of transfers that are signed before a run: about half a gigabyte of signatures.
const SIGNED_AHEAD_MAX: u64 = 1_000_000;

/// The transport between hub and DFSPs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// Plain HTTP.
    #[default]
    Plain,
    /// By mutual TLS, in both directions; every DFSP has a certificate of its own.
    Mutual,
    /// Mutual TLS with HTTP/2 between hub and DFSPs.
    MutualHttp2,
}

/// Whether messages are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Signatures {
    /// Unsigned.
    #[default]
    Off,
    /// All messages are signed. Messages without a valid signature of their sender are rejected.
    Enforce,
}

/// The authentication of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Security {
    pub tls: Transport,
    pub jws: Signatures,
    /// Number of transfers that DFSPs sign before the load, for the hub and for each baseline. Later transfers are
    /// signed when they are sent, which takes longer than all of the hub's work on a transfer.
    pub sign_ahead: u64,
}

impl Security {
    /// Whether connections have TLS.
    pub fn is_mutual(self) -> bool {
        self.protocols().is_some()
    }

    /// The protocols of simulated DFSPs if connections have TLS. A hub offers HTTP/2 by default; the forwarder does not
    /// have it.
    pub fn protocols(self) -> Option<Protocols> {
        match self.tls {
            Transport::Plain => None,
            Transport::Mutual => Some(Protocols::Http1),
            Transport::MutualHttp2 => Some(Protocols::Http2AndHttp1),
        }
    }

    pub fn is_signed(self) -> bool {
        self.jws == Signatures::Enforce
    }

    pub fn needs_keys(self) -> bool {
        self.is_mutual() || self.is_signed()
    }

    /// Reads `[security]`.
    pub(crate) fn read(section: &mut Section<'_>) -> Self {
        Self {
            tls: section.value("tls").unwrap_or_default(),
            jws: section.value("jws").unwrap_or_default(),
            sign_ahead: section.integer("sign_ahead", 0..=SIGNED_AHEAD_MAX).unwrap_or(0),
        }
    }
}
