//! Bank files as banks return them, valid and invalid.

use std::path::Path;

use upesi_process::exit::Exit;
use upesi_types::Amount;

use super::super::report::tests::{PAIRS, figures, settlement};
use super::super::report::{ReportKind, SettlementFigures, render_to};
use super::apply::Caps;
use super::file::{Line, cells_of_csv, read};
use super::{Cover, checked, repeated, warnings_of};
use crate::settlement::workbook::check_unpacked;

fn own() -> SettlementFigures {
    figures(settlement(), &PAIRS)
}

/// The bank file with the balances filled in, as CSV.
fn filled() -> String {
    let text = String::from_utf8(render_to(&own(), &ReportKind::Bank, false).unwrap()).unwrap();
    let balances = [
        ("4 7 =red,,", "500"),
        ("3 5 blue,,", "\"1,050.00\""),
        ("2 3 green,,", "(30)"),
        ("4 11 =red,,", "0"),
        ("2 9 green,,", "99.5"),
    ];
    balances.iter().fold(text, |text, (row, balance)| {
        assert!(text.contains(row), "{row} in {text}");
        text.replace(row, &format!("{row}{balance}"))
    })
}

/// The lines of a file with these bytes.
fn read_bytes(bytes: &[u8]) -> Result<Vec<Line>, Vec<String>> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("bank");
    std::fs::write(&path, bytes).unwrap();
    let (cells, digest) = read(&path).map_err(|failure| vec![failure.message])?;
    assert_eq!(digest.len(), 64);
    checked(&cells, &own())
}

fn mistakes(text: &str) -> Vec<String> {
    read_bytes(text.as_bytes()).expect_err(text)
}

#[test]
fn endless_file_is_rejected() {
    let failure = read(Path::new("/dev/zero")).unwrap_err();
    assert_eq!(failure.exit, Exit::Data);
    assert!(failure.message.contains("is longer than"), "{failure}");
}

#[test]
fn workbook_memory_is_limited_to_its_rows() {
    let sheet_with = |row, column| {
        let mut workbook = rust_xlsxwriter::Workbook::new();
        let sheet = workbook.add_worksheet();
        sheet.write_string(0, 0, "Settlement ID").unwrap();
        sheet.write_string(row, column, "x").unwrap();
        workbook.save_to_buffer().unwrap()
    };
    let (last_row, last_column) = (1_048_575, 16_383);
    // The rectangle of these two cells has 17 thousand million cells.
    let mistakes = read_bytes(&sheet_with(last_row, last_column)).unwrap_err();
    assert!(mistakes[0].contains("Settlement ID"), "{mistakes:?}");
    let mistakes = read_bytes(&sheet_with(last_row, 0)).unwrap_err();
    assert!(mistakes[0].contains("more than 1000100 rows"), "{mistakes:?}");
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for name in ["a", "b"] {
        archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
        std::io::Write::write_all(&mut archive, &[0; 700_000]).unwrap();
    }
    let bytes = archive.finish().unwrap().into_inner();
    assert!(bytes.len() < 10_000);
    assert_eq!(check_unpacked(&bytes, 1_400_000), Ok(()));
    assert!(check_unpacked(&bytes, 1_399_999).unwrap_err().contains("when unpacked"));
}

#[test]
fn filled_file_is_read_from_csv_and_xlsx() {
    let file = read_bytes(filled().as_bytes()).unwrap();
    let lines: Vec<_> = file
        .iter()
        .map(|line| {
            let (net, balance) = (line.net, line.balance);
            format!("{} {} {} {net} {balance} {}", line.row, line.account, line.name, line.currency)
        })
        .collect();
    let expected = [
        "7 7 =red -20 500 KES",
        "8 5 blue -50 1050 KES",
        "9 3 green 70 -30 KES",
        "10 11 =red 1234.5 0 TZS",
        "11 9 green -1234.5 99.5 TZS",
    ];
    assert_eq!(lines, expected);
    // The spreadsheet is the hub's own XLSX, with balances as numbers and as texts.
    let bytes = render_to(&own(), &ReportKind::Bank, true).unwrap();
    assert_eq!(bytes, render_to(&own(), &ReportKind::Bank, true).unwrap(), "the same bytes each time");
    assert_eq!(read_bytes(&bytes).unwrap_err()[0], "row 7: the balance is empty");
    assert_eq!(read_bytes(&with_balances()).unwrap(), file);
}

