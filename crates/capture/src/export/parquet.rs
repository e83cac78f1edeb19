//! A Parquet table with the columns of CSV (`export/table.rs`), compressed by zstd.
//!
//! `instruction` is null for references without code. Rows are in the order of the stream; the file's metadata name the
//! program and where the stream comes from.

use super::rows::{COLUMNS, Row, each_row};
use super::table::names_thread;
use super::{Encoder, Exporter, Omissions, Out};
use pagewalk_trace::{Batch, Event, StreamHeader};
use pagewalk_units::Kind;
use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{ColumnPath, Type, TypePtr};
use std::io;
use std::sync::Arc;

/// Rows of a group, which are in memory together: less than 60 MB.
const GROUP_ROWS: usize = 1 << 20;

/// The format, for the registry.
pub(super) const FORMAT: Exporter = Exporter {
    name: "parquet",
    about: "a Parquet table with the columns of `table`, for pandas, Polars, DuckDB and others",
    begin: |header, out| {
        let properties = properties(header).map_err(io::Error::other)?;
        let schema = schema().map_err(io::Error::other)?;
        let writer = SerializedFileWriter::new(out, schema, Arc::new(properties.build()));
        Ok(Box::new(Table { writer: writer.map_err(io::Error::other)?, columns: Columns::default() }))
    },
};

struct Table {
    writer: SerializedFileWriter<Out>,
    columns: Columns,
}

/// The rows of the next group.
#[derive(Default)]
struct Columns {
    times: Vec<i64>,
    threads: Vec<i32>,
    /// Without those that are null.
    instructions: Vec<i64>,
    /// 0 where the instruction is null, else 1.
    has_instruction: Vec<i16>,
    addresses: Vec<i64>,
    bytes: Vec<i32>,
    kinds: Vec<ByteArray>,
}

impl Columns {
    fn push(&mut self, row: Row) {
        self.times.push(row.time as i64);
        self.threads.push(row.thread as i32);
        self.instructions.extend(row.instruction.map(|address| address as i64));
        self.has_instruction.push(row.instruction.is_some().into());
        self.addresses.push(row.address as i64);
        self.bytes.push(row.bytes as i32);
        self.kinds.push(KINDS[row.kind as usize].clone());
    }

    fn write(&self, to: &mut SerializedRowGroupWriter<'_, Out>) -> Result<(), ParquetError> {
        column::<Int64Type>(to, &self.times, None)?;
        column::<Int32Type>(to, &self.threads, None)?;
        column::<Int64Type>(to, &self.instructions, Some(&self.has_instruction))?;
        column::<Int64Type>(to, &self.addresses, None)?;
        column::<Int32Type>(to, &self.bytes, None)?;
        column::<ByteArrayType>(to, &self.kinds, None)
    }
}

/// The kinds' names, by their numbers.
static KINDS: std::sync::LazyLock<[ByteArray; Kind::ALL.len()]> =
    std::sync::LazyLock::new(|| Kind::ALL.map(|kind| ByteArray::from(kind.name())));

fn column<T: DataType>(
    to: &mut SerializedRowGroupWriter<'_, Out>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    let missing = || ParquetError::General("a column is missing".to_owned());
    let mut column = to.next_column()?.ok_or_else(missing)?;
    column.typed::<T>().write_batch(values, levels, None)?;
    column.close()
}

impl Table {
    fn write_group(&mut self) -> io::Result<()> {
        let columns = std::mem::take(&mut self.columns);
        if columns.times.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(io_error)?;
        columns.write(&mut group).and_then(|()| group.close()).map_err(io_error)?;
        Ok(())
    }
}

impl Encoder for Table {
    fn batch(&mut self, batch: &Batch<'_>, _omissions: &mut Omissions) -> io::Result<()> {
        each_row(batch, |row| {
            self.columns.push(row);
            if self.columns.times.len() >= GROUP_ROWS { self.write_group() } else { Ok(()) }
        })
    }

    fn event(&mut self, event: &Event) -> io::Result<bool> {
        Ok(names_thread(event))
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.write_group()?;
        self.writer.into_inner().map_err(io_error)?.finish()
    }
}

/// The error of the file below, where it is one: a full disk or a closed pipe.
fn io_error(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(inner) => *inner,
            Err(inner) => io::Error::other(inner),
        },
        other => io::Error::other(other),
    }
}

fn properties(header: &StreamHeader) -> Result<WriterPropertiesBuilder, ParquetError> {
    let fact = |key: &str, value: &str| KeyValue::new(format!("pagewalk.{key}"), value.to_owned());
    let facts = vec![
        fact("program", &header.program),
        fact("command_line", &header.arguments.join(" ")),
        fact("engine", &header.engine),
    ];
    let mut properties = WriterProperties::builder()
        .set_created_by(format!("pagewalk {}", env!("CARGO_PKG_VERSION")))
        .set_key_value_metadata(Some(facts))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?));
    // Times rise by 0 or 1 from row to row, so differences are smaller than a dictionary.
    let time = ColumnPath::from(COLUMNS[0]);
    properties = properties.set_column_dictionary_enabled(time.clone(), false);
    Ok(properties.set_column_encoding(time, Encoding::DELTA_BINARY_PACKED))
}

fn schema() -> Result<TypePtr, ParquetError> {
    let [time, thread, instruction, address, bytes, kind] = COLUMNS;
    let fields = [
        number(time, Physical::INT64, Repetition::REQUIRED),
        number(thread, Physical::INT32, Repetition::REQUIRED),
        number(instruction, Physical::INT64, Repetition::OPTIONAL),
        number(address, Physical::INT64, Repetition::REQUIRED),
        number(bytes, Physical::INT32, Repetition::REQUIRED),
        Type::primitive_type_builder(kind, Physical::BYTE_ARRAY)
            .with_repetition(Repetition::REQUIRED)
            .with_logical_type(Some(LogicalType::String))
            .build(),
    ];
    let fields = fields.into_iter().map(|field| field.map(Arc::new)).collect::<Result<_, _>>()?;
    Ok(Arc::new(Type::group_type_builder("trace").with_fields(fields).build()?))
}

/// A column of numbers that are never negative.
fn number(name: &str, physical: Physical, repetition: Repetition) -> Result<Type, ParquetError> {
    let bit_width = if physical == Physical::INT32 { 32 } else { 64 };
    Type::primitive_type_builder(name, physical)
        .with_repetition(repetition)
        .with_logical_type(Some(LogicalType::integer(bit_width, false)))
        .build()
}
