"""An analysis of one's own in Arrow: references by kind, without copying them."""

import sys

import pyarrow

import pagewalk

batches = pyarrow.RecordBatchReader.from_stream(pagewalk.Trace(sys.argv[1]).batches())
counts = batches.read_all().group_by("kind").aggregate([("index", "count")])
for row in counts.to_pylist():
    print(pagewalk.KINDS[row["kind"]], row["index_count"])
