//! Rows as columns: Parquet, for DuckDB, pandas, Spark and similar tools.
//!
//! Amounts are exact decimals, times are instants, hashes are bytes. Rows gather in memory until a row group is full,
//! so the memory does not depend on the size of the export.

use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::writer::ColumnWriterImpl;
use parquet::data_type::{
    ByteArray, ByteArrayType, DataType, FixedLenByteArray, FixedLenByteArrayType, Int32Type, Int64Type,
};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use upesi_types::Timestamp;
use upesi_types::text::escape;

use super::kind::Kind;
use super::value::{self, Row, Type, Value};

/// Maximum number of rows of a row group; with texts of usual length they need about 20 MiB until they are written.
const GROUP_ROWS_MAX: usize = 32_768;
/// Maximum size of the texts of a row group, in bytes: extension lists and descriptions can be long.
const GROUP_TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The schema of a table in Parquet's schema language.
fn schema_of(kind: Kind) -> String {
    let mut schema = "message row {\n".to_owned();
    for column in kind.columns() {
        let (physical, logical) = match column.kind {
            Type::Text => ("BYTE_ARRAY", " (STRING)"),
            Type::Amount => ("INT64", " (DECIMAL(18,4))"),
            Type::Small => ("INT32", ""),
            Type::Number => ("INT64", ""),
            Type::Instant => ("INT64", " (TIMESTAMP(MICROS,true))"),
            Type::Hash => ("FIXED_LEN_BYTE_ARRAY (32)", ""),
        };
        let repetition = if column.is_optional { "OPTIONAL" } else { "REQUIRED" };
        let _ = writeln!(schema, "{repetition} {physical} {}{logical};", column.name);
    }
    schema + "}"
}

/// Values of one column in the current row group.
struct Values<T: DataType> {
    /// Values of the rows that have one.
    values: Vec<T::T>,
    /// For an optional column: 1 for each row with a value, 0 for the others.
    levels: Option<Vec<i16>>,
}

impl<T: DataType> Values<T> {
    fn of(column: &value::Column) -> Self {
        Self { values: Vec::new(), levels: column.is_optional.then(Vec::new) }
    }

    fn push(&mut self, value: Option<T::T>) {
        match &mut self.levels {
            Some(levels) => levels.push(value.is_some().into()),
            None => assert!(value.is_some(), "a required column lacks a value"),
        }
        self.values.extend(value);
    }

    /// Writes the values as the next column of a row group, and drops them.
    fn write(&mut self, group: &mut SerializedRowGroupWriter<'_, File>) -> Result<(), ParquetError> {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("the schema has fewer columns".to_owned()));
        };
        let writer: &mut ColumnWriterImpl<'_, T> = column.typed();
        writer.write_batch(&self.values, self.levels.as_deref(), None)?;
        column.close()?;
        self.values.clear();
        if let Some(levels) = &mut self.levels {
            levels.clear();
        }
        Ok(())
    }
}

/// A column of any type.
enum Column {
    Text(Values<ByteArrayType>),
    Long(Values<Int64Type>),
    Small(Values<Int32Type>),
    Hash(Values<FixedLenByteArrayType>),
}

impl Column {
    fn of(column: &value::Column) -> Self {
        match column.kind {
            Type::Text => Self::Text(Values::of(column)),
            Type::Amount | Type::Number | Type::Instant => Self::Long(Values::of(column)),
            Type::Small => Self::Small(Values::of(column)),
            Type::Hash => Self::Hash(Values::of(column)),
        }
    }

    fn push(&mut self, value: Value<'_>) {
        match self {
            Self::Text(column) => column.push(match value {
                Value::Text(text) => Some(ByteArray::from(escape(&text).into_owned().into_bytes())),
                _ => None,
            }),
            Self::Long(column) => column.push(match value {
                Value::Amount(amount) => Some(amount.units()),
                Value::Instant(at) => Some(micros(at)),
                // Record numbers are far below: a journal of 2^63 records would exceed any disk.
                Value::Number(number) => Some(i64::try_from(number).unwrap_or(i64::MAX)),
                _ => None,
            }),
            Self::Small(column) => column.push(match value {
                Value::Number(number) => Some(i32::try_from(number).unwrap_or(i32::MAX)),
                _ => None,
            }),
            Self::Hash(column) => column.push(match value {
                Value::Hash(bytes) => Some(FixedLenByteArray::from(bytes.to_vec())),
                _ => None,
            }),
        }
    }

    fn write(&mut self, group: &mut SerializedRowGroupWriter<'_, File>) -> Result<(), ParquetError> {
        match self {
            Self::Text(column) => column.write(group),
            Self::Long(column) => column.write(group),
            Self::Small(column) => column.write(group),
            Self::Hash(column) => column.write(group),
        }
    }
}

/// The rows of the current row group.
struct Group {
    columns: Vec<Column>,
    rows: usize,
    text_bytes: usize,
}

impl Group {
    fn push(&mut self, row: Row<'_>) {
        self.rows += 1;
        for (column, value) in self.columns.iter_mut().zip(row) {
            if let Value::Text(text) = &value {
                self.text_bytes += text.len();
            }
            column.push(value);
        }
    }

    const fn is_full(&self) -> bool {
        self.rows >= GROUP_ROWS_MAX || self.text_bytes >= GROUP_TEXT_BYTES_MAX
    }
}

/// Microseconds since 1970, the unit that readers of these files support best. The journal has nanoseconds, FSPIOP
/// milliseconds.
const fn micros(at: Timestamp) -> i64 {
    at.as_ns().div_euclid(1_000)
}

/// A file that is being written.
pub(super) struct ParquetTable {
    file: SerializedFileWriter<File>,
    group: Group,
}

impl ParquetTable {
    pub(super) fn new(file: File, kind: Kind) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(&schema_of(kind)).map_err(failed)?);
        // All readers support Snappy. Statistics per row group let readers skip by time; statistics per page would only
        // enlarge the end of the file.
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by(concat!("upesi ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let file = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(failed)?;
        let columns = kind.columns().iter().map(Column::of).collect();
        Ok(Self { file, group: Group { columns, rows: 0, text_bytes: 0 } })
    }

    pub(super) fn add(&mut self, row: Row<'_>) -> io::Result<()> {
        self.group.push(row);
        if self.group.is_full() { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> io::Result<()> {
        if self.group.rows == 0 {
            return Ok(());
        }
        let mut written = || -> Result<(), ParquetError> {
            let mut group = self.file.next_row_group()?;
            for column in &mut self.group.columns {
                column.write(&mut group)?;
            }
            group.close().map(|_| ())
        };
        written().map_err(failed)?;
        (self.group.rows, self.group.text_bytes) = (0, 0);
        Ok(())
    }

    /// Writes the remaining rows and the end of the file.
    pub(super) fn finish(mut self) -> io::Result<File> {
        self.write_group()?;
        self.file.into_inner().map_err(failed)
    }
}

/// The error of the system, if there is one.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        error => io::Error::other(error),
    }
}
