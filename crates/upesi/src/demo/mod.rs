//! `upesi demo`: the whole product in a minute, with a hub, simulated DFSPs, one payment and its explanation, load,
//! settlement.

use std::fmt::Display;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout};
use upesi_client::scheme::file::Scheme;
use upesi_client::scheme::{self, ApplyOptions};
use upesi_client::settlement::{self, Action, HubOptions, Job, JobName, SettlementState};
use upesi_http::{ClientTls, Workers};
use upesi_lab::cli::messages::{self, MessagePrinter};
use upesi_lab::{
    Baseline, HubProcess, HubTls, RunOptions, Scenario, Security, Signatures, TargetHub, Transport,
    phase_name,
};
use upesi_pki::Trial;
use upesi_process::exit::{Exit, Failure, Outcome};
use upesi_process::signals::stop_signal;
use upesi_process::terminal::Escaping;
use upesi_process::times::Zone;
use upesi_settings::trial::{self, SecuredParts};
use upesi_sim::{
    Originator, OriginatorOptions, PaymentFailure, PaymentReport, Phase, SeenMessage, SimConfig, SimSecurity,
    Simulator, Upstream,
};
use upesi_tls::{Protocols, present_s};
use upesi_types::{Amount, Currency};

/// The scheme of the demo is the example that users copy.
const SCHEME: &str = include_str!("../../../../examples/scheme.toml");
/// Base URL of the simulators in the example.
const SCHEME_BASE_URL: &str = "http://127.0.0.1:5000/{name}";
/// Directory of all keys.
const KEYS: &str = "keys";
const DFSPS: usize = 8;
/// Payer, payee (as indexes) and number of the payment that is shown.
const PAYER: usize = 0;
const PAYEE: usize = 1;
const NUMBER: u64 = 1;
/// Messages of a registration: the request and its callback.
const REGISTRATION_MESSAGES: usize = 2;
/// Messages of a payment: in each of three phases a request and a callback, each to the hub and from it.
const PAYMENT_MESSAGES: usize = 12;
/// Number of payments that are made one at a time. Their median is shown next to the median under load.
const ALONE: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(10);
/// Time limit for a message to be printed after the exchange is over.
const MESSAGE_PATIENCE: Duration = Duration::from_secs(2);

/// Arguments of `upesi demo`.
#[derive(Args, Clone, Debug)]
pub struct DemoArguments {
    /// Seconds of load.
    #[arg(long, value_name = "SECONDS", default_value_t = 10)]
    pub seconds: u64,
    /// Keep hub and simulators running at the end, until Ctrl-C.
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

fn failed(why: impl Display) -> Failure {
    Failure::new(Exit::Failure, why)
}

/// The durations of the phases and of the whole payment.
fn timing(report: &PaymentReport) -> String {
    let phases =
        Phase::OF_PAYMENT.into_iter().filter_map(|phase| Some((phase_name(phase), report.duration(phase)?)));
    let phases: Vec<_> = phases.map(|(name, time)| format!("{name} {} ms", messages::millis(time))).collect();
    format!("  {}, together {} ms", phases.join(", "), messages::millis(report.total()))
}

fn unavailable(error: impl Display) -> Failure {
    Failure::new(Exit::Unavailable, error)
}

fn say(text: impl Display) {
    // A closed output does not stop the demo.
    let _ = writeln!(Escaping::new(io::stdout().lock()), "{text}");
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
    trial: Trial,
    operator: ClientTls,
}

impl<'arguments> Demo<'arguments> {
    async fn start(arguments: &'arguments DemoArguments, workers: &Workers) -> Result<Self, Failure> {
        let out = &arguments.out;
        empty(out)?;
        let trial = keys(&out.join(KEYS))?;
        let operator = ClientTls::load(trial.operator()).map_err(unavailable)?;
        let hub = start_hub(&trial, &operator, out).await?;
        let (watch, seen) = mpsc::channel(64);
        let mut config = SimConfig {
            watch: Some(watch),
            currencies: vec![kes()?],
            ..SimConfig::new(DFSPS, Upstream::Hub(hub.fspiop_url()))
        };
        let names: Vec<_> = config.dfsps.iter().map(|(name, _)| *name).collect();
        config.security =
            SimSecurity::of_trial(&trial, &names, Some(Protocols::Http1), true).map_err(unavailable)?;
        let simulator = Simulator::start(config, workers).map_err(unavailable)?;
        let base_url = format!("https://{}/{{name}}", simulator.local_addr());
        let mut text = SCHEME.replace(SCHEME_BASE_URL, &base_url);
        for (name, binding) in trial.dfsps() {
            let line = format!("name = {name:?}\n");
            text = text.replace(&line, &format!("{line}bindings = [{binding:?}]\n"));
        }
        let scheme = scheme::reading::parse("examples/scheme.toml", &text)
            .map_err(|mistakes| Failure::new(Exit::Software, mistakes.join("\n")))?;
        Ok(Self { arguments, hub, simulator, seen, scheme, trial, operator })
    }