/// The layout of Mojaloop's portals: labels and headings have the scheme's name, and currencies have no column.
fn of_a_portal() -> String {
    let head = "Settlement ID,7\r\nSettlement Completed Date,2026-11-23\r\nSettlement Completed Time,10:00\r\nTimezone,EAT\r\n\r\n\
                Participant (Vuka Scheme Identifier),Participant (Bank Identifier),Balance,Settlement Transfer\r\n";
    let filled = filled();
    let (_, rows) = filled.split_once(",Currency\r\n").unwrap();
    let rows = rows.lines().map(|row| row.rsplit_once(',').unwrap().0.to_owned() + "\r\n");
    head.to_owned() + &rows.collect::<String>()
}

#[test]
fn files_in_the_layout_of_portals_are_read() {
    let own = read_bytes(filled().as_bytes()).unwrap();
    let portal = of_a_portal();
    assert!(portal.contains("3 5 blue,,\"1,050.00\",-50\r\n"), "{portal}");
    for text in [
        portal.clone(),
        portal.replace("Settlement ID", "Vuka Settlement Id"),
        portal.replace(",Balance,Settlement Transfer", ",Vuka balance,Vuka Settlement Transfer Amount"),
        // The bank's remarks are beside the table.
        portal
            .replace("Settlement Transfer\r\n", "Settlement Transfer,Checked by\r\n")
            .replace("-50", "-50,Amina"),
    ] {
        assert_eq!(read_bytes(text.as_bytes()), Ok(own.clone()), "{text}");
    }
    for (from, to, expected) in [
        (
            ",-50\r",
            ",-50.5\r",
            vec![
                "row 8: the settlement transfer of blue is -50 KES, not -50.5",
                "the settlement transfers in KES sum to -0.5, not 0",
            ],
        ),
        (
            "3 5 blue,,\"1,050.00\"",
            "3 5 blue,,1.005",
            vec!["row 8: the balance 1.005 has more decimals than KES, which has 2"],
        ),
        (
            "3 5 blue",
            "3 6 blue",
            vec![
                "row 8: the settlement has no account 6",
                "account 5 of blue is missing; the settlement has it",
                "the settlement transfers in KES sum to 50, not 0",
            ],
        ),
    ] {
        assert!(portal.contains(from), "{from}");
        assert_eq!(mistakes(&portal.replacen(from, to, 1)), expected);
    }
}

#[test]
fn mistakes_are_all_listed_beside_empty_balances() {
    let text = filled()
        .replace("Settlement ID,7", "Settlement ID,8")
        .replace("4 7 =red,,500,-20", "4 7 =red,,,-20")
        .replace("3 5 blue,,\"1,050.00\",-50", "3 5 blue,,,-51")
        .replace("4 11 =red,,0,", "4 12 =red,,none,");
    assert_eq!(
        mistakes(&text),
        [
            "row 1: this is the file of settlement 8, not 7",
            "row 7: the balance is empty",
            "row 8: the balance is empty",
            "row 8: the settlement transfer of blue is -50 KES, not -51",
            "row 10: the balance \"none\" is not an amount",
            "row 10: the settlement has no account 12",
            "account 11 of =red is missing; the settlement has it",
            "the settlement transfers in KES sum to -1, not 0",
        ]
    );
}

/// A date is a number with a format: 46355 is 2026-11-29.
#[test]
fn dates_booleans_and_errors_are_not_amounts() {
    use rust_xlsxwriter::{ExcelDateTime, Format, Formula};
    let date = Format::new().set_num_format("yyyy-mm-dd");
    let time = Format::new().set_num_format("[hh]:mm");
    let bytes = xlsx_of(&filled(), |sheet| {
        let day = ExcelDateTime::from_ymd(2026, 11, 29).unwrap();
        sheet.write_datetime_with_format(6, 2, &day, &date).unwrap();
        sheet.write_boolean(7, 2, true).unwrap();
        sheet.write_formula(8, 2, Formula::new("=1/0").set_result("#DIV/0!")).unwrap();
        sheet.write_number_with_format(9, 2, 1.5, &time).unwrap();
        sheet.write_boolean(10, 3, false).unwrap();
    });
    assert_eq!(
        read_bytes(&bytes).unwrap_err(),
        [
            "row 7: the balance \"date 2026-11-29\" is not an amount",
            "row 8: the balance \"boolean true\" is not an amount",
            "row 9: the balance \"error #DIV/0!\" is not an amount",
            "row 10: the balance \"time 1.5\" is not an amount",
            "row 11: the settlement transfer \"boolean false\" is not an amount",
        ]
    );
}

