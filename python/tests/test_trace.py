"""Traces: what they hold, and their references without copying."""

import ctypes
import json
import os
import tempfile
import unittest

import numpy
import polars
import pyarrow
from support import TRACE, InFolder, python

import pagewalk


class Traces(unittest.TestCase):
    def setUp(self) -> None:
        self.trace = pagewalk.Trace(TRACE)

    def test_exports_are_the_commands_and_can_be_converted_back(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            ours, theirs, back = (os.path.join(folder, name) for name in ("ours.din.gz", "theirs.din.gz", "back.pwt"))
            with self.assertWarnsRegex(pagewalk.PagewalkWarning, "as din: "):
                self.trace.export("din", ours)
            python("-m", "pagewalk", "trace", "export", str(TRACE), "--format", "din", "-o", theirs)
            with open(ours, "rb") as one, open(theirs, "rb") as other:
                self.assertEqual(one.read(), other.read())
            again = pagewalk.Trace.convert(ours, back)
            self.assertEqual(again.info["instructions"], self.trace.info["instructions"])
            with self.assertRaisesRegex(pagewalk.UsageError, "no format `dim`\n.*`din`"):
                self.trace.export("dim", ours)
            with self.assertRaisesRegex(pagewalk.UsageError, "no format `dim`"):
                pagewalk.Trace.convert([ours], back, format="dim")

    def test_info_says_what_a_trace_holds(self) -> None:
        info = self.trace.info
        self.assertGreater(info["references"], 0)
        self.assertIsNone(info["damage"])
        self.assertIn("program", info["header"])

    def test_a_check_finds_what_the_command_finds(self) -> None:
        theirs = json.loads(python("-m", "pagewalk", "trace", "check", "--json", str(TRACE)).stdout)
        self.assertEqual(self.trace.check(), theirs)
        self.assertEqual((theirs["rules_broken"], theirs["whole"]), (1, True))

    def test_events_have_names_and_places_as_info_counts_them(self) -> None:
        counts: dict[str, int] = {}
        last = 0
        for event in self.trace.events():
            counts[event["event"]] = counts.get(event["event"], 0) + 1
            self.assertGreaterEqual(event["at"], last)
            last = event["at"]
        self.assertEqual(counts, self.trace.info["events"])

    def test_batches_have_every_reference_once_and_in_order(self) -> None:
        batches = list(self.trace.batches(rows=100))
        self.assertTrue(all(len(batch) >= 100 for batch in batches[:-1]))
        index = numpy.concatenate([numpy.asarray(batch.index) for batch in batches])
        self.assertEqual(index.tolist(), list(range(self.trace.info["references"])))

    def test_blocks_are_those_that_references_name(self) -> None:
        blocks = polars.DataFrame(pyarrow.table(pyarrow.record_batch(self.trace.blocks())))
        self.assertEqual(blocks.height, self.trace.info["blocks"])
        self.assertEqual(blocks["block"].to_list(), list(range(blocks.height)))
        first = next(iter(self.trace.batches(rows=1 << 20)))
        executions = numpy.bincount(numpy.asarray(first.block), minlength=blocks.height)
        self.assertTrue((executions % numpy.maximum(blocks["references"].to_numpy(), 1) == 0).all())

    def test_time_does_not_go_back_and_ends_before_the_last_instruction(self) -> None:
        time = numpy.concatenate([numpy.asarray(batch.instruction) for batch in self.trace.batches()])
        self.assertTrue((numpy.diff(time.astype(numpy.int64)) >= 0).all())
        self.assertLess(int(time[-1]), self.trace.info["instructions"])

    def test_references_are_those_that_dump_prints(self) -> None:
        dumped = python("-m", "pagewalk", "trace", "dump", str(TRACE)).stdout.splitlines()
        lines = [line.split() for line in dumped if not line.startswith("#") and line.split()[1] != "fetch"]
        batch = next(iter(self.trace.batches(rows=1 << 20)))
        columns = zip(*(memoryview(batch[name]) for name in ("thread", "kind", "address", "size")))
        shown = [[str(thread), pagewalk.KINDS[kind], f"{at:x}", str(size)] for thread, kind, at, size in columns]
        self.assertEqual(shown, lines)

    def test_numpy_and_arrow_see_the_same_memory_as_the_batch(self) -> None:
        batch = next(iter(self.trace.batches()))
        for name, kind in zip(batch.columns, "QQBHIIQ"):
            view = memoryview(batch[name])
            self.assertEqual((view.format, view.readonly, len(view)), (kind, True, len(batch)))
            at = numpy.asarray(batch[name]).ctypes.data
            arrow = pyarrow.record_batch(batch).column(name)
            self.assertEqual(at, arrow.buffers()[1].address, name)
            self.assertEqual(at, pyarrow.array(batch[name]).buffers()[1].address, name)
            with self.assertRaises(TypeError):
                ctypes.c_char.from_buffer(batch[name])

    def test_a_column_outlives_its_batch(self) -> None:
        column = numpy.asarray(next(iter(self.trace.batches())).address)
        before = column.copy()
        for batch in self.trace.batches():
            del batch
        self.assertTrue((column == before).all())

    def test_polars_and_pyarrow_take_the_whole_stream(self) -> None:
        references = self.trace.info["references"]
        table = pyarrow.RecordBatchReader.from_stream(self.trace.batches(rows=64)).read_all()
        self.assertEqual(table.num_rows, references)
        self.assertEqual(polars.DataFrame(table)["kind"].max(), 3 if 3 in table["kind"].to_pylist() else 2)

    def test_a_region_of_interest_is_a_part(self) -> None:
        part = sum(len(batch) for batch in self.trace.batches(max_instructions=100))
        self.assertTrue(0 < part < self.trace.info["references"])

    def test_an_unknown_column_is_named_with_the_choices(self) -> None:
        batch = next(iter(self.trace.batches()))
        with self.assertRaisesRegex(AttributeError, "no column `adress`.*address"):
            batch.adress  # type: ignore[attr-defined]
        with self.assertRaises(KeyError):
            batch["adress"]
        with self.assertRaises(ValueError):
            self.trace.batches(rows=0)


class DamagedTraces(InFolder):
    def test_what_comes_before_the_damage_is_read_and_then_the_damage_named(self) -> None:
        whole = TRACE.read_bytes()
        cut = self.folder / "cut.pwt"
        cut.write_bytes(whole[: len(whole) * 2 // 3])
        trace = pagewalk.Trace(cut)
        self.assertIsNotNone(trace.info["damage"])
        self.assertFalse(trace.check()["whole"])
        for items in (trace.events(), trace.batches(rows=1)):
            with self.assertRaisesRegex(pagewalk.BadInputError, "cut.pwt"):
                for _ in items:
                    pass

    def test_no_trace_is_a_bad_input_with_what_to_do(self) -> None:
        (self.folder / "no.pwt").write_text("no trace")
        for name in ("no.pwt", "missing.pwt"):
            with self.assertRaisesRegex(pagewalk.BadInputError, name):
                pagewalk.Trace(name)


if __name__ == "__main__":
    unittest.main()
