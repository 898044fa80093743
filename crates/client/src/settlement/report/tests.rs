use std::collections::BTreeMap;

use serde_json::{Value, json};
use upesi_process::exit::Exit;
use upesi_testsupport::hostile_texts::{Random, text};
use upesi_types::text::is_hidden;
use upesi_types::{Amount, FspId};

use super::figures::SettlementFigures;
use super::{ReportKind, render, render_to, tables, to_csv};
use crate::settlement::cell::Cell;
use crate::settlement::cells_of_csv;

fn name(text: &str) -> FspId {
    FspId::parse(text).unwrap()
}

/// Two windows of green, blue and red in KES, and of green and red in TZS. Nets in KES: green 70, blue -50, red -20.
pub(in crate::settlement) fn settlement() -> Value {
    let window = |id: u32, closed: &str| {
        let content = |currency: &str| json!({"state": "SETTLED", "ledgerAccountType": "POSITION", "currencyId": currency, "createdDate": closed});
        json!({
            "id": id, "state": "SETTLED", "reason": "", "createdDate": format!("2026-11-2{id}T00:00:00.000Z"),
            "changedDate": closed, "content": [content("KES"), content("TZS")]
        })
    };
    let account = |id: u32, net: Value, currency: &str| json!({"id": id, "state": "SETTLED", "reason": "", "netSettlementAmount": {"amount": net, "currency": currency}});
    json!({
        "id": 7, "settlementModel": "NET", "state": "SETTLED", "reason": "",
        "createdDate": "2026-11-23T09:00:00.000Z", "changedDate": "2026-11-23T10:00:00.000Z",
        "settlementWindows": [window(1, "2026-11-22T00:00:00.000Z"), window(2, "2026-11-23T00:00:00.000Z")],
        "participants": [
            {"id": 2, "accounts": [account(3, json!(70), "KES"), account(9, json!(-1234.5), "TZS")]},
            {"id": 3, "accounts": [account(5, json!(-50), "KES")]},
            {"id": 4, "accounts": [account(7, json!(-20), "KES"), account(11, json!(1234.5), "TZS")]},
        ]
    })
}

/// Window, payer, payee, currency, account type, amount.
pub(in crate::settlement) const PAIRS: [(u32, u32, u32, &str, &str, &str); 7] = [
    (1, 3, 5, "KES", "POSITION", "100.5"),
    (2, 3, 5, "KES", "POSITION", "4.5"),
    (1, 5, 3, "KES", "POSITION", "40"),
    (2, 5, 7, "KES", "POSITION", "15"),
    (1, 3, 7, "KES", "POSITION", "5"),
    (2, 11, 9, "TZS", "POSITION", "1234.5"),
    // Fees are not part of this settlement.
    (2, 13, 15, "KES", "INTERCHANGE_FEE", "3"),
];

pub(in crate::settlement) fn figures(
    settlement: Value,
    pairs: &[(u32, u32, u32, &str, &str, &str)],
) -> SettlementFigures {
    let settlement = serde_json::from_value(settlement).unwrap();
    let names = [(3, "green"), (9, "green"), (5, "blue"), (7, "=red"), (11, "=red")];
    let names: BTreeMap<u32, String> = names.iter().map(|(id, name)| (*id, (*name).to_owned())).collect();
    let mut figures = SettlementFigures::new(&settlement, &names);
    for (window, payer, payee, currency, kind, amount) in pairs {
        let pair = format!(
            r#"{{"payer":{{"accountId":{payer}}},"payee":{{"accountId":{payee}}},"currency":"{currency}","ledgerAccountType":"{kind}","amount":{amount},"transfers":2}}"#
        );
        let pair = serde_json::from_str(&pair).unwrap();
        let window = settlement.settlement_windows.iter().find(|one| one.id == *window).unwrap();
        figures.add(window, &pair);
    }
    figures
}

/// The rows below the header.
fn table(kind: &ReportKind) -> Vec<String> {
    let figures = figures(settlement(), &PAIRS);
    assert_eq!(figures.check(), Ok(()));
    let text = to_csv(&render(&figures, kind).unwrap());
    assert!(text.ends_with("\r\n"));
    let (_, table) = text.split_once("\r\n\r\n").unwrap();
    table.lines().map(str::to_owned).collect()
}

