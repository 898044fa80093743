use upesi_ledger::{
    AbortKind, Aborted, BulkItem, BulkState, Cause, Committed, FxTransferSide, FxTransferState, ItemState,
    LegWindows, ParticipantId, Refusal, TransferState, WindowId,
};
use upesi_testsupport::parquet::read_parquet;
use upesi_types::{Amount, BulkId, Currency, ErrorCode, FxTransferId, Money, TransferId};

use super::*;

/// The lines of a table in CSV and in Parquet, which are the same.
fn lines_of(kind: Kind, all: &[Finished<'_>]) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let written = |format: Format| {
        let path = directory.path().join(format.ending());
        let mut table = Table::create(&path, kind, format).unwrap();
        for finished in all {
            table.add(*finished, &nobody()).unwrap();
        }
        table.finish().unwrap();
        path
    };
    let text = fs::read_to_string(written(Format::Csv)).unwrap();
    let mut lines = text.split_terminator("\r\n").map(str::to_owned);
    assert_eq!(lines.next().unwrap(), kind.names().join(","));
    let lines: Vec<_> = lines.collect();
    assert_eq!(read_parquet(&written(Format::Parquet), &kind.names()).0, lines);
    lines
}

#[test]
fn unusual_transfers_are_equal_in_parquet_and_csv() {
    // Almost nothing is known about a rejected prepare, and texts may be anything.
    let odd = odd_transfers();
    let lines = lines_of(Kind::Transfers, &odd.each_ref().map(Finished::Transfer));
    assert_eq!(lines.len(), 2);
    assert!(
        lines[0].starts_with("01J2ZK5M3N4P5Q6R7S8T9V0W1X,,,0,KES,INVALID,3100,\"no \"\"such"),
        "{}",
        lines[0]
    );
    assert!(lines[1].contains(",#7,,99999999999999.9999,KES,COMMITTED,,,2031-04-01"), "{}", lines[1]);
}

#[test]
fn fx_transfers_have_both_amounts_and_their_transfer() {
    let (committed, refused) = (fx_transfer(), refused_fx_transfer());
    let lines =
        lines_of(Kind::FxTransfers, &[Finished::FxTransfer(&committed), Finished::FxTransfer(&refused)]);
    let (condition, fulfilment) = ("ab".repeat(32), "cd".repeat(32));
    assert_eq!(
        lines,
        [
            format!(
                "{C},{T},PAYEE,#7,#8,300,BWP,48000,TZS,COMMITTED,,,{AT},{AT},{AT},{condition},{fulfilment},5,5,,,4,,"
            ),
            format!(
                "{C},,PAYER,,,0,BWP,0,TZS,ABORTED_REJECTED,4001,Payer FSP insufficient liquidity,{AT},{AT},{AT},{condition},,5,,,,,,"
            ),
        ]
    );
}

#[test]
fn bulk_transfer_has_a_row_per_item_or_one_if_rejected() {
    let mut bulk = bulk();
    let items = lines_of(Kind::BulkItems, &[Finished::Bulk(&bulk)]);
    let head = |place: &str, transfer: &str| format!("{C},{T},{place},{transfer},#7,#8");
    let tail = format!("{AT},{AT},{AT},9");
    assert_eq!(
        items,
        [
            format!("{},COMPLETED,COMMITTED,,,{tail}", head("0", T)),
            format!("{},COMPLETED,REFUSED,4001,Payer FSP insufficient liquidity,{tail}", head("1", C)),
            format!("{},COMPLETED,ABORTED,5104,no,{tail}", head("2", B)),
        ]
    );
    bulk.items.clear();
    bulk.state = BulkState::Rejected { cause: Some(Refusal::CoverShort.into()), at: at() };
    let refused = lines_of(Kind::BulkItems, &[Finished::Bulk(&bulk)]);
    assert_eq!(
        refused,
        [format!("{},REJECTED,REFUSED,4001,Payer FSP insufficient liquidity,{tail}", head("", ""))]
    );
}

const C: &str = "00000000-0000-4000-8000-00000000000c";
const T: &str = "00000000-0000-4000-8000-0000000000aa";
const B: &str = "00000000-0000-4000-8000-0000000000bb";
const AT: &str = "2031-04-01T00:00:00.123Z";

fn at() -> Timestamp {
    Timestamp::parse_iso(AT).unwrap()
}

fn id(text: &str) -> TransferId {
    TransferId::parse(text).unwrap()
}

