//! Settings of the ports for DFSPs, operators and monitoring, and of outbound connections.

use crate::choices::{Approvers, OutboundAddresses, Requirement};
use crate::kind::{Flag, Hours, Integer, List, Milliseconds, Optional, Seconds};
use crate::setting::group;
use crate::words::{
    Address, AddressNetwork, FilePath, Host, KeyLocation, PageOrigin, Port, ProtocolVersion, Text,
};

/// 2^20 bytes.
const MIB: u64 = 1 << 20;
/// Seven days in milliseconds, the maximum of idle times and cache times.
const WEEK_MS: u64 = 7 * 24 * 3_600_000;

group! {
    /// The section `fspiop`.
    Fspiop {
        /// Address to listen on. Port 0 selects any free port.
        listen: Address = "127.0.0.1:4000",
        /// Number of threads that serve connections and deliver callbacks; 0: one per core.
        workers: Integer<0, 256, usize> = "0" expert,
        /// Maximum size of a request body in bytes. Larger bodies are rejected with 400 and code 3104.
        body_bytes_max: Integer<1024, { 64 * MIB }, usize> = "5242880" expert,
        /// Maximum size in bytes of the body of a message about transfers, because the journal stores these bodies. The
        /// longest field that such a message may contain has 32 KiB.
        transfer_body_bytes_max: Integer<1024, { 64 * MIB }, usize> = "65536" expert,
        /// Maximum total size in bytes of bodies over 64 KiB that the hub holds at a time. A body counts from its first
        /// byte until it is forwarded or dropped. Requests beyond the limit are answered 503.
        large_bodies_bytes_max: Integer<MIB, { 65_536 * MIB }, usize> = "67108864" expert,
        /// Maximum total size in bytes of the bodies of one sender that the hub holds at a time. Bodies over 16 KiB
        /// count while they are read, bodies over 64 KiB until they are forwarded or dropped. Requests beyond the limit
        /// are answered 503. The sender is the DFSP once its connection has carried a valid request of a participant,
        /// and the client's address before that.
        sender_bodies_bytes_max: Integer<MIB, { 65_536 * MIB }, usize> = "33554432" expert,
        /// Maximum size of the request line and headers in bytes. Larger heads are rejected with 431.
        head_bytes_max: Integer<8192, MIB, usize> = "65536" expert,
        /// Maximum number of open connections. At the limit, the hub accepts a new connection and closes another one.
        /// The first choice is a connection whose client has not read a response for a second. The second choice is a
        /// connection that has not carried a participant's request; the longest idle one is closed first. The third is
        /// a waiting connection of a DFSP with more than an equal share. The last is a connection that has been idle
        /// for ten seconds. If there is none of these, the new connection is answered 503. If the limit of open files
        /// is too low, the hub lowers this setting and logs a warning.
        connections_max: Integer<1, 1_000_000> = "10000" expert,
        /// Maximum number of connections from one address that have not carried a participant's request. Beyond it, the
        /// longest idle of these is closed. IPv6 addresses are counted by their first 64 bits.
        strangers_per_address_max: Integer<1, 1_000_000, usize> = "2000" expert,
        /// Maximum number of connections of one DFSP. Beyond it, a connection of the same DFSP that has waited for
        /// the rest of a request for a second, or has been idle for ten seconds, is closed. If there is none, the new
        /// connection is closed with its first answer. The same number limits the HTTP/2 requests in flight of one
        /// DFSP, not counting the first of each connection. A gateway counts by its certificate, or by its address if
        /// it has none. A client that names participants without proof counts in the same way. The hub lowers this
        /// setting together with `connections_max`.
        connections_per_dfsp_max: Integer<1, 1_000_000> = "2500" expert,
        /// Maximum time from the first byte of a request's head to its last byte, in milliseconds.
        head_deadline_ms: Milliseconds<10, 600_000> = "10000" expert,
        /// Maximum time from the end of a request's head to the end of its body, in milliseconds.
        body_deadline_ms: Milliseconds<10, 600_000> = "30000" expert,
        /// Maximum idle time of a connection between requests, in milliseconds.
        idle_timeout_ms: Milliseconds<100, WEEK_MS> = "120000" expert,
        /// Accepted protocol versions, in the order of version errors.
        versions_accepted: List<ProtocolVersion, 1> = "1.0,1.1,2.0" expert,
        /// Protocol version of messages that the hub creates.
        version_default: ProtocolVersion = "1.1" expert,
        /// Whether `GET` and `DELETE` requests need a `Content-Type`, as the standard requires. Requests without one
        /// are rejected with 400 and code 3102. If this is off, a DFSP may reject such a request when the hub forwards
        /// it.
        content_type_required: Flag = "true" expert,
        /// How far in the future the `completedTimestamp` of a fulfil may be, in milliseconds.
        completed_timestamp_lag_ms: Milliseconds<0, 3_600_000> = "200" expert,
        /// How far in the past the `completedTimestamp` of a fulfil may be, in seconds.
        completed_timestamp_age_s_max: Seconds<1, 604_800> = "300" expert,
        /// Networks of the load balancers in front of this port, which must send the PROXY protocol (version 1 or 2),
        /// such as `10.0.3.0/24`; empty for none. If set, connections from other addresses and connections without the
        /// header are closed. `networks` in `[[dfsp]]`, limits per address and logs then use the client's address in
        /// the header.
        proxy_protocol_from: List<AddressNetwork> = "",
        /// Whether this port also serves what operators need: versions and parts of the hub in `GET /health`, a
        /// description of the service at `GET /`, the API documents, and `DELETE /endpointcache`. If not, `GET /health`
        /// and `GET /live` answer load balancers without details, and every other path outside the API is unknown. The
        /// admin port always serves everything.
        diagnostics: Flag = "true",
        /// Whether paths may contain the party-id types CONSENT and THIRD_PARTY_LINK, which third-party schemes use.
        extended_party_id_types: Flag = "false" expert,
    }

    /// The section `admin`.
    Admin {
        /// Address to listen on. Port 0 selects any free port.
        listen: Address = "127.0.0.1:4001",
        /// Whether clients must authenticate as operators with a token (`required`). With `off`, any client can do
        /// anything, so keep the port on a private network. [Operators](operators.md) describes the first steps.
        authentication: Requirement = "off",
        /// With `authentication = "required"`: whether changes that the [approval policy](operators.md#two-people)
        /// names need the approval of a second person (`required`) or not (`off`).
        approvals: Requirement = "required",
        /// Kind of operators that may approve. `people`: only users, with a session of the hub or a provider's token
        /// that proves their login (`auth_time` and `amr`). `any`: also operators with a token. See
        /// [operators](operators.md#people).
        approvers: Approvers = "any",
        /// Hours after which a pending approval expires.
        approval_hours: Hours<1, 720> = "24" expert,
        /// Host name in participants' `id` and in `links.self` of responses.
        hostname: Text<253> = "central-ledger" expert,
        /// Host names or addresses, without a port, that requests may contain as `Host`. `localhost`, loopback
        /// addresses and the address of `admin.listen` are always allowed (any address if that is 0.0.0.0 or [::]). `*`
        /// allows all. Requests for other hosts are rejected with 421, so that web pages in an operator's browser
        /// cannot reach the port.
        allowed_hosts: List<Host> = "",
        /// Origins of the scheme's own web pages, such as `https://portal.example`. Needed for a portal behind a proxy
        /// that rewrites `Host`. Requests from pages of other origins are rejected with 403. The first one is the
        /// address of the console for logins by an [identity provider](console.md#login).
        allowed_origins: List<PageOrigin> = "" expert,
        /// PEM file with the Ed25519 private key that signs [checkpoints of the audit trail](operators.md#checkpoints).
        /// It must be outside `data.dir` and not readable by every user. Empty: checkpoints are not signed.
        audit_key_file: Optional<FilePath> = "",
        /// RSA private key that protects [users' second factors](operators.md#people) in addition to their passwords: a
        /// PEM file outside `data.dir` that not every user can read, or `pkcs11:…`. Empty: second factors are protected
        /// by the password only. If the key is lost, enrolled users cannot log in.
        people_key_file: Optional<KeyLocation> = "",
        /// Maximum number of open connections. Beyond it, the longest idle one is closed. One client, by its
        /// certificate or else its address, may have half of them.
        connections_max: Integer<2, 100_000, usize> = "64" expert,
        /// Whether `GET /debug/profile` and `GET /debug/heap` are served. They cost nothing until they are called.
        profiling: Flag = "true" expert,
    }

    /// The section `metrics`.
    Metrics {
        /// Whether requests, batches and callbacks are timed and counted. `false` is for measuring the cost of metrics.
        /// Values that are read at scrape time, such as positions and queues, are still served.
        record: Flag = "true" expert,
        /// Address of a separate port for a monitoring system, which serves only `GET /metrics`; empty for none. The
        /// admin port also serves metrics.
        listen: Optional<Address> = "",
        /// Minimum time between two computations of the metrics, in milliseconds. Requests in between wait for the next
        /// computation.
        interval_ms: Milliseconds<1, 60_000> = "1000" expert,
    }

    /// The section `outbound`.
    Outbound {
        /// `any`: any registered address. `public`: only public addresses and `outbound.networks`, not private,
        /// link-local, loopback or other special-purpose addresses. The resolved address of a host name is checked for
        /// each connection. `profile`: `public`, or `any` if `security.profile` is `development`.
        addresses: OutboundAddresses = "profile",
        /// With `public`: networks that are allowed although they are not public, such as a VPN with the DFSPs:
        /// `10.20.0.0/16, fd00:20::/64`.
        networks: List<AddressNetwork> = "",
        /// With `public`: allowed ports, such as `443, 8443`; empty for 80, 443 and all ports from 1024.
        ports: List<Port> = "" expert,
    }
}