#[test]
fn each_report_has_its_rows() {
    assert_eq!(
        table(&ReportKind::Multilateral),
        [
            "participant,currency,net amount",
            "'=red,KES,-20",
            "blue,KES,-50",
            "green,KES,70",
            "'=red,TZS,1234.5",
            "green,TZS,-1234.5"
        ]
    );
    assert_eq!(
        table(&ReportKind::Bilateral),
        [
            "net debtor,net creditor,currency,total sent,total received,net amount",
            "blue,'=red,KES,15,0,15",
            "green,'=red,KES,5,0,5",
            "green,blue,KES,105,40,65",
            "'=red,green,TZS,1234.5,0,1234.5"
        ]
    );
    assert_eq!(
        table(&ReportKind::Matrix),
        [
            "KES sender by receiver,'=red,blue,green,total sent",
            "'=red,0,0,0,0",
            "blue,15,0,40,55",
            "green,5,105,0,110",
            "total received,20,105,40,165",
            "aggregated net,-20,-50,70,0",
            "TZS sender by receiver,'=red,green,total sent",
            "'=red,0,1234.5,1234.5",
            "green,0,0,0",
            "total received,0,1234.5,1234.5",
            "aggregated net,1234.5,-1234.5,0"
        ]
    );
    assert_eq!(
        table(&ReportKind::Dfsp(name("blue"))),
        [
            "net debtor,net creditor,currency,total sent,total received,net amount,window",
            "blue,'=red,KES,15,0,15,all",
            "blue,'=red,KES,15,0,15,2",
            "green,blue,KES,40,105,-65,all",
            "green,blue,KES,40,100.5,-60.5,1",
            "green,blue,KES,0,4.5,-4.5,2"
        ]
    );
    assert_eq!(
        table(&ReportKind::Bank),
        [
            "Participant (PayerFSP Identifier),Participant (Bank Identifier),Balance,Settlement Transfer,Currency",
            "4 7 =red,,,-20,KES",
            "3 5 blue,,,-50,KES",
            "2 3 green,,,70,KES",
            "4 11 =red,,,\"1,234.5\",TZS",
            "2 9 green,,,\"-1,234.5\",TZS"
        ]
    );
}

/// Nets have whole units, and remainders are shown beside them.
#[test]
fn remainders_are_shown_and_add_up() {
    let mut finer = settlement();
    finer["participants"][0]["accounts"][0]["carriedOver"] = json!(0.0049);
    finer["participants"][1]["accounts"][0]["carriedIn"] = json!(-0.0001);
    finer["participants"][1]["accounts"][0]["carriedOver"] = json!(-0.005);
    finer["participants"][2]["accounts"].as_array_mut().unwrap().push(json!({
        "id": 19, "state": "SETTLED", "reason": "", "netSettlementAmount": {"amount": 0, "currency": "KES"},
        "carriedIn": 0.0001, "carriedOver": 0.0001
    }));
    let more = [&PAIRS[..], &[(1, 3, 5, "KES", "POSITION", "0.0049")]].concat();
    let figures = figures(finer.clone(), &more);
    assert_eq!(figures.check(), Ok(()));
    let table = |kind| {
        let text = to_csv(&render(&figures, &kind).unwrap());
        text.split_once("\r\n\r\n").unwrap().1.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        table(ReportKind::Multilateral)[..4],
        [
            "participant,currency,net amount,carried in,carried over",
            ",KES,0,0.0001,0.0001",
            "'=red,KES,-20,0,0",
            "blue,KES,-50,-0.0001,-0.005",
        ]
    );
    assert_eq!(
        table(ReportKind::Matrix)[6..10],
        [
            "aggregated net,0,-20,-50.0049,70.0049,0",
            "carried in,0.0001,0,-0.0001,0,0",
            "carried over,0.0001,0,-0.005,0.0049,0",
            "settled net,0,-20,-50,70,0",
        ]
    );
    let of_blue = table(ReportKind::Dfsp(name("blue")));
    assert_eq!(
        of_blue[of_blue.len() - 2..],
        ["carried in,,KES,,,-0.0001,all", "carried over,,KES,,,-0.005,all"]
    );
    finer["participants"][1]["accounts"][0]["carriedOver"] = json!(-0.0049);
    let text = super::tests::figures(finer, &more).check().unwrap_err();
    assert!(
        text.contains("account 5: net of its pairs is -50.0049, net of the settlement is -50.0048"),
        "{text}"
    );
}

