//! The output of `upesi journal`.

use super::journal::{TestJournal, fsp, id};
use crate::journal::filter::Filter;
use crate::journal::print::{PrintOptions, print};
use upesi_ledger::{AdminCommand, CallbackKey, Command, EndpointType, Payload};
use upesi_process::exit::Exit;
use upesi_process::times::Zone;
use upesi_types::Timestamp;

fn printed(journal: &TestJournal, change: impl FnOnce(&mut PrintOptions)) -> (String, String) {
    let mut options = PrintOptions {
        directory: journal.path.clone(),
        from_seq: None,
        filter: Filter::default(),
        limit: None,
        json: false,
        payload: false,
        zone: Zone::parse("EAT-3").unwrap(),
    };
    change(&mut options);
    let (mut output, mut warnings) = (Vec::new(), Vec::new());
    print(&options, &mut output, &mut warnings).unwrap();
    (String::from_utf8(output).unwrap(), String::from_utf8(warnings).unwrap())
}

fn busy_journal() -> TestJournal {
    let mut journal = TestJournal::onboarded();
    journal.admin(AdminCommand::SetEndpoint {
        name: fsp("bluebank"),
        kind: EndpointType::TRANSFER_POST,
        value: "http://bluebank.example/transfers".into(),
    });
    journal.prepare(1, "12.5");
    journal.fulfil(1);
    journal.prepare(2, "1000");
    let target = journal.ledger.participant_id(&fsp("bluebank")).unwrap();
    let key = CallbackKey { target, seq: 11, index: 0 };
    journal.command(&Command::Delivered(vec![key]), Payload::default());
    let key = CallbackKey { target, seq: 12, index: 1 };
    journal.command(&Command::Park { key, attempts: 3, reason: "refused".into() }, Payload::default());
    journal
}

const LINES: &str = "       1  2031-04-01 15:00:01.000+03:00  an operator: account Hub KES HUB_RECONCILIATION created
       2  2031-04-01 15:00:02.000+03:00  an operator: account Hub KES HUB_MULTILATERAL_SETTLEMENT created
       3  2031-04-01 15:00:03.000+03:00  an operator: settlement model DEFERREDNET created
       4  2031-04-01 15:00:04.000+03:00  an operator: participant greenbank created, proxy: false; account greenbank KES POSITION created; account greenbank KES SETTLEMENT created
       5  2031-04-01 15:00:05.000+03:00  an operator: account greenbank KES POSITION opened; account greenbank KES SETTLEMENT opened; limit greenbank KES 100
       6  2031-04-01 15:00:06.000+03:00  an operator: funds in 00000000-0000-4000-8000-0000000000c9 greenbank 500 KES COMMITTED
       7  2031-04-01 15:00:07.000+03:00  an operator: participant bluebank created, proxy: false; account bluebank KES POSITION created; account bluebank KES SETTLEMENT created
       8  2031-04-01 15:00:08.000+03:00  an operator: account bluebank KES POSITION opened; account bluebank KES SETTLEMENT opened; limit bluebank KES 100
       9  2031-04-01 15:00:09.000+03:00  an operator: funds in 00000000-0000-4000-8000-0000000000ca bluebank 500 KES COMMITTED
      10  2031-04-01 15:00:10.000+03:00  an operator: endpoint bluebank FSPIOP_CALLBACK_URL_TRANSFER_POST = http://bluebank.example/transfers
      11  2031-04-01 15:00:11.000+03:00  greenbank: transfer 00000000-0000-4000-8000-000000000001 greenbank → bluebank 12.5 KES RESERVED until 2031-04-01T12:01:11.000Z; notify bluebank POST forwarded (266 bytes)
      12  2031-04-01 15:00:12.000+03:00  bluebank: transfer 00000000-0000-4000-8000-000000000001 COMMITTED; notify greenbank PUT forwarded; notify bluebank PUT confirmed (60 bytes)
      13  2031-04-01 15:00:13.000+03:00  greenbank: transfer 00000000-0000-4000-8000-000000000002 greenbank → bluebank 1000 KES ABORTED_REJECTED 4001 \"Payer FSP insufficient liquidity\"; notify greenbank PUT error 4001 (266 bytes)
      14  2031-04-01 15:00:14.000+03:00  the hub's delivery: delivered 11.0 to bluebank
      15  2031-04-01 15:00:15.000+03:00  the hub's delivery: parked 12.1 to bluebank after 3 attempts: refused
";

#[test]
fn record_is_printed_as_a_line() {
    let mut journal = busy_journal();
    journal.close();
    assert_eq!(printed(&journal, |_| {}), (LINES.to_owned(), String::new()));
}

#[test]
fn part_of_the_journal_has_all_names() {
    let mut journal = busy_journal();
    let expected: String = LINES.lines().skip(10).take(2).map(|line| format!("{line}\n")).collect();
    let part = |options: &mut PrintOptions| {
        options.from_seq = Some(11);
        options.limit = Some(2);
    };
    let warning = "a hub is using this directory: the last records may not have been synced to disk yet\n";
    assert_eq!(printed(&journal, part), (expected.clone(), warning.to_owned()));
    journal.close();
    assert_eq!(printed(&journal, part), (expected.clone(), String::new()));
    // The same from a snapshot.
    let reopened = TestJournal::onboarded();
    reopened.write_snapshot(&reopened.ledger);
    let (text, _) = printed(&reopened, |options| options.from_seq = Some(9));
    assert_eq!(text.trim_end(), LINES.lines().nth(8).unwrap());
}