/// A bank's own spreadsheet with the same cells.
fn with_balances() -> Vec<u8> {
    xlsx_of(&filled(), |_| {})
}

/// A spreadsheet with the cells of a CSV, numbers as numbers. A test may change cells.
fn xlsx_of(csv: &str, change: impl FnOnce(&mut rust_xlsxwriter::Worksheet)) -> Vec<u8> {
    let mut workbook = rust_xlsxwriter::Workbook::new();
    let sheet = workbook.add_worksheet();
    for (row, line) in (0..).zip(csv.lines()) {
        let cells = cells_of_csv(line.as_bytes()).unwrap().pop().unwrap_or_default();
        for (column, cell) in (0..).zip(&cells) {
            match cell.parse::<f64>() {
                Ok(number) => sheet.write_number(row, column, number).unwrap(),
                Err(_) => sheet.write_string(row, column, cell).unwrap(),
            };
        }
    }
    change(sheet);
    workbook.save_to_buffer().unwrap()
}

#[test]
fn altered_files_are_rejected() {
    for (from, to, expected) in [
        ("Settlement ID,7", "Settlement ID,8", vec!["row 1: this is the file of settlement 8, not 7"]),
        ("Settlement ID,7", "Settlement,7", vec!["row 1: there must be \"Settlement ID\" and its number"]),
        ("Settlement ID,7", "Settlement ID,x", vec!["row 1: there must be \"Settlement ID\" and its number"]),
        (",Balance,", ",Net,", vec!["row 6: the heading \"Balance\" is not in its place"]),
        (
            ",-20,KES",
            ",-21,KES",
            vec![
                "row 7: the settlement transfer of =red is -20 KES, not -21",
                "the settlement transfers in KES sum to -1, not 0",
            ],
        ),
        (
            ",-20,KES",
            ",-20,TZS",
            vec![
                "row 7: account 7 is in KES, not \"TZS\"",
                "the settlement transfers in KES sum to 20, not 0",
                "the settlement transfers in TZS sum to -20, not 0",
            ],
        ),
        (
            "4 7 =red,,500,-20,KES\r\n",
            "",
            vec![
                "account 7 of =red is missing; the settlement has it",
                "the settlement transfers in KES sum to 20, not 0",
            ],
        ),
        ("3 5 blue", "3 5 bluewallet", vec!["row 8: account 5 belongs to 3 blue"]),
        ("3 5 blue", "2 5 blue", vec!["row 8: account 5 belongs to 3 blue"]),
        (
            "3 5 blue",
            "3 6 blue",
            vec![
                "row 8: the settlement has no account 6",
                "account 5 of blue is missing; the settlement has it",
            ],
        ),
        (
            "3 5 blue",
            "4 7 =red",
            vec!["row 8: account 7 is listed twice", "account 5 of blue is missing; the settlement has it"],
        ),
        (
            "3 5 blue",
            "blue",
            vec![
                "row 8: \"blue\" is not an account in the hub's form",
                "account 5 of blue is missing; the settlement has it",
            ],
        ),
        (",500,", ",,", vec!["row 7: the balance is empty"]),
        (",500,", ",5.00001,", vec!["row 7: the balance \"5.00001\" exceeds allowed scale of 4"]),
        (",500,", ",much,", vec!["row 7: the balance \"much\" is not an amount"]),
        ("3 5 blue,", ",\r\n3 5 blue,", vec!["row 8: empty, but accounts follow"]),
    ] {
        assert!(filled().contains(from), "{from}");
        let found = mistakes(&filled().replacen(from, to, 1));
        assert_eq!(found, expected);
    }
    assert!(mistakes("").len() > 1);
}

#[test]
fn file_of_an_aborted_settlement_is_rejected() {
    let mut aborted = settlement();
    aborted["state"] = "ABORTED".into();
    let (cells, _) = {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bank.csv");
        std::fs::write(&path, filled()).unwrap();
        read(&path).unwrap()
    };
    assert_eq!(checked(&cells, &figures(aborted, &PAIRS)).unwrap_err(), ["settlement 7 was aborted"]);
}

