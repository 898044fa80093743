use super::*;
use crate::fill::{self, FillArguments};

fn fill(data: &Path, transfers: u64) {
    fill::run(&FillArguments { transfers, dfsps: 3, keep_segments: true, ..FillArguments::new(data.into()) })
        .unwrap();
}

fn arguments(data: &Path, out: &Path, format: Format) -> ExportArguments {
    ExportArguments { data: data.into(), before: None, from: None, format, out: out.into() }
}

#[test]
fn every_finished_transfer_is_exported_once() {
    let directory = tempfile::tempdir().unwrap();
    let (data, csv) = (directory.path().join("data"), directory.path().join("all.csv"));
    fill(&data, 200);
    assert_eq!(export(&arguments(&data, &csv, Format::Csv)).unwrap(), 200);
    let text = fs::read_to_string(&csv).unwrap();
    let lines: Vec<&str> = text.split_terminator("\r\n").collect();
    assert_eq!((lines.len(), lines[0]), (201, &*COLUMNS.join(",")));
    let mut ids: Vec<&str> = lines[1..].iter().map(|line| line.split(',').next().unwrap()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 200);
    assert!(lines[1].contains(",1,XXX,COMMITTED,,,20"), "{}", lines[1]);
    let again = export(&arguments(&data, &csv, Format::Csv)).unwrap_err();
    assert_eq!(again.exit, Exit::CannotCreate, "a file is never overwritten");

    let jsonl = directory.path().join("all.jsonl");
    assert_eq!(export(&arguments(&data, &jsonl, Format::Jsonl)).unwrap(), 200);
    for line in fs::read_to_string(&jsonl).unwrap().lines() {
        let object: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(object["state"], "COMMITTED");
        assert!(object["payerFsp"].as_str().unwrap().starts_with("dfsp-") && object["errorCode"].is_null());
    }
}

/// What a reader of Parquet finds, as the texts of CSV.
fn read_parquet(path: &Path) -> (Vec<String>, usize) {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::{Field, RowAccessor};
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let at = |micros: i64| Timestamp::from_ns(micros * 1_000).to_string();
    let cell = |name: &str, field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Int(number) => number.to_string(),
        Field::Long(number) => number.to_string(),
        Field::TimestampMicros(micros) => at(*micros),
        Field::Bytes(bytes) => text::hex(bytes.data()),
        other => panic!("{name} is {other:?}"),
    };
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let names: Vec<&String> = row.get_column_iter().map(|(name, _)| name).collect();
        assert_eq!(names, COLUMNS);
        let amount = row.get_decimal(3).unwrap();
        assert_eq!((amount.precision(), amount.scale()), (18, 4));
        let units = i64::from_be_bytes(amount.data().try_into().unwrap());
        let cells = row.get_column_iter().enumerate().map(|(index, (name, field))| match index {
            3 => upesi_types::Amount::from_units(units).unwrap().to_string(),
            _ => cell(name, field),
        });
        let mut line = String::new();
        for (index, cell) in cells.enumerate() {
            line.push_str(if index > 0 { "," } else { "" });
            text::push_csv(&cell, &mut line);
        }
        line
    });
    (rows.collect(), reader.num_row_groups())
}

#[test]
fn parquet_says_the_same_as_csv() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fill(&data, 120);
    let out = |name: &str| directory.path().join(name);
    for format in [Format::Csv, Format::Parquet] {
        assert_eq!(export(&arguments(&data, &out(format.ending()), format)).unwrap(), 120);
        assert_eq!(Format::of_ending(format.ending()), Some(format));
    }
    let csv = fs::read_to_string(out("csv")).unwrap();
    let (lines, groups) = read_parquet(&out("parquet"));
    assert_eq!(lines, csv.split_terminator("\r\n").skip(1).collect::<Vec<_>>());
    assert_eq!(groups, 1);
    // Of a refused prepare almost nothing is known, and texts may be anything.
    let path = out("odd.parquet");
    let mut table = Table::create(&path, Format::Parquet).unwrap();
    let odd = odd_transfers();
    for transfer in &odd {
        table.add(transfer, &nobody()).unwrap();
    }
    assert_eq!(table.finish().unwrap(), 2);
    let mut expected = [String::new(), String::new()];
    for (transfer, line) in odd.iter().zip(&mut expected) {
        text::write_csv(Row::of(transfer, &nobody()), line);
        line.truncate(line.len() - 2);
    }
    assert_eq!(read_parquet(&path).0, expected);
}

