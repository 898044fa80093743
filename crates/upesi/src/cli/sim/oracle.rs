//! `upesi sim oracle`: a simulated oracle as a process.

use std::net::SocketAddr;

use clap::Args;
use tokio::time::Instant;
use upesi_http::Workers;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::signals::stop_signal;
use upesi_process::values::{dfsp_name, socket_address};
use upesi_sim::{OracleConfig, OracleError, OracleRule, OracleSettings, OracleSimulator};
use upesi_types::FspId;

use super::{SHUTDOWN_TIMEOUT, default_names, runtime, worker_count};

/// Arguments of `upesi sim oracle`.
#[derive(Args, Clone, Debug)]
pub struct OracleArguments {
    /// Number of simulated DFSPs (dfsp-1, dfsp-2, …) whose parties it knows.
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub dfsps: usize,
    /// Name of a simulated DFSP, instead of --dfsps, in the order of `upesi sim`. May be repeated.
    #[arg(long = "dfsp", value_name = "NAME", value_parser = dfsp_name, conflicts_with = "dfsps")]
    pub names: Vec<FspId>,
    /// Parties of one DFSP, by the prefix of their identifiers: MSISDN:2609=greenbank. May be repeated.
    #[arg(long = "rule", value_name = "TYPE:PREFIX=DFSP", value_parser = rule)]
    pub rules: Vec<OracleRule>,
    /// Address to listen on; register http://ADDRESS as the oracle's endpoint.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5100", value_parser = socket_address)]
    pub listen: SocketAddr,
    /// Seed of the random faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of threads; by default one per core.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Delays and faults.
    #[command(flatten)]
    pub behaviour: OracleSettings,
}

fn rule(text: &str) -> Result<OracleRule, String> {
    let how = || "write a rule as TYPE:PREFIX=DFSP, such as MSISDN:2609=greenbank".to_owned();
    let (parties, fsp) = text.rsplit_once('=').ok_or_else(how)?;
    let (kind, prefix) = parties.split_once(':').ok_or_else(how)?;
    if kind.is_empty() || kind.contains('/') {
        return Err(how());
    }
    Ok(OracleRule { kind: kind.to_owned(), prefix: prefix.to_owned(), fsp: dfsp_name(fsp)?, currency: None })
}

/// Runs the oracle until SIGTERM or SIGINT.
pub fn run(arguments: &OracleArguments) -> Outcome {
    let names =
        if arguments.names.is_empty() { default_names(arguments.dfsps) } else { arguments.names.clone() };
    let mut config = OracleConfig::new(names);
    config.rules.extend(arguments.rules.iter().cloned());
    config.listen = arguments.listen;
    config.settings = arguments.behaviour;
    config.seed = arguments.seed;
    let workers = Workers::start_on_cores(worker_count(arguments.workers), "oracle")
        .map_err(|error| Failure::new(Exit::Unavailable, error))?;
    let runtime = runtime()?;
    let oracle =
        OracleSimulator::start(config, &workers).map_err(|error| Failure::new(exit(&error), error))?;
    write_out(&format!("oracle {}\n", oracle.base_url()))?;
    runtime.block_on(async {
        stop_signal().await;
        oracle.shutdown(Instant::now() + SHUTDOWN_TIMEOUT).await
    });
    workers.shutdown();
    Ok(())
}

const fn exit(error: &OracleError) -> Exit {
    match error {
        OracleError::Settings(_) => Exit::Usage,
        OracleError::Bind(_) => Exit::Unavailable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_name_type_prefix_and_dfsp() {
        for (text, kind, prefix, fsp) in [
            ("MSISDN:2609=greenbank", "MSISDN", "2609", "greenbank"),
            ("EMAIL:a:b=c=greenbank", "EMAIL", "a:b=c", "greenbank"),
            ("ALIAS:=greenbank", "ALIAS", "", "greenbank"),
        ] {
            let rule = rule(text).unwrap();
            assert_eq!((rule.kind.as_str(), rule.prefix.as_str(), rule.fsp.as_str()), (kind, prefix, fsp));
        }
        for text in ["", "MSISDN:26", "MSISDN=greenbank", ":26=greenbank", "MSISDN:26=x", "A/B:1=greenbank"] {
            assert!(rule(text).is_err(), "{text}");
        }
    }
}
