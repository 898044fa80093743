//! A bulk transfer against its model: the same items as single transfers, one after the other. Positions, states and
//! windows must be the same, whatever the payee answers and wherever the bulk transfer is interrupted.

use proptest::prelude::*;
use sha2::{Digest, Sha256};
use upesi_ledger::command::{
    Abort, BulkCommand, Fulfil, FulfilBulk, FulfilState, Fulfilment, NewSettlementModel, Prepare, PrepareBulk,
};
use upesi_ledger::{
    AdminCommand, AdminOutcome, AskedItem, BulkState, CallbackContent, Cause, Command, FundsDirection,
    ItemOutcome, ItemResult, LedgerAccountTypeId, LedgerConfig, NewItems, PublicBulkState, Reply, ResourceId,
    TransferState,
};
use upesi_types::{Amount, BulkId, Currency, ErrorCode, FspId, Timestamp, TransferId};

use crate::support::Twin;

const EXPIRES_MS: i64 = 60_000;

/// The payee's answer for an item.
#[derive(Clone, Copy, Debug)]
enum Said {
    Fulfilled,
    Wrong,
    Declined,
    Nothing,
}

fn said() -> impl Strategy<Value = Said> {
    prop_oneof![6 => Just(Said::Fulfilled), 1 => Just(Said::Wrong), 1 => Just(Said::Declined), 1 => Just(Said::Nothing)]
}

fn fsp(name: &str) -> FspId {
    FspId::parse(name).expect("a name")
}

fn id(number: usize) -> TransferId {
    TransferId::from_random_bytes([number as u8 + 1; 16])
}

fn preimage(id: TransferId) -> [u8; 32] {
    Sha256::digest(id.to_bytes()).into()
}

fn amount(units: i64) -> Amount {
    Amount::from_units(units * 10_000).expect("in range")
}

/// A scheme of two DFSPs with its clock.
struct Scheme {
    twin: Twin,
    now_ms: i64,
}

impl Scheme {
    fn new(cap: i64, cover: i64) -> Self {
        let mut scheme = Self { twin: Twin::new(LedgerConfig::default()), now_ms: 1 };
        let currency = Currency::parse("KES").expect("a currency");
        for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
            scheme.operate(AdminCommand::CreateHubAccount { name: fsp("Hub"), currency, kind: kind.into() });
        }
        let model = NewSettlementModel::deferred_net("NET", Some(currency));
        scheme.operate(AdminCommand::CreateSettlementModel(model));
        for (name, units) in [("payer", cover), ("payee", 1)] {
            let name = fsp(name);
            scheme.operate(AdminCommand::CreateParticipant { name, currency, is_proxy: false });
            let net_debit_cap = amount(cap);
            let initial_position = Amount::ZERO;
            scheme.operate(AdminCommand::OpenAccounts { name, currency, net_debit_cap, initial_position });
            scheme.deposit(name, units);
        }
        scheme
    }

    fn deposit(&mut self, name: FspId, units: i64) {
        let currency = Currency::parse("KES").expect("a currency");
        let account = self.account(name, LedgerAccountTypeId::SETTLEMENT);
        let fingerprint = [name.as_str().len() as u8; 16];
        self.operate(AdminCommand::PrepareFunds(upesi_ledger::command::FundsPrepare {
            direction: FundsDirection::In,
            id: TransferId::from_random_bytes([if name == fsp("payer") { 0xc0 } else { 0xc1 }; 16]),
            name,
            account,
            amount: amount(units),
            currency,
            external_reference: "bank".into(),
            reason: "prefund".into(),
            extensions: None,
            fingerprint,
        }));
    }

    fn account(&self, name: FspId, kind: LedgerAccountTypeId) -> upesi_ledger::AccountId {
        let currency = Currency::parse("KES").expect("a currency");
        let owner = self.twin.live.participant_named(&name).expect("a participant");
        owner.account(currency, kind).expect("an account")
    }

    fn operate(&mut self, command: AdminCommand) {
        let reply = self.submit(Command::Admin(command)).reply;
        assert!(matches!(reply, Reply::Admin(Ok(AdminOutcome::Done | AdminOutcome::Funds(..)))), "{reply:?}");
    }

    fn submit(&mut self, command: Command) -> upesi_ledger::Decision {
        self.now_ms += 1;
        self.twin.submit(command, Timestamp::from_ms(self.now_ms))
    }

    /// Takes all steps, with restarts after the given steps. Returns the last callback to the payer.
    fn steps(&mut self, restarts: &[usize]) -> Option<(PublicBulkState, Vec<(TransferId, ItemOutcome)>)> {
        let mut told = None;
        for step in 0.. {
            if self.twin.live.next_bulk_step_bytes().is_none() {
                return told;
            }
            let decision = self.submit(Command::StepBulk);
            let payer = self.twin.live.participant_id(&fsp("payer"));
            for callback in decision.callbacks {
                if let (true, CallbackContent::BulkState(view)) =
                    (Some(callback.target) == payer, callback.content)
                {
                    assert!(told.is_none(), "the payer receives one outcome");
                    told = Some((view.state, view.items));
                }
            }
            if restarts.contains(&step) {
                self.twin.restart();
            }
        }
        unreachable!("a bulk ends")
    }

    fn position(&self, name: &str) -> i64 {
        let account = self.account(fsp(name), LedgerAccountTypeId::POSITION);
        self.twin.live.account(account).expect("an account").balance.units()
    }

    fn state(&self, id: TransferId) -> &'static str {
        match self.twin.live.transfer(id).map(|transfer| &transfer.state) {
            None => "unknown",
            Some(TransferState::Reserved) => "RESERVED",
            Some(TransferState::Committed(_)) => "COMMITTED",
            Some(TransferState::Aborted(end)) => end.kind.as_str(),
        }
    }

    fn expire(&mut self) {
        self.now_ms += EXPIRES_MS;
        self.submit(Command::Tick);
    }
}

