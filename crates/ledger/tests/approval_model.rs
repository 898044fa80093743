//! Random runs of proposals by four operators, compared after each step with a naive model of the rules.
//!
//! `PROPTEST_CASES=10000 cargo test -p upesi-ledger --test approval_model` looks longer.

mod support;

use std::collections::BTreeMap;

use proptest::prelude::*;
use upesi_ledger::command::{Act, Deed, NewSettlementModel, Verdict, VerdictKind};
use upesi_ledger::{
    AdminCommand, AdminOutcome, AdminRefusal, Attribution, Command, LedgerConfig, ProposalState, Reply,
};
use upesi_types::{Amount, Currency, FspId, Timestamp};

use self::support::Twin;

const START_MS: i64 = 1_932_811_200_000;
const LIFETIME_MS: i64 = 1_000;
const OPERATORS: [&str; 4] = ["amina", "brian", "chris", "dina"];

/// What an operator asks for.
#[derive(Clone, Copy, Debug)]
enum Ask {
    /// A net debit cap.
    Cap(i64),
    /// Approval 1, 2, …, counted from the newest one.
    Approve(u64),
    Reject(u64),
    Withdraw(u64),
    Tick,
    /// The hub goes on from a snapshot, without the finished transfers.
    Restart,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    by: usize,
    ask: Ask,
    after_ms: i64,
}

fn step() -> impl Strategy<Value = Step> {
    let ask = prop_oneof![
        3 => (0..4_i64).prop_map(Ask::Cap),
        3 => (0..3_u64).prop_map(Ask::Approve),
        1 => (0..3_u64).prop_map(Ask::Reject),
        1 => (0..3_u64).prop_map(Ask::Withdraw),
        1 => Just(Ask::Tick),
        1 => Just(Ask::Restart),
    ];
    (0..OPERATORS.len(), ask, 1..400_i64).prop_map(|(by, ask, after_ms)| Step { by, ask, after_ms })
}

/// A proposal as people remember it.
#[derive(Clone, Copy, Debug)]
struct Known {
    maker: usize,
    seen: i64,
    wanted: i64,
    expires_ms: i64,
    state: ProposalState,
}

struct Run {
    twin: Twin,
    now_ms: i64,
    cap: i64,
    known: BTreeMap<u64, Known>,
    executed: usize,
}

fn green() -> FspId {
    FspId::parse("green").unwrap()
}

fn kes() -> Currency {
    Currency::parse("KES").unwrap()
}

fn set_cap(value: i64) -> AdminCommand {
    let net_debit_cap = Amount::from_units(value).unwrap();
    AdminCommand::SetLimit { name: green(), currency: kes(), net_debit_cap, alarm_basis_points: 800 }
}

impl Run {
    fn new() -> Self {
        let config = LedgerConfig { proposal_lifetime_ms: LIFETIME_MS, ..LedgerConfig::default() };
        let mut run =
            Self { twin: Twin::new(config), now_ms: START_MS, cap: 2, known: BTreeMap::new(), executed: 0 };
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

    fn act(&mut self, by: usize, deed: Deed) -> Result<AdminOutcome, AdminRefusal> {
        let by = Attribution {
            operator: OPERATORS[by].into(),
            known_by: "token 1".into(),
            address: None,
            on_behalf_of: None,
            action: "limit.raise".into(),
            reason: Some("as the board decided".into()),
        };
        match self.submit(Command::Act(Box::new(Act { by, deed, is_alone: false }))) {
            Reply::Admin(reply) => reply,
            reply => panic!("{reply:?}"),
        }
    }

    fn step(&mut self, step: Step) {
        let Step { by, ask, after_ms } = step;
        self.now_ms += after_ms;
        let newest = self.known.len() as u64;
        match ask {
            Ask::Cap(value) => self.propose(by, value),
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
                let is_due =
                    |one: &&mut Known| one.state == ProposalState::Pending && one.expires_ms <= now_ms;
                self.known.values_mut().filter(is_due).for_each(|one| one.state = ProposalState::Expired);
            }
        }
        self.compare();
    }

    /// A lower cap is one person's, a higher one two people's.
    fn propose(&mut self, by: usize, value: i64) {
        let reply = self.act(by, Deed::Change(set_cap(value)));
        if value <= self.cap {
            assert!(matches!(reply, Ok(AdminOutcome::Done | AdminOutcome::AlreadyDone)), "{reply:?}");
            self.cap = value;
            return;
        }
        let is_same =
            |one: &Known| one.state == ProposalState::Pending && one.maker == by && one.wanted == value;
        if let Some((id, _)) = self.known.iter().find(|(_, one)| is_same(one)) {
            assert_eq!(reply, Ok(AdminOutcome::Proposed(*id)));
            return;
        }
        let id = self.known.len() as u64 + 1;
        assert_eq!(reply, Ok(AdminOutcome::Proposed(id)));
        let expires_ms = self.now_ms + LIFETIME_MS;
        let state = ProposalState::Pending;
        self.known.insert(id, Known { maker: by, seen: self.cap, wanted: value, expires_ms, state });
    }

    /// `None` takes it back.
    fn judge(&mut self, by: usize, id: u64, verdict: Option<ProposalState>) {
        let kind = match verdict {
            None => VerdictKind::Withdraw,
            Some(ProposalState::Executed) => VerdictKind::Approve(|refusal| format!("{refusal:?}")),
            Some(_) => VerdictKind::Reject,
        };
        let reply = self.act(by, Deed::Verdict(Verdict { id, kind, comment: None }));
        let Some(known) = self.known.get_mut(&id) else {
            assert_eq!(reply, Err(AdminRefusal::ProposalUnknown));
            return;
        };
        if known.state != ProposalState::Pending {
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
            (Some(ProposalState::Executed), false) if known.seen != self.cap => ProposalState::Failed,
            (Some(state), false) => state,
        };
        if known.state == ProposalState::Executed {
            self.cap = known.wanted;
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
            assert_eq!(ledger.approvals().get(*id).map(|one| one.state()), Some(known.state), "{id}");
        }
        let pending = self.known.values().filter(|one| one.state == ProposalState::Pending);
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

/// The runs above come to where approvals are given.
#[test]
fn runs_execute_proposals() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let steps = proptest::collection::vec(step(), 200).new_tree(&mut runner).unwrap().current();
    let mut run = Run::new();
    steps.into_iter().for_each(|step| run.step(step));
    assert!(run.executed > 3, "{}", run.executed);
}
