//! Reasons why an action was not performed, and pending approvals.

use upesi_process::exit::{Exit, Failure};

use crate::admin_api::{AdminError, admin_failure};

/// Reason why an action was not performed.
#[derive(Debug, thiserror::Error)]
pub(super) enum SettlementError {
    #[error(transparent)]
    Admin(AdminError),
    #[error("{0}")]
    Stopped(String),
    /// The action needs these approvals first.
    #[error("{}", waiting_text(.0))]
    Waiting(Vec<u64>),
}

impl From<AdminError> for SettlementError {
    fn from(error: AdminError) -> Self {
        match error {
            AdminError::Waiting { approval, .. } => Self::Waiting(vec![approval]),
            error => Self::Admin(error),
        }
    }
}

impl SettlementError {
    pub(super) fn into_failure(self) -> Failure {
        match self {
            Self::Admin(error) => admin_failure(&error),
            Self::Stopped(text) => Failure::new(Exit::Failure, text),
            Self::Waiting(approvals) => {
                let made = if approvals.len() == 1 { "it" } else { "them" };
                Failure::new(Exit::Temporary, format!("{}, which makes {made}", waiting_text(&approvals)))
            }
        }
    }

    /// The failure of a command that continues from there when it is repeated.
    pub(super) fn into_failure_to_continue(self) -> Failure {
        match self {
            Self::Waiting(approvals) => {
                let again = "then repeat this command to continue";
                Failure::new(Exit::Temporary, format!("{}, {again}", waiting_text(&approvals)))
            }
            other => other.into_failure(),
        }
    }
}

/// The next step for pending approvals.
fn waiting_text(approvals: &[u64]) -> String {
    let ids: Vec<_> = approvals.iter().map(u64::to_string).collect();
    let (changes, them) = match ids.len() {
        1 => ("1 change needs".to_owned(), "it"),
        count => (format!("{count} changes need"), "them"),
    };
    let ids = ids.join(" ");
    format!("{changes} a second person: have {them} approved (upesi admin approve {ids})")
}

/// Pending approvals of steps, gathered while other steps continue.
#[derive(Debug, Default)]
pub(super) struct PendingApprovals(pub(super) Vec<u64>);

impl PendingApprovals {
    /// The result of a step; `None` if it needs an approval.
    pub(super) fn take<T>(&mut self, step: Done<T>) -> Done<Option<T>> {
        match step {
            Ok(done) => Ok(Some(done)),
            Err(SettlementError::Waiting(approvals)) => {
                self.0.extend(approvals);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// # Errors
    /// The pending approvals, if there are any.
    pub(super) fn check(self) -> Done<()> {
        if self.0.is_empty() { Ok(()) } else { Err(SettlementError::Waiting(self.0)) }
    }
}

pub(super) type Done<T> = Result<T, SettlementError>;