#[test]
fn head_describes_the_report() {
    let figures = figures(settlement(), &PAIRS);
    let text = to_csv(&render(&figures, &ReportKind::Dfsp(name("green"))).unwrap());
    let (head, _) = text.split_once("\r\n\r\n").unwrap();
    assert_eq!(
        head.lines().collect::<Vec<_>>(),
        [
            "report,dfsp",
            "report-version,1",
            "settlement,7",
            "model,NET",
            "state,SETTLED",
            "as of,2026-11-23T10:00:00.000Z",
            "windows,1 2",
            "windows opened,2026-11-21T00:00:00.000Z",
            "windows closed,2026-11-23T00:00:00.000Z",
            "transfers,12",
            "rows,7",
            "dfsp,green"
        ]
    );
    let bank = to_csv(&render(&figures, &ReportKind::Bank).unwrap());
    assert!(bank.starts_with("Settlement ID,7\r\nSettlement Completed Date,\r\n"), "{bank}");
    let failure = render(&figures, &ReportKind::Dfsp(name("nobody"))).unwrap_err();
    assert_eq!(failure.exit, Exit::Failure);
}

#[test]
fn inconsistent_figures_are_rejected() {
    let refused = |settlement: Value, pairs: &[_], expected: &str| {
        let text = figures(settlement, pairs).check().unwrap_err();
        assert!(text.contains(expected), "{text}");
    };
    refused(settlement(), &PAIRS[1..], "account 3: net of its pairs is -30.5, net of the settlement is 70");
    let more = [&PAIRS[..], &[(1, 17, 3, "KES", "POSITION", "0.0001")]].concat();
    refused(settlement(), &more, "account 17: net of its pairs is 0.0001, net of the settlement is none");
    let mut changed = settlement();
    changed["participants"][1]["accounts"][0]["netSettlementAmount"]["amount"] = json!(-49);
    refused(changed.clone(), &PAIRS, "account 5: net of its pairs is -50, net of the settlement is -49");
    refused(changed, &PAIRS, "the nets in KES sum to 1, not 0");
    let mut changed = settlement();
    changed["participants"][1]["accounts"] = json!([]);
    refused(changed, &PAIRS, "account 5: net of its pairs is -50, net of the settlement is none");
    let mut changed = settlement();
    changed["participants"][0]["accounts"].as_array_mut().unwrap().push(json!(
        {"id": 19, "state": "SETTLED", "reason": "", "netSettlementAmount": {"amount": 0, "currency": "KES"}}
    ));
    refused(changed, &PAIRS, "account 19: net of its pairs is none, net of the settlement is 0");
}

/// Sums have more digits than amounts.
#[test]
fn wide_sums_are_exact() {
    let wide = "123456789012345678.9012";
    let more =
        [&PAIRS[..], &[(1, 3, 5, "KES", "POSITION", wide), (1, 5, 3, "KES", "POSITION", wide)]].concat();
    let figures = figures(settlement(), &more);
    assert_eq!(figures.check(), Ok(()));
    let text = to_csv(&render(&figures, &ReportKind::Bilateral).unwrap());
    assert!(text.contains("green,blue,KES,123456789012345783.9012,123456789012345718.9012,65\r\n"), "{text}");
}

#[test]
fn thousands_are_grouped() {
    for (units, text) in [
        (0, "0"),
        (9_990_000, "999"),
        (10_000_000, "1,000"),
        (-12_345_678_905_000, "-1,234,567,890.5"),
        (1_234_560_001, "123,456.0001"),
    ] {
        assert_eq!(Cell::Grouped(units).to_csv(), text);
    }
}

