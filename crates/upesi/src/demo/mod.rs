//! `upesi demo`: the whole product in a minute. A hub, simulated DFSPs, a scheme, one transfer to look at, then load.

mod messages;

use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use upesi_http::Workers;
use upesi_lab::{Baseline, HubProcess, RunOptions, TargetHub};
use upesi_sim::{Originator, OriginatorOptions, SeenMessage, SimConfig, Simulator, Upstream};
use upesi_types::{Amount, Currency};

use crate::exit::{Exit, Failure, Outcome};
use crate::scheme::{self, ApplyOptions, file::Scheme};
use crate::signals::stop_signal;

/// The scheme of the demo is the example that users copy.
const SCHEME: &str = include_str!("../../../../examples/scheme.toml");
/// Where the example expects the simulators.
const SCHEME_BASE_URL: &str = "http://127.0.0.1:5000/{name}";
const DFSPS: usize = 8;
/// Messages of the transfer that is shown: two requests, two callbacks.
const MESSAGES: usize = 4;
const PATIENCE: Duration = Duration::from_secs(10);

/// Arguments of `upesi demo`.
#[derive(Args, Clone, Debug)]
pub struct DemoArguments {
    /// Seconds of load.
    #[arg(long, value_name = "SECONDS", default_value_t = 15)]
    pub seconds: u64,
    /// Leave hub and simulators running at the end, until Ctrl-C.
    #[arg(long)]
    pub keep: bool,
    /// Directory for the hub's data, its log and result.json; emptied first.
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    pub out: PathBuf,
}

/// Runs the demo and prints what happens.
pub fn run(arguments: &DemoArguments) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(unavailable)?;
    let workers = Workers::start(2, "demo").map_err(unavailable)?;
    let outcome = runtime.block_on(Demo::start(arguments, &workers))?.tell(&runtime, &workers);
    workers.shutdown();
    outcome
}

fn unavailable(error: impl Display) -> Failure {
    Failure::new(Exit::Unavailable, error)
}

fn say(text: impl Display) {
    // A reader that went away does not stop the demo.
    let _ = writeln!(io::stdout().lock(), "{text}");
}

fn title(number: u8, text: &str) {
    say(format_args!("\n── {number} ── {text}\n"));
}

struct Demo<'arguments> {
    arguments: &'arguments DemoArguments,
    hub: HubProcess,
    simulator: Simulator,
    seen: mpsc::Receiver<SeenMessage>,
    scheme: Scheme,
}

impl<'arguments> Demo<'arguments> {
    async fn start(arguments: &'arguments DemoArguments, workers: &Workers) -> Result<Self, Failure> {
        let out = &arguments.out;
        let data = out.join("data");
        empty(out)?;
        title(1, "a hub on an empty data directory, and eight simulated DFSPs");
        let binary = std::env::current_exe().map_err(unavailable)?;
        let hub =
            HubProcess::start(&binary, &data, &[], Some(&out.join("hub.log"))).await.map_err(unavailable)?;
        let (watch, seen) = mpsc::channel(64);
        let config =
            SimConfig { watch: Some(watch), ..SimConfig::new(DFSPS, Upstream::Hub(hub.fspiop_url())) };
        let simulator = Simulator::start(config, workers).map_err(unavailable)?;
        say(format_args!("   FSPIOP API   {}", hub.fspiop_url()));
        say(format_args!("   admin API    {}", hub.admin_url()));
        say(format_args!(
            "   data         {} (journal, snapshots, archive; every 202 is synced to disk)",
            data.display()
        ));
        say(format_args!("   DFSPs        http://{}/dfsp-1 to /dfsp-{DFSPS}", simulator.local_addr()));
        let base_url = format!("http://{}/{{name}}", simulator.local_addr());
        let text = SCHEME.replace(SCHEME_BASE_URL, &base_url);
        let scheme = scheme::file::parse("examples/scheme.toml", &text)
            .map_err(|mistakes| Failure::new(Exit::Software, mistakes.join("\n")))?;
        Ok(Self { arguments, hub, simulator, seen, scheme })
    }

