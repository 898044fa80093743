//! The settings of a hub as a command has them: arguments, file and environment.

use std::path::PathBuf;

use clap::Args;
use upesi_process::exit::{Exit, Failure};
use upesi_settings::{EffectiveSettings, Sources};

/// Sources of settings.
#[derive(Args, Clone, Debug, Default)]
pub struct SettingsArguments {
    /// TOML file with settings; `upesi config --reference --all` describes them.
    #[arg(long, value_name = "FILE", env = "UPESI_CONFIG")]
    pub config: Option<PathBuf>,
    /// Data directory (data.dir); created if missing.
    #[arg(long, value_name = "DIR")]
    pub data: Option<String>,
    /// Address of the FSPIOP port (fspiop.listen), such as 127.0.0.1:4000.
    #[arg(long, value_name = "ADDRESS")]
    pub fspiop: Option<String>,
    /// Address of the admin port (admin.listen), such as 127.0.0.1:4001.
    #[arg(long, value_name = "ADDRESS")]
    pub admin: Option<String>,
    /// Log level (log.level): off, error, warn, info, debug, trace, or directives.
    #[arg(long, value_name = "LEVEL")]
    pub log_level: Option<String>,
    /// Log format (log.format): pretty or json.
    #[arg(long, value_name = "FORMAT")]
    pub log_format: Option<String>,
    /// Any setting by its key, such as --set fspiop.workers=2. May be repeated.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub set: Vec<String>,
}

impl SettingsArguments {
    /// The sources that these arguments name, and this process's environment.
    pub fn sources(&self) -> Sources {
        let named = [
            ("--data", "data.dir", &self.data),
            ("--fspiop", "fspiop.listen", &self.fspiop),
            ("--admin", "admin.listen", &self.admin),
            ("--log-level", "log.level", &self.log_level),
            ("--log-format", "log.format", &self.log_format),
        ];
        // A flag for a single setting is more specific than --set, so it comes last and takes precedence.
        let any = self.set.iter().map(|text| {
            let (key, value) = text.split_once('=').unwrap_or((text, ""));
            (format!("--set {text}"), key.trim().to_owned(), value.trim().to_owned())
        });
        let named = named.into_iter().filter_map(|(flag, key, value)| {
            value.as_ref().map(|value| (flag.to_owned(), key.to_owned(), value.clone()))
        });
        Sources {
            file: self.config.clone(),
            environment: std::env::vars_os().collect(),
            flags: any.chain(named).collect(),
        }
    }
}

/// The settings in effect, or every mistake in them.
pub(super) fn settings(arguments: &SettingsArguments) -> Result<EffectiveSettings, Failure> {
    upesi_settings::load(&arguments.sources())
        .map_err(|mistakes| Failure::new(Exit::Usage, upesi_settings::describe(&mistakes)))
}
