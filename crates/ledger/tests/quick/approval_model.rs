//! Random runs of proposals and change sets by four operators, compared after each step with a naive model.
//!
//! `PROPTEST_CASES=10000 cargo test -p upesi-ledger --test quick approval_model` runs longer.

use std::collections::BTreeMap;

use proptest::prelude::*;
use upesi_ledger::command::{
    ApplyNext, AuditedCommand, Authority, NewSettlementModel, OperatorAction, ProposalDecision,
    ProposalDecisionKind,
};
use upesi_ledger::{
    AdminCommand, AdminOutcome, AdminRefusal, AuditActor, BindingKind, CHANGE_SETS_OF_MAKER_MAX, ChangeSet,
    Command, LedgerConfig, ProposalState, Reply, SetChange,
};
use upesi_types::{Amount, Currency, FspId, Timestamp};

use crate::support::Twin;

const START_MS: i64 = 1_932_811_200_000;
const LIFETIME_MS: i64 = 3_000;
const OPERATORS: [&str; 4] = ["amina", "brian", "chris", "dina"];

/// A change of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    /// A net debit cap of green.
    Cap(i64),
    /// A binding of green.
    Bind,
}

/// A request of an operator.
#[derive(Clone, Debug)]
enum Ask {
    /// A net debit cap.
    Cap(i64),
    /// Several changes at once.
    Set(Vec<Part>),
    /// The hub makes the next change of a set. Numbered as in `Approve`.
    Apply(u64),
    /// Blue gets the binding, or its present owner loses it.
    Flip,
    /// Approval 1, 2, …, counted from the newest one.
    Approve(u64),
    Reject(u64),
    Withdraw(u64),
    Tick,
    /// The hub restarts from a snapshot, without the finished transfers.
    Restart,
}

#[derive(Clone, Debug)]
struct Step {
    by: usize,
    ask: Ask,
    after_ms: i64,
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![(0..4_i64).prop_map(Part::Cap), Just(Part::Bind)]
}

fn step() -> impl Strategy<Value = Step> {
    let ask = prop_oneof![
        2 => (0..4_i64).prop_map(Ask::Cap),
        2 => proptest::collection::vec(part(), 0..4).prop_map(Ask::Set),
        6 => (0..3_u64).prop_map(Ask::Apply),
        3 => Just(Ask::Flip),
        6 => (0..3_u64).prop_map(Ask::Approve),
        1 => (0..3_u64).prop_map(Ask::Reject),
        1 => (0..3_u64).prop_map(Ask::Withdraw),
        1 => Just(Ask::Tick),
        1 => Just(Ask::Restart),
    ];
    (0..OPERATORS.len(), ask, 1..400_i64).prop_map(|(by, ask, after_ms)| Step { by, ask, after_ms })
}

/// The model of a proposal.
#[derive(Clone, Debug)]
struct Known {
    maker: usize,
    /// The cap before each of its changes.
    seen: Vec<i64>,
    wanted: Vec<Part>,
    /// Number of the set's changes that were made; `None` for a single change.
    made: Option<usize>,
    expires_ms: i64,
    state: ProposalState,
}

impl Known {
    /// Whether it has not ended.
    fn waits(&self) -> bool {
        matches!(self.state, ProposalState::Pending | ProposalState::Applying | ProposalState::Stopped)
    }
}

struct Run {
    twin: Twin,
    now_ms: i64,
    cap: i64,
    /// Owner of the binding.
    bound: Option<FspId>,
    known: BTreeMap<u64, Known>,
    executed: usize,
    stopped: usize,
    continued: usize,
}

fn green() -> FspId {
    FspId::parse("green").unwrap()
}

fn kes() -> Currency {
    Currency::parse("KES").unwrap()
}

fn blue() -> FspId {
    FspId::parse("blue").unwrap()
}

fn bind(name: FspId) -> AdminCommand {
    AdminCommand::AddBinding { name, kind: BindingKind::SanDns, value: "a.example".into() }
}

fn set_cap(value: i64) -> AdminCommand {
    let net_debit_cap = Amount::from_units(value).unwrap();
    AdminCommand::SetLimit { name: green(), currency: kes(), net_debit_cap, alarm_basis_points: 800 }
}

