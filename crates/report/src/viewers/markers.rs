//! Markers of Firefox profiles.

use fxprof_processed_profile::{
    CategoryHandle, GraphColor, MarkerFieldFlags, MarkerFieldFormat, MarkerGraphType, Profile,
    StaticSchemaMarker, StaticSchemaMarkerField, StaticSchemaMarkerGraph, StringHandle,
};

const fn field(key: &'static str, label: &'static str, format: MarkerFieldFormat) -> StaticSchemaMarkerField {
    StaticSchemaMarkerField { key, label, format, flags: MarkerFieldFlags::empty() }
}

/// Walks in a mapping during a column of the heat map. All of a mapping are one track.
pub(super) struct WalksMarker {
    /// The mapping.
    pub name: StringHandle,
    pub walks: u64,
}

impl StaticSchemaMarker for WalksMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "walks";
    const DESCRIPTION: Option<&'static str> = Some("Page walks in a mapping during a stretch of the run");
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.walks}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.data.walks} walks in {marker.name}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[field("walks", "Walks", MarkerFieldFormat::Integer)];
    const GRAPHS: &'static [StaticSchemaMarkerGraph] = &[StaticSchemaMarkerGraph {
        key: "walks",
        graph_type: MarkerGraphType::Bar,
        color: Some(GraphColor::Orange),
    }];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _field: u32) -> StringHandle {
        self.name
    }

    fn number_field_value(&self, _field: u32) -> f64 {
        self.walks as f64
    }
}

/// A mapping with its pages.
pub(super) struct MappingMarker {
    pub name: StringHandle,
    pub kind: StringHandle,
    /// In the order of the fields behind `kind`.
    pub numbers: [u64; 5],
}

impl StaticSchemaMarker for MappingMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "mapping";
    const DESCRIPTION: Option<&'static str> = Some("A mapping of the process");
    const CHART_LABEL: Option<&'static str> = Some("{marker.name}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name}, {marker.data.kind}, {marker.data.bytes}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        field("kind", "Kind", MarkerFieldFormat::String),
        field("bytes", "Largest size", MarkerFieldFormat::Bytes),
        field("pageBytes", "Page size", MarkerFieldFormat::Bytes),
        field("pagesTouched", "Pages touched", MarkerFieldFormat::Integer),
        field("walks", "Walks", MarkerFieldFormat::Integer),
        field("walkCycles", "Walk cycles", MarkerFieldFormat::Integer),
    ];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _field: u32) -> StringHandle {
        self.kind
    }

    fn number_field_value(&self, field: u32) -> f64 {
        let index = (field as usize).saturating_sub(1);
        self.numbers.get(index).map_or(0.0, |number| *number as f64)
    }
}

/// A phase of the run: the stretch over which an alternative was followed, or a move of a TLB's partition.
pub(super) struct PhaseMarker {
    pub name: StringHandle,
    pub text: StringHandle,
}

impl StaticSchemaMarker for PhaseMarker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "phase";
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.text}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.text}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[field("text", "What", MarkerFieldFormat::String)];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        CategoryHandle::OTHER
    }

    fn string_field_value(&self, _field: u32) -> StringHandle {
        self.text
    }

    fn number_field_value(&self, _field: u32) -> f64 {
        0.0
    }
}