fn nobody() -> Names {
    Names::of(&Ledger::new(LedgerConfig::default()))
}

/// One that was refused, and one whose texts need quoting.
fn odd_transfers() -> [Transfer; 2] {
    use upesi_ledger::{AbortKind, ParticipantId, TransferState};
    use upesi_types::{Amount, Currency, ErrorCode, TransferId};
    let at = Timestamp::parse_iso("2031-04-01T00:00:00.123Z").unwrap();
    let refused = Transfer {
        id: TransferId::parse("01J2ZK5M3N4P5Q6R7S8T9V0W1X").unwrap(),
        payer: None,
        payee: None,
        payer_account: None,
        payee_account: None,
        amount: Amount::ZERO,
        currency: Currency::parse("KES").unwrap(),
        condition: [0; 32],
        expires_at: at,
        prepared_at: at,
        prepare_seq: 1,
        prepare_fingerprint: [0; 16],
        extensions: None,
        state: TransferState::Aborted {
            kind: AbortKind::Invalid,
            code: ErrorCode::VALIDATION,
            description: "no \"such\" thing,\nsaid twice".into(),
            fingerprint: None,
            operator_reason: None,
            at,
        },
    };
    let committed = Transfer {
        payer: ParticipantId::new(7),
        amount: Amount::MAX,
        condition: [0xab; 32],
        extensions: Some(r#"[{"key":"a","value":"日本, \"x\""}]"#.into()),
        state: TransferState::Committed { fulfilment: [0xcd; 32], fingerprint: [0; 16], at },
        ..refused.clone()
    };
    [refused, committed]
}

#[test]
fn row_groups_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("many.parquet");
    let mut table = Table::create(&path, Format::Parquet).unwrap();
    let [_, transfer] = odd_transfers();
    // Long texts fill a group long before its rows are many.
    let long = Transfer { extensions: Some("x".repeat(5 * 1024 * 1024).into()), ..transfer.clone() };
    for transfer in [&long, &long, &long, &long, &transfer] {
        table.add(transfer, &nobody()).unwrap();
    }
    assert_eq!(table.finish().unwrap(), 5);
    let (lines, groups) = read_parquet(&path);
    assert_eq!((lines.len(), groups), (5, 2));
    let empty = directory.path().join("empty.parquet");
    assert_eq!(Table::create(&empty, Format::Parquet).unwrap().finish().unwrap(), 0);
    assert_eq!(read_parquet(&empty), (vec![], 0));
}

#[test]
fn times_bound_an_export() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    fill(&data, 50);
    let between = upesi_engine::Clock::now(&upesi_engine::SystemClock);
    fill(&data, 30);
    let count = |name: &str, before, from| {
        let out = directory.path().join(name);
        export(&ExportArguments { before, from, ..arguments(&data, &out, Format::Csv) }).unwrap()
    };
    assert_eq!(count("before", Some(between), None), 50);
    assert_eq!(count("after", None, Some(between)), 30);
    assert_eq!(count("neither", Some(between), Some(between)), 0);
}

#[test]
fn csv_quotes_what_it_must() {
    for (text, expected) in [
        ("plain", "plain"),
        ("a,b", "\"a,b\""),
        ("say \"x\"", "\"say \"\"x\"\"\""),
        ("two\nlines", "\"two\nlines\""),
    ] {
        let mut line = String::new();
        text::push_csv(text, &mut line);
        assert_eq!(line, expected);
    }
}
