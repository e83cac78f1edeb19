"""Tests of the comparison of two runs in benches/faithful."""

import argparse
import contextlib
import dataclasses
import importlib.machinery
import importlib.util
import io
import pathlib
import struct
import tempfile
import types
import unittest

import comparing
import faithful_programs
import layout_of
import mappings
from comparing import EQUAL, SAID, UNSAID, VARIES, Outcome

FOLDER = pathlib.Path(__file__).parent
# The file is a program without the suffix `.py`, so it cannot be imported as a module.
_loader = importlib.machinery.SourceFileLoader("faithful", str(FOLDER / "faithful"))
faithful = importlib.util.module_from_spec(importlib.util.spec_from_loader("faithful", _loader))
_loader.exec_module(faithful)

SMAPS = """\
555555554000-555555560000 r-xp 00000000 08:01 99                         /usr/bin/program
AnonHugePages:         0 kB
7ffff7400000-7ffff7800000 rw-p 00000000 00:00 0 
Rss:                4096 kB
AnonHugePages:      2048 kB
VmFlags: rd wr mr mw me ac hg
7ffff7ff0000-7ffff7ff4000 r--p 00000000 00:00 0                          [vvar]
7fffff000000-7ffffffff000 rw-p 00000000 00:00 0                          [stack]
VmFlags: rd wr mr mw me gd ac
"""
PROGRAM = faithful_programs.Program("p", ("p",), "text", rules=((r"pid \d+", "pid N", "numbers"),))


def mapping(start, size, huge_bytes=0, name=""):
    return mappings.Mapping(start, start + size, "rw-p", name, huge_bytes)


def difference(what, *runs):
    *natives, traced = map(what, runs)
    return mappings.difference(natives, traced)


class Mappings(unittest.TestCase):
    def test_an_smaps_file_is_read_without_what_the_kernel_maps(self):
        found = mappings.of_program(mappings.parse(SMAPS))
        self.assertEqual([one.name for one in found], ["/usr/bin/program", "", "[stack]"])
        self.assertEqual([one.is_large for one in found], [False, True, False])
        self.assertEqual(found[1].huge_bytes, 2 << 20)

    def test_a_cut_file_has_what_is_whole(self):
        self.assertEqual(len(mappings.parse(SMAPS[: SMAPS.index("Rss")])), 2)
        self.assertEqual(mappings.parse("123\n"), [])

    def test_the_engines_own_are_left_out(self):
        found = [mapping(0x78000000, 4096), mapping(0x3F0000001000, 8 << 20), mapping(0x7DFFF7400000, 4 << 20)]
        self.assertEqual(mappings.of_program(found), found[2:])

    def test_stacks_are_left_out_where_they_have_no_name(self):
        found = [
            mapping(0x7DFFFF800000, 0x7FF000),
            mapping(0x7FFFF8FFF000, 0x7000000, name="/memfd:pagewalk (deleted)"),
        ]
        self.assertEqual(mappings.of_program(found), [])

    def test_the_break_and_what_lies_before_it_are_one(self):
        apart = [mapping(0, 8192), mapping(8192, 2 << 20, 2 << 20, "[heap]")]
        self.assertEqual(mappings.joined(apart), [mapping(0, 8192 + (2 << 20), 2 << 20, "[heap]")])

    def test_places_are_addresses_modulo_2_mib(self):
        native, moved = [mapping(0x7FFFF7400000, 4 << 20)], [mapping(0x7DFFF7600000, 4 << 20)]
        self.assertEqual(mappings.places(native), mappings.places(moved))
        self.assertIsNone(difference(mappings.places, native, native, moved))

    def test_another_place_is_told_from_both_sides(self):
        native, moved = [mapping(0x7FFFF7400000, 4 << 20)], [mapping(0x7FFFF7401000, 4 << 20)]
        text = difference(mappings.places, native, native, moved)
        self.assertEqual(text, "natively 0x0 0x400000, traced 0x1000 0x400000")

    def test_what_varies_natively_is_not_asked_for(self):
        one, other = [mapping(0x7FFFF7400000, 4 << 20)], [mapping(0x7FFFF7400000, 8 << 20)]
        self.assertIsNone(difference(mappings.places, one, other, []))

    def test_huge_bytes_count(self):
        native, small = [mapping(0, 4 << 20, 4 << 20)], [mapping(0, 4 << 20)]
        self.assertIsNotNone(difference(mappings.huge, native, native, small))

    def test_all_addresses_are_the_same_below_a_shift_of_what_lies_high(self):
        native = [mapping(0x400000, 4096), mapping(0x7FFFF7400000, 4096), mapping(0x7FFFFFFDE000, 8192, name="[stack]")]
        traced = [mapping(0x400000, 4096), mapping(0x7DFFF7400000, 4096)]
        self.assertTrue(mappings.is_exact(native, traced, mappings.SHIFT))
        self.assertFalse(mappings.is_exact(native, traced))