#[test]
fn records_are_found_by_transfer_participant_and_time() {
    let mut journal = busy_journal();
    journal.close();
    let at = |second| Timestamp::parse_iso(&format!("2031-04-01T12:00:{second:02}.000Z"));
    let (first, second) = (Some(id(1)), Some(id(2)));
    let (green, blue) = (Some(fsp("greenbank")), Some(fsp("bluebank")));
    let none = Filter::default();
    for (filter, expected) in [
        // Later records deliver and park its callbacks.
        (Filter { transfer: first, ..none.clone() }, vec![11, 12, 14, 15]),
        (Filter { transfer: second, ..none.clone() }, vec![13]),
        (Filter { transfer: Some(id(201)), ..none.clone() }, vec![6]),
        (Filter { transfer: Some(id(77)), ..none.clone() }, vec![]),
        (Filter { fsp: green, ..none.clone() }, vec![4, 5, 6, 11, 12, 13]),
        (Filter { fsp: blue, ..none.clone() }, vec![7, 8, 9, 10, 11, 12, 13, 14, 15]),
        (Filter { fsp: Some(fsp("nobody")), ..none.clone() }, vec![]),
        (Filter { since: at(13), ..none.clone() }, vec![13, 14, 15]),
        (Filter { until: at(3), ..none.clone() }, vec![1, 2]),
        (Filter { since: at(5), until: at(8), ..none.clone() }, vec![5, 6, 7]),
        (Filter { transfer: first, fsp: green, since: at(12), ..none.clone() }, vec![12]),
        // A transfer that ended was begun before.
        (Filter { transfer: first, since: at(14), ..none.clone() }, vec![14, 15]),
    ] {
        let (text, _) = printed(&journal, |options| options.filter = filter.clone());
        let lines: Vec<&str> =
            expected.iter().map(|seq: &usize| LINES.lines().nth(seq - 1).unwrap()).collect();
        assert_eq!(text.lines().collect::<Vec<_>>(), lines, "{filter:?}");
    }
    let (text, _) = printed(&journal, |options| {
        options.filter = Filter { fsp: blue, ..none.clone() };
        options.limit = Some(2);
    });
    assert_eq!(text.lines().count(), 2, "printed records count");
}

#[test]
fn json_output_has_one_object_per_line() {
    let mut journal = busy_journal();
    journal.close();
    let (text, _) = printed(&journal, |options| {
        options.json = true;
        options.payload = true;
        options.from_seq = Some(11);
        options.limit = Some(3);
    });
    let objects: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(objects.len(), 3);
    let body = r#"{"amount":{"amount":"12.5","currency":"KES"},"condition":"S7Bvjk46dxXSAdVz0KpCN2LlXavWGiwCJ4-lbMbSlOA","expiration":"2031-04-01T12:01:11.000Z","payeeFsp":"bluebank","payerFsp":"greenbank","transferId":"00000000-0000-4000-8000-000000000001"}"#;
    assert_eq!(
        objects[0],
        serde_json::json!({
            "seq": 11,
            "time": "2031-04-01T12:00:11.000Z",
            "timeNs": 1_932_811_211_000_000_000_i64,
            "actor": {"kind": "dfsp", "name": "greenbank"},
            "events": [{
                "type": "transferPrepared",
                "transferId": "00000000-0000-4000-8000-000000000001",
                "payer": "greenbank",
                "payee": "bluebank",
                "amount": "12.5",
                "currency": "KES",
                "condition": "4bb06f8e4e3a7715d201d573d0aa423762e55dabd61a2c02278fa56cc6d294e0",
                "expiration": "2031-04-01T12:01:11.000Z",
                "state": "RESERVED",
            }],
            "callbacks": [{
                "target": "bluebank",
                "resource": "transfer",
                "id": "00000000-0000-4000-8000-000000000001",
                "method": "POST",
                "endpointType": "FSPIOP_CALLBACK_URL_TRANSFER_POST",
                "isForwarded": true,
            }],
            "payload": {
                "headerBytes": 26,
                "bodyBytes": body.len(),
                "headers": "fspiop-source: greenbank\r\n",
                "body": body,
            },
        })
    );
    assert_eq!(objects[1]["events"][0]["type"], "transferCommitted");
    assert_eq!(objects[2]["events"][0]["errorCode"], "4001");
    assert_eq!(objects[2]["callbacks"][0]["errorCode"], "4001");
}

#[test]
fn unprintable_journal_fails_with_its_exit_code() {
    let options = |directory: &std::path::Path, from_seq| PrintOptions {
        directory: directory.to_owned(),
        from_seq,
        filter: Filter::default(),
        limit: None,
        json: false,
        payload: false,
        zone: Zone::utc(),
    };
    let exit = |options: &PrintOptions| print(options, &mut Vec::new(), &mut Vec::new()).unwrap_err().exit;
    let empty = tempfile::tempdir().unwrap();
    assert_eq!(exit(&options(&empty.path().join("nowhere"), None)), Exit::NoInput);
    assert_eq!(exit(&options(empty.path(), None)), Exit::Data);
    let mut journal = TestJournal::onboarded();
    journal.close();
    assert_eq!(exit(&options(&journal.path, Some(1000))), Exit::Usage);
    let segment = &journal.segments()[0];
    let mut bytes = std::fs::read(segment).unwrap();
    bytes[600] ^= 1;
    std::fs::write(segment, bytes).unwrap();
    assert_eq!(exit(&options(&journal.path, None)), Exit::Data);
}
