use super::*;
use reader::read_parquet;

mod reader;

#[test]
fn odd_transfers_are_the_same_in_parquet_as_in_csv() {
    let directory = tempfile::tempdir().unwrap();
    // Of a refused prepare almost nothing is known, and texts may be anything.
    let path = directory.path().join("odd.parquet");
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
    assert_eq!(read_parquet(&path, &COLUMNS).0, expected);
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
            cause: upesi_ledger::Cause::Payee {
                code: ErrorCode::VALIDATION,
                description: "no \"such\" thing,\nsaid twice".into(),
            },
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
    let (lines, groups) = read_parquet(&path, &COLUMNS);
    assert_eq!((lines.len(), groups), (5, 2));
    let empty = directory.path().join("empty.parquet");
    assert_eq!(Table::create(&empty, Format::Parquet).unwrap().finish().unwrap(), 0);
    assert_eq!(read_parquet(&empty, &COLUMNS), (vec![], 0));
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
