//! What a run drives: DFSPs and load generator in front of the hub, and of each baseline.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use upesi_sim::{
    AmountType, Originator, OriginatorOptions, PaymentOptions, SimConfig, Simulator, Upstream, prefix_of,
};
use upesi_types::FspId;

use crate::child::{Process, free_loopback_addresses};
use crate::operation::Generator;
use crate::options::{Baseline, OptionsError};
use crate::pairs::Pairs;
use crate::run::{LabError, Run};
use crate::subject::Subject;

/// Connections from the simulators to a hub.
const CONNECTIONS_MIN: usize = 64;
const CONNECTIONS_MAX: usize = 8_192;

impl Run<'_> {
    pub(crate) fn subject(
        &self,
        name: &'static str,
        upstream: Upstream,
        pid: Option<u32>,
        slice: Duration,
    ) -> Result<Subject, LabError> {
        let options = self.options;
        let mut config = SimConfig::new(options.dfsps, upstream);
        for (index, dfsp) in config.dfsps.iter_mut().enumerate() {
            let name = format!("{}-{}", options.dfsp_prefix, index + 1);
            dfsp.0 = FspId::parse(&name).ok_or(OptionsError::DfspPrefix)?;
        }
        config.listen = SocketAddr::new(options.sim_address, 0);
        config.seed = options.seed;
        // A POST and a PUT per transfer may wait for their answers at a time. Fewer connections would make the load
        // generator the bottleneck unseen.
        config.connections_max = (2 * options.load.outstanding_max()).clamp(CONNECTIONS_MIN, CONNECTIONS_MAX);
        config.currencies = vec![options.currency];
        let secret = config.secret.clone();
        let simulator = Simulator::start(config, &self.workers)?;
        let originator_options = OriginatorOptions {
            amount: options.amount,
            currency: options.currency,
            expiry: options.expiry,
            seed: options.seed,
            nonce: self.nonce,
            trace: options.trace,
            resends_max: 0,
        };
        let payments = PaymentOptions {
            callback_timeout: options.callback_timeout,
            parties_per_dfsp: options.parties,
            amount_type: AmountType::Send,
        };
        let generator = Generator {
            scenario: options.scenario,
            originator: Originator::new(&simulator, originator_options).with_payments(payments),
            pairs: Pairs { dfsps: options.dfsps, choice: options.pairs.clone(), seed: options.seed },
            names: simulator.names().collect(),
            parties: options.parties,
            secret,
            callback_timeout: options.callback_timeout,
            operations: AtomicU64::new(0),
        };
        Ok(Subject::new(name, simulator, generator, pid, slice))
    }

    /// The baselines, and the forwarder's process, which ends with its value.
    pub(crate) async fn baselines(
        &self,
        slice: Duration,
    ) -> Result<(Vec<Subject>, Option<Process>), LabError> {
        let (mut subjects, mut process) = (Vec::new(), None);
        for baseline in &self.options.baselines {
            let name = baseline.name();
            match baseline {
                Baseline::SimsOnly => subjects.push(self.subject(name, Upstream::Peers, None, slice)?),
                Baseline::Forwarder => {
                    self.progress.set_message("starting the forwarder");
                    let [address] = free_loopback_addresses()?;
                    let mut subject =
                        self.subject(name, Upstream::Hub(format!("http://{address}")), None, slice)?;
                    let mut arguments: Vec<String> =
                        ["lab", "forwarder", "--listen", &address.to_string()].map(str::to_owned).into();
                    for (index, dfsp) in subject.simulator.names().enumerate() {
                        let route = format!("{dfsp}={}", subject.simulator.base_url(&dfsp));
                        let prefix = format!("{}={dfsp}", prefix_of(index));
                        arguments.extend(["--route".to_owned(), route, "--prefix".to_owned(), prefix]);
                    }
                    let log = self.log("forwarder.log");
                    let mut started =
                        Process::start("the forwarder", &self.binary()?, &arguments, log.as_deref())?;
                    started.ready(&[address]).await?;
                    subject.pid = Some(started.pid());
                    subjects.push(subject);
                    process = Some(started);
                }
            }
        }
        Ok((subjects, process))
    }
}