    fn tell(mut self, runtime: &tokio::runtime::Runtime, workers: &Workers) -> Outcome {
        let originator = Arc::new(self.originator(true)?);
        let party = originator.party(PAYEE, NUMBER).identifier;
        title(
            1,
            &format!("one payment of 125.5 KES from a customer of dfsp-1 to {party}, a customer of dfsp-2"),
        );
        let changes = runtime.block_on(self.prepare(&originator, workers))?;
        runtime.block_on(self.show_payment(&originator, workers))?;
        title(2, "the messages explained");
        self.explain(changes);
        let alone = runtime.block_on(self.pay_alone(workers))?;
        let seconds = self.arguments.seconds;
        title(
            3,
            &format!("{seconds} s of payments by 32 users of 8 DFSPs at once, beside a plain forwarder"),
        );
        let passed = self.load(alone)?;
        title(4, "the end of the day: the settlement window is closed and settled (upesi settlement run)");
        runtime.block_on(self.settle())?;
        self.look_further(&binary()?);
        if self.arguments.keep {
            runtime.block_on(self.keep())?;
        }
        runtime.block_on(self.simulator.shutdown(Instant::now() + PATIENCE));
        self.hub.end();
        if passed { Ok(()) } else { Err(Failure::new(Exit::Failure, "the audit of the load run failed")) }
    }

    /// Applies the scheme and registers the payee. Returns the number of changes.
    async fn prepare(&mut self, originator: &Arc<Originator>, workers: &Workers) -> Result<usize, Failure> {
        let mut output = Vec::new();
        self.apply_scheme(&mut output).await?;
        register(originator, (PAYEE, NUMBER, 1), workers).await?;
        self.messages(REGISTRATION_MESSAGES).await;
        // The last line is the summary.
        Ok(String::from_utf8_lossy(&output).lines().count() - 1)
    }

    /// Explains the payment.
    fn explain(&self, changes: usize) {
        let (out, simulator) = (&self.arguments.out, self.simulator.local_addr());
        let (fspiop, admin) = (self.hub.fspiop_url(), self.hub.admin_url());
        let (data, keys) = (out.join("data"), out.join(KEYS));
        let rows = [
            (
                "messages 1 to 4",
                "Lookup: dfsp-1 asks which DFSP serves the number. The hub asks dfsp-2, which confirms it."
                    .to_owned(),
            ),
            ("messages 5 to 8", "Quote: dfsp-2 states its terms and signs them with a condition.".to_owned()),
            (
                "messages 9 to 12",
                "Transfer: the hub reserves the money of dfsp-1. The fulfilment of dfsp-2 moves it."
                    .to_owned(),
            ),
            (
                "◀ 202",
                "The hub has synced the request to its disk: a crash loses nothing that has a 202."
                    .to_owned(),
            ),
            (
                "security",
                "Each connection uses mutual TLS. Each message is signed, and its receiver verifies it."
                    .to_owned(),
            ),
            ("FSPIOP API", format!("{fspiop}, for DFSPs")),
            ("admin API", format!("{admin}, for operators")),
            ("DFSPs", format!("https://{simulator}/dfsp-1 to /dfsp-{DFSPS}, simulated")),
            ("scheme", format!("examples/scheme.toml, {changes} changes by upesi scheme apply")),
            (
                "files",
                format!(
                    "{} (ledger), {} (an authority, certificates, signing keys)",
                    data.display(),
                    keys.display()
                ),
            ),
        ];
        for (name, text) in rows {
            say(format_args!("   {name:<16}  {text}"));
        }
    }

    /// Makes payments one at a time, and returns the median of their durations.
    async fn pay_alone(&self, workers: &Workers) -> Result<Duration, Failure> {
        let originator = Arc::new(self.originator(false)?);
        let first = NUMBER + 1;
        register(&originator, (PAYEE, first, ALONE), workers).await?;
        let paying = workers.get(0).spawn(async move {
            let mut times = Vec::new();
            for number in first..first + ALONE {
                let report = originator.payment(number, PAYER, PAYEE, std::time::Instant::now()).await;
                times.push(report.total());
                report.result?;
            }
            Ok(times)
        });
        let paid = timeout(3 * PATIENCE, paying).await;
        let paid = paid.map_err(|_| failed("the payments did not end"))?.map_err(unavailable)?;
        let mut times =
            paid.map_err(|failure: PaymentFailure| failed(format_args!("{failure}; see the hub's log")))?;
        times.sort_unstable();
        Ok(times[times.len() / 2])
    }

