//! How hub, DFSPs and baselines of a run prove who they are.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use upesi_tls::Protocols;

use super::section::Section;

/// Most transfers whose signatures are made before a run: about half a gigabyte of them.
const SIGNED_AHEAD_MAX: u64 = 1_000_000;

/// How hub and DFSPs connect to each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// By HTTP.
    #[default]
    Plain,
    /// By mutual TLS, in both directions; every DFSP has a certificate of its own.
    Mutual,
    /// The same with HTTP/2 between hub and DFSPs.
    MutualHttp2,
}

/// Whether messages are signed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Signatures {
    /// Unsigned.
    #[default]
    Off,
    /// Signed by all, and refused where the signature is missing or another's.
    Enforce,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Security {
    pub tls: Transport,
    pub jws: Signatures,
    /// Transfers whose signatures DFSPs make before the load, for the hub and for each baseline. Those after them are
    /// signed as they leave, which takes longer than all that a hub does about a transfer.
    pub sign_ahead: u64,
}

impl Security {
    const TRANSPORTS: [&'static str; 3] = ["plain", "mutual", "mutual-http2"];
    const SIGNATURES: [&'static str; 2] = ["off", "enforce"];

    /// Whether connections have TLS.
    pub fn is_mutual(self) -> bool {
        self.protocols().is_some()
    }

    /// What simulated DFSPs speak where connections have TLS. A hub offers HTTP/2 by itself; the forwarder has it not.
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
        let tls = section.choice("tls", &Self::TRANSPORTS).unwrap_or(0);
        let jws = section.choice("jws", &Self::SIGNATURES).unwrap_or(0);
        let sign_ahead = section.integer("sign_ahead", 0..=SIGNED_AHEAD_MAX).unwrap_or(0);
        Self {
            tls: [Transport::Plain, Transport::Mutual, Transport::MutualHttp2][tls],
            jws: [Signatures::Off, Signatures::Enforce][jws],
            sign_ahead,
        }
    }
}
