//! Plays a planned day: hub, simulated DFSPs, payments hour by hour, and events.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use upesi_http::Workers;
use upesi_process::exit::{Failure, Outcome};
use upesi_sim::{
    AmountType, DfspSettings, FxTransferOptions, Originator, OriginatorOptions, PaymentOptions, SimConfig,
    Simulator, Upstream,
};
use upesi_types::{Currency, FspId};

use super::counts::parked;
use super::operators::Operators;
use super::plan::{PARTIES, Plan, PlannedPayment};
use super::story::{Event, Group, Kind, Story};
use super::{NONCE, failed, say};
use crate::HubProcess;
use crate::drive::onboard::register;
use crate::drive::operation::Generator;
use crate::failures::unavailable;
use crate::observe::tally::{Step, Steps};
use crate::plan::pairs::{PairChoice, Pairs};
use crate::plan::scenario::Scenario;

/// Payments in progress at the same time.
const LANES: usize = 16;
/// Maximum time until a rejected callback is parked.
const PARKING_TIMEOUT: Duration = Duration::from_secs(60);
const PARKING_POLL: Duration = Duration::from_millis(50);

/// Numbers of payments by their end.
pub(super) type Ends = BTreeMap<&'static str, u64>;

/// A day in progress.
pub(super) struct Day<'day> {
    pub story: &'day Story,
    pub plan: &'day Plan,
    pub hub: HubProcess,
    pub simulator: Simulator,
    pub workers: &'day std::sync::Arc<Workers>,
    pub operators: Operators,
    /// Whether the hub requires tokens of operators.
    pub is_authenticated: bool,
    /// Whether it requires them until the end.
    pub needs_login: bool,
    pub hub_file: &'day Path,
}

/// The terms of one payment beside its amount and its pair.
struct Terms<'group> {
    expiry: Duration,
    patience: Duration,
    group: Option<&'group Group>,
}

impl Terms<'_> {
    const USUAL: Terms<'static> =
        Terms { expiry: Duration::from_secs(60), patience: Duration::from_secs(30), group: None };
}

/// The simulated DFSPs of a plan.
pub(super) fn simulator(plan: &Plan, hub: &HubProcess, workers: &Workers) -> Result<Simulator, Failure> {
    let usual = DfspSettings::usual();
    let named = |name: &String| Some((FspId::parse(name)?, usual));
    let dfsps: Option<Vec<_>> = plan.dfsps.iter().map(named).collect();
    let config = SimConfig {
        dfsps: dfsps.ok_or_else(|| failed("a DFSP of the day has an invalid name"))?,
        currencies: ["KES", "UGX", "USD"].into_iter().filter_map(Currency::parse).collect(),
        seed: plan.seed,
        ..SimConfig::new(plan.dfsps.len(), Upstream::Hub(hub.fspiop_url()))
    };
    Simulator::start(config, workers).map_err(unavailable)
}

/// The settings of the hub as a file.
pub(super) fn hub_settings(story: &Story, is_authenticated: bool) -> String {
    let authentication = if is_authenticated { "required" } else { "off" };
    let mut text = format!("admin.authentication = \"{authentication}\"\n");
    for (key, value) in &story.hub {
        text += &format!("{key} = {value}\n");
    }
    text
}