    /// Prints further commands: for the running hub and simulators, or for their files.
    fn look_further(&self, binary: &Path) {
        let (out, data) = (&self.arguments.out, self.arguments.out.join("data"));
        let (binary, data) = (binary.display(), data.display());
        let result = (out.join("result.json").display().to_string(), "all figures of the load");
        let journal = (format!("{binary} journal {data} --limit 5"), "its first records");
        let places = if self.arguments.keep {
            title(5, "to explore further");
            let (keys, admin) = (self.trial.directory().display(), self.hub.admin_url());
            let operator = format!(
                "--anchors {keys}/ca.pem --certificate {keys}/operators/operator.pem --key {keys}/operators/operator.key"
            );
            vec![
                (
                    format!("{binary} context add demo --replace --admin {admin} {operator}"),
                    "saves the hub's address and the operator's key",
                ),
                (
                    format!("{}/console", self.hub.admin_url()),
                    "the console; the browser needs the operator's certificate and key",
                ),
                (format!("{binary} dfsp show dfsp-1 --context demo"), "what dfsp-1 owes"),
                (format!("{binary} lane --context demo"), "response times of each DFSP"),
                result,
                (format!("{binary} audit {data} --allow-live"), "verifies the data that is stored so far"),
                journal,
            ]
        } else {
            title(
                5,
                "to explore further (KEEP=1 make demo, or upesi demo --keep, leaves hub and DFSPs running)",
            );
            vec![result, (format!("{binary} audit {data}"), "verifies the data"), journal]
        };
        for (place, about) in places {
            say(format_args!("   {place:<58}  {about}"));
        }
        say(format_args!(
            "\nA hub with a realistic day, and its console without a login: {binary} lab day --keep"
        ));
    }

    async fn apply_scheme(&self, output: &mut (dyn Write + Send)) -> Outcome {
        let options = ApplyOptions {
            file: PathBuf::new(),
            admin_url: self.hub.admin_url(),
            admin_tls: Some(self.operator.clone()),
            admin_token: None,
            wait: Duration::ZERO,
            plan_only: false,
            json: false,
        };
        scheme::apply(&self.scheme, &options, output).await
    }

    /// A payer's DFSP. The demo prints its messages if they have traces.
    fn originator(&self, trace: bool) -> Result<Originator, Failure> {
        let options = OriginatorOptions {
            amount: Amount::parse_wire("125.5").unwrap_or_default(),
            currency: kes()?,
            expiry: Duration::from_secs(60),
            seed: 1,
            nonce: nonce(),
            trace,
            resends_max: 0,
        };
        Ok(Originator::new(&self.simulator, options))
    }

    async fn show_payment(&mut self, originator: &Arc<Originator>, workers: &Workers) -> Outcome {
        let originator = originator.clone();
        let paying = workers
            .get(0)
            .spawn(async move { originator.payment(NUMBER, PAYER, PAYEE, std::time::Instant::now()).await });
        let report = timeout(3 * PATIENCE, paying).await;
        let report = report.map_err(|_| failed("the payment did not end"))?.map_err(unavailable)?;
        let mut messages = self.messages(PAYMENT_MESSAGES).await;
        say(MessagePrinter::shortening().tell(&mut messages));
        say(timing(&report));
        report.result.map_err(|failure| failed(format_args!("{failure}; see the hub's log")))
    }

    /// Receives this number of messages, or fewer if the rest does not arrive in time.
    async fn messages(&mut self, count: usize) -> Vec<SeenMessage> {
        let mut messages = Vec::with_capacity(count);
        while messages.len() < count {
            match timeout(MESSAGE_PATIENCE, self.seen.recv()).await {
                Ok(Some(message)) => messages.push(message),
                Ok(None) | Err(_) => break,
            }
        }
        messages
    }

    /// Runs the lab against the hub, with its own simulators instead of the first ones. `alone` is the median of
    /// payments made one at a time.
    fn load(&self, alone: Duration) -> Result<bool, Failure> {
        let target = TargetHub {
            pids: vec![self.hub.pid()],
            durable: Some(true),
            ..TargetHub::at(self.hub.fspiop_url(), self.hub.admin_url())
        };
        let options = RunOptions {
            scenario: Scenario::Payments,
            dfsps: DFSPS,
            duration: Duration::from_secs(self.arguments.seconds),
            currency: kes()?,
            baselines: vec![Baseline::Forwarder],
            target: Some(target),
            security: Security { tls: Transport::Mutual, jws: Signatures::Enforce, sign_ahead: 0 },
            trial: Some(self.trial.directory().to_owned()),
            out: Some(self.arguments.out.clone()),
            ..RunOptions::default()
        };
        let result = upesi_lab::run(&options).map_err(unavailable)?;
        say(result.table());
        say("   Why some figures differ:");
        let rows = [
            format!(
                "- {ALONE} payments before the load, one at a time, took {} ms each (p50). Under load",
                messages::millis(alone)
            ),
            format!(
                "  payments wait for each other and share the cores with all DFSPs: p50 {:.2} ms.",
                result.latency_ms.p50
            ),
            format!(
                "- \"completed\" counts the measured {} s. \"accepted\" counts the warm-up before, too.",
                self.arguments.seconds
            ),
            format!(
                "- A \"hub position\" counts from the start of the load. The nets below are of all payments: the first \
                 one and those {ALONE}, too."
            ),
        ];
        rows.iter().for_each(|row| say(format_args!("   {row}")));
        if !cfg!(feature = "shipped") {
            say(
                "   - This program was built quickly, for the demo. A program built by `make build` needs less CPU.",
            );
        }
        Ok(result.passed())
    }

