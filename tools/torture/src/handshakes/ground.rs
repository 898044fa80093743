//! A hub with mutual TLS, its scheme, and honest payments.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use upesi_http::{ClientTls, Workers};
use upesi_hub::trial::{Secured, settings};
use upesi_lab::drive::onboard::{bind, onboard, set_answer_endpoints};
use upesi_lab::{AdminClient, HubProcess, HubTls};
use upesi_pki::{Authority, Order, Trial, Usage};
use upesi_sim::{SimConfig, SimSecurity, Simulator, Upstream};
use upesi_tls::{Protocols, present_s};

use super::{Plan, told};
use crate::attacks::{Ended, Payments, currency};

/// DFSPs that pay each other.
const PAYING: usize = 6;
pub const HOSTS: [&str; 3] = ["127.0.0.1", "::1", "localhost"];
/// Name of the authority of a trial, as bindings by subject have it.
const ISSUER: &str = "CN=Trial scheme CA";

/// Everything that is tried on.
pub struct Ground {
    pub trial: Trial,
    pub authority: Authority,
    pub hub: HubProcess,
    pub admin: AdminClient,
    payments: Payments,
    log: PathBuf,
    workers: Arc<Workers>,
    _simulator: Simulator,
}

impl Ground {
    /// Starts a hub that asks DFSPs for certificates, brings in those that pay and those that are only connected, and
    /// begins to pay.
    ///
    /// # Errors
    /// What could not be started.
    pub async fn start(plan: &Plan, directory: &Path) -> Result<Self, String> {
        let names: Vec<String> = (1..=PAYING).map(|number| format!("dfsp-{number}")).collect();
        let keys = directory.join("keys");
        let trial = Trial::make(&keys, &names, &HOSTS, present_s()).map_err(told)?;
        let authority = Authority::open(&keys).map_err(told)?;
        let secured = Secured { tls: true, admin: false, signatures: false };
        let given = settings(&trial, secured).into_iter();
        // Renewals are taken up when they are announced, and not by chance before.
        let given = given.chain([("tls.reload_interval_s".to_owned(), "3600".to_owned())]);
        let arguments: Vec<String> = given.map(|(key, value)| format!("--set={key}={value}")).collect();
        let log = directory.join("hub.log");
        let tls = HubTls { fspiop: Some(ClientTls::load(trial.caller()).map_err(told)?), admin: None };
        let (binary, data) = (&plan.binary, directory.join("hub"));
        let hub =
            HubProcess::start_secured(binary, &data, &arguments, Some(&log), tls).await.map_err(told)?;
        let workers = Arc::new(Workers::start(2, "handshakes").map_err(told)?);
        let admin = AdminClient::new(&hub.admin_url()).map_err(told)?;
        let mut config = SimConfig::new(PAYING, Upstream::Hub(hub.fspiop_url()));
        let dfsps: Vec<_> = config.dfsps.iter().map(|(name, _)| *name).collect();
        config.security =
            SimSecurity::of_trial(&trial, &dfsps, Some(Protocols::Http1), false).map_err(told)?;
        let simulator = Simulator::start(config, &workers).map_err(told)?;
        onboard(&admin, &simulator, currency(), 17).await.map_err(told)?;
        set_answer_endpoints(&admin, &simulator).await.map_err(told)?;
        bind(&admin, &trial).await.map_err(told)?;
        let mut payments = Payments::prepare(&simulator, PAYING, plan.rate_per_s, &workers).await?;
        payments.resume();
        Ok(Self { trial, authority, hub, admin, payments, log, workers, _simulator: simulator })
    }

    pub fn fspiop(&self) -> SocketAddr {
        self.hub.addresses()[0]
    }

    /// TLS of those who storm: a DFSP's, by its certificate.
    ///
    /// # Errors
    /// Its files cannot be used.
    pub fn storming(&self) -> Result<ClientTls, String> {
        ClientTls::load(self.trial.dfsp("dfsp-1")).map_err(told)
    }

    /// Lets time pass.
    ///
    /// # Errors
    /// When the hub has ended, with how.
    pub async fn pass(&mut self, time: Duration) -> Result<(Instant, Instant), String> {
        let begun = Instant::now();
        tokio::time::sleep(time).await;
        if let Some(status) = self.hub.has_ended() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            let said = log.lines().rev().find(|line| line.contains("ERROR")).unwrap_or_default();
            return Err(format!("the hub ended with {status}: {said}"));
        }
        Ok((begun, Instant::now()))
    }

    /// Makes a DFSP with a certificate, which is bound by its subject, so that the next one is bound as well.
    ///
    /// # Errors
    /// When authority or hub refuse it.
    pub async fn add(&mut self, name: &str) -> Result<(), String> {
        self.authority.issue(&Order::new(name, Usage::Client, present_s())).map_err(told)?;
        let participant = json!({"name": name, "currency": currency().as_str()});
        self.admin.create("/participants", participant.to_string()).await.map_err(told)?;
        let binding = json!({"kind": "subject", "value": format!("CN={name};issuer={ISSUER}")});
        self.admin
            .create(&format!("/participants/{name}/bindings"), binding.to_string())
            .await
            .map_err(told)?;
        Ok(())
    }

    /// Ends the payments, then all else; the payments that have ended.
    pub async fn end(mut self) -> Vec<Ended> {
        self.payments.pause().await;
        let ended = self.payments.ended();
        self.hub.end();
        self.workers.shutdown();
        ended
    }
}
