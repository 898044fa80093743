//! Kinds of settings whose values are a few words.

use upesi_ledger::{FundsOutGuard, UnknownTransfer};

use super::kind::Choice;

/// Declares an enum for each such kind. Each variant is written as the word beside it.
macro_rules! choices {
    ($(
        $(#[doc = $about:literal])+
        $Name:ident { $($(#[doc = $help:literal])* $Variant:ident = $word:literal),+ $(,)? }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $Name { $($(#[doc = $help])* $Variant,)+ }

        impl Choice for $Name {
            const WORDS: &'static [(&'static str, Self)] = &[$(($word, Self::$Variant)),+];
        }
    )+};
}

choices! {
    /// Which journal segments to retain.
    KeepSegments { All = "all", Needed = "needed" }

    /// Format of exports.
    ExportFormat { Csv = "csv", Jsonl = "jsonl", Parquet = "parquet" }

    /// Whether something is required.
    Requirement { Off = "off", Required = "required" }

    /// Kind of operators that may approve changes.
    Approvers { Any = "any", People = "people" }

    /// Whether a request needs a token of the OAuth 2.0 provider.
    Tokens { Accepted = "accepted", Required = "required" }

    /// Security baseline that the hub enforces at start-up.
    Profile { Development = "development", Production = "production" }

    /// A requirement of the production profile.
    ProductionRule {
        FspiopTls = "fspiop-tls",
        Bindings = "bindings",
        CallbacksTls = "callbacks-tls",
        RevocationLists = "revocation-lists",
        Signatures = "signatures",
        Signing = "signing",
        AdminTls = "admin-tls",
        AdminAuthentication = "admin-authentication",
        AdminApprovals = "admin-approvals",
        AdminApprovers = "admin-approvers",
        OidcApprovals = "oidc-approvals",
        PeopleKey = "people-key",
        AuditKey = "audit-key",
        AllowedHosts = "allowed-hosts",
        MetricsTls = "metrics-tls",
        MetricsClients = "metrics-clients",
        Diagnostics = "diagnostics",
        ProxyProtocol = "proxy-protocol",
        OutboundAddresses = "outbound-addresses",
        OutboundNetworks = "outbound-networks",
        LookupMisses = "lookup-misses",
        MustExist = "must-exist",
        Brokers = "brokers",
    }

    /// Log that the nodes of a cluster share.
    ClusterLog { None = "none", Kafka = "kafka" }

    /// Number of replicas of a cluster's topic.
    TopicReplicas { Three = "3", One = "1" }

    /// How the hub logs in at the brokers.
    SaslMechanism {
        None = "none",
        Plain = "PLAIN",
        ScramSha256 = "SCRAM-SHA-256",
        ScramSha512 = "SCRAM-SHA-512",
    }

    /// Use of TLS.
    TlsMode { Plain = "plain", Tls = "tls", Mutual = "mutual" }

    /// Handling of certificates whose revocation list is out of date.
    StaleCrls { Accept = "accept", Refuse = "refuse" }

    /// Permitted destinations of the hub's connections.
    OutboundAddresses { Profile = "profile", Any = "any", Public = "public" }

    /// Handling of a message without a valid signature of its sender.
    SignatureMode {
        /// Signatures are not verified.
        Off = "off",
        /// The message is accepted and counted, so that an operator sees which participants are not ready.
        Warn = "warn",
        /// The message is rejected with 3105.
        Enforce = "enforce",
    }

    /// When the hub accepts a `DELETE` without a signature.
    UnsignedDelete { Proven = "proven", Refuse = "refuse" }

    /// When the hub accepts a message although its signature does not cover everything that it should.
    Unprotected {
        /// If a certificate, a token or a gateway proves the sender.
        Proven = "proven",
        /// Always.
        Accept = "accept",
        /// Never.
        Refuse = "refuse",
    }

    /// Handling of amounts with more decimals than their currency has.
    FinerAmounts { Accept = "accept", Reject = "reject" }

    /// Form of log lines.
    LogFormat { Pretty = "pretty", Json = "json" }
}

impl Choice for FundsOutGuard {
    const WORDS: &'static [(&'static str, Self)] =
        &[("position", Self::Position), ("settlement-account", Self::SettlementAccount)];
}

impl Choice for UnknownTransfer {
    const WORDS: &'static [(&'static str, Self)] = &[("2001", Self::InternalError), ("3208", Self::NotFound)];
}

impl Unprotected {
    /// Whether the hub accepts the message.
    pub const fn accepts(self, is_sender_proven: bool) -> bool {
        match self {
            Self::Refuse => false,
            Self::Proven => is_sender_proven,
            Self::Accept => true,
        }
    }
}

impl From<UnsignedDelete> for Unprotected {
    fn from(handling: UnsignedDelete) -> Self {
        match handling {
            UnsignedDelete::Proven => Self::Proven,
            UnsignedDelete::Refuse => Self::Refuse,
        }
    }
}
