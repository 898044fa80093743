//! The keys of the hub, the DFSPs and the baselines of a run, for authentication.

use std::path::PathBuf;

use upesi_http::ClientTls;
use upesi_pki::Trial;
use upesi_settings::trial::{SecuredParts, settings};
use upesi_sim::{SecurityError, SimSecurity};
use upesi_tls::present_s;
use upesi_types::FspId;

use crate::drive::error::LabError;
use crate::plan::options::RunOptions;
use crate::plan::security::Security;
use crate::plan::target::TargetHub;

/// The hosts in the certificates of the hub and the DFSPs of a run.
const HOSTS: [&str; 3] = ["127.0.0.1", "::1", "localhost"];

/// Maximum age of a fulfilment: a setting, and its largest value.
const COMPLETED_AGE_S_MAX: (&str, &str) = ("fspiop.completed_timestamp_age_s_max", "604800");

/// The keys of a run. Keys that were made for the run are removed with this value.
#[derive(Debug)]
pub(crate) struct Keys {
    trial: Trial,
    own_directory: Option<PathBuf>,
}

impl Keys {
    /// Creates keys, or reads the keys of a running hub. `None` if the run has no authentication.
    pub fn of(options: &RunOptions, nonce: u64) -> Result<Option<Self>, LabError> {
        if let Some(directory) = &options.trial {
            return Ok(Some(Self { trial: Trial::open(directory)?, own_directory: None }));
        }
        if !options.security.needs_keys() {
            return Ok(None);
        }
        // The directory is not below `out`, because users publish that directory.
        let directory = std::env::temp_dir().join(format!("upesi-lab-keys-{nonce:016x}"));
        let names = options.dfsp_names();
        let address = options.sim_address.to_string();
        let mut hosts = HOSTS.to_vec();
        if !HOSTS.contains(&address.as_str()) {
            hosts.push(&address);
        }
        let trial = Trial::make(&directory, &names, &hosts, present_s())?;
        Ok(Some(Self { trial, own_directory: Some(directory) }))
    }

    pub const fn trial(&self) -> &Trial {
        &self.trial
    }

    /// Arguments that make a hub use the keys.
    pub fn hub_arguments(&self, security: Security) -> impl Iterator<Item = String> {
        let secured =
            SecuredParts { tls: security.is_mutual(), admin: false, signatures: security.is_signed() };
        let settings = settings(&self.trial, secured).into_iter();
        // Fulfilments that were signed ahead have an earlier completion time.
        let age = (security.sign_ahead > 0)
            .then(|| (COMPLETED_AGE_S_MAX.0.to_owned(), COMPLETED_AGE_S_MAX.1.to_owned()));
        settings.chain(age).map(|(key, value)| format!("--set={key}={value}"))
    }

    /// Arguments that make the forwarder use the keys.
    pub fn forwarder_arguments(&self, security: Security) -> Vec<String> {
        let mut arguments = vec!["--trial".to_owned(), self.trial.directory().display().to_string()];
        arguments.extend(security.is_mutual().then(|| "--tls=mutual".to_owned()));
        arguments.extend(security.is_signed().then(|| "--jws=enforce".to_owned()));
        arguments
    }

    /// TLS of a client that hub and forwarder trust.
    pub fn caller(&self, security: Security) -> Result<Option<ClientTls>, LabError> {
        let caller = || ClientTls::load(self.trial.caller()).map_err(SecurityError::Tls);
        Ok(security.is_mutual().then(caller).transpose()?)
    }

    /// TLS of the admin port of a running hub.
    pub fn operator(&self, target: &TargetHub) -> Result<Option<ClientTls>, LabError> {
        let operator = || ClientTls::load(self.trial.operator()).map_err(SecurityError::Tls);
        Ok(target.admin_url.starts_with("https://").then(operator).transpose()?)
    }

    pub fn dfsps(&self, names: &[FspId], security: Security) -> Result<SimSecurity, LabError> {
        Ok(SimSecurity::of_trial(&self.trial, names, security.protocols(), security.is_signed())?)
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        if let Some(directory) = &self.own_directory {
            let _ = std::fs::remove_dir_all(directory);
        }
    }
}
