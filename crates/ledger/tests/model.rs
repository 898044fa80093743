//! Random runs of all possible requests, compared after each step with a naive model of the rules.
//!
//! A failing run is shrunk, printed with its seed and stored in `tests/model.regressions.txt`, and later runs repeat it
//! first. `PROPTEST_CASES=10000 cargo test -p upesi-ledger --test model` runs longer.

#[path = "model/ask.rs"]
mod ask;
#[path = "model/fees.rs"]
mod fees;
#[path = "model/scheme.rs"]
mod scheme;
#[path = "model/settle.rs"]
mod settle;
mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use upesi_admin::ErrorName;
use upesi_ledger::command::FulfilState;
use upesi_ledger::{
    AdminCommand, AdminOutcome, CallbackContent, ChangeSet, Command, Decision, DecisionInput, FundsOutGuard,
    Ledger, LedgerAccountTypeId, LedgerConfig, Reply, SetChange, StateMethod, audit,
};
use upesi_types::{Amount, Timestamp};

use self::ask::{Ask, Known, NAMES, VALIDITY_MS, Who, account, fsp, transfer_id, xts};
use self::scheme::{Scheme, Told};
use self::support::{Twin, snapshot};

const START_MS: i64 = 1_932_811_200_000;

/// A ledger and its model.
struct Run {
    twin: Twin,
    scheme: Scheme,
    now_ms: i64,
    known: BTreeMap<u8, Known>,
    /// The id of the next payment.
    next: u8,
}

