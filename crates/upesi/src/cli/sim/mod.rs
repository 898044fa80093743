//! `upesi sim`: simulated DFSPs as a process.

mod oracle;
mod pay;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use tokio::runtime::Runtime;
use tokio::sync::mpsc;
use tokio::time::Instant;
use upesi_client::await_hub;
use upesi_client::scheme::{self, ApplyOptions};
use upesi_http::{ClientTls, Workers, available_cores};
use upesi_lab::cli::messages::MessagePrinter;
use upesi_process::exit::{Exit, Failure, Outcome, write_out};
use upesi_process::signals::stop_signal;
use upesi_process::terminal::Escaping;
use upesi_process::values::{WAIT_DEFAULT, currency, dfsp_name, socket_address, wait};
use upesi_sim::{DfspSettings, SeenMessage, SimConfig, SimError, Simulator, Upstream};
use upesi_types::{Currency, FspId};

use self::oracle::OracleArguments;
use self::pay::{PayArguments, RegisterArguments};
use super::hub::token_of;
use super::pki::SimulatedTrial;

/// Maximum time that a shutdown waits for requests in flight.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

const HUB: &str = "http://127.0.0.1:4000";
/// Address of the hub of a trial.
const SECURE_HUB: &str = "https://127.0.0.1:4000";

/// Maximum number of messages that wait to be printed.
const UNSHOWN_MESSAGES_MAX: usize = 1024;
/// How long messages are collected before they are sorted and printed.
const SORTING_TIME: Duration = Duration::from_millis(50);

/// Subcommands of `upesi sim`.
#[derive(Clone, Debug, Subcommand)]
pub enum SimCommand {
    /// Run a simulated oracle: an external party directory.
    ///
    /// Knows the parties of the DFSPs of `upesi sim` (MSISDNs of 15 digits: 260000 and nine more digits belong to the
    /// first DFSP, 260001 to the second and so on), the parties of its rules, and the parties that a hub has
    /// registered. GET /_sim/oracle shows settings and counters, PUT /_sim/oracle changes the behaviour. Prints its
    /// base URL, then runs until SIGTERM or SIGINT.
    Oracle(OracleArguments),
    /// Register a party of a simulated DFSP, so that it can be paid.
    ///
    /// Tells a running `upesi sim` to register the party at the hub, and to answer for it until the simulators stop.
    Register(RegisterArguments),
    /// Make a payment between simulated DFSPs.
    ///
    /// Tells a running `upesi sim` to look the payee up, request a quote and send the transfer. Prints the result when
    /// the payment has ended.
    Pay(PayArguments),
}

/// Arguments of `upesi sim`.
#[derive(Args, Clone, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub struct SimArguments {
    /// Instead of running DFSPs.
    #[command(subcommand)]
    pub command: Option<SimCommand>,
    /// Number of DFSPs (dfsp-1, dfsp-2, …).
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub dfsps: usize,
    /// Name of a DFSP, instead of --dfsps. May be repeated.
    #[arg(long = "dfsp", value_name = "NAME", value_parser = dfsp_name, conflicts_with = "dfsps")]
    pub names: Vec<FspId>,
    /// Address of the DFSPs; each has its name as base path: http://ADDRESS/dfsp-1.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5000", value_parser = socket_address)]
    pub listen: SocketAddr,
    /// Address of web sockets that report callbacks to load scripts: ws://ADDRESS/TRACE-ID/PUT/transfers/ID.
    #[arg(long, value_name = "ADDRESS", value_parser = socket_address)]
    pub sockets: Option<SocketAddr>,
    /// Simulate the DFSPs of a trial (`upesi pki trial`) with its keys, and apply its scheme to the hub first.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["dfsps", "names"])]
    pub trial: Option<PathBuf>,
    /// FSPIOP base URL of the hub [http://127.0.0.1:4000, with --trial https].
    #[arg(long, value_name = "URL")]
    pub hub: Option<String>,
    /// Base URL of the hub's admin API, for the scheme of a trial.
    #[arg(long, value_name = "URL", default_value = "https://127.0.0.1:4001", requires = "trial")]
    pub admin: String,
    /// File with the operator's token, for the scheme of a trial, if the admin port requires one.
    #[arg(long, value_name = "FILE", env = "UPESI_ADMIN_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Seconds to wait for the hub to answer; if it does not, the command exits. 0 does not wait.
    #[arg(long, value_name = "SECONDS", default_value = WAIT_DEFAULT, value_parser = wait)]
    pub wait: Duration,
    /// Currency that parties can receive; default XXX and XTS. May be repeated.
    #[arg(long = "currency", value_name = "CODE", value_parser = currency)]
    pub currencies: Vec<Currency>,
    /// Seed of the random faults.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Number of threads; by default one per core.
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Print every message of the DFSPs. Under load, messages that cannot be printed in time are omitted.
    #[arg(long)]
    pub show: bool,
    /// Delays and faults.
    #[command(flatten)]
    pub behaviour: DfspSettings,
}

