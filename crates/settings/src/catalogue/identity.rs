//! Settings of identity providers, and the security profile.

use crate::choices::{ProductionRule, Profile, Tokens};
use crate::kind::{Integer, List, Optional};
use crate::maps::RolesOfGroups;
use crate::setting::group;
use crate::words::{FilePath, Issuer, Text};

group! {
    /// An identity provider whose tokens a port accepts.
    Provider {
        /// Issuer identifier of the provider, such as `https://id.example/realms/hub`; empty for none. The hub reads
        /// the provider's configuration at `/.well-known/openid-configuration` below it. `http://` is allowed only on
        /// this machine.
        issuer: Optional<Issuer> = "",
        /// PEM file of the authorities that may have issued the provider's certificate. Required for `https://`.
        anchors_file: Optional<FilePath> = "",
        /// Value that the `aud` claim of a token for this port must contain.
        audience: Optional<Text<1024>> = "",
    }

    /// A provider whose users and machines are operators.
    OperatorProvider {
        /// The provider.
        provider: Provider,
        /// Client applications whose tokens are accepted (claim `azp`, or `client_id`); empty for any.
        clients: List<Text<1024>> = "" expert,
        /// Claim with the operator's name. The provider must never reassign a name to another user.
        name_claim: Text<128> = "sub" expert,
        /// Claim with the list of groups. Dots lead into nested claims, as in `realm_access.roles`. A text is a single
        /// group, except that blanks separate the groups of `scope`.
        groups_claim: Text<128> = "groups" expert,
        /// Table of groups and their [roles](operators.md#roles), such as `hub-treasury = "treasury"`. As a text:
        /// `hub-treasury=treasury, hub-leads=treasury-approver`.
        roles: RolesOfGroups = "",
        /// Claim with the name of the user's DFSP.
        participant_claim: Optional<Text<128>> = "participant" expert,
        /// Maximum age in seconds of a user's login (`auth_time`) when the user [approves](operators.md#two-people); 0:
        /// no limit.
        approval_age_s: Integer<0, 86_400, i64> = "0" expert,
        /// Login methods (`amr`), such as `mfa`. A user who approves must have used at least one of them; empty for
        /// any.
        approval_methods: List<Text<128>> = "" expert,
        /// Client id of the hub at the provider. With it, users [log in to the console](console.md#login) by the
        /// provider, and `admin.allowed_origins` must begin with the address of the console in browsers. Empty: users
        /// of the provider cannot log in to the console.
        login_client: Optional<Text<1024>> = "" expert,
        /// File with the client's secret in one line, which not every user can read. Empty for a public client.
        login_secret_file: Optional<FilePath> = "" expert,
        /// Scopes that the hub requests in addition to `openid`, so that the ID token contains the name and the groups.
        login_scopes: List<Text<128>> = "" expert,
    }

    /// A provider for the clients of DFSPs.
    ClientProvider {
        /// The provider.
        provider: Provider,
        /// Whether each request needs a token, in addition to a client certificate if the port requires one
        /// (`required`), or may have one (`accepted`). Token and certificate must identify the same DFSP.
        tokens: Tokens = "required" expert,
    }

    /// The section `security`.
    Security {
        /// `production`: the hub does not start if one of these requirements is not met. FSPIOP port: mutual TLS with
        /// bindings of DFSPs, and no diagnostics. Callbacks: TLS, and connections only to public addresses and
        /// `outbound.networks`. Messages: signatures required, and signatures on the hub's own messages. Revocation
        /// lists for all authorities of peers. Admin port: TLS, authentication, approvals by users, and the keys
        /// `admin.people_key_file` and `admin.audit_key_file`. Metrics: mutual TLS, or loopback only. An existing
        /// ledger. A limit on lookups of unknown parties. No network or host list that allows everything. In a cluster:
        /// TLS to the brokers, with a client certificate or a login. `development`: the hub starts and logs the
        /// requirements that are not met.
        profile: Profile = "development",
        /// Requirements of `production` to waive: `fspiop-tls`, `bindings`, `callbacks-tls`, `revocation-lists`,
        /// `signatures`, `signing`, `admin-tls`, `admin-authentication`, `admin-approvals`, `admin-approvers`,
        /// `oidc-approvals`, `people-key`, `audit-key`, `allowed-hosts`, `metrics-tls`, `metrics-clients`,
        /// `diagnostics`, `proxy-protocol`, `outbound-addresses`, `outbound-networks`, `lookup-misses`, `must-exist`,
        /// `brokers`. The hub logs each waived requirement at start-up.
        relaxed: List<ProductionRule> = "",
    }
}
