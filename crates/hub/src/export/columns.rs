//! Transfers as columns: Parquet, for DuckDB, pandas, Spark and the like.
//!
//! Amounts are exact decimals, times are instants, hashes are bytes. Rows gather in memory until a row group is full,
//! so what an export needs does not depend on how much it exports.

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

use super::row::Row;

/// Rows of a row group; with texts of the usual lengths they take about 20 MiB until they are written.
const GROUP_ROWS_MAX: usize = 32_768;
/// Extension lists and descriptions of a row group, in bytes: they can be long.
const GROUP_TEXT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The columns in the order of [`super::COLUMNS`].
const SCHEMA: &str = "message transfer {
    REQUIRED BYTE_ARRAY transferId (STRING);
    OPTIONAL BYTE_ARRAY payerFsp (STRING);
    OPTIONAL BYTE_ARRAY payeeFsp (STRING);
    REQUIRED INT64 amount (DECIMAL(18,4));
    REQUIRED BYTE_ARRAY currency (STRING);
    REQUIRED BYTE_ARRAY state (STRING);
    OPTIONAL INT32 errorCode;
    OPTIONAL BYTE_ARRAY errorDescription (STRING);
    REQUIRED INT64 preparedAt (TIMESTAMP(MICROS,true));
    OPTIONAL INT64 completedAt (TIMESTAMP(MICROS,true));
    REQUIRED INT64 expiration (TIMESTAMP(MICROS,true));
    REQUIRED FIXED_LEN_BYTE_ARRAY (32) condition;
    OPTIONAL FIXED_LEN_BYTE_ARRAY (32) fulfilment;
    REQUIRED INT64 prepareRecord;
    OPTIONAL BYTE_ARRAY extensions (STRING);
}";

/// The values of one column of the present row group.
struct Column<T: DataType> {
    /// Those that are there.
    values: Vec<T::T>,
    /// Of a column that may lack values: 1 for each row that has one, 0 for the others.
    levels: Option<Vec<i16>>,
}

impl<T: DataType> Column<T> {
    const fn required() -> Self {
        Self { values: Vec::new(), levels: None }
    }

    const fn optional() -> Self {
        Self { values: Vec::new(), levels: Some(Vec::new()) }
    }

    fn push(&mut self, value: Option<T::T>) {
        if let Some(levels) = &mut self.levels {
            levels.push(value.is_some().into());
        }
        self.values.extend(value);
    }
}

/// A column whatever its type.
trait Writes {
    /// Writes the values as the next column of a row group, and forgets them.
    fn write(&mut self, group: &mut SerializedRowGroupWriter<'_, File>) -> Result<(), ParquetError>;
}

impl<T: DataType> Writes for Column<T> {
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

/// The rows of the present row group.
struct Group {
    id: Column<ByteArrayType>,
    payer: Column<ByteArrayType>,
    payee: Column<ByteArrayType>,
    amount: Column<Int64Type>,
    currency: Column<ByteArrayType>,
    state: Column<ByteArrayType>,
    error_code: Column<Int32Type>,
    error_description: Column<ByteArrayType>,
    prepared_at: Column<Int64Type>,
    completed_at: Column<Int64Type>,
    expires_at: Column<Int64Type>,
    condition: Column<FixedLenByteArrayType>,
    fulfilment: Column<FixedLenByteArrayType>,
    prepare_record: Column<Int64Type>,
    extensions: Column<ByteArrayType>,
    rows: usize,
    text_bytes: usize,
}

impl Group {
    const fn new() -> Self {
        Self {
            id: Column::required(),
            payer: Column::optional(),
            payee: Column::optional(),
            amount: Column::required(),
            currency: Column::required(),
            state: Column::required(),
            error_code: Column::optional(),
            error_description: Column::optional(),
            prepared_at: Column::required(),
            completed_at: Column::optional(),
            expires_at: Column::required(),
            condition: Column::required(),
            fulfilment: Column::optional(),
            prepare_record: Column::required(),
            extensions: Column::optional(),
            rows: 0,
            text_bytes: 0,
        }
    }

    fn push(&mut self, row: Row<'_>) {
        let transfer = row.transfer;
        let text = |text: String| ByteArray::from(text.into_bytes());
        let hash = |bytes: &[u8; 32]| FixedLenByteArray::from(bytes.to_vec());
        self.rows += 1;
        self.text_bytes += row.error_description.as_deref().map_or(0, str::len)
            + transfer.extensions.as_deref().map_or(0, str::len);
        self.id.push(Some(text(row.id)));
        self.payer.push(row.payer.map(text));
        self.payee.push(row.payee.map(text));
        self.amount.push(Some(transfer.amount.units()));
        self.currency.push(Some(transfer.currency.as_str().into()));
        self.state.push(Some(row.state.into()));
        self.error_code.push(row.error_code.map(i32::from));
        self.error_description.push(row.error_description.as_deref().map(ByteArray::from));
        self.prepared_at.push(Some(micros(transfer.prepared_at)));
        self.completed_at.push(row.completed_at.map(micros));
        self.expires_at.push(Some(micros(transfer.expires_at)));
        self.condition.push(Some(hash(&transfer.condition)));
        self.fulfilment.push(row.fulfilment.map(hash));
        // Record numbers are far below: a journal of 2^63 records would fill every disk there is.
        self.prepare_record.push(Some(i64::try_from(transfer.prepare_seq).unwrap_or(i64::MAX)));
        self.extensions.push(transfer.extensions.as_deref().map(ByteArray::from));
    }

    const fn is_full(&self) -> bool {
        self.rows >= GROUP_ROWS_MAX || self.text_bytes >= GROUP_TEXT_BYTES_MAX
    }

    /// In the order of the schema.
    fn columns(&mut self) -> [&mut dyn Writes; super::COLUMNS.len()] {
        [
            &mut self.id,
            &mut self.payer,
            &mut self.payee,
            &mut self.amount,
            &mut self.currency,
            &mut self.state,
            &mut self.error_code,
            &mut self.error_description,
            &mut self.prepared_at,
            &mut self.completed_at,
            &mut self.expires_at,
            &mut self.condition,
            &mut self.fulfilment,
            &mut self.prepare_record,
            &mut self.extensions,
        ]
    }
}

/// Microseconds since 1970: what readers of these files know best. The journal has nanoseconds, FSPIOP milliseconds.
const fn micros(at: Timestamp) -> i64 {
    at.as_ns().div_euclid(1_000)
}

/// A file that is being written.
pub(super) struct ParquetTable {
    file: SerializedFileWriter<File>,
    group: Group,
}

impl ParquetTable {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(failed)?);
        // Snappy is read by everything. Statistics per row group let readers skip by time; per page they would only
        // make the end of the file grow.
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Chunk)
            .set_offset_index_disabled(true)
            .set_created_by(concat!("upesi ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let file = SerializedFileWriter::new(file, schema, Arc::new(properties)).map_err(failed)?;
        Ok(Self { file, group: Group::new() })
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
            for column in self.group.columns() {
                column.write(&mut group)?;
            }
            group.close().map(|_| ())
        };
        written().map_err(failed)?;
        (self.group.rows, self.group.text_bytes) = (0, 0);
        Ok(())
    }

    /// Writes what is left and the end of the file.
    pub(super) fn finish(mut self) -> io::Result<File> {
        self.write_group()?;
        self.file.into_inner().map_err(failed)
    }
}

/// What the system said, where it was the system.
fn failed(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(inner) => io::Error::other(inner),
        },
        error => io::Error::other(error),
    }
}
