//! The reasons why a run fails.

use std::path::Path;

use upesi_pki::PkiError;
use upesi_sim::{SecurityError, SimError};

use crate::admin_client::AdminError;
use crate::drive::child::ChildError;
use crate::drive::onboard::OnboardError;
use crate::observe::hub_metrics::NoMetrics;
use crate::observe::process::ProcessError;
use crate::plan::options::OptionsError;

/// The reason why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    #[error(transparent)]
    Options(#[from] OptionsError),
    #[error(transparent)]
    Child(#[from] ChildError),
    #[error("the simulated DFSPs cannot start: {0}")]
    Sim(#[from] SimError),
    #[error(transparent)]
    Admin(#[from] AdminError),
    #[error("the hub cannot be prepared: {0}")]
    Onboard(#[from] OnboardError),
    #[error(transparent)]
    Workers(#[from] upesi_http::WorkersError),
    #[error(transparent)]
    Process(#[from] ProcessError),
    #[error(transparent)]
    Metrics(#[from] NoMetrics),
    #[error("the keys cannot be made: {0}")]
    Keys(#[from] PkiError),
    #[error("the keys cannot be used: {0}")]
    Security(#[from] SecurityError),
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

impl LabError {
    pub(crate) fn io(what: &str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        let what = format!("cannot {what} {}", path.display());
        move |source| Self::Io { what, source }
    }
}