impl Run {
    fn new(policy: [bool; 5], hash_seed: u64) -> Self {
        let [on_us, confirms, guards_positions, has_gross, has_fee_model] = policy;
        let guard = if guards_positions { FundsOutGuard::Position } else { FundsOutGuard::SettlementAccount };
        let config = LedgerConfig {
            on_us_transfers: on_us,
            payee_confirmation: confirms,
            funds_out_guard: guard,
            transfer_validity_max_ms: ask::EXPIRY_MAX_MS,
            internal_transfer_validity_ms: VALIDITY_MS,
            hash_seed,
            ..LedgerConfig::default()
        };
        let scheme = Scheme::new(policy);
        let mut run = Self {
            twin: Twin::new(config),
            scheme,
            now_ms: START_MS,
            known: BTreeMap::new(),
            next: ask::PAYMENT_FIRST,
        };
        for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
            run.prepare_hub(AdminCommand::CreateHubAccount {
                name: fsp("Hub"),
                currency: xts(),
                kind: kind.into(),
            });
        }
        run.prepare_hub(ask::new_model("NET"));
        if has_gross {
            run.prepare_hub(ask::gross_model());
        }
        if has_fee_model {
            run.prepare_hub(ask::fee_model());
        }
        run.scheme.members.insert("Hub", scheme::Member::default());
        for (name, cap, position, units) in [("alpha", 50, 0, 60), ("beta", 30, -5, 20)] {
            let id = 10 + units as u8;
            run.step(1, &Ask::Create(name));
            run.step(1, &Ask::Open { name, cap, position });
            run.step(1, &Ask::Funds { id, name, is_deposit: true, units });
        }
        run
    }

    fn prepare_hub(&mut self, command: AdminCommand) {
        self.now_ms += 1;
        let decision = self.twin.submit(Command::Admin(command), Timestamp::from_ms(self.now_ms));
        assert_eq!(decision.reply, Reply::Admin(Ok(AdminOutcome::Done)));
    }

    /// Executes one request in both, and compares.
    fn step(&mut self, pause_ms: i64, ask: &Ask) {
        // Positions keep their model if fees have their own.
        let ask = match ask {
            Ask::ActivateModel(false) if self.scheme.has_fee_model => &Ask::ActivateModel(true),
            ask => ask,
        };
        self.now_ms += pause_ms;
        let now = Timestamp::from_ms(self.now_ms);
        let (mut expected, decision) = match ask {
            Ask::Drain => return self.twin.drain(),
            Ask::Pay { payer, payee, units } => return self.pay(payer, payee, *units),
            Ask::Restart => return self.twin.restart(),
            Ask::Prepare(prepare) => {
                let expires_ms = self.now_ms + prepare.expires_in_ms;
                let from = prepare.from.unwrap_or(prepare.payer);
                self.known.entry(prepare.id).or_insert_with(|| Known { ask: prepare.clone(), expires_ms });
                let command = prepare.command(from, expires_ms);
                self.prepare(prepare, from, expires_ms, command)
            }
            Ask::Resend { id, from } => {
                let Some(known) = self.known.get(id).cloned() else { return };
                let from = from.unwrap_or(known.ask.payer);
                let command = known.ask.command(from, known.expires_ms);
                self.prepare(&known.ask, from, known.expires_ms, command)
            }
            other => {
                let known = match other {
                    Ask::Fulfil { id, .. } | Ask::Abort { id, .. } => self.known.get(id),
                    _ => None,
                };
                let command = ask::command(other, known, &self.twin.live, self.now_ms);
                let expected = self.scheme.hear(other, known, self.now_ms);
                let previewed = self.preview(&command, now);
                let decision = self.twin.submit(command, now);
                assert!(
                    previewed.is_none_or(|reply| reply == decision.reply),
                    "{ask:?}: {:?}",
                    decision.reply
                );
                (expected, decision)
            }
        };
        let mut told = told(&self.twin.live, &decision);
        if matches!(ask, Ask::Tick) {
            // Schemes do not define an order for deadlines at the same instant.
            expected.sort();
            told.sort();
        }
        assert_eq!(told, expected, "{ask:?}");
        self.compare();
    }

    /// A change set decides an operator's change on a draft as the ledger does. A draft has no transfers, so it does
    /// not reject their ids for movements of funds.
    fn preview(&self, command: &Command, now: Timestamp) -> Option<Reply> {
        let Command::Admin(command) = command else { return None };
        let set = ChangeSet { name: "one".into(), changes: vec![SetChange::new(command.clone())] };
        let outcome = self.twin.live.preview(&set, 0, &DecisionInput::at(now)).remove(0).outcome;
        let has_transfer_id = matches!(command, AdminCommand::PrepareFunds(funds)
                if self.twin.live.transfer(funds.id).is_some() || self.twin.archive.contains_key(&funds.id));
        (!has_transfer_id).then_some(Reply::Admin(outcome))
    }

    /// A payment that ends at once if the rules allow it, up to the number of ids.
    fn pay(&mut self, payer: ask::Name, payee: ask::Name, units: i64) {
        let id = self.next;
        if id > ask::PAYMENT_LAST {
            return;
        }
        self.next += 1;
        self.step(1, &Ask::Prepare(ask::AskPrepare::plain(id, payer, payee, units)));
        let (from, to, state) = (Who::Payee, Who::Payer, FulfilState::Committed);
        let fulfilment = ask::Given::Right;
        self.step(1, &Ask::Fulfil { id, from, to, state, is_v10: false, fulfilment, body: 0 });
    }

    fn prepare(
        &mut self,
        prepare: &ask::AskPrepare,
        from: ask::Name,
        expires_ms: i64,
        command: Command,
    ) -> (Told, Decision) {
        let is_new = !self.scheme.deals.contains_key(&prepare.id);
        let expected = self.scheme.hear_prepare(prepare, from, expires_ms, self.now_ms);
        if is_new && self.scheme.deals.get(&prepare.id).is_some_and(|deal| deal.end == scheme::End::Open) {
            let (payer, position) = (prepare.payer, self.scheme.position(prepare.payer));
            assert!(
                position <= self.scheme.cap(payer) && position <= self.scheme.cover(payer),
                "I4: {payer}"
            );
        }
        (expected, self.twin.submit(command, Timestamp::from_ms(self.now_ms)))
    }

    /// Compares balances, states and undelivered callbacks.
    fn compare(&self) {
        let ledger = &self.twin.live;
        let balance = |name, kind| {
            let account = ledger.account(account(ledger, name, kind));
            account.map_or(Amount::ZERO, |account| account.balance).units()
        };
        for name in NAMES {
            assert_eq!(balance(name, LedgerAccountTypeId::POSITION), self.scheme.position(name), "{name}");
            assert_eq!(balance(name, LedgerAccountTypeId::SETTLEMENT), -self.scheme.cover(name), "{name}");
            let fees = balance(name, LedgerAccountTypeId::INTERCHANGE_FEE);
            assert_eq!(fees, self.scheme.fees(name), "{name}: fees");
            let owed = self.scheme.owed.get(name).map_or(&[][..], Vec::as_slice);
            let target = ledger.participant_named(&fsp(name)).map(|participant| participant.id);
            let entries: Vec<_> =
                ledger.outbox().iter().filter(|(key, _)| Some(key.target) == target).collect();
            let parked: Vec<_> = entries.iter().map(|(_, entry)| entry.parked.is_some()).collect();
            assert_eq!(parked, owed, "{name}");
        }
        let hub = balance("Hub", LedgerAccountTypeId::HUB_RECONCILIATION);
        assert_eq!(hub, self.scheme.reconciliation(), "the hub's reconciliation account");
        let hub = balance("Hub", LedgerAccountTypeId::HUB_MULTILATERAL_SETTLEMENT);
        assert_eq!(hub, self.scheme.multilateral(), "the hub's account for settlement");
        for name in NAMES {
            let limit = ledger.participant_named(&fsp(name)).and_then(|member| member.limit(xts()));
            assert_eq!(limit.map_or(0, |limit| limit.value.units()), self.scheme.cap(name), "{name}");
        }
        self.compare_settlement();
        for (id, deal) in &self.scheme.deals {
            let id = transfer_id('t', *id);
            let transfer = ledger.transfer(id).or_else(|| self.twin.archive.get(&id));
            let state = transfer.expect("every prepare is kept").public_state();
            assert_eq!(state.as_str(), deal.public_state());
        }
        for (id, movement) in &self.scheme.movements {
            let funds = ledger.funds(transfer_id('f', *id)).expect("every movement is kept");
            assert_eq!(funds.state.as_str(), movement.state);
        }
    }

    /// Compares windows, their content, and settlements.
    fn compare_settlement(&self) {
        let ledger = &self.twin.live;
        let states = ledger.windows().iter().map(|window| window.state.as_str());
        assert!(
            states.eq(self.scheme.windows.iter().map(|window| window.state()).chain(["OPEN"])),
            "{:?}",
            ledger.windows()
        );
        for window in ledger.windows() {
            let pairs = ledger.window_pairs(window).expect("nothing is dropped so soon");
            let of_window: Vec<_> =
                self.scheme.flows().filter(|flow| flow.window == Some(window.id.0)).collect();
            let transfers: u64 = pairs.iter().map(|pair| pair.sum.transfers).sum();
            assert_eq!(transfers, of_window.len() as u64, "window {}", window.id);
            for pair in pairs.iter() {
                let [payer, payee] = [pair.payer, pair.payee].map(|id| {
                    let owner = ledger.account(id).expect("an account").participant;
                    ledger.participant(owner).name.to_string()
                });
                let kind = ledger.account(pair.payer).expect("an account").kind;
                let is_fee = kind == LedgerAccountTypeId::INTERCHANGE_FEE;
                let flows = of_window
                    .iter()
                    .filter(|flow| flow.from == payer && flow.to == payee && flow.is_fee == is_fee);
                let units = flows.map(|flow| i128::from(flow.units)).sum::<i128>();
                assert_eq!(units, pair.sum.units, "window {}: {payer} to {payee}", window.id);
            }
        }
        let at_once = self.scheme.paid_at_once().count() as u64;
        assert_eq!(ledger.totals().settled_at_once, at_once, "transfers that their commits settled");
        assert_eq!(ledger.settlements().len(), self.scheme.settlings.len());
        for (settlement, settling) in ledger.settlements().iter().zip(&self.scheme.settlings) {
            assert_eq!(settlement.state.as_str(), settling.state(), "{settlement:?}");
            assert_eq!(settlement.accounts.len(), settling.parties.len(), "{settlement:?}");
            for (name, party) in &settling.parties {
                let kind = match settling.is_fee {
                    true => LedgerAccountTypeId::INTERCHANGE_FEE,
                    false => LedgerAccountTypeId::POSITION,
                };
                let id = account(ledger, name, kind);
                let found = settlement.account(id).expect("an account of the settlement");
                assert_eq!(found.state.as_str(), party.state(), "{name}");
                assert_eq!(found.net.units(), self.scheme.net_in(name, settling), "{name}");
            }
        }
    }
}