    fn tell(mut self, runtime: &tokio::runtime::Runtime, workers: &Workers) -> Outcome {
        title(
            2,
            "the scheme: hub accounts, settlement model, DFSPs, caps, funds, endpoints (examples/scheme.toml)",
        );
        runtime.block_on(self.show_scheme())?;
        title(3, "one transfer of 125.5 KES, as the DFSPs see it");
        runtime.block_on(self.show_one_transfer(workers))?;
        let seconds = self.arguments.seconds;
        title(
            4,
            &format!("{seconds} s of load: 32 virtual users over 8 DFSPs, a plain forwarder for comparison"),
        );
        let passed = self.load()?;
        title(5, "look further (KEEP=1 make demo, or upesi demo --keep, leaves it running)");
        say(format_args!("   curl {}/metrics     stages, lanes, positions", self.hub.admin_url()));
        say(format_args!("   curl {}/participants/dfsp-1/accounts", self.hub.admin_url()));
        say(format_args!(
            "   upesi audit {0}     verifies the data once the hub has stopped",
            self.arguments.out.join("data").display()
        ));
        say(format_args!("   upesi journal {0} --limit 5", self.arguments.out.join("data").display()));
        if self.arguments.keep {
            runtime.block_on(self.keep())?;
        }
        runtime.block_on(self.simulator.shutdown(Instant::now() + PATIENCE));
        self.hub.end();
        if passed {
            Ok(())
        } else {
            Err(Failure::new(Exit::Failure, "the audit of the load run does not hold"))
        }
    }

    async fn apply_scheme(&self, output: &mut (dyn Write + Send)) -> Outcome {
        let options = ApplyOptions {
            file: PathBuf::new(),
            admin_url: self.hub.admin_url(),
            plan_only: false,
            json: false,
        };
        scheme::apply(&self.scheme, &options, output).await
    }

    async fn show_scheme(&self) -> Outcome {
        let mut output = Vec::new();
        self.apply_scheme(&mut output).await?;
        let text = String::from_utf8_lossy(&output);
        let lines: Vec<_> = text.lines().collect();
        // The DFSPs differ in their names only, and the callbacks of transfers stand for those of the other resources.
        let is_shown = |line: &&str| {
            let is_told_once = !line.contains(" dfsp-") || line.contains(" dfsp-1 ");
            is_told_once && (!line.contains(" endpoint ") || line.contains("_URL_TRANSFER_"))
        };
        lines.iter().filter(|line| is_shown(line)).for_each(|line| say(format_args!("   {line}")));
        say(format_args!(
            "   … and so on for other resources and dfsp-2 to dfsp-{DFSPS}: {} changes",
            lines.len() - 1
        ));
        Ok(())
    }

    async fn show_one_transfer(&mut self, workers: &Workers) -> Outcome {
        let options = OriginatorOptions {
            amount: Amount::parse_wire("125.5").unwrap_or_default(),
            currency: kes()?,
            expiry: Duration::from_secs(60),
            seed: 1,
            nonce: nonce(),
            trace: true,
            resends_max: 0,
        };
        let originator = Originator::new(&self.simulator, options);
        let sent = workers.get(0).spawn(async move { originator.send(1, 0, 1).await });
        let pending = sent.await.map_err(unavailable)?.map_err(unavailable)?;
        let finished = timeout(PATIENCE, pending.finished).await;
        if !matches!(finished, Ok(Ok(_))) {
            return Err(Failure::new(Exit::Failure, "the transfer had no outcome; see the hub's log"));
        }
        let mut messages = Vec::with_capacity(MESSAGES);
        while messages.len() < MESSAGES {
            match timeout(PATIENCE, self.seen.recv()).await {
                Ok(Some(message)) => messages.push(message),
                Ok(None) | Err(_) => break,
            }
        }
        say(messages::describe(&mut messages));
        Ok(())
    }

    /// Runs the lab against the hub; its simulators take the place of the first ones.
    fn load(&self) -> Result<bool, Failure> {
        let target = TargetHub {
            fspiop_url: self.hub.fspiop_url(),
            admin_url: self.hub.admin_url(),
            pid: Some(self.hub.pid()),
            durable: Some(true),
        };
        let options = RunOptions {
            dfsps: DFSPS,
            duration: Duration::from_secs(self.arguments.seconds),
            currency: kes()?,
            baselines: vec![Baseline::Forwarder],
            target: Some(target),
            out: Some(self.arguments.out.clone()),
            ..RunOptions::default()
        };
        let result = upesi_lab::run(&options).map_err(unavailable)?;
        say(result.table());
        Ok(result.passed())
    }

    async fn keep(&self) -> Outcome {
        // The endpoints point back to the simulators that stay.
        self.apply_scheme(&mut io::sink()).await?;
        say("\n   Hub and simulators keep running. Ctrl-C ends them.");
        stop_signal().await;
        Ok(())
    }
}

fn kes() -> Result<Currency, Failure> {
    Currency::parse("KES").ok_or_else(|| Failure::new(Exit::Software, "KES is not in the list of currencies"))
}

/// Keeps the ids of two demos apart.
fn nonce() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(0)
}

/// Removes what an earlier demo left, and nothing else.
fn empty(out: &Path) -> Outcome {
    let cannot = |error: io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", out.display()));
    for name in ["data", "hub.log", "result.json"] {
        let path = out.join(name);
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        match removed {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(cannot(error)),
            _ => {}
        }
    }
    std::fs::create_dir_all(out).map_err(cannot)
}