    /// Settles all payments.
    async fn settle(&self) -> Outcome {
        let options = HubOptions {
            admin_url: self.hub.admin_url(),
            admin_tls: Some(self.operator.clone()),
            admin_token: None,
            wait: Duration::ZERO,
            json: false,
            zone: Zone::local(),
        };
        let name: JobName = "demo".parse().map_err(|error: String| Failure::new(Exit::Software, error))?;
        let job = Job::unattended(name.clone(), SettlementState::Settled);
        let mut output = Vec::new();
        settlement::run(&options, &Action::Run(job), &mut output).await?;
        output.push(b'\n');
        settlement::matrix(&options, &name, &mut output).await?;
        let text = String::from_utf8_lossy(&output);
        text.lines().for_each(|line| say(format!("   {line}").trim_end()));
        Ok(())
    }

    async fn keep(&self) -> Outcome {
        // The endpoints are set back to the simulators that continue to run.
        self.apply_scheme(&mut io::sink()).await?;
        say("\n   Hub and simulators keep running. Ctrl-C ends them.");
        stop_signal().await;
        Ok(())
    }
}

/// Registers `count` parties of a DFSP, from the number `first` on.
async fn register(
    originator: &Arc<Originator>,
    (dfsp, first, count): (usize, u64, u64),
    workers: &Workers,
) -> Outcome {
    let originator = Arc::clone(originator);
    // Connections belong to the workers.
    let registering = workers.get(0).spawn(async move {
        let accepted = originator.register(dfsp, first, count).await?;
        accepted.answer(PATIENCE).await.result
    });
    match registering.await.map_err(unavailable)? {
        Ok(registered) if registered.refused == 0 => Ok(()),
        Ok(_) => Err(failed("the hub rejected the registration of a party")),
        Err(error) => Err(failed(format_args!("cannot register a party: {error}"))),
    }
}

/// Creates keys for the hub, the DFSPs and an operator.
fn keys(directory: &Path) -> Result<Trial, Failure> {
    let directory = std::path::absolute(directory).map_err(unavailable)?;
    let names: Vec<String> = (1..=DFSPS).map(|number| format!("dfsp-{number}")).collect();
    Trial::make(&directory, &names, &["127.0.0.1", "localhost"], present_s()).map_err(unavailable)
}

/// Starts a hub that uses all these keys.
async fn start_hub(trial: &Trial, operator: &ClientTls, out: &Path) -> Result<HubProcess, Failure> {
    // A demo needs no reserve for a full disk.
    let mut arguments = vec!["--set=data.reserve_bytes=0".to_owned()];
    let secured = trial::settings(trial, SecuredParts::ALL);
    arguments.extend(secured.into_iter().map(|(key, value)| format!("--set={key}={value}")));
    let fspiop = ClientTls::load(trial.caller()).map_err(unavailable)?;
    let tls = HubTls { fspiop: Some(fspiop), admin: Some(operator.clone()) };
    let log = out.join("hub.log");
    HubProcess::start_secured(&binary()?, &out.join("data"), &arguments, Some(&log), tls)
        .await
        .map_err(unavailable)
}

/// Path of this program, which is also used for the hub and the printed commands.
fn binary() -> Result<PathBuf, Failure> {
    std::env::current_exe().map_err(unavailable)
}

fn kes() -> Result<Currency, Failure> {
    Currency::parse("KES").ok_or_else(|| Failure::new(Exit::Software, "KES is not in the list of currencies"))
}

/// Distinguishes the ids of two demos.
fn nonce() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_nanos()).unwrap_or(0)
}

/// Removes the files of an earlier demo, and nothing else.
fn empty(out: &Path) -> Outcome {
    let cannot = |error: io::Error| Failure::new(Exit::CannotCreate, format!("{}: {error}", out.display()));
    for name in ["data", "hub.log", "result.json", KEYS] {
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