impl Run {
    fn new() -> Self {
        let config = LedgerConfig { proposal_lifetime_ms: LIFETIME_MS, ..LedgerConfig::default() };
        let mut run = Self {
            twin: Twin::new(config),
            now_ms: START_MS,
            cap: 2,
            bound: None,
            known: BTreeMap::new(),
            executed: 0,
            stopped: 0,
            continued: 0,
        };
        let (name, currency) = (green(), kes());
        let hub = FspId::parse("Hub").unwrap();
        let account = |kind: &str| AdminCommand::CreateHubAccount { name: hub, currency, kind: kind.into() };
        let (net_debit_cap, initial_position) = (Amount::from_units(2).unwrap(), Amount::ZERO);
        for command in [
            account("HUB_RECONCILIATION"),
            account("HUB_MULTILATERAL_SETTLEMENT"),
            AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net("NET", None)),
            AdminCommand::CreateParticipant { name, currency, is_proxy: false },
            AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position },
            set_cap(2),
            AdminCommand::CreateParticipant { name: blue(), currency, is_proxy: false },
        ] {
            let reply = run.submit(Command::Admin(command));
            assert!(matches!(reply, Reply::Admin(Ok(_))), "{reply:?}");
        }
        run
    }

    fn submit(&mut self, command: Command) -> Reply {
        self.now_ms += 1;
        self.twin.submit(command, Timestamp::from_ms(self.now_ms)).reply
    }

    fn act(&mut self, by: usize, action: OperatorAction) -> Result<AdminOutcome, AdminRefusal> {
        let by = AuditActor {
            operator: OPERATORS[by].into(),
            known_by: "token 1".into(),
            address: None,
            on_behalf_of: None,
            action: "limit.raise".into(),
            reason: Some("as the board decided".into()),
        };
        let reply =
            self.submit(Command::Audited(Box::new(AuditedCommand { by, action, authority: Authority::ALL })));
        reply.into_outcome().expect("an operator is answered")
    }

    fn step(&mut self, step: Step) {
        let Step { by, ask, after_ms } = step;
        self.now_ms += after_ms;
        let newest = self.known.len() as u64;
        match ask {
            Ask::Cap(value) => self.propose(by, value),
            Ask::Set(parts) => self.propose_set(by, &parts),
            Ask::Apply(back) => self.apply(newest.saturating_sub(back)),
            Ask::Flip => {
                let (name, kind, value) = (blue(), BindingKind::SanDns, "a.example".into());
                let command = match self.bound.take() {
                    Some(name) => AdminCommand::RemoveBinding { name, kind, value },
                    None => AdminCommand::AddBinding { name, kind, value },
                };
                self.bound = matches!(command, AdminCommand::AddBinding { .. }).then_some(name);
                assert_eq!(self.submit(Command::Admin(command)), Reply::Admin(Ok(AdminOutcome::Done)));
            }
            Ask::Approve(back) => self.judge(by, newest.saturating_sub(back), Some(ProposalState::Executed)),
            Ask::Reject(back) => self.judge(by, newest.saturating_sub(back), Some(ProposalState::Rejected)),
            Ask::Withdraw(back) => self.judge(by, newest.saturating_sub(back), None),
            Ask::Restart => {
                self.twin.drain();
                self.twin.restart();
            }
            Ask::Tick => {
                let reply = self.submit(Command::Tick);
                assert_eq!(reply, Reply::Accepted);
                let now_ms = self.now_ms;
                let is_due = |one: &&mut Known| {
                    one.waits() && one.state != ProposalState::Applying && one.expires_ms <= now_ms
                };
                self.known.values_mut().filter(is_due).for_each(|one| one.state = ProposalState::Expired);
            }
        }
        self.compare();
    }

    /// A lower cap needs one operator, a higher cap needs two.
    fn propose(&mut self, by: usize, value: i64) {
        let reply = self.act(by, OperatorAction::Change(set_cap(value)));
        if value <= self.cap {
            assert!(matches!(reply, Ok(AdminOutcome::Done | AdminOutcome::AlreadyDone)), "{reply:?}");
            self.cap = value;
            return;
        }
        let wanted = vec![Part::Cap(value)];
        self.expect_proposed(
            &reply,
            Known {
                maker: by,
                seen: vec![self.cap],
                wanted,
                made: None,
                expires_ms: self.now_ms + LIFETIME_MS,
                state: ProposalState::Pending,
            },
        );
    }

    /// A repeated proposal of the same operator is one proposal.
    fn expect_proposed(&mut self, reply: &Result<AdminOutcome, AdminRefusal>, new: Known) {
        let is_same = |one: &Known| {
            one.waits()
                && one.maker == new.maker
                && one.wanted == new.wanted
                && one.made.is_some() == new.made.is_some()
        };
        if let Some((id, _)) = self.known.iter().find(|(_, one)| is_same(one)) {
            assert_eq!(*reply, Ok(AdminOutcome::Proposed(*id)));
            return;
        }
        let is_set = |one: &&Known| one.made.is_some() && one.waits() && one.maker == new.maker;
        if new.made.is_some() && self.known.values().filter(is_set).count() >= CHANGE_SETS_OF_MAKER_MAX {
            assert_eq!(*reply, Err(AdminRefusal::ChangeSetsFull));
            return;
        }
        let id = self.known.len() as u64 + 1;
        assert_eq!(*reply, Ok(AdminOutcome::Proposed(id)));
        self.known.insert(id, new);
    }

    /// A set needs a second operator if one of its changes does. Changes without effect are left out.
    fn propose_set(&mut self, by: usize, parts: &[Part]) {
        let command = |part: &Part| match part {
            Part::Cap(value) => set_cap(*value),
            Part::Bind => bind(green()),
        };
        let changes = parts.iter().map(|part| SetChange::new(command(part))).collect();
        let set = AdminCommand::ChangeSet(ChangeSet { name: "caps".into(), changes });
        let reply = self.act(by, OperatorAction::Change(set));
        let needs_second = |part: &Part| match part {
            Part::Cap(value) => *value > self.cap,
            Part::Bind => true,
        };
        if !parts.iter().any(needs_second) {
            assert_eq!(reply, Err(AdminRefusal::ChangeSetKind));
            return;
        }
        let (mut cap, mut owner) = (self.cap, self.bound);
        let (mut seen, mut wanted) = (Vec::new(), Vec::new());
        for (at, part) in parts.iter().enumerate() {
            if *part == Part::Bind && owner == Some(blue()) {
                let refusal = Box::new(AdminRefusal::BindingTaken { owner: blue() });
                let number = at as u32 + 1;
                assert_eq!(reply, Err(AdminRefusal::ChangeSetChange { number, refusal }));
                return;
            }
            let has_effect = match part {
                Part::Cap(value) => *value != cap,
                Part::Bind => owner.is_none(),
            };
            if has_effect {
                seen.push(cap);
                wanted.push(*part);
            }
            match part {
                Part::Cap(value) => cap = *value,
                Part::Bind => owner = Some(green()),
            }
        }
        if wanted.is_empty() {
            assert_eq!(reply, Ok(AdminOutcome::AlreadyDone));
            return;
        }
        self.expect_proposed(
            &reply,
            Known {
                maker: by,
                seen,
                wanted,
                made: Some(0),
                expires_ms: self.now_ms + LIFETIME_MS,
                state: ProposalState::Pending,
            },
        );
    }

    /// The hub makes the next change of an approved set.
    fn apply(&mut self, id: u64) {
        let reply =
            self.act(0, OperatorAction::ApplyNext(ApplyNext { id, words: |refusal| format!("{refusal:?}") }));
        let Some(known) = self.known.get_mut(&id) else {
            assert_eq!(reply, Err(AdminRefusal::ProposalUnknown));
            return;
        };
        let Some(made) = known.made.filter(|_| known.state == ProposalState::Applying) else {
            assert_eq!(reply, Err(AdminRefusal::ProposalEnded { state: known.state }));
            return;
        };
        if known.wanted[made] == Part::Bind && self.bound == Some(blue()) {
            known.state = ProposalState::Stopped;
            self.stopped += 1;
            assert_eq!(reply, Ok(AdminOutcome::SetStepped(ProposalState::Stopped, None)));
            return;
        }
        match known.wanted[made] {
            Part::Cap(value) => self.cap = value,
            Part::Bind => self.bound = Some(green()),
        }
        known.made = Some(made + 1);
        if made + 1 == known.wanted.len() {
            known.state = ProposalState::Executed;
            self.executed += 1;
        }
        let state = known.state;
        assert!(
            matches!(&reply, Ok(AdminOutcome::SetStepped(found, Some(_))) if *found == state),
            "{reply:?}"
        );
    }

    /// The outcome of a set's approval in the present state.
    fn judged_set(known: &Known, made: usize, cap: i64, bound: Option<FspId>) -> ProposalState {
        let is_taken = bound == Some(blue());
        let has_stopped = known.state == ProposalState::Stopped;
        if has_stopped && is_taken {
            // The set stops again.
            return ProposalState::Applying;
        }
        let mut cap = cap;
        for (at, (part, seen)) in known.wanted.iter().zip(&known.seen).enumerate().skip(made) {
            let is_compared = !has_stopped || at > made;
            match part {
                Part::Cap(_) if is_compared && cap != *seen => return ProposalState::Failed,
                Part::Cap(value) => cap = *value,
                Part::Bind if is_taken => return ProposalState::Failed,
                Part::Bind => {}
            }
        }
        ProposalState::Applying
    }

    /// `None` withdraws the proposal.
    fn judge(&mut self, by: usize, id: u64, verdict: Option<ProposalState>) {
        let kind = match verdict {
            None => ProposalDecisionKind::Withdraw,
            Some(ProposalState::Executed) => ProposalDecisionKind::Approve(|refusal| format!("{refusal:?}")),
            Some(_) => ProposalDecisionKind::Reject,
        };
        let reply = self.act(by, OperatorAction::Decide(ProposalDecision { id, kind, comment: None }));
        let Some(known) = self.known.get_mut(&id) else {
            assert_eq!(reply, Err(AdminRefusal::ProposalUnknown));
            return;
        };
        let is_approval = verdict == Some(ProposalState::Executed);
        if known.state == ProposalState::Applying && is_approval && known.maker != by {
            assert_eq!(reply, Ok(AdminOutcome::ProposalEnded(id, ProposalState::Applying, None)));
            return;
        }
        if !known.waits() || known.state == ProposalState::Applying {
            assert_eq!(reply, Err(AdminRefusal::ProposalEnded { state: known.state }));
            return;
        }
        if known.expires_ms <= self.now_ms {
            assert_eq!(reply, Err(AdminRefusal::ProposalEnded { state: ProposalState::Expired }));
            return;
        }
        known.state = match (verdict, known.maker == by) {
            (None, true) => ProposalState::Withdrawn,
            (None, false) => return assert_eq!(reply, Err(AdminRefusal::ProposalOfAnother)),
            (Some(_), true) => return assert_eq!(reply, Err(AdminRefusal::ProposalOwn)),
            (Some(state), false) => match known.made {
                Some(made) if is_approval => {
                    self.continued += usize::from(known.state == ProposalState::Stopped);
                    Self::judged_set(known, made, self.cap, self.bound)
                }
                None if is_approval && known.seen[0] != self.cap => ProposalState::Failed,
                _ => state,
            },
        };
        if known.state == ProposalState::Executed {
            let Part::Cap(wanted) = known.wanted[0] else { unreachable!("single changes are caps") };
            self.cap = wanted;
            self.executed += 1;
        }
        let state = known.state;
        assert!(
            matches!(&reply, Ok(AdminOutcome::ProposalEnded(ended, found, made))
                if (*ended, *found) == (id, state) && made.is_some() == (state == ProposalState::Executed)),
            "{reply:?}"
        );
    }

    fn compare(&self) {
        let ledger = &self.twin.live;
        let cap = ledger.participant_named(&green()).and_then(|one| one.limit(kes())).map(|one| one.value);
        assert_eq!(cap.map(Amount::units), Some(self.cap));
        for (id, known) in &self.known {
            let approvals = ledger.approvals();
            let state = approvals.get(*id).map(|one| approvals.state_of(one));
            assert_eq!(state, Some(known.state), "{id}");
            let made = approvals.progress(*id).map(|progress| progress.made as usize);
            assert!(made.is_none() || made == known.made, "{id}: {made:?}");
        }
        let owner = ledger.participants().iter().find(|one| !one.bindings.is_empty());
        assert_eq!(owner.map(|owner| owner.name), self.bound);
        let pending = self.known.values().filter(|one| one.waits());
        assert_eq!(ledger.approvals().pending().len(), pending.count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn proposals_follow_the_rules(steps in proptest::collection::vec(step(), 1..60)) {
        let mut run = Run::new();
        steps.into_iter().for_each(|step| run.step(step));
    }
}

/// The random runs reach approved proposals.
#[test]
fn runs_execute_proposals() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let steps = proptest::collection::vec(step(), 2_000).new_tree(&mut runner).unwrap().current();
    let mut run = Run::new();
    steps.into_iter().for_each(|step| run.step(step));
    let counts = [run.executed, run.stopped, run.continued];
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}