fn money(amount: &str, currency: &str) -> Money {
    Money { amount: Amount::parse_decimal(amount).unwrap(), currency: Currency::parse(currency).unwrap() }
}

fn fx_transfer() -> FxTransfer {
    let windows = Some(LegWindows { reserved: Some(WindowId(4)), further: Some(WindowId(5)) });
    FxTransfer {
        id: FxTransferId::new(id(C)),
        determining_transfer: Some(id(T)),
        side: FxTransferSide::Payee,
        initiator: ParticipantId::new(7),
        fxp: ParticipantId::new(8),
        source: money("300", "BWP"),
        target: money("48000", "TZS"),
        accounts: None,
        condition: [0xab; 32],
        expires_at: at(),
        prepared_at: at(),
        prepare_seq: 5,
        prepare_fingerprint: [0; 16],
        fulfilment: Some([0xcd; 32]),
        answer: None,
        state: FxTransferState::Committed { at: at(), windows },
    }
}

fn refused_fx_transfer() -> FxTransfer {
    FxTransfer {
        determining_transfer: None,
        side: FxTransferSide::Payer,
        initiator: None,
        fxp: None,
        source: money("0", "BWP"),
        target: money("0", "TZS"),
        fulfilment: None,
        state: FxTransferState::Aborted {
            kind: AbortKind::Rejected,
            cause: Refusal::CoverShort.into(),
            at: at(),
        },
        ..fx_transfer()
    }
}

fn bulk() -> Bulk {
    let declined = Cause::Payee { code: ErrorCode::PAYEE_REJECTED_TRANSACTION, description: "no".into() };
    let item = |transfer, state| BulkItem { transfer: id(transfer), asked: None, state };
    Bulk {
        id: BulkId::new(id(C)),
        quote: id(T),
        payer: ParticipantId::new(7),
        payee: ParticipantId::new(8),
        expires_at: at(),
        received_at: at(),
        prepare_seq: 9,
        prepare_fingerprint: [0; 16],
        extensions: None,
        items: vec![
            item(T, ItemState::Committed { fulfilment: [0xcd; 32], extensions: None }),
            item(C, ItemState::Refused(Refusal::CoverShort.into())),
            item(B, ItemState::Aborted(declined)),
        ],
        answer: None,
        results: std::collections::BTreeMap::new(),
        state: BulkState::Completed { at: at() },
    }
}

/// An archive with a division that contains each of these, closed by a later one.
fn archive_of(path: &Path, all: &[(TransferId, Vec<u8>)]) -> FjallArchive {
    let archive = FjallArchive::open(path, &ArchiveOptions::default()).unwrap();
    archive.apply_at(all, 9, at()).unwrap();
    archive.divide().unwrap();
    archive
}

fn stored(value: &impl upesi_ledger::Stored) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut upesi_ledger::codec::Encoder(&mut bytes));
    bytes
}

#[test]
fn division_is_exported_into_a_file_per_kind() {
    let directory = tempfile::tempdir().unwrap();
    let [_, transfer] = odd_transfers();
    let (fx_transfer, bulk) = (fx_transfer(), bulk());
    let all = [
        (transfer.id, stored(&transfer)),
        (fx_transfer.id.archive_key(), stored(&fx_transfer)),
        (bulk.id.archive_key(), stored(&bulk)),
    ];
    let export = |name: &str, archive: &FjallArchive| {
        let out = directory.path().join(name);
        let oldest = archive.divisions()[0];
        export_division(archive, &oldest, &nobody(), &out, Format::Csv).unwrap();
        let names =
            fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<_> = names.collect();
        names.sort_unstable();
        (out, names)
    };
    let whole = archive_of(&directory.path().join("whole"), &all);
    let (out, names) = export("out", &whole);
    let range = "-00000000000000000001-00000000000000000009.csv";
    assert_eq!(names, ["bulkItems", "fxTransfers", "transfers"].map(|kind| kind.to_owned() + range));
    let lines = |kind: &str| fs::read_to_string(out.join(kind.to_owned() + range)).unwrap().lines().count();
    assert_eq!((lines("transfers"), lines("fxTransfers"), lines("bulkItems")), (2, 2, 4));

    // An attempt that ended before the last file continues with it.
    fs::remove_file(out.join("transfers".to_owned() + range)).unwrap();
    fs::remove_file(out.join("fxTransfers".to_owned() + range)).unwrap();
    fs::write(out.join("bulkItems".to_owned() + range), "as it was").unwrap();
    assert_eq!(export("out", &whole).1, names);
    assert_eq!((lines("transfers"), lines("fxTransfers"), lines("bulkItems")), (2, 2, 1));

    let plain = archive_of(&directory.path().join("plain"), &all[..1]);
    assert_eq!(export("plain-out", &plain).1, ["transfers".to_owned() + range]);
}