#[test]
fn amounts_with_too_many_decimals_are_rejected() {
    for (from, to, expected) in [
        (",500,", ",5.005,", vec!["row 7: the balance 5.005 has more decimals than KES, which has 2"]),
        (
            ",99.5,\"-1,234.5\",TZS",
            ",99,-1.5,UGX",
            vec![
                "row 11: the settlement transfer -1.5 has more decimals than UGX, which has 0",
                "row 11: account 9 is in TZS, not \"UGX\"",
                "row 11: the settlement transfer of green is -1234.5 TZS, not -1.5",
                "the settlement transfers in TZS sum to 1234.5, not 0",
                "the settlement transfers in UGX sum to -1.5, not 0",
            ],
        ),
    ] {
        assert!(filled().contains(from), "{from}");
        assert_eq!(mistakes(&filled().replacen(from, to, 1)), expected);
    }
}

/// A cap follows the balance if this is requested. No cap is below zero.
#[test]
fn caps_follow_balances_up_or_down() {
    let amount = |text: &str| Amount::parse_decimal(text).unwrap();
    let (down, up) = (Caps { lowers: true, raises: false }, Caps { lowers: false, raises: true });
    let both = Caps { lowers: true, raises: true };
    for (caps, cap, balance, expected) in [
        (down, "100", amount("40.5"), Some("40.5")),
        (down, "100", amount("140"), None),
        (up, "100", amount("40.5"), None),
        (up, "100", amount("140"), Some("140")),
        (both, "100", amount("100"), None),
        (both, "100", amount("7").negated(), Some("0")),
        (both, "0", amount("7").negated(), None),
    ] {
        assert_eq!(caps.wanted(amount(cap), balance), expected.map(amount), "{caps:?} {cap} {balance}");
    }
}

#[test]
fn unreadable_files_are_rejected() {
    assert_eq!(read(Path::new("/nonexistent/bank.csv")).unwrap_err().exit, Exit::NoInput);
    assert!(read_bytes(b"PK\x03\x04 and no archive").is_err());
    assert!(read_bytes(&[0xff, 0xfe, 0x00]).is_err());
    let mut cut = with_balances();
    cut.truncate(cut.len() / 2);
    assert!(read_bytes(&cut).is_err());
}

#[test]
fn unexpected_balances_are_warnings() {
    let file = read_bytes(filled().as_bytes()).unwrap();
    let amount = |text: &str| Amount::parse_decimal(text).unwrap();
    let cover = |text: &str, is_moved| Cover { amount: amount(text), is_moved };
    let [red, _, green, zero, _] = &file[..] else { panic!("{file:?}") };
    // red receives 20, green pays 70.
    assert_eq!(warnings_of(red, cover("480", false)), Vec::<String>::new());
    assert_eq!(warnings_of(red, cover("500", true)), Vec::<String>::new());
    let differs = "row 7: =red has 500 KES at the bank, but 520 at the hub: find the reason, and record it as a deposit or \
                   withdrawal";
    assert_eq!(warnings_of(red, cover("500", false)), [differs]);
    let nothing = "row 9: green has no funds left in KES: check its net debit cap";
    assert_eq!(warnings_of(green, cover("40", false)), [nothing]);
    assert_eq!(warnings_of(zero, cover("0", false)).len(), 2);
}

#[test]
fn applied_file_is_recognised_by_its_reference() {
    let mut finished = settlement();
    let read = |value: &serde_json::Value| serde_json::from_value(value.clone()).unwrap();
    let other = "the settlement is SETTLED, but not with this file";
    assert_eq!(repeated(&read(&finished), "bank-7-0123"), [other]);
    finished["participants"][0]["accounts"][0]["externalReference"] = "bank-7-0123".into();
    let before = "this file was applied before: the settlement is SETTLED";
    assert_eq!(repeated(&read(&finished), "bank-7-0123"), [before]);
    finished["state"] = "PS_TRANSFERS_COMMITTED".into();
    assert_eq!(repeated(&read(&finished), "bank-7-0123"), ["this file was partly applied before"]);
    assert_eq!(repeated(&read(&finished), "bank-7-4567"), Vec::<String>::new());
}

#[test]
fn file_of_another_format_is_reported_as_such() {
    for (bytes, expected) in [
        (&b"Settlement ID;7;\n"[..], "the columns are separated by semicolons: save the file with commas"),
        (b"\xff\xfeS\0e\0", "it is text in UTF-16: save it as UTF-8"),
        (b"\xd0\xcf\x11\xe0", "it is a workbook of an old form (XLS), not a text: save its sheet as CSV"),
        (b"\xe4", "the file is neither XLSX nor CSV in UTF-8"),
    ] {
        assert_eq!(cells_of_csv(bytes), Err(expected.to_owned()));
    }
    assert!(cells_of_csv(b"Settlement ID,7\na;b,c\n").is_ok());
}