fn bulk(items: &[(i64, Said)]) -> Command {
    let asked = |(number, (units, _)): (usize, &(i64, Said))| {
        let asked = AskedItem {
            amount: Ok(amount(*units)),
            currency: Currency::parse("KES").expect("a currency"),
            ilp_packet: "DIIBeQ".into(),
            condition: Some(Sha256::digest(preimage(id(number))).into()),
            extensions: None,
        };
        (id(number), asked)
    };
    let items = items.iter().enumerate().map(asked).collect();
    Command::Bulk(BulkCommand::Prepare(Box::new(PrepareBulk {
        id: BulkId::new(id(200)),
        quote: id(201),
        source: fsp("payer"),
        destination: Some(fsp("payee")),
        payer: fsp("payer"),
        payee: fsp("payee"),
        items: NewItems::new(items).expect("items"),
        expires_at: Timestamp::from_ms(EXPIRES_MS),
        fingerprint: [1; 16],
        extensions: None,
    })))
}

fn answer(items: &[(i64, Said)], is_rejected: bool) -> Command {
    let result = |(number, (_, said)): (usize, &(i64, Said))| {
        let result = match said {
            Said::Fulfilled => ItemResult::Fulfil { fulfilment: preimage(id(number)), extensions: None },
            Said::Wrong => ItemResult::Fulfil { fulfilment: [0xff; 32], extensions: None },
            Said::Declined => ItemResult::Abort(Cause::Payee {
                code: ErrorCode::PAYEE_REJECTED_TRANSACTION,
                description: "no".into(),
            }),
            Said::Nothing => return None,
        };
        Some((id(number), result))
    };
    let state = if is_rejected { PublicBulkState::Rejected } else { PublicBulkState::Completed };
    Command::Bulk(BulkCommand::Fulfil(Box::new(FulfilBulk {
        bulk: ResourceId::Id(id(200)),
        source: fsp("payee"),
        destination: Some(fsp("payer")),
        state,
        fault: None,
        results: items.iter().enumerate().filter_map(result).collect(),
        fingerprint: [2; 16],
        extensions: None,
    })))
}

/// The same items as single transfers.
fn singles(scheme: &mut Scheme, items: &[(i64, Said)], is_rejected: bool) {
    for (number, (units, _)) in items.iter().enumerate() {
        scheme.submit(Command::Prepare(Prepare {
            id: id(number),
            source: fsp("payer"),
            destination: Some(fsp("payee")),
            payer: fsp("payer"),
            payee: fsp("payee"),
            amount: Ok(amount(*units)),
            currency: Currency::parse("KES").expect("a currency"),
            condition: Some(Sha256::digest(preimage(id(number))).into()),
            expires_at: Timestamp::from_ms(EXPIRES_MS),
            fingerprint: [1; 16],
            extensions: None,
        }));
    }
    for (number, (_, said)) in items.iter().enumerate() {
        let (transfer, source, destination) = (ResourceId::Id(id(number)), fsp("payee"), Some(fsp("payer")));
        let fulfil = |fulfilment| {
            Command::Fulfil(Fulfil {
                transfer: transfer.clone(),
                source,
                destination,
                state: FulfilState::Committed,
                may_reserve: true,
                fulfilment: Fulfilment::Preimage(fulfilment),
                fingerprint: [2; 16],
                extensions: None,
            })
        };
        let command = match said {
            Said::Fulfilled => fulfil(preimage(id(number))),
            Said::Wrong => fulfil([0xff; 32]),
            Said::Nothing if !is_rejected => continue,
            Said::Declined | Said::Nothing => Command::Abort(Abort {
                transfer: transfer.clone(),
                source,
                destination,
                code: ErrorCode::PAYEE_REJECTED_TRANSACTION,
                description: "no".into(),
                fingerprint: [2; 16],
            }),
        };
        scheme.submit(command);
    }
}

