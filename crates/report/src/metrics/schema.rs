//! The registry in JSON Schemas: the names that a machine's metrics may have.

use super::{Metric, MetricPart, all};
use crate::values::Number;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};
use std::borrow::Cow;

/// Stands for the metrics of a machine when a type becomes a schema.
pub(crate) struct RegistrySchema;

impl JsonSchema for RegistrySchema {
    fn schema_name() -> Cow<'static, str> {
        "Metrics".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let number = generator.subschema_for::<Number>();
        let (mut metrics, mut families) = (Map::new(), Map::new());
        for metric in all() {
            let mut schema = number.clone();
            schema.insert("description".to_owned(), about(metric).into());
            match pattern(metric.id) {
                None => metrics.insert(metric.id.to_owned(), schema.into()),
                Some(pattern) => families.insert(pattern, schema.into()),
            };
        }
        json_schema!({
            "description": "Metrics by their names in the registry: `pagewalk schema metrics`.",
            "type": "object",
            "properties": Value::Object(metrics),
            "patternProperties": Value::Object(families),
            "additionalProperties": false
        })
    }
}

fn about(metric: &Metric) -> String {
    let unit = match metric.unit.name() {
        "" => String::new(),
        unit => format!(", {unit}"),
    };
    format!("{} ({}{unit}).", metric.doc, metric.class.name())
}

/// The regular expression of a family's names.
fn pattern(id: &str) -> Option<String> {
    let (first, rest) = id.split_once('{')?;
    let mut pattern = format!("^{}", first.replace('.', "\\."));
    for piece in rest.split('{') {
        let (part, literal) = piece.split_once('}')?;
        let values = MetricPart::named(part).map_or(&[][..], |part| part.values);
        let values: Vec<&str> = values.iter().map(|(value, _)| *value).collect();
        pattern += &if values.is_empty() { "[^.]+".to_owned() } else { format!("({})", values.join("|")) };
        pattern += &literal.replace('.', "\\.");
    }
    Some(pattern + "$")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Metrics;
    use schemars::generate::SchemaSettings;

    #[test]
    fn names_fit_the_schema_if_they_are_registered() {
        let schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<RegistrySchema>();
        let validator = jsonschema::validator_for(&schema.to_value()).expect("it is a valid schema");
        let names = [
            "walks",
            "tlb.l1d.misses",
            "tlb.level2.misses",
            "kernel.zero_cycles",
            "kernel.frames_free_in_blocks.9",
        ];
        for name in names {
            let metrics = Metrics::from([(name.to_owned(), Number::Count(1))]);
            assert!(validator.is_valid(&serde_json::json!(metrics)), "{name}");
        }
        for name in ["walk", "tlb.l1d.l2.misses", "kernel.idle_cycles", "kernelxcycles"] {
            let metrics = Metrics::from([(name.to_owned(), Number::Count(1))]);
            assert!(!validator.is_valid(&serde_json::json!(metrics)), "{name}");
        }
    }
}