class Texts(unittest.TestCase):
    def test_equal_text_is_equal_and_another_line_is_told(self):
        self.assertEqual(comparing.compare_text(["a\nb", "a\nb"], "a\nb")[0], EQUAL)
        self.assertEqual(comparing.compare_text(["a\nb", "a\nb"], "a\nc"), (UNSAID, "line 2: natively 'b', traced 'c'"))
        self.assertIn("(end)", comparing.compare_text(["a\nb", "a\nb"], "a")[1])

    def test_only_lines_that_both_native_runs_have_are_asked_for(self):
        self.assertEqual(comparing.compare_text(["a\n1", "a\n2"], "a\n3")[0], VARIES)
        self.assertEqual(comparing.compare_text(["a\n1", "a\n2"], "b\n3")[0], UNSAID)

    def test_rules_replace_and_have_reasons(self):
        self.assertEqual(comparing.normal(b"pid 7 ends", PROGRAM.rules), "pid N ends")
        for program in faithful_programs.all_programs():
            self.assertTrue(all(rule[2] for rule in program.rules), program.name)
            self.assertTrue(all(loose[1] for loose in program.loose), program.name)

    def test_what_pagewalk_says_is_no_output_of_the_program(self):
        theirs, said = comparing.own_lines(b"mine\npagewalk: lost: x\nlast")
        self.assertEqual((theirs, said), (b"mine\nlast", ["pagewalk: lost: x"]))

    def test_the_report_after_the_program_is_no_output_of_it(self):
        report = b"/bin/p  pid 7, exit 0\np spends 3 % of its cycles\n  lost  the rest of the program\n"
        theirs, said = comparing.own_lines(b"mine\n" + report)
        self.assertEqual((theirs, said), (b"mine\n", ["lost  the rest of the program"]))
        self.assertEqual(comparing.own_lines(b"mips_r2000, tlb: 64 entries, 8 ways\n")[0], b"")

    def test_json_says_what_was_not_done_under_some_keys_alone(self):
        document = {"processes": [{"name": "n", "losses": ["a", "b"]}], "ranges": [{"reason": "too short"}]}
        self.assertEqual(comparing.said_in(document), ["a", "b", "too short"])
        self.assertEqual(comparing.said_in_text("no JSON"), [])


class Files(unittest.TestCase):
    def test_files_are_compared_by_rights_and_contents(self):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "a").write_text("text")
            first = comparing.files_in(folder)
            (pathlib.Path(folder) / "a").write_text("tex!")
            second = comparing.files_in(folder)
        self.assertEqual(comparing.compare_files([first, first], first, ())[0], EQUAL)
        self.assertEqual(comparing.compare_files([first, first], second, ())[0], UNSAID)
        self.assertEqual(comparing.compare_files([first, second], second, ())[0], VARIES)
        self.assertEqual(comparing.compare_files([first, first], second, (("a", "why"),))[0], VARIES)
        self.assertEqual(comparing.compare_files([first, first], {}, (("a", "why"),))[0], UNSAID)


class Runs(unittest.TestCase):
    def verdicts(self, command="profile", **traced):
        native = Outcome(0, b"pid 1\n", b"", {}, [mapping(0, 4 << 20)])
        run = Outcome(**{"exit": 0, "out": b"pid 2\n", "mappings": [mapping(2 << 20, 4 << 20)]} | traced)
        return comparing.compare(PROGRAM, command, (native, native), run)

    def test_a_faithful_run_is_equal(self):
        self.assertEqual(comparing.worst(self.verdicts()), EQUAL)

    def test_a_difference_counts_as_said_only_if_a_text_names_one(self):
        self.assertEqual(comparing.worst(self.verdicts(exit=1)), UNSAID)
        self.assertEqual(comparing.worst(self.verdicts(exit=1, said=["next: pagewalk report"])), UNSAID)
        self.assertEqual(comparing.worst(self.verdicts(exit=1, said=["the rest runs untraced: AVX-512"])), SAID)

    def test_mappings_that_a_run_does_not_leave_are_a_difference(self):
        self.assertEqual(self.verdicts(mappings=None)["maps"][0], UNSAID)

    def test_of_threads_that_race_only_what_is_large_counts(self):
        raced = dataclasses.replace(PROGRAM, races="why")
        native = Outcome(0, mappings=[mapping(0, 4 << 20), mapping(0, 1 << 30)])
        for at, size, verdict in ((4096, 1 << 30, VARIES), (0, 1 << 29, UNSAID)):
            run = Outcome(0, mappings=[mapping(at, size)])
            self.assertEqual(comparing.compare(raced, "profile", (native, native), run)["maps"][0], verdict)

    def test_what_a_command_is_for_is_no_difference(self):
        moved = [mapping(0x1000, 4 << 20, 2 << 20)]
        self.assertEqual(comparing.worst(self.verdicts(mappings=moved)), UNSAID)
        self.assertEqual(self.verdicts("layout run", mappings=moved)["maps"][0], EQUAL)
        self.assertNotIn("huge", self.verdicts("trap", mappings=moved))

    def test_a_hang_is_a_difference(self):
        self.assertEqual(self.verdicts(exit="hung")["exit"], (UNSAID, "natively 0, traced hung"))

    def test_cells_shout_what_is_not_said(self):
        self.assertEqual(
            faithful.cell_text({"out": (UNSAID, ""), "err": (SAID, ""), "exit": (EQUAL, "")}, None), "OUT,err"
        )
        self.assertEqual(faithful.cell_text({"out": (EQUAL, "")}, True), "==")
        self.assertEqual(faithful.cell_text({"out": (EQUAL, "")}, None), "=")
        self.assertEqual(faithful.cell_text({"out": (VARIES, "")}, True), "~")


