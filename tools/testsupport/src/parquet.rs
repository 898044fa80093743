//! An independent reader of exported Parquet files.

use std::fs::File;
use std::path::Path;

use upesi_types::{Amount, Timestamp};

/// The content of a Parquet file as CSV texts.
pub fn read_parquet(path: &Path, columns: &[&str]) -> (Vec<String>, usize) {
    use ::parquet::file::reader::{FileReader, SerializedFileReader};
    use ::parquet::record::Field;
    let reader = SerializedFileReader::new(File::open(path).unwrap()).unwrap();
    let at = |micros: i64| Timestamp::from_ns(micros * 1_000).to_string();
    let cell = |name: &str, field: &Field| match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Int(number) => number.to_string(),
        Field::Long(number) => number.to_string(),
        Field::TimestampMicros(micros) => at(*micros),
        Field::Decimal(amount) => {
            assert_eq!((amount.precision(), amount.scale()), (18, 4));
            let units = i64::from_be_bytes(amount.data().try_into().unwrap());
            Amount::from_units(units).unwrap().to_string()
        }
        Field::Bytes(bytes) => bytes.data().iter().map(|byte| format!("{byte:02x}")).collect(),
        other => panic!("{name} is {other:?}"),
    };
    let rows = reader.get_row_iter(None).unwrap().map(|row| {
        let row = row.unwrap();
        let names: Vec<&String> = row.get_column_iter().map(|(name, _)| name).collect();
        assert_eq!(names, columns);
        let cells = row.get_column_iter().map(|(name, field)| quoted(&cell(name, field)));
        cells.collect::<Vec<_>>().join(",")
    });
    (rows.collect(), reader.num_row_groups())
}

/// A CSV field. It is quoted if it contains a comma, a quote or a line break.
fn quoted(text: &str) -> String {
    match text.contains([',', ';', '|', '\t', '"', '\n', '\r']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_owned(),
    }
}
