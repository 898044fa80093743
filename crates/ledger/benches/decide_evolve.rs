//! How fast the ledger decides and folds, in memory, on one core.
//!
//! `cargo bench -p upesi-ledger`. Commands are built outside the measured time; ids are unique random UUIDs. Nothing
//! is archived while `prepare` runs, so the transfers in flight grow beyond a million and the tables grow with them.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use sha2::{Digest, Sha256};
use upesi_ledger::command::{Fulfil, FulfilState, Fulfilment, FundsPrepare, NewSettlementModel, Prepare};
use upesi_ledger::{
    AdminCommand, Archived, Command, Decision, DecisionInput, FundsDirection, Ledger, LedgerAccountTypeId,
    LedgerConfig, Payload, Record, Reply, ResourceId,
};
use upesi_types::{Amount, Currency, FspId, Timestamp, TransferId};

const PARTICIPANTS: u64 = 8;
const PREIMAGE: [u8; 32] = [7; 32];
/// Maximum number of transfers in a ledger. A fresh ledger replaces it then, so that the bench fits in memory.
const TRANSFERS_MAX: u64 = 1_500_000;
/// Commands built at a time.
const CHUNK: u64 = 10_000;
const START: Timestamp = Timestamp::from_ms(1_932_811_200_000);

/// A ledger with a clock and a decision to reuse, as the engine holds them.
struct Bench {
    ledger: Ledger,
    decision: Decision,
    now: i64,
}

impl Bench {
    fn new() -> Self {
        let ledger = Ledger::new(LedgerConfig::default());
        let mut bench = Self { ledger, decision: Decision::default(), now: START.as_ns() };
        let currency = kes();
        for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
            bench.admin(AdminCommand::CreateHubAccount { name: name("Hub"), currency, kind: kind.into() });
        }
        bench.admin(AdminCommand::CreateSettlementModel(NewSettlementModel::deferred_net(
            "DEFERREDNETKES",
            Some(currency),
        )));
        (0..PARTICIPANTS).for_each(|number| bench.onboard(number));
        bench
    }

    fn onboard(&mut self, number: u64) {
        let (name, currency, plenty) = (dfsp(number), kes(), amount(1_000_000_000_000));
        self.admin(AdminCommand::CreateParticipant { name, currency, is_proxy: false });
        self.admin(AdminCommand::OpenAccounts {
            name,
            currency,
            net_debit_cap: plenty,
            initial_position: Amount::ZERO,
        });
        let owner = self.ledger.participant_named(&name).expect("just created");
        self.admin(AdminCommand::PrepareFunds(FundsPrepare {
            direction: FundsDirection::In,
            id: transfer_id(u64::MAX - number),
            name,
            account: owner.account(currency, LedgerAccountTypeId::SETTLEMENT).expect("just opened"),
            amount: plenty,
            currency,
            external_reference: "bank-1".into(),
            reason: "prefund".into(),
            extensions: None,
            fingerprint: [0; 16],
        }));
    }

    fn admin(&mut self, command: AdminCommand) {
        self.submit(&Command::Admin(command));
        assert!(matches!(self.decision.reply, Reply::Admin(Ok(_))), "refused: {:?}", self.decision.reply);
    }

    /// Decides and folds one command.
    fn submit(&mut self, command: &Command) {
        self.now += 1_000;
        let now = Timestamp::from_ns(self.now);
        self.decision.clear();
        self.ledger.decide(command, &DecisionInput::new(now.into(), &Archived::Absent), &mut self.decision);
        self.evolve(now);
    }

    fn evolve(&mut self, now: Timestamp) {
        let seq = self.ledger.last_seq() + 1;
        self.ledger.evolve(seq, now, self.decision.events.drain(..), &self.decision.callbacks);
    }
}

fn kes() -> Currency {
    Currency::parse("KES").expect("listed")
}

fn name(text: &str) -> FspId {
    FspId::parse(text).expect("a name")
}

fn dfsp(number: u64) -> FspId {
    name(&format!("dfsp{}", number % PARTICIPANTS + 1))
}

fn amount(whole: i64) -> Amount {
    Amount::from_units(whole * 10_000).expect("in range")
}

