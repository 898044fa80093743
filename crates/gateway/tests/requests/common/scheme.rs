//! A scheme with two banks: greenbank pays, bluewallet is paid.

use upesi_engine::{EngineHandle, Payload};
use upesi_ledger::command::{FundsPrepare, NewSettlementModel};
use upesi_ledger::{AdminCommand, Command, FundsDirection, LedgerAccountTypeId, Reply};
use upesi_types::{Amount, Currency, FspId, TransferId};

pub fn name(text: &str) -> FspId {
    FspId::parse(text).unwrap()
}

fn kes() -> Currency {
    Currency::parse("KES").unwrap()
}

async fn admin(engine: &EngineHandle, command: AdminCommand) {
    let reply = engine.submit(Command::Admin(command.clone()), Payload::default()).await.unwrap();
    assert!(matches!(reply, Reply::Admin(Ok(_))), "{command:?}: {reply:?}");
}

/// Onboards both banks, each with a net debit cap and funds of 1,000 KES.
pub async fn onboard(engine: &EngineHandle) {
    for kind in ["HUB_RECONCILIATION", "HUB_MULTILATERAL_SETTLEMENT"] {
        let create = AdminCommand::CreateHubAccount { name: name("Hub"), currency: kes(), kind: kind.into() };
        admin(engine, create).await;
    }
    let model = NewSettlementModel::deferred_net("DEFERREDNET", None);
    admin(engine, AdminCommand::CreateSettlementModel(model)).await;
    open(engine, name("greenbank"), [1; 16]).await;
    open(engine, name("bluewallet"), [2; 16]).await;
}

async fn open(engine: &EngineHandle, dfsp: FspId, funds_id: [u8; 16]) {
    let thousand = Amount::parse_decimal("1000").unwrap();
    admin(engine, AdminCommand::CreateParticipant { name: dfsp, currency: kes(), is_proxy: false }).await;
    let accounts = AdminCommand::OpenAccounts {
        name: dfsp,
        currency: kes(),
        net_debit_cap: thousand,
        initial_position: Amount::ZERO,
    };
    admin(engine, accounts).await;
    let account = engine.read(move |ledger| {
        ledger.participant_named(&dfsp).unwrap().account(kes(), LedgerAccountTypeId::SETTLEMENT).unwrap()
    });
    let funds = FundsPrepare {
        direction: FundsDirection::In,
        id: TransferId::from_random_bytes(funds_id),
        name: dfsp,
        account: account.await.unwrap(),
        amount: thousand,
        currency: kes(),
        external_reference: "bank".into(),
        reason: "prefund".into(),
        extensions: None,
        fingerprint: funds_id,
    };
    admin(engine, AdminCommand::PrepareFunds(funds)).await;
}

/// A bank's present position.
pub async fn position(engine: &EngineHandle, dfsp: &str) -> String {
    let dfsp = name(dfsp);
    let balance = engine.read(move |ledger| {
        let account = ledger.participant_named(&dfsp).unwrap().account(kes(), LedgerAccountTypeId::POSITION);
        ledger.account(account.unwrap()).unwrap().balance
    });
    balance.await.unwrap().to_string()
}
