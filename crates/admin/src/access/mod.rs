//! Who may do what: permissions, roles, and how a caller is known.

mod authenticate;
mod bootstrap;
mod caller;
mod permission;
mod refusals;
mod roles;
mod token;

pub use authenticate::Access;
pub(crate) use authenticate::BOOTSTRAP;
pub use bootstrap::{BOOTSTRAP_FILE, BOOTSTRAP_MINUTES, BootstrapError, make_bootstrap};
pub use caller::Caller;
pub(crate) use caller::{SharedCaller, forbidden, unauthenticated};
pub(crate) use permission::{Permission, permission_of, permission_to_decide};
pub(crate) use roles::allow as roles_allow;
pub(crate) use token::Token;