proptest! {
    #[test]
    fn bulk_transfer_has_the_outcomes_of_its_single_items(
        items in proptest::collection::vec((0..30_i64, said()), 1..8),
        (cap, cover) in (10..100_i64, 10..100_i64),
        is_rejected: bool,
        restarts in proptest::collection::vec(0..12_usize, 0..3),
    ) {
        let (mut together, mut apart) = (Scheme::new(cap, cover), Scheme::new(cap, cover));
        together.submit(bulk(&items));
        let refused = together.steps(&restarts);
        singles(&mut apart, &items, is_rejected);
        let told = match refused {
            Some(told) => Some(told),
            None => {
                prop_assert_eq!(together.submit(answer(&items, is_rejected)).callbacks, vec![]);
                together.steps(&restarts)
            }
        };
        prop_assert_eq!(together.position("payer"), apart.position("payer"), "before the deadline");
        prop_assert_eq!(together.position("payee"), apart.position("payee"));
        together.expire();
        apart.expire();
        let told = told.or_else(|| together.steps(&restarts)).expect("an outcome for the payer");
        for name in ["payer", "payee"] {
            prop_assert_eq!(together.position(name), apart.position(name), "{} in the end", name);
        }
        let states: Vec<_> = (0..items.len()).map(|number| together.state(id(number))).collect();
        let alone: Vec<_> = (0..items.len()).map(|number| apart.state(id(number))).collect();
        prop_assert_eq!(&states, &alone);
        // The payer receives the outcome of each item.
        let is_committed = |outcome: &ItemOutcome| matches!(outcome, ItemOutcome::Fulfilled { .. });
        let committed: Vec<_> = told.1.iter().map(|(_, outcome)| is_committed(outcome)).collect();
        prop_assert_eq!(committed, states.iter().map(|state| *state == "COMMITTED").collect::<Vec<_>>());
        let any = states.contains(&"COMMITTED");
        prop_assert_eq!(told.0, if any { PublicBulkState::Completed } else { PublicBulkState::Rejected });
        let found = together.twin.live.bulk(BulkId::new(id(200))).expect("the bulk");
        prop_assert_eq!(matches!(found.state, BulkState::Completed { .. }), any);
        let sums = |scheme: &Scheme| scheme.twin.live.window_pairs(&scheme.twin.live.windows()[0]).map(|pairs| pairs.to_vec());
        prop_assert_eq!(sums(&together), sums(&apart));
        together.twin.drain();
        prop_assert!(together.twin.archived_bulks.contains_key(&BulkId::new(id(200))));
        prop_assert_eq!(together.twin.live.bulk_bytes_held(), 0);
    }
}

/// A bulk transfer has 1 to 1,000 different items.
#[test]
fn bulk_transfer_has_limited_and_distinct_items() {
    let asked = AskedItem {
        amount: Ok(amount(1)),
        currency: Currency::parse("KES").expect("a currency"),
        ilp_packet: "DIIBeQ".into(),
        condition: None,
        extensions: None,
    };
    let of = |count: u32| {
        let id = |number: u32| {
            let mut bytes = [0; 16];
            bytes[..4].copy_from_slice(&number.to_le_bytes());
            TransferId::from_random_bytes(bytes)
        };
        (0..count).map(|number| (id(number), asked.clone())).collect::<Vec<_>>()
    };
    assert_eq!(NewItems::new(of(0)), Err(upesi_ledger::ItemsFault::Number));
    assert!(NewItems::new(of(1)).is_ok());
    assert_eq!(NewItems::new(of(1_000)).map(|items| items.transfers().len()), Ok(1_000));
    assert_eq!(NewItems::new(of(1_001)), Err(upesi_ledger::ItemsFault::Number));
    let mut twice = of(3);
    twice.push(twice[1].clone());
    assert_eq!(NewItems::new(twice.clone()), Err(upesi_ledger::ItemsFault::Twice(twice[1].0)));
}