/// The same cells as CSV. Amounts are numbers if this is exact, and a text that looks like a formula stays a text.
#[test]
fn spreadsheets_have_the_same_cells() {
    use calamine::{Data, Reader, Xlsx};
    let wide = "123456789012345678.9012";
    let more =
        [&PAIRS[..], &[(1, 3, 5, "KES", "POSITION", wide), (1, 5, 3, "KES", "POSITION", wide)]].concat();
    let figures = figures(settlement(), &more);
    let bytes = render_to(&figures, &ReportKind::Bilateral, true).unwrap();
    assert_eq!(bytes, render_to(&figures, &ReportKind::Bilateral, true).unwrap(), "the same bytes each time");
    let mut workbook = Xlsx::new(std::io::Cursor::new(bytes)).unwrap();
    let sheet = workbook.worksheet_range_at(0).unwrap().unwrap();
    let row =
        |row: u32| (0..6).map(|column| sheet.get_value((row, column)).cloned().unwrap()).collect::<Vec<_>>();
    let text = |text: &str| Data::String(text.to_owned());
    let headings = ["net debtor", "net creditor", "currency", "total sent", "total received", "net amount"];
    assert_eq!(row(12), headings.map(text));
    let numbers = [15.0, 0.0, 15.0].map(Data::Float);
    assert_eq!(row(13), [&[text("blue"), text("=red"), text("KES")][..], &numbers].concat());
    let (sent, received) = (text("123456789012345783.9012"), text("123456789012345718.9012"));
    assert_eq!(row(15)[3..], [sent, received, Data::Float(65.0)]);
    let csv = String::from_utf8(render_to(&figures, &ReportKind::Bilateral, false).unwrap()).unwrap();
    assert_eq!(csv.lines().count(), sheet.height());
}

/// Names of DFSPs, models and states are texts in every report: no formula, no further row, no hidden text.
#[test]
fn texts_from_outside_cannot_change_a_report() {
    use calamine::{Data, Reader, Xlsx};
    for seed in 0..60 {
        let mut random = Random(seed);
        let mut of_settlement = settlement();
        for field in ["settlementModel", "state"] {
            of_settlement[field] = text(&mut random).into();
        }
        let mut figures = figures(of_settlement, &PAIRS);
        for party in figures.parties.values_mut() {
            party.name = text(&mut random);
        }
        let dfsp = FspId::parse("green").unwrap();
        figures.parties.values_mut().next().unwrap().name = dfsp.to_string();
        let kinds = [
            ReportKind::Multilateral,
            ReportKind::Bilateral,
            ReportKind::Matrix,
            ReportKind::Dfsp(dfsp),
            ReportKind::Bank,
        ];
        for kind in kinds {
            let context = format!("seed {seed}, {}", kind.name());
            let rows = render(&figures, &kind).unwrap().len();
            let csv = render_to(&figures, &kind, false).unwrap();
            let cells = cells_of_csv(&csv).unwrap();
            assert_eq!(cells.len(), rows, "{context}");
            for cell in cells.iter().flatten() {
                assert!(!cell.chars().any(is_hidden), "{context}: {cell:?}");
                let is_number = Amount::parse_decimal(&cell.replace(',', "")).is_ok();
                assert!(is_number || !cell.starts_with(['=', '+', '-', '@', '＝']), "{context}: {cell:?}");
            }
            let mut workbook =
                Xlsx::new(std::io::Cursor::new(render_to(&figures, &kind, true).unwrap())).unwrap();
            let name = workbook.sheet_names()[0].clone();
            let formulas = workbook.worksheet_formula(&name).unwrap();
            assert!(formulas.cells().all(|(_, _, formula)| formula.is_empty()), "{context}");
            let sheet = workbook.worksheet_range(&name).unwrap();
            assert_eq!(sheet.height(), rows, "{context}");
            for (_, _, cell) in sheet.used_cells() {
                match cell {
                    Data::String(text) => assert!(!text.chars().any(is_hidden), "{context}: {text:?}"),
                    Data::Float(_) => {}
                    other => panic!("{context}: {other:?}"),
                }
            }
        }
        let shown = tables::for_a_terminal(&figures);
        assert!(!shown.chars().any(|char| is_hidden(char) && char != '\n'), "seed {seed}: {shown:?}");
    }
}

#[test]
fn matrix_for_a_terminal_is_aligned() {
    let expected = "settlement 7, KES sender by receiver
                '=red  blue  green  total sent
'=red               0     0      0           0
blue               15     0     40          55
green               5   105      0         110
total received     20   105     40         165
aggregated net    -20   -50     70
check value 0
settlement 7, TZS sender by receiver
                 '=red    green  total sent
'=red                0   1234.5      1234.5
green                0        0           0
total received       0   1234.5      1234.5
aggregated net  1234.5  -1234.5
check value 0
";
    assert_eq!(tables::for_a_terminal(&figures(settlement(), &PAIRS)), expected);
}