/// Spreads like a random UUID and never repeats (splitmix64 is a bijection).
fn transfer_id(number: u64) -> TransferId {
    let mix = |mut z: u64| {
        z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let (high, low) = (mix(number), mix(!number));
    TransferId::from_random_bytes((u128::from(high) << 64 | u128::from(low)).to_be_bytes())
}

fn prepare(number: u64, condition: [u8; 32]) -> Command {
    let payer = dfsp(number);
    let payee = dfsp(number + 1 + number / PARTICIPANTS % (PARTICIPANTS - 1));
    Command::Prepare(Prepare {
        id: transfer_id(number),
        source: payer,
        destination: Some(payee),
        payer,
        payee,
        amount: Ok(Amount::from_units(1 + number as i64 % 5_000_000).expect("in range")),
        currency: kes(),
        condition: Some(condition),
        expires_at: START.plus_ms(3_600_000 + number as i64 / 100),
        fingerprint: (u128::from(number) << 32).to_be_bytes(),
        extensions: None,
    })
}

fn fulfil(number: u64) -> Command {
    let Command::Prepare(Prepare { id, payer, payee, .. }) = prepare(number, [0; 32]) else {
        unreachable!("prepare() makes prepares")
    };
    Command::Fulfil(Fulfil {
        transfer: ResourceId::Id(id),
        source: payee,
        destination: Some(payer),
        state: FulfilState::Committed,
        may_reserve: true,
        fulfilment: Fulfilment::Preimage(PREIMAGE),
        fingerprint: (u128::from(number) << 32 | 1).to_be_bytes(),
        extensions: None,
    })
}

/// Runs `count` numbered steps in chunks whose commands are built outside the measured time.
fn measure(
    count: u64,
    next: &mut u64,
    build: impl Fn(u64) -> Vec<Command>,
    mut run: impl FnMut(&[Command]),
) -> Duration {
    let mut spent = Duration::ZERO;
    let end = *next + count;
    while *next < end {
        let until = end.min(*next + CHUNK);
        let commands: Vec<_> = (*next..until).flat_map(&build).collect();
        *next = until;
        let start = Instant::now();
        run(&commands);
        spent += start.elapsed();
    }
    spent
}

fn prepares(criterion: &mut Criterion) {
    let condition: [u8; 32] = Sha256::digest(PREIMAGE).into();
    let mut group = criterion.benchmark_group("decide+evolve");
    group.throughput(Throughput::Elements(1));
    let (mut bench, mut next) = (Bench::new(), 0);
    let mut in_flight_most = 0;
    group.bench_function("prepare", |bencher| {
        bencher.iter_custom(|count| {
            if bench.ledger.reserved_len() as u64 + count > TRANSFERS_MAX {
                bench = Bench::new();
            }
            let spent = measure(
                count,
                &mut next,
                |number| vec![prepare(number, condition)],
                |commands| commands.iter().for_each(|command| bench.submit(command)),
            );
            in_flight_most = in_flight_most.max(bench.ledger.reserved_len());
            spent
        });
    });
    eprintln!("decide+evolve/prepare: up to {in_flight_most} transfers in flight");
    drop(bench);

    let (mut bench, mut next) = (Bench::new(), 0);
    group.bench_function("fulfil", |bencher| {
        bencher.iter_custom(|count| {
            if bench.ledger.finished_len() as u64 + count > TRANSFERS_MAX {
                bench = Bench::new();
            }
            (next..next + count).for_each(|number| bench.submit(&prepare(number, condition)));
            measure(
                count,
                &mut next,
                |number| vec![fulfil(number)],
                |commands| commands.iter().for_each(|command| bench.submit(command)),
            )
        });
    });

    let (mut bench, mut next) = (Bench::new(), 0);
    group.bench_function("prepare+fulfil, drained", |bencher| {
        bencher.iter_custom(|count| {
            measure(
                count,
                &mut next,
                |number| vec![prepare(number, condition), fulfil(number)],
                |commands| {
                    for command in commands {
                        bench.submit(command);
                        acknowledge(&mut bench);
                    }
                    let seq = bench.ledger.last_seq();
                    bench.ledger.drain_finished(seq).for_each(|transfer| drop(black_box(transfer)));
                },
            )
        });
    });
    group.finish();
}

/// The courier delivered what the last record owes.
fn acknowledge(bench: &mut Bench) {
    let seq = bench.ledger.last_seq();
    let callbacks = bench.decision.callbacks.iter().enumerate();
    let keys = callbacks
        .map(|(index, callback)| upesi_ledger::CallbackKey {
            target: callback.target,
            seq,
            index: index as u8,
        })
        .collect();
    bench.submit(&Command::Delivered(keys));
}

fn records(criterion: &mut Criterion) {
    let condition: [u8; 32] = Sha256::digest(PREIMAGE).into();
    let mut bench = Bench::new();
    let now = START.plus_ms(1_000);
    let facts = DecisionInput::new(now.into(), &Archived::Absent);
    bench.ledger.decide(&prepare(0, condition), &facts, &mut bench.decision);
    let (headers, body) = ([b'h'; 600], [b'b'; 1_000]);
    let payload = Payload { headers: &headers, body: &body };
    let mut bytes = Vec::new();
    Record::encode(
        bench.decision.actor,
        &bench.decision.events,
        &bench.decision.callbacks,
        payload,
        &mut bytes,
    );

    let mut group = criterion.benchmark_group("record");
    group.throughput(Throughput::Elements(1));
    group.bench_function("encode", |bencher| {
        let mut buffer = Vec::with_capacity(bytes.len());
        bencher.iter(|| {
            buffer.clear();
            Record::encode(
                bench.decision.actor,
                &bench.decision.events,
                &bench.decision.callbacks,
                payload,
                &mut buffer,
            );
            black_box(&buffer);
        });
    });
    group.bench_function("decode", |bencher| {
        bencher.iter(|| black_box(Record::decode(black_box(&bytes)).expect("well-formed")));
    });
    group.finish();
}

criterion_group!(benches, prepares, records);
criterion_main!(benches);
