//! The settings: the one place where a key, its kind, its range, its default and its meaning are written down.

use super::setting::{Setting, Values, field_kind, field_type, settings};

mod processing;

use processing::with_processing;

/// 2^20 bytes.
const MIB: u64 = 1 << 20;
/// Seven days in milliseconds: the longest of any wait.
const WEEK_MS: u64 = 7 * 24 * 3_600_000;

with_processing! {
    /// The data directory: the journal, snapshots of the state, and the archive of finished transfers.
    data: Data {
        /// Data directory. Created if missing; one process at a time may use it.
        dir: path = "data",
        /// Whether a start needs a ledger in the data directory: a directory whose volume is not mounted is then not
        /// taken for a new hub. `upesi init` makes an empty one.
        must_exist: flag = "false",
        /// Length of a journal segment in bytes. One further segment is reserved ahead.
        segment_bytes: integer(MIB, 4096 * MIB) = "67108864",
        /// Journal segments that are archived and covered by a snapshot: `all` are kept, so that the whole history can
        /// be audited, or only those `needed` for a restart and for callbacks.
        keep_segments: choice("all", "needed") = "all",
        /// Records between snapshots.
        snapshot_every_records: integer(1_000, 1_000_000_000) = "262144",
        /// Cache for archived transfers, in bytes.
        archive_cache_bytes: integer(MIB, 65_536 * MIB) = "33554432",
        /// Room that the file `reserve` keeps for a full disk, in bytes; 0 for none. Taken by a start that finds this
        /// room, as much again, and `store.free_bytes_min` on the volume.
        reserve_bytes: integer(0, 1_048_576 * MIB) = "268435456",
    }

    /// How long finished transfers are kept.
    archive: Archive {
        /// Days after which finished transfers leave the hub, and their journal segments after them; 0 keeps them for
        /// ever. They leave in portions, at most an eighth of this late, and are unknown afterwards: a prepare that is
        /// sent again then is a new one. A start warns if this is less than `hub.transfer_validity_max_s`.
        keep_days: integer(0, 36_500) = "0",
        /// Directory to which they are exported before they leave; empty for none. Without a successful export they
        /// stay. Each node of a cluster exports its own.
        export_dir: text(4096) = "",
        /// Format of these exports, as of `upesi export --format`.
        export_format: choice("csv", "jsonl", "parquet") = "csv",
    }

    /// The store in `store/` of the data directory: the built-in directory, the registry of oracles, kept quotes.
    store: Store {
        /// Cache for blocks of the store, in bytes.
        cache_bytes: integer(MIB, 65_536 * MIB) = "16777216",
        /// Room to leave on the disk, in bytes; below it writes are refused and reads continue.
        free_bytes_min: integer(64 * MIB, 1_048_576 * MIB) = "536870912",
    }

    /// The FSPIOP port, for DFSPs.
    fspiop: Fspiop {
        /// Address to listen on. Port 0 takes any free one.
        listen: address = "127.0.0.1:4000",
        /// Threads that serve connections and deliver callbacks; 0 takes one per core.
        workers: integer(0, 256) = "0",
        /// Whether each of them keeps to its own core, if there are as many threads as cores. Turn it off if other
        /// programs keep these cores busy.
        workers_pinned: flag = "true",
        /// Longest request body in bytes; longer ones are answered 400 with code 3104.
        body_bytes_max: integer(1024, 64 * MIB) = "5242880",
        /// The same for messages about transfers, which the journal keeps: their longest member has 32 KiB.
        transfer_body_bytes_max: integer(1024, 64 * MIB) = "65536",
        /// Bytes of bodies over 64 KiB in the hub at a time, from their first byte until they are forwarded or given
        /// up; requests beyond are answered 503.
        large_bodies_bytes_max: integer(MIB, 65_536 * MIB) = "67108864",
        /// Bytes of one sender's bodies in the hub at a time: those over 16 KiB while they are read, those over 64 KiB
        /// until they are forwarded or given up; requests beyond are answered 503. A sender is a DFSP once its
        /// connection has carried a sound request of a participant, an address before.
        sender_bodies_bytes_max: integer(MIB, 65_536 * MIB) = "33554432",
        /// Longest request line and headers in bytes; longer ones are answered 431.
        head_bytes_max: integer(8192, MIB) = "65536",
        /// Connections served at a time. Beyond it, connections make room whose peer has not read an answer for a
        /// second, then those without a participant's request, longest idle first, then waiting ones of DFSPs with more
        /// than an equal part, then those idle for ten seconds; if there are none, a new one is answered 503.
        /// Lowered with a warning if the limit of open files is too small.
        connections_max: integer(1, 1_000_000) = "10000",
        /// Connections of one address without a participant's request; beyond it the longest idle of that address makes
        /// room. IPv6 addresses count by their first 64 bits.
        strangers_per_address_max: integer(1, 1_000_000) = "2000",
        /// Connections of one DFSP; beyond it one of that DFSP that waits for its peer makes room, or else a new one is
        /// answered 503. As many HTTP/2 requests of one DFSP are in flight, beside the first of each connection. A
        /// gateway counts by its certificate or its address, and so does what a request names without proof. Lowered
        /// with `connections_max`.
        connections_per_dfsp_max: integer(1, 1_000_000) = "2500",
        /// Time from the first byte of a request's head to its last, in milliseconds.
        head_deadline_ms: integer(10, 600_000) = "10000",
        /// Time from the end of a request's head to the end of its body, in milliseconds.
        body_deadline_ms: integer(10, 600_000) = "30000",
        /// Longest idle time of a connection between requests, in milliseconds.
        idle_timeout_ms: integer(100, WEEK_MS) = "120000",
        /// Protocol versions accepted, in the order of version errors.
        versions_accepted: versions = "1.0,1.1,2.0",
        /// Protocol version of hub-made messages.
        version_default: version = "1.1",
        /// Whether `GET` and `DELETE` need a `Content-Type`, as the standard demands; otherwise 400 with code 3102. If
        /// off, a DFSP may refuse such a request when it is forwarded.
        content_type_required: flag = "true",
        /// Tolerance for a `completedTimestamp` of a fulfil in the future, in milliseconds.
        completed_timestamp_lag_ms: integer(0, 3_600_000) = "200",
        /// Tolerance for a `completedTimestamp` of a fulfil in the past, in seconds.
        completed_timestamp_age_s_max: integer(1, 604_800) = "300",
        /// From where DFSPs may call: `greenbank=192.0.2.0/24, greenbank=2001:db8:7::/48, bluewallet=198.51.100.7/32`.
        /// Requests of a DFSP in the list from elsewhere are answered 403 with code 3000, and their connection is
        /// closed; others may call from anywhere. IPv6 networks have prefixes of up to 64 bits.
        address_lists: text(65536) = "",
        /// The load balancers before this port, which speak the PROXY protocol (version 1 or 2):
        /// `10.0.3.0/24, fd00:3::/64`; empty for none. All connections come by them then: others are closed, and so are
        /// those without the header. What it tells is where a connection comes from, in `address_lists`, bounds by
        /// address and logs.
        proxy_protocol_from: text(4096) = "",
        /// Whether this port shows what operators look at: versions and parts of the hub in `GET /health`, what is
        /// served at `GET /`, the API's documents, `DELETE /endpointcache`. If not, it has `GET /health` and `GET
        /// /live` for balancers, without details, and everything else beside the API is unknown. The admin port shows
        /// all.
        diagnostics: flag = "true",
        /// Whether paths may have the party-id types CONSENT and THIRD_PARTY_LINK of third-party schemes.
        extended_party_id_types: flag = "false",
    }

    /// The port of the admin API, health and metrics.
    admin: Admin {
        /// Address to listen on. Port 0 takes any free one.
        listen: address = "127.0.0.1:4001",
        /// Whether callers must say who they are by a token (`required`), or may do everything (`off`): then keep the
        /// port on a private network. [Operators](operators.md) has the first steps.
        authentication: choice("off", "required") = "off",
        /// With `authentication = "required"`: whether changes that the [approval policy](operators.md#two-people)
        /// names need a second person (`required`), or nobody's do (`off`).
        approvals: choice("off", "required") = "required",
        /// With approvals: whether only people approve, by a session of the hub or by a provider's token that has
        /// `auth_time` and `amr` of a log-in (`people`), or tokens of operators do, too (`any`).
        /// [Operators](operators.md#people).
        approvers: choice("any", "people") = "any",
        /// Hours that a change waits for a second person.
        approval_hours: integer(1, 720) = "24",
        /// Host in participants' `id` and `links.self` of answers.
        hostname: text(253) = "central-ledger",
        /// Hosts of requests, beside `localhost`, loopback addresses and the address of `admin.listen` (any address if
        /// that is 0.0.0.0 or [::]): names or addresses without a port, separated by commas; `*` for all. Other hosts
        /// are answered 421, so that pages in an operator's browser cannot reach the port.
        allowed_hosts: text(4096) = "",
        /// Origins of pages that are the port's own, such as `https://portal.example`, separated by commas: of a portal
        /// behind a proxy that rewrites `Host`. Requests of pages of other origins are answered 403.
        allowed_origins: text(4096) = "",
        /// PEM file with the private key of Ed25519 that signs [checkpoints of the audit
        /// trail](operators.md#checkpoints): not in `data.dir`, and not readable by everybody. Empty: none are signed.
        audit_key_file: text(4096) = "",
        /// Private key (RSA) that gives the secret under which [second factors of people](operators.md#people) are
        /// sealed beside their passwords: a PEM file, not in `data.dir` and not readable by everybody, or `pkcs11:…`.
        /// Empty: by passwords alone. Without the key that it was, nobody whom it concerns logs in.
        people_key_file: text(4096) = "",
        /// Connections served at a time; beyond it the longest idle makes room. One address may have half of them.
        connections_max: integer(2, 100_000) = "64",
        /// Whether `GET /debug/profile` and `GET /debug/heap` are served. They cost nothing until called.
        profiling: flag = "true",
    }

    /// The OpenID Connect provider of the scheme's own people and machines, whose tokens the admin port takes with
    /// `admin.authentication = "required"`. [Operators](operators.md#an-identity-provider).
    oidc: Oidc {
        /// Its identifier, such as `https://id.example/realms/hub`; empty for none. Its configuration is at
        /// `/.well-known/openid-configuration` below it. `http://` only on this machine.
        issuer: text(1024) = "",
        /// PEM file of the authorities whose certificates the provider may have; needed for `https://`.
        anchors_file: text(4096) = "",
        /// What `aud` of a token for this hub contains.
        audience: text(1024) = "",
        /// Applications that may have asked for the token (`azp`, or `client_id`), separated by commas; empty for any.
        clients: text(4096) = "",
        /// The claim that is the operator's name, which the audit trail has behind `oidc:`. It must never be given to
        /// somebody else.
        name_claim: text(128) = "sub",
        /// The claim that lists groups; dots lead into others, as in `realm_access.roles`. A text is one group, except
        /// that blanks separate the texts of `scope`.
        groups_claim: text(128) = "groups",
        /// The [roles](operators.md#roles) that groups give: `hub-treasury=treasury, hub-leads=treasury-approver`.
        roles: text(65536) = "",
        /// Seconds since the log-in (`auth_time`) within which a person may [approve](operators.md#two-people); 0: any.
        approval_age_s: integer(0, 86_400) = "0",
        /// Methods of log-in (`amr`), separated by commas, of which a person who approves has used one, such as `mfa`;
        /// empty for any.
        approval_methods: text(1024) = "",
    }

    /// The same for the people and machines of DFSPs, with the roles `dfsp-user` and `dfsp-machine` only.
    oidc_dfsps: OidcDfsps {
        /// Its identifier; empty for none.
        issuer: text(1024) = "",
        /// PEM file of the authorities whose certificates the provider may have; needed for `https://`.
        anchors_file: text(4096) = "",
        /// What `aud` of a token for this hub contains.
        audience: text(1024) = "",
        /// Applications that may have asked for the token, separated by commas; empty for any.
        clients: text(4096) = "",
        /// The claim that is the operator's name, which the audit trail has behind `dfsp:`.
        name_claim: text(128) = "sub",
        /// The claim that lists groups.
        groups_claim: text(128) = "groups",
        /// The roles that groups give.
        roles: text(65536) = "",
        /// The claim that is the name of the DFSP.
        participant_claim: text(128) = "participant",
    }

    /// The OAuth 2.0 provider of DFSPs' clients, whose tokens prove on the FSPIOP port which DFSP calls.
    /// [TLS](tls.md#by-a-token).
    oauth: Oauth {
        /// Its identifier; empty for none. `http://` only on this machine. It may be that of another section: what a
        /// token is for, its audience says.
        issuer: text(1024) = "",
        /// PEM file of the authorities whose certificates the provider may have; needed for `https://`.
        anchors_file: text(4096) = "",
        /// What `aud` of a token for the FSPIOP port contains. Not that of a token for operators.
        audience: text(1024) = "",
        /// Whether each request must show a token (`required`), beside a certificate that the port may ask for, or may
        /// (`accepted`). Both must be the same DFSP's.
        tokens: choice("accepted", "required") = "required",
    }

    /// How much the hub insists on.
    security: Security {
        /// `production`: it does not start without mutual TLS and bindings of DFSPs, TLS towards them, revocation
        /// lists, signatures both ways; TLS, authentication and approvals by people on the admin port, with the keys
        /// `admin.people_key_file` and `admin.audit_key_file`; metrics by mutual TLS or on loopback only; an FSPIOP
        /// port without diagnostics; a ledger that exists; callbacks to public addresses and `outbound.networks` only;
        /// a bound on lookups of unknown parties; lists of networks and hosts that do not mean all; and in a cluster
        /// TLS towards the brokers and a certificate or log-in there.
        /// `development`: it starts, and logs what is missing.
        profile: choice("development", "production") = "development",
        /// What `production` goes without, separated by commas: `fspiop-tls`, `bindings`, `callbacks-tls`,
        /// `revocation-lists`, `signatures`, `signing`, `admin-tls`, `admin-authentication`, `admin-approvals`,
        /// `admin-approvers`, `oidc-approvals`, `people-key`, `audit-key`, `allowed-hosts`, `metrics-tls`,
        /// `metrics-clients`, `diagnostics`, `proxy-protocol`, `outbound-addresses`, `outbound-networks`,
        /// `lookup-misses`, `must-exist`, `brokers`. Each is logged at the start.
        relaxed: text(1024) = "",
    }

    /// A cluster of hubs on one log: [cluster](cluster.md) has the steps.
    cluster: Cluster {
        /// `none`: this hub is alone, and the journal is its own. `kafka`: it is a node of a cluster whose journal is a
        /// topic of Apache Kafka, and decides while it leads. A data directory cannot change from one to the other.
        log: choice("none", "kafka") = "none",
        /// The cluster: a random UUID, the same for all its nodes.
        id: text(36) = "",
        /// This node, by a number that no other node of the cluster has.
        node: integer(0, 1_000_000) = "0",
        /// Its place in the order in which nodes take over: each waits 300 ms longer than the one before.
        rank: integer(0, 100) = "0",
        /// Where this node is reached, as the others shall say it, such as `https://hub-1.example:4000`.
        address: text(256) = "",
        /// Addresses of some brokers, separated by commas.
        brokers: text(4096) = "",
        /// The topic.
        topic: text(249) = "upesi-journal",
        /// Replicas that the topic must have: `3`, of which two acknowledge, or `1` for trials.
        replicas: choice("3", "1") = "3",
        /// Whether this node may take over after its start by itself. If not, it only follows: for the time in which it
        /// is not sure that the topic has all that any node acknowledged.
        may_lead: flag = "true",
        /// Whether this node delivers callbacks to its share of the DFSPs while another one leads. It needs
        /// `cluster.listen` at the node that leads.
        may_deliver: flag = "true",
        /// Hours for which the topic keeps entries at least. Older ones are deleted once every node has them in its
        /// copy.
        keep_hours: integer(0, 876_000) = "168",
        /// How often the node that leads looks for such entries, in seconds.
        trim_interval_s: integer(1, 86_400) = "600",
        /// Port to which other nodes hand requests on while this one leads, such as `0.0.0.0:4003`. With it a node also
        /// takes requests of DFSPs while it follows. Empty: it takes them only while it leads.
        listen: text(256) = "",
        /// Where the nodes reach these ports of each other, by number: `1=hub-1.example:4003, 2=hub-2.example:4003`.
        /// The same for all nodes, this one included.
        nodes: text(4096) = "",
    }

    /// TLS among the nodes of a cluster: each shows its certificate. Needed with `cluster.listen`.
    cluster_tls: ClusterTls {
        /// PEM file of this node's certificate and its intermediates. It is for listeners and callers, and has the host
        /// of `cluster.nodes`.
        certificate_file: text(4096) = "",
        /// PEM file of its private key, or its place in a token. The hub does not start if every user may read that.
        key_file: text(4096) = "",
        /// PEM file of the authorities of nodes. Who has a certificate of theirs may speak for every DFSP: they must be
        /// none of those of `fspiop_tls`.
        anchors_file: text(4096) = "",
        /// PEM file of the revocation lists of these authorities; empty for none.
        crl_file: text(4096) = "",
    }

    /// TLS towards the brokers of the cluster's log. [Cluster](cluster.md#tls-and-log-in).
    broker_tls: BrokerTls {
        /// `plain`: no TLS; `tls`: brokers show a certificate, for the name in their address; `mutual`: the hub shows
        /// one, too.
        mode: choice("plain", "tls", "mutual") = "plain",
        /// PEM file of the authorities whose certificates brokers may have.
        anchors_file: text(4096) = "",
        /// PEM file of the certificate that the hub shows, with its intermediates, for `mutual`.
        certificate_file: text(4096) = "",
        /// PEM file of its private key; not a place in a token. The hub does not start if every user may read it.
        key_file: text(4096) = "",
    }

    /// The log-in of the hub at these brokers.
    broker_sasl: BrokerSasl {
        /// How the hub says who it is, beside its certificate or instead; `none`: it does not log in. `PLAIN` needs
        /// TLS.
        mechanism: choice("none", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512") = "none",
        /// Its name.
        username: text(256) = "",
        /// File with its password, one line. The hub does not start if every user of the machine may read it.
        password_file: text(4096) = "",
    }

    /// TLS of the FSPIOP port.
    fspiop_tls: FspiopTls {
        /// `plain`: no TLS; `tls`: the hub shows its certificate; `mutual`: callers must show one, too.
        mode: choice("plain", "tls", "mutual") = "plain",
        /// PEM file of the hub's certificate and its intermediates.
        certificate_file: text(4096) = "",
        /// PEM file of its private key, or its place in a token. The hub does not start if every user may read that.
        key_file: text(4096) = "",
        /// PEM file of the authorities whose certificates callers may have, for `mutual`.
        anchors_file: text(4096) = "",
        /// PEM file of the revocation lists of these authorities, for `mutual`; empty for none. With it each authority
        /// of a caller's chain needs a list.
        crl_file: text(4096) = "",
        /// With `mutual`: whether a caller's certificate must be bound to a DFSP. If not, callers whose certificate is
        /// bound to none may name any DFSP that has no bindings: for the time in which DFSPs are bound one by one.
        bindings_required: flag = "true",
    }

    /// TLS of the admin port. Its authorities should not be those of DFSPs: who has a certificate of theirs is an
    /// operator.
    admin_tls: AdminTls {
        /// `plain`: no TLS; `tls`: the hub shows its certificate; `mutual`: callers must show one, too.
        mode: choice("plain", "tls", "mutual") = "plain",
        /// PEM file of the hub's certificate and its intermediates.
        certificate_file: text(4096) = "",
        /// PEM file of its private key, or its place in a token. The hub does not start if every user may read that.
        key_file: text(4096) = "",
        /// PEM file of the authorities whose certificates callers may have, for `mutual`.
        anchors_file: text(4096) = "",
        /// PEM file of the revocation lists of these authorities, for `mutual`; empty for none. With it each authority
        /// of a caller's chain needs a list.
        crl_file: text(4096) = "",
    }

    /// TLS of the port of metrics (`metrics.listen`).
    metrics_tls: MetricsTls {
        /// `plain`: no TLS; `tls`: the hub shows its certificate; `mutual`: callers must show one, too.
        mode: choice("plain", "tls", "mutual") = "plain",
        /// PEM file of the hub's certificate and its intermediates.
        certificate_file: text(4096) = "",
        /// PEM file of its private key, or its place in a token. The hub does not start if every user may read that.
        key_file: text(4096) = "",
        /// PEM file of the authorities whose certificates callers may have, for `mutual`.
        anchors_file: text(4096) = "",
        /// PEM file of the revocation lists of these authorities, for `mutual`; empty for none. With it each authority
        /// of a caller's chain needs a list.
        crl_file: text(4096) = "",
    }

    /// TLS of connections to DFSPs and oracles with `https://` addresses.
    outbound_tls: OutboundTls {
        /// PEM file of the authorities whose certificates DFSPs and oracles may have; empty: `https://` addresses are
        /// refused.
        anchors_file: text(4096) = "",
        /// PEM file of the revocation lists of these authorities; empty for none.
        crl_file: text(4096) = "",
        /// PEM file of the certificate that the hub shows, with its intermediates; empty for none.
        certificate_file: text(4096) = "",
        /// PEM file of its private key, or its place in a token.
        key_file: text(4096) = "",
        /// Directory with files of single DFSPs, by their names, and of oracles, as `oracle-ID`; empty for none.
        /// `NAME.anchors.pem`: the authorities whose certificates this one may have, instead of those above;
        /// `NAME.crl.pem`: their revocation lists; `NAME.pem` and `NAME.key`: certificate and key that the hub shows it
        /// instead of those above.
        own_directory: text(4096) = "",
        /// Whether HTTP/2 is offered before HTTP/1.1.
        http2: flag = "true",
        /// Whether `http://` addresses are refused when they are registered.
        https_only: flag = "false",
    }

    /// Where callbacks and lookups may lead. [Security](security.md#outbound-connections) has the ranges.
    outbound: Outbound {
        /// `any`: wherever a registered address leads. `public`: to no private, link-local, loopback or otherwise
        /// special address, whatever name leads to it, unless it is in `outbound.networks`; addresses are checked for
        /// each connection. `profile`: `public`, unless `security.profile` is `development`.
        addresses: choice("profile", "any", "public") = "profile",
        /// With `public`: networks that may be called although they are not public, such as a VPN with the DFSPs:
        /// `10.20.0.0/16, fd00:20::/64`.
        networks: text(4096) = "",
        /// With `public`: ports that may be called, such as `443, 8443`; empty for 80, 443 and those from 1024 on.
        ports: text(1024) = "",
    }

    /// Signatures of messages (`FSPIOP-Signature`). [Signatures](signatures.md) has the steps.
    jws: Jws {
        /// What a message without its sender's signature meets: nothing (`off`); it is taken and counted (`warn`); it
        /// is refused with 3105 (`enforce`).
        mode: choice("off", "warn", "enforce") = "off",
        /// Participants with another mode, such as `greenbank=warn, bluebank=off`.
        exceptions: text(65_536) = "",
        /// Directory of participants' public keys: `NAME.pem`, with up to three keys or certificates each. Read again
        /// every `tls.reload_interval_s`. Empty: all keys come by the admin API.
        keys_dir: text(4096) = "",
        /// Whether keys on P-256 are taken (ES256), beside RSA.
        es256: flag = "false",
        /// Path that a proxy in front of the hub takes off requests, such as `/switch`: signed URIs may have it.
        base_path: text(256) = "",
        /// A `DELETE` without a signature, which Mojaloop's library cannot make: it passes if a certificate, a token or
        /// a gateway proves its sender (`proven`), or counts as any unsigned message (`refuse`).
        unsigned_delete: choice("proven", "refuse") = "proven",
        /// A message that must be recent, and whose signature leaves out `Date`, as Mojaloop's library may: the
        /// unsigned `Date` counts if a certificate, a token or a gateway proves the sender (`proven`), always
        /// (`accept`), or never (`refuse`).
        unprotected_date: choice("proven", "accept", "refuse") = "proven",
        /// PEM file of the private key by which the hub signs what it makes itself, or its place in a token:
        /// `pkcs11:token=hub;object=signing`; empty: the hub signs nothing.
        signing_key_file: text(4096) = "",
        /// The same of the key that will sign next. Its public part is shown by `GET /signatures/keys`, so that DFSPs
        /// have it in time. A file may be missing.
        next_key_file: text(4096) = "",
        /// PEM file of the certificate of the signing key, if DFSPs verify by a certificate; empty for none. The hub
        /// shows when it ends, and warns before.
        signing_certificate_file: text(4096) = "",
    }

    /// PKCS #11 tokens, such as hardware modules, for private keys that never leave them. [Keys](tls.md#keys) has the
    /// steps.
    pkcs11: Pkcs11 {
        /// The module of the tokens' maker, a shared library; empty: keys are in files.
        module: text(4096) = "",
        /// File with the PIN of the tokens' user. The hub does not start if every user of the machine may read it.
        pin_file: text(4096) = "",
        /// Sessions of each token, and so signatures that it makes at a time.
        sessions_max: integer(1, 64) = "4",
    }

    /// What all TLS has in common.
    tls: Tls {
        /// Time for a handshake on a port, in milliseconds.
        handshake_deadline_ms: integer(100, 60_000) = "5000",
        /// Unfinished handshakes at a time on each port; for a further one those that have waited longest make room.
        handshakes_max: integer(1, 100_000) = "512",
        /// Interval at which the files are read again and connections are checked, in seconds. SIGHUP does it at once.
        reload_interval_s: integer(1, 3600) = "10",
        /// List of keys and certificates that callers are refused with at once, before a revocation list names them:
        /// `spki-sha256:…` or `cert-sha256:…` a line, of callers and of authorities on the way to them; empty for none.
        /// Blocks of the [admin API](tls.md#blocks) count besides.
        blocked_file: text(4096) = "",
        /// Certificates whose revocation list is past its `nextUpdate`: `accept` with an alarm, or `refuse`.
        crl_stale: choice("accept", "refuse") = "accept",
        /// Whether ports with TLS offer HTTP/2 before HTTP/1.1. Takes effect with a new start.
        http2: flag = "true",
        /// Requests that an HTTP/2 connection may have in flight. Beside the first request of each connection, a port
        /// has at most as many in flight as connections, and so has an address or a DFSP, up to half of the port's.
        http2_streams_max: integer(1, 250) = "32",
    }
}
