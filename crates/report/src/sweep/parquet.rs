//! The result as one Parquet table, a row for each number.
//!
//! The table is long rather than wide: machines have different counters, families only misses, and readers group by
//! columns anyway. Each varied parameter is a column, of integers if all its values are. Equal results are equal bytes:
//! the table holds neither the time nor the host.

use super::schema::{CacheFamilyCell, Parameters, SweepResult, Value};
use crate::metrics::{self, Metric};
use crate::schema::Number;
use parquet::basic::{LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::{Type, TypePtr};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One number and its keys; keys that do not apply are empty.
#[derive(Default)]
struct Row<'a> {
    trace: &'a str,
    kind: &'static str,
    machine: Option<&'a str>,
    os: Option<&'a str>,
    structure: Option<&'a str>,
    layout: Option<&'a str>,
    layout_seed: Option<u64>,
    parameters: Option<&'a Parameters>,
    serves: Option<&'a str>,
    page_bytes: Option<u64>,
    line_bytes: Option<u64>,
    sets: Option<u32>,
    ways: Option<u32>,
    entries: Option<u64>,
    metric: &'a str,
    count: Option<i64>,
    value: f64,
    standard_error: Option<f64>,
}

/// The column's values, one for each row.
enum Column<'a> {
    Text(Vec<Option<std::borrow::Cow<'a, str>>>),
    Integer(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
}

/// The table.
///
/// # Errors
/// Errors of the Parquet writer, which writes to memory.
pub fn to_parquet(result: &SweepResult) -> Result<Vec<u8>, ParquetError> {
    let rows = rows(result);
    let columns = columns(&rows);
    let fields = columns.iter().map(|(name, column)| field(name, column)).collect::<Result<_, _>>()?;
    let schema = Arc::new(Type::group_type_builder("sweep").with_fields(fields).build()?);
    let fact = |key: &str, value: &str| KeyValue::new(format!("pagewalk.{key}"), value.to_owned());
    let facts = vec![
        fact("schema", &result.schema),
        fact("version", &result.version),
        fact("study", &result.name),
        fact("title", &result.title),
    ];
    let properties = WriterProperties::builder()
        .set_created_by(format!("pagewalk {}", result.version))
        .set_key_value_metadata(Some(facts));
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build()))?;
    let mut group = writer.next_row_group()?;
    for (_, column) in &columns {
        write(&mut group, column)?;
    }
    group.close()?;
    writer.into_inner()
}

fn rows(result: &SweepResult) -> Vec<Row<'_>> {
    let name = |trace: usize| result.traces[trace].name.as_str();
    let mut rows = Vec::new();
    for cell in &result.machines {
        rows.extend(cell.metrics.iter().map(|(metric, number)| Row {
            trace: name(cell.trace),
            kind: "machine",
            machine: Some(&cell.machine),
            os: cell.os.as_deref(),
            structure: cell.structure.as_deref(),
            layout: cell.layout.as_deref(),
            layout_seed: cell.layout_seed,
            parameters: Some(&cell.parameters),
            metric,
            count: match number {
                Number::Count(count) => i64::try_from(*count).ok(),
                Number::Real(_) => None,
            },
            value: number.as_f64(),
            ..Row::default()
        }));
    }
    for cell in &result.families {
        let of_family =
            || Row { trace: name(cell.trace), kind: "family", serves: Some(&cell.serves), ..Row::default() };
        rows.push(counted(of_family(), "references", cell.references));
        for size in &cell.sizes {
            for (&sets, misses) in size.sets.iter().zip(&size.misses) {
                for (&ways, &misses) in size.ways.iter().zip(misses) {
                    let row = Row {
                        page_bytes: Some(size.page_bytes),
                        sets: Some(sets),
                        ways: Some(ways),
                        entries: Some(u64::from(sets) * u64::from(ways)),
                        ..of_family()
                    };
                    rows.push(counted(row, "misses", misses));
                }
            }
        }
    }
    rows.extend(result.cache_families.iter().flat_map(|cell| of_caches(name(cell.trace), cell)));
    for cell in &result.curves {
        let of_curve = || Row {
            trace: name(cell.trace),
            kind: match cell.method.name() {
                "exact" => "curve",
                _ => "sampled_curve",
            },
            serves: Some(&cell.serves),
            page_bytes: Some(4096),
            ..Row::default()
        };
        rows.push(counted(of_curve(), "references", cell.references));
        for (index, (&entries, &misses)) in cell.entries.iter().zip(&cell.misses).enumerate() {
            let standard_error = cell.standard_errors.get(index).copied();
            let row = Row { entries: Some(entries), standard_error, ..of_curve() };
            rows.push(match standard_error {
                None => counted(row, "misses", misses as u64),
                Some(_) => Row { metric: "misses", value: misses, ..row },
            });
        }
    }
    rows
}

/// The caches of one line size, with their misses by kind.
fn of_caches<'a>(trace: &'a str, cell: &'a CacheFamilyCell) -> Vec<Row<'a>> {
    let row = || Row {
        trace,
        kind: "cache_family",
        serves: Some(&cell.serves),
        line_bytes: Some(u64::from(cell.line_bytes)),
        ..Row::default()
    };
    let mut rows = vec![
        counted(row(), "references", cell.references),
        counted(row(), "compulsory_misses", cell.compulsory),
    ];
    for cache in cell.caches() {
        let entries = Some(u64::from(cache.sets) * u64::from(cache.ways));
        let of_cache = || Row { sets: Some(cache.sets), ways: Some(cache.ways), entries, ..row() };
        rows.push(counted(of_cache(), "misses", cache.all()));
        rows.push(counted(of_cache(), "capacity_misses", cache.full - cell.compulsory));
        rows.push(Row {
            metric: "conflict_misses",
            count: Some(cache.conflict),
            value: cache.conflict as f64,
            ..of_cache()
        });
    }
    rows
}

