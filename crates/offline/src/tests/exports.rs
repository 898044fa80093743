//! Exports of a settlement window: the list behind each net, and a list with removed transfers.

use std::collections::BTreeMap;

use upesi_ledger::command::{FundsPrepare, Prepare};
use upesi_ledger::{AdminCommand, Command, FundsDirection, LedgerAccountTypeId, Payload, WindowId};
use upesi_process::exit::{Exit, Failure};
use upesi_process::times::ZoneArguments;
use upesi_types::Amount;

use super::fx_transfers;
use super::journal::{TestJournal, amount, fsp, id, kes};
use crate::export::{ExportArguments, Format, Kind, export};

type Rows = Vec<serde_json::Value>;

/// The rows of an export, or the reason if it is not complete.
fn exported(
    journal: &TestJournal,
    kind: Kind,
    window: u32,
    dfsp: Option<&str>,
) -> (Rows, Result<u64, Failure>) {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let outcome = export(&ExportArguments {
        data: journal.path.clone(),
        kind,
        before: None,
        from: None,
        zone: ZoneArguments::default(),
        window: Some(window),
        dfsp: dfsp.map(fsp),
        format: Format::Jsonl,
        out: out.clone(),
    });
    let text = std::fs::read_to_string(&out).unwrap();
    (text.lines().map(|line| serde_json::from_str(line).unwrap()).collect(), outcome)
}

fn units(text: &serde_json::Value) -> i64 {
    Amount::parse_decimal(text.as_str().unwrap()).unwrap().units()
}

/// A converted payment, one from a DFSP behind a proxy and a plain one in window 1, and another one in window 2.
fn traded() -> TestJournal {
    let mut journal = fx_transfers::after(4);
    let (proxy, far, currency) = (fsp("proxybank"), fsp("farbank"), kes());
    journal.admin(AdminCommand::CreateParticipant { name: proxy, currency, is_proxy: true });
    let (net_debit_cap, initial_position) = (amount("100"), Amount::ZERO);
    journal.admin(AdminCommand::OpenAccounts { name: proxy, currency, net_debit_cap, initial_position });
    let account = journal.ledger.participant_named(&proxy).unwrap();
    let account = account.account(currency, LedgerAccountTypeId::SETTLEMENT).unwrap();
    journal.admin(AdminCommand::PrepareFunds(FundsPrepare {
        direction: FundsDirection::In,
        id: id(220),
        name: proxy,
        account,
        amount: amount("500"),
        currency,
        external_reference: "bank".into(),
        reason: "prefund".into(),
        extensions: None,
        fingerprint: [1; 16],
    }));
    journal.admin(AdminCommand::AddProxied { proxy, name: far });
    let Command::Prepare(prepare) = journal.prepare_command(2, "7") else { unreachable!() };
    let prepare = Prepare { source: far, payer: far, ..prepare };
    journal.command(&Command::Prepare(prepare), Payload::default());
    let Command::Fulfil(mut fulfil) = journal.fulfil_command(2) else { unreachable!() };
    fulfil.destination = Some(far);
    journal.command(&Command::Fulfil(fulfil), Payload::default());
    journal.prepare(3, "20.5");
    journal.fulfil(3);
    journal.prepare_back(4, "8");
    journal.command(
        &{
            let Command::Fulfil(mut fulfil) = journal.fulfil_command(4) else { unreachable!() };
            (fulfil.source, fulfil.destination) = (fsp("greenbank"), Some(fsp("bluebank")));
            Command::Fulfil(fulfil)
        },
        Payload::default(),
    );
    journal.admin(AdminCommand::CloseWindow { id: WindowId(1), reason: "end of day".into() });
    journal.prepare(5, "1");
    journal.fulfil(5);
    journal.close();
    journal
}

#[test]
fn obligations_of_a_dfsp_add_up_to_its_net() {
    let journal = traded();
    let (nets, outcome) = exported(&journal, Kind::Settlements, 1, None);
    assert_eq!(outcome.unwrap(), nets.len() as u64);
    let text = |row: &serde_json::Value, name: &str| row[name].as_str().unwrap().to_owned();
    let mut owed = BTreeMap::new();
    for dfsp in ["greenbank", "bluebank", "forex", "proxybank"] {
        let (rows, outcome) = exported(&journal, Kind::Obligations, 1, Some(dfsp));
        assert_eq!(outcome.unwrap(), rows.len() as u64, "{dfsp}");
        for row in &rows {
            for (party, sign) in [("debtorFsp", 1), ("creditorFsp", -1)] {
                if text(row, party) == dfsp {
                    *owed.entry((dfsp.to_owned(), text(row, "currency"))).or_insert(0) +=
                        sign * units(&row["amount"]);
                }
            }
        }
    }
    owed.retain(|_, units| *units != 0);
    let nets: BTreeMap<_, _> =
        nets.iter().map(|row| ((text(row, "fsp"), text(row, "currency")), units(&row["net"]))).collect();
    assert_eq!(owed, nets);
    assert_eq!(nets[&("forex".to_owned(), "TZS".to_owned())], 1_000_000, "the FXP pays the target amount");
    assert_eq!(nets[&("proxybank".to_owned(), "KES".to_owned())], 70_000, "the proxy pays for farbank");

    // Each row belongs to the owners of its accounts.
    let ids = |kind, dfsp| {
        let (rows, outcome) = exported(&journal, kind, 1, Some(dfsp));
        assert_eq!(outcome.unwrap(), rows.len() as u64);
        let name = if kind == Kind::FxTransfers { "commitRequestId" } else { "transferId" };
        let mut ids: Vec<_> = rows.iter().map(|row| text(row, name)).collect();
        ids.sort_unstable();
        ids
    };
    let of = |numbers: &[u8]| numbers.iter().map(|number| id(*number).to_string()).collect::<Vec<_>>();
    assert_eq!(ids(Kind::Transfers, "greenbank"), of(&[3, 4]), "its converted payment is an FX transfer");
    assert_eq!(ids(Kind::FxTransfers, "greenbank"), of(&[50]));
    assert_eq!(ids(Kind::Transfers, "forex"), of(&[1]));
    assert_eq!(ids(Kind::Transfers, "proxybank"), of(&[2]));
    assert_eq!(ids(Kind::Transfers, "farbank"), of(&[]));
    let (rows, _) = exported(&journal, Kind::FxTransfers, 1, None);
    assert_eq!(
        (rows[0]["sourceSettlementWindowId"].as_u64(), rows[0]["targetSettlementWindowId"].as_u64()),
        (Some(1), None)
    );
    let (rows, outcome) = exported(&journal, Kind::Obligations, 2, None);
    assert_eq!((rows.len(), outcome.unwrap()), (1, 1), "the open window");
}

#[test]
fn obligations_without_removed_transfers_are_reported() {
    let mut journal = traded();
    let (whole, _) = exported(&journal, Kind::Transfers, 1, None);
    assert_eq!(whole.len(), 4);
    // As if retention had removed one.
    journal.write_archive(|id, bytes| (id != super::journal::id(3)).then_some(bytes));
    for kind in [Kind::Transfers, Kind::Obligations] {
        let (_, outcome) = exported(&journal, kind, 1, None);
        let failure = outcome.unwrap_err();
        assert_eq!(failure.exit, Exit::Failure, "{failure}");
        assert!(failure.message.contains("but some are missing: window 1 has "), "{failure}");
        assert!(failure.message.contains(" of 4 obligations in KES POSITION"), "{failure}");
    }
}