/// A decision in the model's notation.
fn told(ledger: &Ledger, decision: &Decision) -> Told {
    let reply = match &decision.reply {
        Reply::Admin(Ok(AdminOutcome::Done | AdminOutcome::Redelivered(_))) => Some("= done".to_owned()),
        Reply::Admin(Ok(AdminOutcome::WindowOpened(id))) => Some(format!("= window {id}")),
        Reply::Admin(Ok(AdminOutcome::SettlementCreated(id))) => Some(format!("= settlement {id}")),
        Reply::Admin(Ok(AdminOutcome::SettlementAdvanced { faults })) => {
            let faults: Vec<_> = faults.iter().map(|(index, fault)| format!("{index} {fault:?}")).collect();
            Some(format!("= advanced {}", faults.join(", ")))
        }
        Reply::Admin(Ok(AdminOutcome::AlreadyDone)) => Some("= already done".to_owned()),
        Reply::Admin(Ok(AdminOutcome::Funds(_, state))) => Some(format!("= {}", state.as_str())),
        Reply::Admin(Err(refusal)) => Some(format!("= refused {}", ErrorName::of_refusal(refusal).code())),
        Reply::Admin(Ok(
            AdminOutcome::Proposed(_) | AdminOutcome::ProposalEnded(..) | AdminOutcome::SetStepped(..),
        )) => {
            unreachable!("only operators by name propose")
        }
        Reply::UnknownSender(_) => Some("= unknown sender".to_owned()),
        Reply::Accepted | Reply::NeedsArchive | Reply::Audited(_) => None,
    };
    let callbacks = decision.callbacks.iter().map(|callback| {
        let what = match &callback.content {
            CallbackContent::ForwardPrepare => "POST".to_owned(),
            CallbackContent::ForwardFulfil => "PUT forwarded".to_owned(),
            CallbackContent::ForwardAbort => "ERROR forwarded".to_owned(),
            CallbackContent::ConfirmFulfil => "PUT confirmed".to_owned(),
            CallbackContent::ConfirmAbort => "ERROR confirmed".to_owned(),
            CallbackContent::State(StateMethod::Put, view) => format!("PUT {}", view.state.as_str()),
            CallbackContent::State(StateMethod::Patch, view) => {
                assert_eq!(view.fulfilment, None, "a PATCH to a payee contains no fulfilment");
                format!("PATCH {}", view.state.as_str())
            }
            CallbackContent::Error(cause) => format!("ERROR {}", upesi_delivery::rejection::cause(cause).0),
            CallbackContent::BulkRequest(_) | CallbackContent::BulkState(_) => {
                panic!("bulks have a model of their own")
            }
        };
        format!("{} {what}", ledger.participant(callback.target).name)
    });
    reply.into_iter().chain(callbacks).collect()
}