fn counted<'a>(row: Row<'a>, metric: &'a str, count: u64) -> Row<'a> {
    Row { metric, count: i64::try_from(count).ok(), value: count as f64, ..row }
}

fn columns<'a>(rows: &[Row<'a>]) -> Vec<(String, Column<'a>)> {
    let text = |of: &dyn Fn(&Row<'a>) -> Option<&'a str>| {
        Column::Text(rows.iter().map(|row| of(row).map(Into::into)).collect())
    };
    let integer = |of: &dyn Fn(&Row<'a>) -> Option<u64>| {
        // Counts beyond 2^63 would take centuries of simulation.
        Column::Integer(rows.iter().map(|row| of(row).map(|n| n as i64)).collect())
    };
    let mut columns = vec![
        ("trace".to_owned(), text(&|row| Some(row.trace))),
        ("kind".to_owned(), text(&|row| Some(row.kind))),
        ("machine".to_owned(), text(&|row| row.machine)),
        ("os".to_owned(), text(&|row| row.os)),
        ("structure".to_owned(), text(&|row| row.structure)),
        ("layout".to_owned(), text(&|row| row.layout)),
        ("layout_seed".to_owned(), integer(&|row| row.layout_seed)),
    ];
    let keys: BTreeSet<&str> =
        rows.iter().filter_map(|row| row.parameters).flat_map(|p| p.keys().map(String::as_str)).collect();
    columns.extend(keys.into_iter().map(|key| (key.to_owned(), parameter(rows, key))));
    columns.extend([
        ("serves".to_owned(), text(&|row| row.serves)),
        ("page_bytes".to_owned(), integer(&|row| row.page_bytes)),
        ("line_bytes".to_owned(), integer(&|row| row.line_bytes)),
        ("sets".to_owned(), integer(&|row| row.sets.map(u64::from))),
        ("ways".to_owned(), integer(&|row| row.ways.map(u64::from))),
        ("entries".to_owned(), integer(&|row| row.entries)),
        ("metric".to_owned(), text(&|row| Some(row.metric))),
        ("count".to_owned(), Column::Integer(rows.iter().map(|row| row.count).collect())),
        ("value".to_owned(), Column::Real(rows.iter().map(|row| Some(row.value)).collect())),
        ("standard_error".to_owned(), Column::Real(rows.iter().map(|row| row.standard_error).collect())),
    ]);
    let registered: BTreeMap<&str, &Metric> =
        rows.iter().filter_map(|row| Some((row.metric, metrics::find(row.metric)?))).collect();
    let of = |row: &Row<'a>| registered.get(row.metric).copied();
    columns.extend([
        ("class".to_owned(), text(&|row| Some(of(row)?.class.name()))),
        ("unit".to_owned(), text(&|row| Some(of(row)?.unit.name()).filter(|unit| !unit.is_empty()))),
    ]);
    columns
}

/// The study's values of the key `key`.
fn parameter<'a>(rows: &[Row<'a>], key: &str) -> Column<'a> {
    let values: Vec<Option<&'a Value>> =
        rows.iter().map(|row| row.parameters.and_then(|p| p.get(key))).collect();
    let numbers = values.iter().map(|value| match value {
        Some(Value::Integer(number)) => Some(Some(*number)),
        Some(Value::Text(_)) => None,
        None => Some(None),
    });
    match numbers.collect() {
        Some(numbers) => Column::Integer(numbers),
        None => Column::Text(
            values.into_iter().map(|value| value.map(|value| value.to_string().into())).collect(),
        ),
    }
}

fn field(name: &str, column: &Column<'_>) -> Result<TypePtr, ParquetError> {
    let (physical, logical) = match column {
        Column::Text(_) => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        Column::Integer(_) => (Physical::INT64, None),
        Column::Real(_) => (Physical::DOUBLE, None),
    };
    let field = Type::primitive_type_builder(name, physical)
        .with_repetition(Repetition::OPTIONAL)
        .with_logical_type(logical);
    Ok(Arc::new(field.build()?))
}

type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

fn write(group: &mut Group<'_>, column: &Column<'_>) -> Result<(), ParquetError> {
    match column {
        Column::Text(values) => {
            write_as::<ByteArrayType, _>(group, values, |text| ByteArray::from(text.as_bytes().to_vec()))
        }
        Column::Integer(values) => write_as::<Int64Type, _>(group, values, |number| *number),
        Column::Real(values) => write_as::<DoubleType, _>(group, values, |number| *number),
    }
}

fn write_as<T: DataType, V>(
    group: &mut Group<'_>,
    values: &[Option<V>],
    convert: impl Fn(&V) -> T::T,
) -> Result<(), ParquetError> {
    let mut writer = group.next_column()?.expect("the schema has a column for each");
    let present: Vec<T::T> = values.iter().flatten().map(convert).collect();
    let levels: Vec<i16> = values.iter().map(|value| i16::from(value.is_some())).collect();
    writer.typed::<T>().write_batch(&present, Some(&levels), None)?;
    writer.close()
}