fn nobody() -> Names {
    Names::of(&Ledger::new(LedgerConfig::default()))
}

/// A rejected transfer, and one whose texts need quoting.
fn odd_transfers() -> [Transfer; 2] {
    let at = at();
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
        state: TransferState::from(Aborted {
            kind: AbortKind::Invalid,
            cause: Cause::Payee {
                code: ErrorCode::VALIDATION,
                description: "no \"such\" thing, said twice".into(),
            },
            fingerprint: None,
            operator_reason: None,
            at,
        }),
    };
    let committed = Transfer {
        payer: ParticipantId::new(7),
        amount: Amount::MAX,
        condition: [0xab; 32],
        extensions: Some(r#"[{"key":"a","value":"日本, \"x\""}]"#.into()),
        state: TransferState::from(Committed {
            fulfilment: [0xcd; 32],
            fingerprint: [0; 16],
            at,
            window: Some(WindowId(4)),
            fees: Vec::new(),
        }),
        ..refused.clone()
    };
    [refused, committed]
}

#[test]
fn row_groups_are_limited() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("many.parquet");
    let mut table = Table::create(&path, Kind::Transfers, Format::Parquet).unwrap();
    let [_, transfer] = odd_transfers();
    // Long texts fill a group before it has many rows.
    let long = Transfer { extensions: Some("x".repeat(5 * 1024 * 1024).into()), ..transfer.clone() };
    for transfer in [&long, &long, &long, &long, &transfer] {
        table.add(Finished::Transfer(transfer), &nobody()).unwrap();
    }
    assert_eq!(table.finish().unwrap(), 5);
    let (lines, groups) = read_parquet(&path, &Kind::Transfers.names());
    assert_eq!((lines.len(), groups), (5, 2));
    let empty = directory.path().join("empty.parquet");
    assert_eq!(Table::create(&empty, Kind::Transfers, Format::Parquet).unwrap().finish().unwrap(), 0);
    assert_eq!(read_parquet(&empty, &Kind::Transfers.names()), (vec![], 0));
}

#[test]
fn texts_of_dfsps_are_not_formulas_and_hide_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let [refused, _] = odd_transfers();
    let hostile = |description: &str| {
        let mut transfer = refused.clone();
        let TransferState::Aborted(end) = &mut transfer.state else { unreachable!() };
        end.cause = Cause::Payee { code: ErrorCode::VALIDATION, description: description.into() };
        transfer
    };
    for (description, cell, json) in [
        ("=cmd|'/c calc'!A1", "\"'=cmd|'/c calc'!A1\"", "\"=cmd|'/c calc'!A1\""),
        ("\u{1b}[2J\u{202e}x", "\\u001b[2J\\u202ex", "\"\\u001b[2J\\u202ex\""),
        ("a;=1+1", "\"a;=1+1\"", "\"a;=1+1\""),
    ] {
        let transfer = hostile(description);
        let written = |format: Format| {
            let path = directory.path().join(format.ending());
            let _ = fs::remove_file(&path);
            let mut table = Table::create(&path, Kind::Transfers, format).unwrap();
            table.add(Finished::Transfer(&transfer), &nobody()).unwrap();
            table.finish().unwrap();
            path
        };
        let csv = fs::read_to_string(written(Format::Csv)).unwrap();
        assert!(csv.contains(&format!(",3100,{cell},")), "{csv}");
        let jsonl = fs::read_to_string(written(Format::Jsonl)).unwrap();
        assert!(jsonl.contains(&format!("\"errorDescription\":{json}")), "{jsonl}");
        let object: serde_json::Value = serde_json::from_str(&jsonl).unwrap();
        assert_eq!(object["errorDescription"], description, "JSON loses nothing");
        let (lines, _) = read_parquet(&written(Format::Parquet), &Kind::Transfers.names());
        assert!(!lines[0].chars().any(upesi_types::text::is_hidden), "{}", lines[0]);
    }
}