/// Runs the simulators until SIGTERM or SIGINT. They answer while the command waits for the hub.
pub fn run(arguments: &SimArguments) -> Outcome {
    match &arguments.command {
        Some(SimCommand::Oracle(arguments)) => return oracle::run(arguments),
        Some(SimCommand::Register(arguments)) => return pay::register(arguments),
        Some(SimCommand::Pay(arguments)) => return pay::run(arguments),
        None => {}
    }
    let trial = arguments.trial.as_deref().map(SimulatedTrial::open).transpose()?;
    let usual = if trial.is_some() { SECURE_HUB } else { HUB };
    let hub = arguments.hub.clone().unwrap_or_else(|| usual.to_owned());
    let mut config = SimConfig::new(arguments.dfsps, Upstream::Hub(hub.clone()));
    let mut tls = None;
    if let Some(trial) = &trial {
        config.dfsps = trial.names.iter().map(|name| (*name, arguments.behaviour)).collect();
        config.security = trial.security()?;
        tls = Some(trial.caller()?);
    }
    if !arguments.names.is_empty() {
        config.dfsps = arguments.names.iter().map(|name| (*name, arguments.behaviour)).collect();
    }
    for (_, settings) in &mut config.dfsps {
        *settings = arguments.behaviour;
    }
    config.listen = arguments.listen;
    config.socket_listen = arguments.sockets;
    config.seed = arguments.seed;
    config.metrics = true;
    if !arguments.currencies.is_empty() {
        config.currencies.clone_from(&arguments.currencies);
    }
    let (watch, seen) = mpsc::channel(UNSHOWN_MESSAGES_MAX);
    config.watch = arguments.show.then_some(watch);
    let workers = Workers::start_on_cores(worker_count(arguments.workers), "sim")
        .map_err(|error| Failure::new(Exit::Unavailable, error))?;
    let runtime = runtime()?;
    let simulator =
        Simulator::start(config, &workers).map_err(|error| Failure::new(sim_exit(&error), error))?;
    for name in simulator.names() {
        write_out(&format!("{name} {}\n", simulator.base_url(&name)))?;
    }
    if let Some(address) = simulator.socket_addr() {
        write_out(&format!("sockets ws://{address}\n"))?;
    }
    let mut show = Show { seen, messages: Vec::new(), teller: MessagePrinter::verbatim() };
    let shown = runtime.block_on(async {
        let shown = tokio::select! {
            _ = stop_signal() => Ok(()),
            shown = show.run(), if arguments.show => shown,
            Err(failure) = prepare(arguments, trial.as_ref(), &hub, (tls.as_ref(), simulator.local_addr())) => Err(failure),
        };
        simulator.shutdown(Instant::now() + SHUTDOWN_TIMEOUT).await;
        shown
    });
    workers.shutdown();
    shown.and_then(|()| show.tell())
}

/// Waits for the hub, and applies the scheme of a trial.
async fn prepare(
    arguments: &SimArguments,
    trial: Option<&SimulatedTrial>,
    hub: &str,
    (tls, address): (Option<&ClientTls>, SocketAddr),
) -> Outcome {
    await_hub(hub, tls, arguments.wait).await?;
    let Some(trial) = trial else { return Ok(()) };
    let scheme = trial.scheme(address)?;
    let options = ApplyOptions {
        file: PathBuf::new(),
        admin_url: arguments.admin.clone(),
        admin_tls: Some(trial.operator()?),
        admin_token: arguments.token_file.as_deref().map(token_of).transpose()?,
        wait: arguments.wait,
        plan_only: false,
        json: false,
    };
    scheme::apply(&scheme, &options, &mut Escaping::new(std::io::stderr())).await
}

/// Prints the messages that DFSPs send and receive.
struct Show {
    seen: mpsc::Receiver<SeenMessage>,
    /// Messages that have not been printed yet.
    messages: Vec<SeenMessage>,
    teller: MessagePrinter,
}

impl Show {
    /// Prints messages as they arrive. Returns only on failure. If the future is dropped, [`Self::tell`] prints the
    /// remaining messages.
    async fn run(&mut self) -> Outcome {
        while self.seen.recv_many(&mut self.messages, UNSHOWN_MESSAGES_MAX).await > 0 {
            // A request is recorded when it is answered, which may be after the callback that it caused.
            tokio::time::sleep(SORTING_TIME).await;
            self.tell()?;
        }
        Ok(())
    }

    /// Prints all recorded messages.
    fn tell(&mut self) -> Outcome {
        while self.messages.len() < UNSHOWN_MESSAGES_MAX
            && let Ok(message) = self.seen.try_recv()
        {
            self.messages.push(message);
        }
        let text = self.teller.tell(&mut self.messages);
        self.messages.clear();
        write_out(&text)
    }
}

/// The requested number of threads, or one per core.
pub(super) fn worker_count(wanted: Option<usize>) -> usize {
    wanted.unwrap_or_else(available_cores)
}

/// The runtime that waits for the signal to stop.
pub(super) fn runtime() -> Result<Runtime, Failure> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(Exit::Unavailable, error))
}

/// The default names of DFSPs.
pub(super) fn default_names(count: usize) -> Vec<FspId> {
    SimConfig::new(count, Upstream::Peers).dfsps.into_iter().map(|(name, _)| name).collect()
}

fn sim_exit(error: &SimError) -> Exit {
    match error {
        SimError::Dfsps | SimError::Settings { .. } | SimError::Upstream(_) => Exit::Usage,
        SimError::Bind(_) | SimError::Socket { .. } => Exit::Unavailable,
    }
}