class Sums(unittest.TestCase):
    def conclude(self, verdict, programs=40, only=None):
        cell = {"verdicts": {"out": (verdict, "")}, "is_exact": True, "said": []}
        results = {str(n): {"commands": {"trap": cell}} for n in range(programs)}
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            code = faithful.conclude(results, {}, types.SimpleNamespace(commands=["trap"], only=only))
        return code, out.getvalue()

    def test_nothing_may_differ_unsaid_and_there_have_to_be_forty(self):
        self.assertEqual(self.conclude(EQUAL)[0], 0)
        self.assertEqual(self.conclude(SAID)[0], 0)
        self.assertEqual(self.conclude(UNSAID)[0], 1)
        self.assertEqual(self.conclude(EQUAL, 39)[0], 1)
        self.assertIn("MISS fewer than 40", self.conclude(EQUAL, 39)[1])
        self.assertEqual(self.conclude(EQUAL, 1, ["x"])[0], 0)

    def test_commands_are_chosen_by_their_first_words(self):
        self.assertEqual(faithful.commands_of("layout run,trap"), ("layout run", "trap"))
        with self.assertRaises(argparse.ArgumentTypeError):
            faithful.commands_of("trap,none")


class Programs(unittest.TestCase):
    def test_there_are_enough_of_each_kind_and_names_are_apart(self):
        programs = faithful_programs.all_programs()
        self.assertGreaterEqual(len(programs), 60)
        self.assertEqual(len({one.name for one in programs}), len(programs))
        kinds = {one.kind for one in programs}
        self.assertLessEqual(
            {"runtime", "database", "compiler", "build tool", "browser", "stripped", "AVX-512", "case"}, kinds
        )

    def test_places_in_braces_are_filled_in_and_other_braces_stay(self):
        self.assertEqual(faithful_programs.resolve(("{built}/a", "{ print }"), {"built": "/b"}), ("/b/a", "{ print }"))

    def test_what_is_missing_is_named(self):
        program = faithful_programs.Program("n", ("no-such-program-here",), "text")
        self.assertIn("no-such-program-here", faithful_programs.why_not_here(program, {}))
        program = faithful_programs.Program("n", ("sh",), "text", host=("false",), what_host_lacks="x")
        self.assertEqual(faithful_programs.why_not_here(program, {}), "the host has not x")


class Plans(unittest.TestCase):
    def test_a_plan_has_the_largest_mapping(self):
        plan = layout_of.range_plan(
            "/bin/p", [mapping(0, 2 << 20), mapping(0, 6 << 20), mapping(0, 8 << 20, name="[heap]")]
        )
        self.assertIn('bytes = "0x600000"', plan)
        self.assertEqual(layout_of.range_plan("/bin/p", None).count("[[range]]"), 1)

    def test_a_librarys_size_is_from_its_first_to_its_last_byte(self):
        head = bytearray(64)
        struct.pack_into("<Q", head, 32, 64)
        struct.pack_into("<HH", head, 54, 56, 2)
        loads = [
            struct.pack("<IIQQQQQQ", 1, 5, 0, at, at, 100, size, 4096) for at, size in ((0x1000, 100), (0x3000, 4097))
        ]
        with tempfile.NamedTemporaryFile() as file:
            file.write(bytes(head) + b"".join(loads))
            file.flush()
            self.assertEqual(layout_of.size_of(file.name), 0x4000)


if __name__ == "__main__":
    unittest.main()
