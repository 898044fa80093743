//! Which hub that runs already a command of the lab drives.

use std::net::IpAddr;

use crate::TargetHub;
use clap::Args;

/// Where a hub that runs already is, and where it finds the simulators.
#[derive(Args, Clone, Debug)]
pub struct TargetArguments {
    /// Drive a hub that is running, by its FSPIOP base URL. One on another machine needs --sim-address too.
    #[arg(long, value_name = "URL", requires = "admin")]
    pub target: Option<String>,
    /// Base URL of that hub's lookups (/parties, /participants), where they are apart.
    #[arg(long, value_name = "URL", requires = "target")]
    pub target_lookups: Option<String>,
    /// Base URL of that hub's quotes (/quotes, /bulkQuotes, /fxQuotes), where they are apart.
    #[arg(long, value_name = "URL", requires = "target")]
    pub target_quotes: Option<String>,
    /// Base URL of that hub's transfers (/transfers), where they are apart.
    #[arg(long, value_name = "URL", requires = "target")]
    pub target_transfers: Option<String>,
    /// That hub's admin API.
    #[arg(long, value_name = "URL", requires = "target")]
    pub admin: Option<String>,
    /// Where that hub's metrics are: the URL of the text, or a base URL that has it at /metrics [the admin API]. May be
    /// repeated: what several services tell is added up.
    #[arg(long, value_name = "URL", requires = "target")]
    pub metrics: Vec<String>,
    /// That hub's process id on this machine, to measure its CPU and memory. May be repeated: several are added up, and
    /// listed.
    #[arg(long, value_name = "PID", requires = "target")]
    pub target_pid: Vec<u32>,
    /// Whether that hub makes transfers durable before it answers.
    #[arg(long, value_name = "BOOL", requires = "target")]
    pub target_durable: Option<bool>,
    /// Address that the simulators listen on; a hub on another machine must reach it.
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    pub sim_address: IpAddr,
}

impl TargetArguments {
    /// The hub, if one is named.
    pub fn hub(&self) -> Option<TargetHub> {
        let (fspiop_url, admin_url) = self.target.as_deref().zip(self.admin.as_deref())?;
        Some(TargetHub {
            lookups_url: self.target_lookups.clone(),
            quotes_url: self.target_quotes.clone(),
            transfers_url: self.target_transfers.clone(),
            metrics_urls: self.metrics.clone(),
            pids: self.target_pid.clone(),
            durable: self.target_durable,
            ..TargetHub::at(fspiop_url, admin_url)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::run::RunArguments;
    use crate::cli::suite::SuiteArguments;

    #[derive(Debug, clap::Parser)]
    enum Commands {
        Run(Box<RunArguments>),
        Suite(Box<SuiteArguments>),
    }

    fn parsed(line: &str) -> Result<Option<TargetHub>, clap::Error> {
        let commands = <Commands as clap::Parser>::try_parse_from(line.split_whitespace())?;
        Ok(match commands {
            Commands::Run(arguments) => arguments.target.hub(),
            Commands::Suite(arguments) => arguments.target.hub(),
        })
    }

    #[test]
    fn a_hub_of_several_services_and_processes_is_told_to_every_command() {
        let parts = "--target http://als:4002 --target-quotes http://quoting:3002 --target-transfers http://ml:3000 \
                     --admin http://ledger:3001 --metrics http://ml:3000 --metrics http://ledger:3001/metrics \
                     --target-pid 7 --target-pid 8 --target-durable false";
        let expected = TargetHub {
            quotes_url: Some("http://quoting:3002".to_owned()),
            transfers_url: Some("http://ml:3000".to_owned()),
            metrics_urls: vec!["http://ml:3000".to_owned(), "http://ledger:3001/metrics".to_owned()],
            pids: vec![7, 8],
            durable: Some(false),
            ..TargetHub::at("http://als:4002", "http://ledger:3001")
        };
        for command in ["run payments", "run payments --role load --instance 2", "suite architect"] {
            assert_eq!(parsed(&format!("lab {command} {parts}")).unwrap().as_ref(), Some(&expected));
        }
    }

    #[test]
    fn parts_belong_to_a_hub_that_is_named() {
        assert_eq!(parsed("lab run payments").unwrap(), None);
        for part in ["--metrics http://a", "--target-pid 7", "--target-lookups http://a", "--target http://a"]
        {
            assert!(parsed(&format!("lab run payments {part}")).is_err(), "{part}");
        }
    }
}
