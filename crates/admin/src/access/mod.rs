//! Access to the admin API: permissions, roles and authentication.

mod authenticate;
mod bootstrap;
mod break_glass;
mod caller;
pub(crate) mod cookie;
mod oidc;
mod permission;
mod provider_logins;
mod refusals;
mod rejected;
mod token;
mod users;

pub(crate) use authenticate::BOOTSTRAP;
pub use authenticate::{Access, AccessOptions};
pub use bootstrap::{BOOTSTRAP_FILE, BOOTSTRAP_MINUTES, BootstrapError, make_bootstrap};
pub use break_glass::{
    BREAK_GLASS_FILE, BREAK_GLASS_MINUTES, BreakGlassError, is_break_glass_open, open_break_glass,
    seal_break_glass,
};
pub use caller::Caller;
pub(crate) use caller::{CannotApprove, SharedCaller, forbidden, unauthenticated};
pub(crate) use oidc::{Fault, TokenIdentity};
pub use oidc::{Issuer, IssuerConfig};
pub(crate) use permission::{Permission, permission_of, permission_to_decide, roles_allow};
pub(crate) use provider_logins::{BegunLogin, FLOW_MS, RenewedSession};
pub(crate) use rejected::CredentialKind;
pub(crate) use token::Token;
pub use token::replace_private;
pub(crate) use users::{
    IDLE_MS, PASSWORD_BYTES_MAX, PASSWORD_CHARS_MIN, Password, Seed, Session, SessionOrigin, UnsealedSecret,
    UserRegistry, address_of, base32, device_uri, id_of, step_of,
};