impl Day<'_> {
    /// Plays the hours in order. Returns the ends of all payments.
    pub async fn play(&mut self) -> Result<Ends, Failure> {
        let mut ends = Ends::new();
        for (hour, payments) in self.plan.hours.iter().enumerate() {
            // The events of the first hour create the DFSPs.
            if hour == 0 {
                self.events(hour, &mut ends).await?;
                self.register_parties().await?;
            }
            let of_hour = self.pay(payments, &Terms::USUAL).await?;
            say(format_args!("{hour:02}:00  ordinary payments: {}", in_words(&of_hour)));
            add(&mut ends, of_hour);
            if hour > 0 {
                self.events(hour, &mut ends).await?;
            }
        }
        Ok(ends)
    }

    async fn events(&mut self, hour: usize, ends: &mut Ends) -> Outcome {
        let (story, plan) = (self.story, self.plan);
        for (event, payments) in story.events.iter().zip(&plan.groups).filter(|(event, _)| event.hour == hour)
        {
            say(format_args!("{hour:02}:00  {}", event.title));
            self.event(event, payments, ends).await?;
        }
        Ok(())
    }

    async fn event(&mut self, event: &Event, payments: &[PlannedPayment], ends: &mut Ends) -> Outcome {
        if let Some(change) = &event.behaviour {
            self.behave(&change.dfsp, change.does)?;
        }
        if let Some(group) = &event.payments {
            let of_group = self.group(group, payments).await?;
            say(format_args!("         payments: {}", in_words(&of_group)));
            add(ends, of_group);
        }
        for command in &event.commands {
            let lines = self.operators.work(command).await?;
            lines.iter().for_each(|line| say(format_args!("         {line}")));
        }
        if event.opens_console && !self.needs_login {
            self.is_authenticated = false;
            let settings = hub_settings(self.story, false);
            std::fs::write(self.hub_file, settings).map_err(crate::failures::cannot_create(self.hub_file))?;
            self.hub.restart().await.map_err(unavailable)?;
        }
        Ok(())
    }

    /// Makes the payments of a group, with the behaviour that its DFSPs have only for them.
    async fn group(&self, group: &Group, payments: &[PlannedPayment]) -> Result<Ends, Failure> {
        let before = match &group.parked_at {
            Some(dfsp) => parked(&self.api()?, Some(dfsp)).await.map_err(unavailable)?,
            None => 0,
        };
        let behaving = [(&group.payer, group.payer_does), (&group.payee, group.payee_does)];
        for (dfsp, does) in behaving.iter().filter_map(|(dfsp, does)| Some((*dfsp, (*does)?))) {
            self.behave(dfsp, does)?;
        }
        let terms = Terms {
            expiry: Duration::from_millis(group.expiry_ms),
            patience: Duration::from_millis(group.patience_ms),
            group: Some(group),
        };
        let ends = self.pay(payments, &terms).await?;
        if let Some(dfsp) = &group.parked_at {
            self.await_parked(dfsp, before + payments.len() as u64).await?;
        }
        for (dfsp, _) in behaving.iter().filter(|(_, does)| does.is_some()) {
            self.behave(dfsp, DfspSettings::usual())?;
        }
        Ok(ends)
    }

    async fn await_parked(&self, dfsp: &str, count: u64) -> Outcome {
        let deadline = Instant::now() + PARKING_TIMEOUT;
        let api = self.api()?;
        while parked(&api, Some(dfsp)).await.map_err(unavailable)? < count {
            if Instant::now() > deadline {
                return Err(failed(format_args!("the callbacks of {dfsp} are not parked")));
            }
            sleep(PARKING_POLL).await;
        }
        Ok(())
    }

    /// A client of the admin API.
    pub fn api(&self) -> Result<upesi_client::admin_api::AdminApi, Failure> {
        self.operators.api(self.is_authenticated.then_some("deploy"))
    }

    fn behave(&self, dfsp: &str, does: DfspSettings) -> Outcome {
        let index = self.plan.index(dfsp).map_err(failed)?;
        self.simulator.set_settings(index, does).map(drop).map_err(failed)
    }

    async fn register_parties(&self) -> Outcome {
        let payment = PlannedPayment {
            number: 0,
            kind: Kind::Payment,
            pair: [0, 1],
            currency: "KES".to_owned(),
            units: 10_000,
        };
        let generator = self.generator(&payment, &Terms::USUAL)?.into();
        register(self.workers, &generator, true).await.map_err(failed)
    }

    /// Makes payments, several at a time, and waits for their ends.
    async fn pay(&self, payments: &[PlannedPayment], terms: &Terms<'_>) -> Result<Ends, Failure> {
        let mut lanes: Vec<Vec<(Generator, u64)>> = (0..LANES).map(|_| Vec::new()).collect();
        for (place, payment) in payments.iter().enumerate() {
            lanes[place % LANES].push((self.generator(payment, terms)?, payment.number));
        }
        let spawned = lanes.into_iter().map(|lane| {
            self.workers.round_robin().spawn(async move {
                let mut ends = Ends::new();
                for (generator, number) in lane {
                    let (steps, _) = generator.perform(number).await;
                    *ends.entry(end_of(&steps)).or_default() += 1;
                }
                ends
            })
        });
        // All lanes start before the first is awaited.
        let spawned: Vec<_> = spawned.collect();
        let mut ends = Ends::new();
        for lane in spawned {
            add(&mut ends, lane.await.map_err(unavailable)?);
        }
        Ok(ends)
    }

    /// The generator of one payment.
    fn generator(&self, payment: &PlannedPayment, terms: &Terms<'_>) -> Result<Generator, Failure> {
        let currency =
            |code: &str| Currency::parse(code).ok_or_else(|| failed(format_args!("{code}: no currency")));
        let options = OriginatorOptions {
            amount: payment.amount(),
            currency: currency(&payment.currency)?,
            expiry: terms.expiry,
            seed: self.plan.seed,
            nonce: NONCE,
            trace: true,
            resends_max: 0,
        };
        let payments = PaymentOptions {
            callback_timeout: terms.patience,
            amount_type: AmountType::Send,
            ..PaymentOptions::default()
        };
        let mut originator = Originator::new(&self.simulator, options).with_payments(payments);
        let scenario = match payment.kind {
            Kind::Payment => Scenario::Payments,
            Kind::Transfer => Scenario::Transfers,
            Kind::Bulk => {
                originator = originator.with_bulks(terms.group.map_or(1, |group| group.items));
                Scenario::Bulks
            }
            Kind::Fx => {
                let lacks = || failed("FX transfers need a seller, a target currency and a rate");
                let group = terms.group.ok_or_else(lacks)?;
                let (fxp, target) = group.fxp.as_ref().zip(group.target.as_ref()).ok_or_else(lacks)?;
                let fxps = vec![self.plan.index(fxp).map_err(failed)?];
                let target = currency(target)?;
                let options = FxTransferOptions { target, rate_per_mille: group.rate_per_mille, fxps };
                originator = originator.with_fx_transfers(options).ok_or_else(lacks)?;
                Scenario::ConvertedTransfers
            }
        };
        let [payer, payee] = payment.pair;
        let choice = PairChoice::listed([(payer, payee, 1)]);
        Ok(Generator {
            scenario,
            originator,
            pairs: Pairs { dfsps: self.plan.dfsps.len(), choice, seed: self.plan.seed },
            names: self.simulator.names().collect(),
            parties: PARTIES,
            parties_from: 0,
            secret: SimConfig::new(1, Upstream::Peers).secret,
            callback_timeout: terms.patience,
            place: 0,
            places: 1,
            operations: AtomicU64::new(0),
        })
    }
}

/// The end of a payment: the last step that was reached.
fn end_of(steps: &Steps) -> &'static str {
    let reached = steps.iter().rev().find(|step| **step != Step::Unreached);
    match reached {
        Some(Step::Done(_)) => "completed",
        Some(Step::Late | Step::Unanswered) => "without an answer",
        _ => "failed",
    }
}

fn add(sums: &mut Ends, more: Ends) {
    more.into_iter().for_each(|(end, count)| *sums.entry(end).or_default() += count);
}

fn in_words(ends: &Ends) -> String {
    if ends.is_empty() {
        return "none".to_owned();
    }
    let words: Vec<_> = ends.iter().map(|(end, count)| format!("{count} {end}")).collect();
    words.join(", ")
}
