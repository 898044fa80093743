//! The baselines of a run: simulators alone, and a forwarder between them.

use std::collections::BTreeMap;
use std::time::Duration;

use upesi_sim::{Upstream, prefix_of};
use upesi_types::Timestamp;

use crate::drive::child::{Process, free_loopback_addresses};
use crate::drive::error::LabError;
use crate::drive::measure::HubWatch;
use crate::drive::session::{RAMP, Run};
use crate::drive::subject::Subject;
use crate::judge::audit::Evidence;
use crate::observe::hub_metrics::Scraper;
use crate::observe::process::WatchedProcess;
use crate::observe::timeline::Timeline;
use crate::plan::options::Baseline;
use crate::result::LabResult;
use crate::result::audit::AuditSummary;
use crate::result::schema::Validity;

impl Run<'_> {
    /// The baselines, and the forwarder's process, which ends when it is dropped.
    pub(crate) async fn baselines(
        &self,
        slice: Duration,
    ) -> Result<(Vec<Subject>, Option<Process>), LabError> {
        let (mut subjects, mut process) = (Vec::new(), None);
        for baseline in &self.options.baselines {
            let (subject, started) = self.baseline(*baseline, slice).await?;
            subjects.push(subject);
            process = started.or(process);
        }
        Ok((subjects, process))
    }

    pub(crate) async fn baseline(
        &self,
        baseline: Baseline,
        slice: Duration,
    ) -> Result<(Subject, Option<Process>), LabError> {
        let name = baseline.name();
        if baseline == Baseline::SimsOnly {
            return Ok((self.subject(name, Upstream::Peers, &[], slice)?, None));
        }
        self.progress.set_message("starting the forwarder");
        let [address] = free_loopback_addresses()?;
        let security = self.options.security;
        let scheme = if security.is_mutual() { "https" } else { "http" };
        let mut subject = self.subject(name, Upstream::Hub(format!("{scheme}://{address}")), &[], slice)?;
        let mut arguments: Vec<String> =
            ["lab", "forwarder", "--listen", &address.to_string()].map(str::to_owned).into();
        for (index, dfsp) in subject.simulator.names().enumerate() {
            let route = format!("{dfsp}={}", subject.simulator.base_url(&dfsp));
            let prefix = format!("{}={dfsp}", prefix_of(index));
            arguments.extend(["--route".to_owned(), route, "--prefix".to_owned(), prefix]);
        }
        let mut tls = None;
        if let Some(keys) = &self.keys {
            arguments.extend(keys.forwarder_arguments(security));
            tls = keys.caller(security)?;
        }
        let log = self.log("forwarder.log");
        let mut started = Process::start("the forwarder", &self.binary()?, &arguments, log.as_deref())?;
        started.ready(&[(address, tls.as_ref())]).await?;
        subject.processes = vec![WatchedProcess::new(started.pid())];
        Ok((subject, Some(started)))
    }

    pub(crate) async fn alone(
        &self,
        baseline: Baseline,
        started_at: Timestamp,
    ) -> Result<LabResult, LabError> {
        let options = self.options;
        let slice = options.duration / options.slice_count() as u32;
        let (mut subject, process) = self.baseline(baseline, slice).await?;
        let pids = subject.processes.iter().map(|process| process.pid).collect();
        let mut watch = HubWatch { scraper: Scraper::default(), timeline: Timeline::new(pids, None) };
        for index in 0..options.slice_count() {
            if index == 0 {
                self.sign_ahead(&subject);
            }
            let ramp = if index == 0 { options.warm_up } else { RAMP };
            self.slice(&mut subject, ramp, Some(&mut watch)).await;
        }
        drop(process);
        let evidence =
            Evidence { expected: BTreeMap::new(), ..self.evidence(&subject, (Vec::new(), Vec::new()), None) };
        let target = baseline.name().to_owned();
        let mut result = self.result(&subject, &[], &evidence, &watch.timeline, target, started_at);
        // Without a hub, positions cannot be compared, and nothing is durable.
        result.audit = AuditSummary { ok: true, ..AuditSummary::default() };
        result.validity.findings.retain(|finding| !finding.starts_with("the audit"));
        result.validity = Validity::of(result.validity.findings);
        (result.lost, result.durable, result.environment.durability) = (0, None, None);
        Ok(result)
    }
}