fn config() -> ProptestConfig {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/model.regressions.txt");
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn ledger_agrees_with_the_model(
        policy: [bool; 5],
        steps in proptest::collection::vec(ask::step(), 1..120),
    ) {
        let mut run = Run::new(policy, 1);
        steps.iter().for_each(|(pause_ms, ask)| run.step(*pause_ms, ask));
        // The same steps again end in the same state, independent of the order in hash tables.
        let mut again = Run::new(policy, 2);
        steps.iter().for_each(|(pause_ms, ask)| again.step(*pause_ms, ask));
        prop_assert!(snapshot(&run.twin.live) == snapshot(&again.twin.live));
    }

    #[test]
    fn damaged_snapshot_is_rejected_or_usable(
        steps in proptest::collection::vec(ask::step(), 20..60),
        damage in proptest::collection::vec((any::<proptest::sample::Index>(), prop_oneof![0..20_u8, any::<u8>()]), 0..4),
        (id, other_id) in (0..6_u8, 0..6_u8),
        cut: proptest::sample::Index,
    ) {
        let mut run = Run::new([true; 5], 1);
        steps.iter().for_each(|(pause_ms, ask)| run.step(*pause_ms, ask));
        let bytes = snapshot(&run.twin.live);
        let cut = &bytes[..cut.index(bytes.len())];
        prop_assert!(Ledger::decode_snapshot(cut, LedgerConfig::default()).is_err());
        let mut damaged = bytes.clone();
        for (at, byte) in damage {
            damaged[at.index(bytes.len())] = byte;
        }
        let (id, other_id) = (transfer_id('t', id).to_bytes(), transfer_id('t', other_id).to_bytes());
        if let Some(at) = damaged.windows(id.len()).position(|window| window == id) {
            damaged[at..at + id.len()].copy_from_slice(&other_id);
        }
        if let Ok(ledger) = Ledger::decode_snapshot(&damaged, LedgerConfig::default()) {
            audit::check(&ledger);
            for (_, ask) in &steps {
                let Ask::Fulfil { id, .. } = ask else { continue };
                let command = ask::command(ask, run.known.get(id), &ledger, run.now_ms);
                ledger.decide(&command, &DecisionInput::at(Timestamp::from_ms(run.now_ms)), &mut Decision::default());
            }
        }
    }
}
