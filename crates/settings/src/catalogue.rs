//! Catalogue of all settings: key, kind, range, default and meaning.

use super::setting::{Setting, Values, field_kind, field_type, settings};

mod processing;

use processing::with_processing;

/// 2^20 bytes.
const MIB: u64 = 1 << 20;
/// Seven days in milliseconds, the maximum of idle times and cache times.
const WEEK_MS: u64 = 7 * 24 * 3_600_000;

with_processing! {
    /// The data directory. It contains the journal, snapshots of the state, and the archive of finished transfers.
    data: Data {
        /// Path of the data directory. The hub creates it if it is missing. Only one process at a time can use it.
        dir: path = "data",
        /// Whether the hub starts only if the data directory contains a ledger. With `true`, a hub whose volume is not
        /// mounted does not start with a new ledger. `upesi init` creates an empty ledger.
        must_exist: flag = "false",
        /// Length of a journal segment in bytes. The next segment is always reserved in advance.
        segment_bytes: integer(MIB, 4096 * MIB) = "67108864",
        /// Which journal segments to retain once they are archived and covered by a snapshot. `all`: every segment, so
        /// that the whole history can be audited. `needed`: only segments that a restart or an undelivered callback
        /// needs.
        keep_segments: choice("all", "needed") = "all",
        /// Number of records between snapshots.
        snapshot_every_records: integer(1_000, 1_000_000_000) = "262144",
        /// Size of the cache for archived transfers, in bytes.
        archive_cache_bytes: integer(MIB, 65_536 * MIB) = "33554432",
        /// Size in bytes of the `reserve` file, space that an operator can release when the disk is full; 0 disables
        /// it. The hub allocates it at start-up if the volume has twice this size free, and in addition
        /// `store.free_bytes_min`.
        reserve_bytes: integer(0, 1_048_576 * MIB) = "268435456",
    }

    /// Retention of finished transfers.
    archive: Archive {
        /// Days after which finished transfers are removed from the hub, followed by their journal segments; 0 retains
        /// them forever. Transfers are removed in portions, at most an eighth of this time late. A removed transfer is
        /// unknown to the hub: if its prepare is sent again, the hub processes it as a new transfer. The hub logs a
        /// warning at start-up if this is less than `hub.transfer_validity_max_s`.
        keep_days: integer(0, 36_500) = "0",
        /// Directory to which transfers are exported before they are removed; empty: no export. If the export fails,
        /// the transfers are not removed. Each node of a cluster exports from its own archive.
        export_dir: text(4096) = "",
        /// Format of these exports, as in `upesi export --format`.
        export_format: choice("csv", "jsonl", "parquet") = "csv",
    }

    /// The store, in `store/` of the data directory. It contains the built-in directory, the oracle registry and stored
    /// quotes.
    store: Store {
        /// Size of the cache for blocks of the store, in bytes.
        cache_bytes: integer(MIB, 65_536 * MIB) = "16777216",
        /// Disk space that the store keeps free, in bytes. If less is free, the store rejects writes; reads continue.
        free_bytes_min: integer(64 * MIB, 1_048_576 * MIB) = "536870912",
    }

    /// The FSPIOP port, for DFSPs.
    fspiop: Fspiop {
        /// Address to listen on. Port 0 selects any free port.
        listen: address = "127.0.0.1:4000",
        /// Number of threads that serve connections and deliver callbacks; 0: one per core.
        workers: integer(0, 256) = "0",
        /// Whether each of these threads is pinned to its own core, if there are as many threads as cores. Turn it off
        /// if other programs keep these cores busy.
        workers_pinned: flag = "true",
        /// Maximum size of a request body in bytes. Larger bodies are rejected with 400 and code 3104.
        body_bytes_max: integer(1024, 64 * MIB) = "5242880",
        /// Maximum size in bytes of the body of a message about transfers, because the journal stores these bodies. The
        /// longest field that such a message may contain has 32 KiB.
        transfer_body_bytes_max: integer(1024, 64 * MIB) = "65536",
        /// Maximum total size in bytes of bodies over 64 KiB that the hub holds at a time. A body counts from its first
        /// byte until it is forwarded or dropped. Requests beyond the limit are answered 503.
        large_bodies_bytes_max: integer(MIB, 65_536 * MIB) = "67108864",
        /// Maximum total size in bytes of the bodies of one sender that the hub holds at a time. Bodies over 16 KiB
        /// count while they are read, bodies over 64 KiB until they are forwarded or dropped. Requests beyond the limit
        /// are answered 503. The sender is the DFSP once its connection has carried a valid request of a participant,
        /// and the client's address before that.
        sender_bodies_bytes_max: integer(MIB, 65_536 * MIB) = "33554432",
        /// Maximum size of the request line and headers in bytes. Larger heads are rejected with 431.
        head_bytes_max: integer(8192, MIB) = "65536",
        /// Maximum number of open connections. At the limit, the hub accepts a new connection and closes another one.
        /// It chooses first a connection whose client has not read a response for a second, then one that has not
        /// carried a participant's request (longest idle first), then a waiting connection of a DFSP with more than an
        /// equal share, then one that has been idle for ten seconds. If there is none, the new connection is answered
        /// 503. If the limit of open files is too low, the hub lowers this setting and logs a warning.
        connections_max: integer(1, 1_000_000) = "10000",
        /// Maximum number of connections from one address that have not carried a participant's request. Beyond it, the
        /// longest idle of these is closed. IPv6 addresses are counted by their first 64 bits.
        strangers_per_address_max: integer(1, 1_000_000) = "2000",
        /// Maximum number of connections of one DFSP. Beyond it, a connection of the same DFSP that waits for its
        /// client is closed; if there is none, the new connection is answered 503. The same number limits the HTTP/2
        /// requests in flight of one DFSP, not counting the first of each connection. A gateway, and a client that
        /// names participants without proof, is counted by its certificate or else by its address. Lowered together
        /// with `connections_max`.
        connections_per_dfsp_max: integer(1, 1_000_000) = "2500",
        /// Maximum time from the first byte of a request's head to its last byte, in milliseconds.
        head_deadline_ms: integer(10, 600_000) = "10000",
        /// Maximum time from the end of a request's head to the end of its body, in milliseconds.
        body_deadline_ms: integer(10, 600_000) = "30000",
        /// Maximum idle time of a connection between requests, in milliseconds.
        idle_timeout_ms: integer(100, WEEK_MS) = "120000",
        /// Accepted protocol versions, in the order in which version errors list them.
        versions_accepted: versions = "1.0,1.1,2.0",
        /// Protocol version of messages that the hub creates.
        version_default: version = "1.1",
        /// Whether `GET` and `DELETE` requests need a `Content-Type`, as the standard requires. Requests without one
        /// are rejected with 400 and code 3102. If this is off, a DFSP may reject such a request when the hub forwards
        /// it.
        content_type_required: flag = "true",
        /// How far in the future the `completedTimestamp` of a fulfil may be, in milliseconds.
        completed_timestamp_lag_ms: integer(0, 3_600_000) = "200",
        /// How far in the past the `completedTimestamp` of a fulfil may be, in seconds.
        completed_timestamp_age_s_max: integer(1, 604_800) = "300",
        /// Networks from which DFSPs may connect: `greenbank=192.0.2.0/24, greenbank=2001:db8:7::/48,
        /// bluewallet=198.51.100.7/32`. A request of a listed DFSP from any other address is rejected with 403 and code
        /// 3000, and its connection is closed. DFSPs that are not listed may connect from anywhere. An IPv6 network has
        /// a prefix of at most 64 bits.
        address_lists: text(65536) = "",
        /// Networks of the load balancers in front of this port, which must send the PROXY protocol (version 1 or 2):
        /// `10.0.3.0/24, fd00:3::/64`; empty for none. If set, connections from other addresses and connections without
        /// the header are closed. The client's address in the header is then the one that `address_lists`, limits per
        /// address and logs use.
        proxy_protocol_from: text(4096) = "",
        /// Whether this port also serves what operators need: versions and parts of the hub in `GET /health`, a
        /// description of the service at `GET /`, the API documents, and `DELETE /endpointcache`. If not, `GET /health`
        /// and `GET /live` answer load balancers without details, and every other path outside the API is unknown. The
        /// admin port always serves everything.
        diagnostics: flag = "true",
        /// Whether paths may contain the party-id types CONSENT and THIRD_PARTY_LINK, which third-party schemes use.
        extended_party_id_types: flag = "false",
    }

    /// The port for the admin API, health and metrics.
    admin: Admin {
        /// Address to listen on. Port 0 selects any free port.
        listen: address = "127.0.0.1:4001",
        /// Whether clients must authenticate as operators with a token (`required`). With `off`, any client can do
        /// anything, so keep the port on a private network. [Operators](operators.md) describes the first steps.
        authentication: choice("off", "required") = "off",
        /// With `authentication = "required"`: whether changes that the [approval policy](operators.md#two-people)
        /// names need the approval of a second person (`required`) or not (`off`).
        approvals: choice("off", "required") = "required",
        /// With approvals: who may approve. `people`: only users, with a session of the hub or a provider's token that
        /// proves their login (`auth_time` and `amr`). `any`: also operators with a token. See
        /// [operators](operators.md#people).
        approvers: choice("any", "people") = "any",
        /// Hours after which a pending approval expires.
        approval_hours: integer(1, 720) = "24",
        /// Host name in participants' `id` and in `links.self` of responses.
        hostname: text(253) = "central-ledger",
        /// Host names or addresses, without a port and separated by commas, that requests may contain as `Host`.
        /// `localhost`, loopback addresses and the address of `admin.listen` are always allowed (any address if that is
        /// 0.0.0.0 or [::]). `*` allows all. Requests for other hosts are rejected with 421, so that web pages in an
        /// operator's browser cannot reach the port.
        allowed_hosts: text(4096) = "",
        /// Origins of the scheme's own web pages, such as `https://portal.example`, separated by commas. Needed for a
        /// portal behind a proxy that rewrites `Host`. Requests from pages of other origins are rejected with 403.
        allowed_origins: text(4096) = "",
        /// PEM file with the Ed25519 private key that signs [checkpoints of the audit trail](operators.md#checkpoints).
        /// It must be outside `data.dir` and not readable by every user. Empty: checkpoints are not signed.
        audit_key_file: text(4096) = "",
        /// RSA private key that protects [users' second factors](operators.md#people) in addition to their passwords: a
        /// PEM file outside `data.dir` that not every user can read, or `pkcs11:…`. Empty: second factors are protected
        /// by the password only. If the key is lost, enrolled users cannot log in.
        people_key_file: text(4096) = "",
        /// Maximum number of open connections. Beyond it, the longest idle one is closed. One client, by its
        /// certificate or else its address, may have half of them.
        connections_max: integer(2, 100_000) = "64",
        /// Whether `GET /debug/profile` and `GET /debug/heap` are served. They cost nothing until they are called.
        profiling: flag = "true",
    }

    /// The OpenID Connect provider of the scheme's own users and machines. With `admin.authentication = "required"`,
    /// the admin port accepts its tokens. [Operators](operators.md#an-identity-provider) describes the steps.
    oidc: Oidc {
        /// Issuer identifier of the provider, such as `https://id.example/realms/hub`; empty for none. The hub reads
        /// the provider's configuration at `/.well-known/openid-configuration` below it. `http://` is allowed only on
        /// this machine.
        issuer: text(1024) = "",
        /// PEM file of the authorities that may have issued the provider's certificate. Required for `https://`.
        anchors_file: text(4096) = "",
        /// Value that the `aud` claim of a token for this hub must contain.
        audience: text(1024) = "",
        /// Client applications whose tokens are accepted (claim `azp`, or `client_id`), separated by commas; empty for
        /// any.
        clients: text(4096) = "",
        /// Claim with the operator's name. The audit trail records it after the prefix `oidc:`. The provider must never
        /// reassign a name to another user.
        name_claim: text(128) = "sub",
        /// Claim with the list of groups. Dots lead into nested claims, as in `realm_access.roles`. A text is a single
        /// group, except that blanks separate the groups of `scope`.
        groups_claim: text(128) = "groups",
        /// Mapping of groups to [roles](operators.md#roles): `hub-treasury=treasury, hub-leads=treasury-approver`.
        roles: text(65536) = "",
        /// Maximum age in seconds of a user's login (`auth_time`) when the user [approves](operators.md#two-people); 0:
        /// no limit.
        approval_age_s: integer(0, 86_400) = "0",
        /// Login methods (`amr`), separated by commas, such as `mfa`. A user who approves must have used at least one
        /// of them; empty for any.
        approval_methods: text(1024) = "",
    }

    /// The OpenID Connect provider of the DFSPs' users and machines. Its tokens can have only the roles `dfsp-user` and
    /// `dfsp-machine`.
    oidc_dfsps: OidcDfsps {
        /// Issuer identifier of the provider; empty for none.
        issuer: text(1024) = "",
        /// PEM file of the authorities that may have issued the provider's certificate. Required for `https://`.
        anchors_file: text(4096) = "",
        /// Value that the `aud` claim of a token for this hub must contain.
        audience: text(1024) = "",
        /// Client applications whose tokens are accepted, separated by commas; empty for any.
        clients: text(4096) = "",
        /// Claim with the operator's name. The audit trail records it after the prefix `dfsp:`.
        name_claim: text(128) = "sub",
        /// Claim with the list of groups.
        groups_claim: text(128) = "groups",
        /// Mapping of groups to roles.
        roles: text(65536) = "",
        /// Claim with the name of the DFSP.
        participant_claim: text(128) = "participant",
    }

    /// The OAuth 2.0 provider of the DFSPs' clients. On the FSPIOP port, its tokens prove which DFSP sends a request.
    /// [TLS](tls.md#by-a-token) describes the steps.
    oauth: Oauth {
        /// Issuer identifier of the provider; empty for none. `http://` is allowed only on this machine. It may be the
        /// provider of another section, if the audiences of the tokens differ.
        issuer: text(1024) = "",
        /// PEM file of the authorities that may have issued the provider's certificate. Required for `https://`.
        anchors_file: text(4096) = "",
        /// Value that the `aud` claim of a token for the FSPIOP port must contain. It must differ from the audience of
        /// operators' tokens.
        audience: text(1024) = "",
        /// Whether each request needs a token, in addition to a client certificate if the port requires one
        /// (`required`), or may have one (`accepted`). Token and certificate must identify the same DFSP.
        tokens: choice("accepted", "required") = "required",
    }

    /// Security baseline that the hub enforces at start-up.
    security: Security {
        /// `production`: the hub does not start if one of these requirements is not met. FSPIOP port: mutual TLS with
        /// bindings of DFSPs, and no diagnostics. Callbacks: TLS, and connections only to public addresses and
        /// `outbound.networks`. Messages: signatures required, and signatures on the hub's own messages. Revocation
        /// lists for all authorities of peers. Admin port: TLS, authentication, approvals by users, and the keys
        /// `admin.people_key_file` and `admin.audit_key_file`. Metrics: mutual TLS, or loopback only. An existing
        /// ledger. A limit on lookups of unknown parties. No network or host list that allows everything. In a cluster:
        /// TLS to the brokers, with a client certificate or a login. `development`: the hub starts and logs the
        /// requirements that are not met.
        profile: choice("development", "production") = "development",
        /// Requirements of `production` to waive, separated by commas: `fspiop-tls`, `bindings`, `callbacks-tls`,
        /// `revocation-lists`, `signatures`, `signing`, `admin-tls`, `admin-authentication`, `admin-approvals`,
        /// `admin-approvers`, `oidc-approvals`, `people-key`, `audit-key`, `allowed-hosts`, `metrics-tls`,
        /// `metrics-clients`, `diagnostics`, `proxy-protocol`, `outbound-addresses`, `outbound-networks`,
        /// `lookup-misses`, `must-exist`, `brokers`. The hub logs each waived requirement at start-up.
        relaxed: text(1024) = "",
    }

    /// A cluster of hubs that share one log. [Cluster](cluster.md) describes the steps.
    cluster: Cluster {
        /// `none`: this hub is standalone and has its own journal. `kafka`: this hub is a node of a cluster whose
        /// journal is an Apache Kafka topic; the leader processes all requests. A data directory cannot be changed from
        /// one to the other.
        log: choice("none", "kafka") = "none",
        /// Identifier of the cluster: a random UUID, the same for all nodes.
        id: text(36) = "",
        /// Number of this node, unique within the cluster.
        node: integer(0, 1_000_000) = "0",
        /// Failover priority, 0 first. Each rank waits 300 ms longer before it takes over.
        rank: integer(0, 100) = "0",
        /// URL of this node, as other nodes show it in error messages, such as `https://hub-1.example:4000`.
        address: text(256) = "",
        /// Addresses of some of the brokers, separated by commas.
        brokers: text(4096) = "",
        /// Name of the Kafka topic.
        topic: text(249) = "upesi-journal",
        /// Number of replicas that the topic must have: `3`, of which two acknowledge each entry, or `1` for trials.
        replicas: choice("3", "1") = "3",
        /// Whether this node may become leader. If not, it stays a follower, even if a handover names it; `upesi
        /// cluster promote` still makes it leader. Turn it off while it is uncertain whether the topic contains
        /// everything that any node has acknowledged.
        may_lead: flag = "true",
        /// Whether this node, as a follower, delivers callbacks to its share of the DFSPs. This needs `cluster.listen`
        /// on the leader.
        may_deliver: flag = "true",
        /// Minimum time in hours for which the topic retains entries. Older entries are deleted once every node has
        /// copied them.
        keep_hours: integer(0, 876_000) = "168",
        /// Interval in seconds at which the leader looks for entries to delete.
        trim_interval_s: integer(1, 86_400) = "600",
        /// Address and port for requests that other nodes forward to this node while it is the leader, such as
        /// `0.0.0.0:4003`. With it, a follower also accepts requests from DFSPs and forwards them to the leader. Empty:
        /// only the leader accepts requests from DFSPs.
        listen: text(256) = "",
        /// Host and port of each node for forwarded requests, by the node's number: `1=hub-1.example:4003,
        /// 2=hub-2.example:4003`. The list must be the same on all nodes and include this node.
        nodes: text(4096) = "",
    }

    /// Mutual TLS between the nodes of a cluster. Required with `cluster.listen`.
    cluster_tls: ClusterTls {
        /// PEM file of this node's certificate and its intermediates. The certificate must be valid for servers and
        /// clients and contain the host name in `cluster.nodes`.
        certificate_file: text(4096) = "",
        /// PEM file of its private key, or the key's location in a PKCS #11 token. The hub does not start if every user
        /// can read the file.
        key_file: text(4096) = "",
        /// PEM file of the authorities that issue nodes' certificates. Any holder of a certificate from these
        /// authorities can act for every DFSP, so they must differ from those of `fspiop_tls`.
        anchors_file: text(4096) = "",
        /// PEM file of the revocation lists of these authorities; empty for none.
        crl_file: text(4096) = "",
    }

    /// TLS of connections to the brokers of the cluster's log. [Cluster](cluster.md#tls-and-log-in) describes the
    /// steps.
    broker_tls: BrokerTls {
        /// `plain`: no TLS. `tls`: brokers need a certificate for the host name in their address. `mutual`: the hub
        /// presents a certificate, too.
        mode: choice("plain", "tls", "mutual") = "plain",
        /// PEM file of the authorities that may have issued the brokers' certificates.
        anchors_file: text(4096) = "",
        /// PEM file of the certificate that the hub presents, with its intermediates, for `mutual`.
        certificate_file: text(4096) = "",
        /// PEM file of its private key. A key in a PKCS #11 token is not supported. The hub does not start if every
        /// user can read the file.
        key_file: text(4096) = "",
    }

    /// The hub's login at the brokers.
    broker_sasl: BrokerSasl {
        /// How the hub logs in, instead of or in addition to its certificate; `none`: no login. `PLAIN` requires TLS.
        mechanism: choice("none", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") = "none",
        /// User name of the hub.
        username: text(256) = "",
        /// File with the password, on one line. The hub does not start if every user of the machine can read it.
        password_file: text(4096) = "",
    }

    /// TLS of the FSPIOP port.
    fspiop_tls: FspiopTls {
        /// `plain`: no TLS. `tls`: the hub presents a certificate. `mutual`: clients must present one, too.
        mode: choice("plain", "tls", "mutual") = "plain",
        /// PEM file of the hub's certificate and its intermediates.
        certificate_file: text(4096) = "",
        /// PEM file of its private key, or the key's location in a PKCS #11 token. The hub does not start if every user
        /// can read the file.
        key_file: text(4096) = "",
        /// PEM file of the authorities that may have issued clients' certificates, for `mutual`.
        anchors_file: text(4096) = "",
        /// PEM file of the revocation lists of these authorities, for `mutual`; empty for none. If set, each authority
        /// of a client's certificate chain needs a list.
        crl_file: text(4096) = "",
        /// With `mutual`: whether a client's certificate must be bound to a DFSP. If not, a client whose certificate
        /// has no binding may send as any DFSP that has no bindings. Turn it off while you bind DFSPs one by one.
        bindings_required: flag = "true",
    }

    /// TLS of the admin port. Do not use the authorities of DFSPs here: the holder of any certificate from these
    /// authorities is an operator.
    admin_tls: AdminTls {
        /// `plain`: no TLS. `tls`: the hub presents a certificate. `mutual`: clients must present one, too.
        mode: choice("plain", "tls", "mutual") = "plain",
        /// PEM file of the hub's certificate and its intermediates.
        certificate_file: text(4096) = "",
        /// PEM file of its private key, or the key's location in a PKCS #11 token. The hub does not start if every user
        /// can read the file.
        key_file: text(4096) = "",
        /// PEM file of the authorities that may have issued clients' certificates, for `mutual`.
        anchors_file: text(4096) = "",
        /// PEM file of the revocation lists of these authorities, for `mutual`; empty for none. If set, each authority
        /// of a client's certificate chain needs a list.
        crl_file: text(4096) = "",
    }

    /// TLS of the metrics port (`metrics.listen`).
    metrics_tls: MetricsTls {
        /// `plain`: no TLS. `tls`: the hub presents a certificate. `mutual`: clients must present one, too.
        mode: choice("plain", "tls", "mutual") = "plain",
        /// PEM file of the hub's certificate and its intermediates.
        certificate_file: text(4096) = "",
        /// PEM file of its private key, or the key's location in a PKCS #11 token. The hub does not start if every user
        /// can read the file.
        key_file: text(4096) = "",
        /// PEM file of the authorities that may have issued clients' certificates, for `mutual`.
        anchors_file: text(4096) = "",
        /// PEM file of the revocation lists of these authorities, for `mutual`; empty for none. If set, each authority
        /// of a client's certificate chain needs a list.
        crl_file: text(4096) = "",
    }

    /// TLS of connections to DFSPs and oracles with `https://` addresses.
    outbound_tls: OutboundTls {
        /// PEM file of the authorities that may have issued the certificates of DFSPs and oracles. Empty: `https://`
        /// addresses are rejected.
        anchors_file: text(4096) = "",
        /// PEM file of the revocation lists of these authorities; empty for none.
        crl_file: text(4096) = "",
        /// PEM file of the certificate that the hub presents, with its intermediates; empty for none.
        certificate_file: text(4096) = "",
        /// PEM file of its private key, or the key's location in a PKCS #11 token.
        key_file: text(4096) = "",
        /// Directory with files for single DFSPs, by name, and for oracles, as `oracle-ID`; empty for none.
        /// `NAME.anchors.pem`: authorities of this DFSP or oracle, which replace those above. `NAME.crl.pem`: their
        /// revocation lists. `NAME.pem` and `NAME.key`: certificate and key that the hub presents to it instead of
        /// those above.
        own_directory: text(4096) = "",
        /// Whether the hub offers HTTP/2 in preference to HTTP/1.1.
        http2: flag = "true",
        /// Whether `http://` addresses are rejected when they are registered.
        https_only: flag = "false",
    }

    /// Allowed destinations of callbacks and lookups. [Security](security.md#outbound-connections) lists the address
    /// ranges.
    outbound: Outbound {
        /// `any`: any registered address. `public`: only public addresses and `outbound.networks`, not private,
        /// link-local, loopback or other special-purpose addresses. The resolved address of a host name is checked for
        /// each connection. `profile`: `public`, or `any` if `security.profile` is `development`.
        addresses: choice("profile", "any", "public") = "profile",
        /// With `public`: networks that are allowed although they are not public, such as a VPN with the DFSPs:
        /// `10.20.0.0/16, fd00:20::/64`.
        networks: text(4096) = "",
        /// With `public`: allowed ports, such as `443, 8443`; empty for 80, 443 and all ports from 1024.
        ports: text(1024) = "",
    }

    /// Signatures of messages (`FSPIOP-Signature`). [Signatures](signatures.md) describes the steps.
    jws: Jws {
        /// Handling of messages without a valid signature of their sender: ignore signatures (`off`), accept and count
        /// the message (`warn`), or reject it with 3105 (`enforce`).
        mode: choice("off", "warn", "enforce") = "off",
        /// Participants with another mode, such as `greenbank=warn, bluebank=off`.
        exceptions: text(65_536) = "",
        /// Directory of participants' public keys: files `NAME.pem`, each with up to three keys or certificates. The
        /// hub reads it again every `tls.reload_interval_s`. Empty: all keys are registered through the admin API.
        keys_dir: text(4096) = "",
        /// Whether P-256 keys (ES256) are accepted in addition to RSA keys.
        es256: flag = "false",
        /// Path that a proxy in front of the hub removes from requests, such as `/switch`. Signed URIs may contain it.
        base_path: text(256) = "",
        /// Handling of a `DELETE` without a signature, because Mojaloop's library cannot sign one. `proven`: accept it
        /// if a certificate, a token or a gateway proves its sender. `refuse`: treat it like any other unsigned
        /// message.
        unsigned_delete: choice("proven", "refuse") = "proven",
        /// Handling of a message that must be recent if its signature does not cover `Date`, which Mojaloop's library
        /// may omit. The unsigned `Date` is valid if a certificate, a token or a gateway proves the sender (`proven`),
        /// always (`accept`), or never (`refuse`).
        unprotected_date: choice("proven", "accept", "refuse") = "proven",
        /// Private key with which the hub signs messages that it creates: a PEM file, or the key's location in a PKCS
        /// #11 token, such as `pkcs11:token=hub;object=signing`. Empty: the hub does not sign.
        signing_key_file: text(4096) = "",
        /// Next signing key, in the same form. `GET /signatures/keys` shows its public key, so that DFSPs can fetch it
        /// before the hub uses it. The file may be missing.
        next_key_file: text(4096) = "",
        /// PEM file of the certificate of the signing key, if DFSPs verify with a certificate; empty for none. The hub
        /// reports the certificate's expiry and warns before it.
        signing_certificate_file: text(4096) = "",
    }

    /// PKCS #11 tokens, such as hardware security modules, for private keys that never leave the token.
    /// [Keys](tls.md#keys) describes the steps.
    pkcs11: Pkcs11 {
        /// PKCS #11 module of the token's manufacturer, a shared library. Empty: keys are in files.
        module: text(4096) = "",
        /// File with the user PIN of the tokens. The hub does not start if every user of the machine can read it.
        pin_file: text(4096) = "",
        /// Sessions per token, and therefore signatures that a token makes at a time.
        sessions_max: integer(1, 64) = "4",
    }

    /// Settings shared by all TLS listeners and clients.
    tls: Tls {
        /// Maximum time for a TLS handshake on a port, in milliseconds.
        handshake_deadline_ms: integer(100, 60_000) = "5000",
        /// Maximum number of unfinished handshakes on each port. Beyond it, the handshakes that have waited longest are
        /// closed.
        handshakes_max: integer(1, 100_000) = "512",
        /// Interval in seconds at which the hub reads the files again and checks open connections. SIGHUP does both
        /// immediately.
        reload_interval_s: integer(1, 3600) = "10",
        /// List of blocked keys and certificates, one per line: `spki-sha256:…` or `cert-sha256:…`, of clients or of
        /// authorities in their chains; empty for none. It takes effect immediately, before a revocation list contains
        /// them. Blocks in the [admin API](tls.md#blocks) apply in addition.
        blocked_file: text(4096) = "",
        /// Handling of certificates whose revocation list is past its `nextUpdate`: `accept` them and raise an alert,
        /// or `refuse` them.
        crl_stale: choice("accept", "refuse") = "accept",
        /// Whether ports with TLS offer HTTP/2 in preference to HTTP/1.1. A change takes effect at the next start.
        http2: flag = "true",
        /// Maximum number of requests in flight on one HTTP/2 connection. Each connection may always have one request
        /// in flight. Further requests share common limits: a port has as many as it may have connections. An address
        /// or a DFSP also has as many as it may have connections, but at most half of the port's.
        http2_streams_max: integer(1, 250) = "32",
    }
}
