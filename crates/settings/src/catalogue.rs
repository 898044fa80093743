//! Catalogue of all settings: the sections with their groups.

mod cluster;
mod dfsp;
mod identity;
mod ports;
mod processing;
mod signatures;
mod storage;
mod tls;

use std::sync::LazyLock;

use upesi_types::FspId;

use super::setting::{Group, Setting, sections};

pub use cluster::{BrokerSasl, Cluster};
pub(crate) use dfsp::{DFSP_SECTION, key_prefix};
pub use dfsp::{Dfsp, DfspSettings};
pub use identity::{ClientProvider, OperatorProvider, Provider, Security};
pub use ports::{Admin, Fspiop, Metrics, Outbound};
pub use processing::{Admission, Callbacks, Engine, Hub, Log, Lookup, Oracles, Quotes, Relay, Shutdown};
pub use signatures::Jws;
pub use storage::{Archive, Data, Store};
pub use tls::{CommonTls, FspiopTls, OutboundTls, Pkcs11, Tls};

sections! {
    /// The data directory. It contains the journal, snapshots of the state, and the archive of finished transfers.
    data: Data,
    /// Retention of finished transfers.
    archive: Archive,
    /// The store, in `store/` of the data directory. It contains the built-in directory, the oracle registry and stored
    /// quotes.
    store: Store,
    /// The FSPIOP port, for DFSPs.
    fspiop: Fspiop,
    /// The port for the admin API, health and metrics.
    admin: Admin,
    /// The OpenID Connect provider of the scheme's own users and machines. With `admin.authentication = "required"`,
    /// the admin port accepts its tokens. [Operators](operators.md#an-identity-provider) describes the steps. The audit
    /// trail records the operator's name after the prefix `oidc:`.
    oidc: OperatorProvider { participant_claim = "" },
    /// The OpenID Connect provider of the DFSPs' users and machines. Its tokens can have only the roles `dfsp-user` and
    /// `dfsp-machine`. The audit trail records the operator's name after the prefix `dfsp:`.
    oidc_dfsps: OperatorProvider { approval_age_s = "0", approval_methods = "" } expert,
    /// The OAuth 2.0 provider of the DFSPs' clients. On the FSPIOP port, its tokens prove which DFSP sends a request.
    /// [TLS](tls.md#by-a-token) describes the steps. It may be the provider of another section, if the audiences of the
    /// tokens differ.
    oauth: ClientProvider expert,
    /// Security baseline that the hub enforces at start-up.
    security: Security,
    /// A cluster of hubs that share one log. [Cluster](cluster.md) describes the steps.
    cluster: Cluster,
    /// Mutual TLS between the nodes of a cluster. Required with `cluster.listen`. This node's certificate must be valid
    /// for servers and clients and contain the host name in `cluster.nodes`. Any holder of a certificate from the
    /// authorities can act for every DFSP, so they must differ from the authorities in `fspiop_tls`.
    cluster_tls: Tls { mode = "mutual" },
    /// TLS of connections to the brokers of the cluster's log. [Cluster](cluster.md#tls-and-login) describes the
    /// steps. Brokers need a certificate for the host name in their address. The key must be in a file: a key in a
    /// PKCS #11 token is not supported.
    broker_tls: Tls { crl_file = "" },
    /// The hub's login at the brokers.
    broker_sasl: BrokerSasl,
    /// TLS of the FSPIOP port.
    fspiop_tls: FspiopTls,
    /// TLS of the admin port. Do not use the authorities of DFSPs here: the holder of any certificate
    /// from these authorities is an operator.
    admin_tls: Tls,
    /// TLS of the metrics port (`metrics.listen`).
    metrics_tls: Tls expert,
    /// TLS of connections to DFSPs and oracles with `https://` addresses.
    outbound_tls: OutboundTls,
    /// Allowed destinations of callbacks and lookups. [Security](security.md#outbound-connections) lists the address
    /// ranges.
    outbound: Outbound,
    /// Signatures of messages (`FSPIOP-Signature`). [Signatures](signatures.md) describes the steps.
    jws: Jws,
    /// PKCS #11 tokens, such as hardware security modules, for private keys that never leave the token.
    /// [Keys](tls.md#keys) describes the steps.
    pkcs11: Pkcs11,
    /// Settings shared by all TLS listeners and clients.
    tls: CommonTls,
    /// Rules of the scheme. A change never affects earlier decisions.
    hub: Hub,
    /// The engine, the queue through which all requests are decided and written to the journal.
    engine: Engine,
    /// Limits and rejections under overload, described in docs/overload.md. New requests are POST, GET and DELETE. PUT
    /// completes earlier requests, so the hub rejects it last.
    admission: Admission,
    /// Callbacks to DFSPs. The limits apply to each DFSP's callback lane.
    callbacks: Callbacks,
    /// Messages that the hub forwards immediately: lookups, quotes, transaction requests, authorizations. They use the
    /// callback lanes, with separate connections.
    relay: Relay,
    /// Account lookup, which finds the DFSP of a party.
    lookup: Lookup,
    /// External oracles. The limits apply to each oracle.
    oracles: Oracles,
    /// Quotes, bulk quotes and FX quotes.
    quotes: Quotes,
    /// The log, on stderr. Message bodies are never logged.
    log: Log,
    /// Metrics, served at `GET /metrics` of the admin port.
    metrics: Metrics,
    /// Shutdown of the hub.
    shutdown: Shutdown,
}

/// Every setting, in the order of the documentation.
pub static CATALOGUE: LazyLock<Vec<Setting>> = LazyLock::new(|| {
    let mut settings = Vec::new();
    list_sections(&mut settings);
    DfspSettings::list(&DFSP_SECTION, &mut settings);
    settings
});
