"""Tests of the benchmark's own parts: python3 -m unittest discover --start-directory benches"""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import types
import unittest
import unittest.mock

import bench
import measures
import output
import probing
import programs
import running
import tools

FOLDER = pathlib.Path(__file__).parent


def a_run(wall=1.0, cpu=1.0, root=0, tree=0, descendants=0, foreign=0.0):
    return running.Run(wall, cpu, 0.0, root, tree, descendants, foreign, b"")


def an_outcome(**walls):
    """An outcome with these run times: one number per repetition, by way."""
    seconds = dict.fromkeys(tools.WAYS, [1.0, 1.0, 1.0])
    seconds.update(walls)
    return measures.Outcome(
        runs={way: [a_run(wall) for wall in walls] for way, walls in seconds.items()},
        processors=[1.25, 2.0, 1.5],
        trace={"files": 1, "bytes": 40, "records": 100},
        simulated={"m": [a_run(0.5)]},
        from_memory={"m": {"records": 3_000_000, "pass": [0.01], "profile": [0.02], "what_if": [0.03], "plain": [0.1]}},
        designs={
            "hundred": {"records": 6_000_000, "hundred": [0.05, 0.1, 0.2]},
            "hundred_start": {"records": 1_000_000, "hundred": [0.02], "plain_hundred": [2.0]},
            "fifo": {"records": 3_000_000, "pass": [0.03], "plain": [0.1]},
            "random": {"records": 3_000_000, "pass": [0.02], "plain": [0.1]},
            "tree-plru": {"records": 3_000_000, "pass": [0.01], "plain": [0.1]},
            "software": {"records": 3_000_000, "pass": [0.025], "walks": 29_000},
            "rivals": {"records": 3_000_000, "rivals": [0.1]},
            "caches": {"records": 3_000_000, "pass": [0.05], "system": [0.1]},
            "recoloring": {"records": 3_000_000, "system": [0.1, 0.2], "system_kernel": [0.12, 0.28]},
            "kernel": {"records": 3_000_000, "pass": [0.01, 0.02], "kernel": [0.012, 0.028]},
        },
        families={
            way: {"records": 3_000_000, "data_references": 2_000_000, "seconds": [0.1]}
            for way in tools.FAMILY_WAYS
        },
    )


def rows_of(key, outcomes):
    rows = measures.evaluate(measures.all_measures(["m"]), outcomes)
    return [row for row in rows if row.measure.key == key]


class Verdicts(unittest.TestCase):
    def test_the_value_is_the_median_of_ratios_of_runs_side_by_side(self):
        rows = rows_of("engine_over_none.wall", {"p": an_outcome(engine=[3.0, 4.0, 9.0], none=[2.0, 2.0, 3.0])})
        self.assertEqual((rows[0].low, rows[0].value, rows[0].high), (1.5, 2.0, 3.0))
        self.assertTrue(rows[0].held)

    def test_each_program_and_the_mean_have_limits_of_their_own(self):
        outcomes = {"p": an_outcome(engine=[2.1] * 3), "q": an_outcome(engine=[1.0] * 3)}
        held = [(row.program, row.held) for row in rows_of("engine_over_none.wall", outcomes)]
        self.assertEqual(held, [("p", False), ("q", True), ("geometric mean", True)])

    def test_the_mean_of_ratios_is_geometric_and_that_of_sizes_is_not(self):
        outcomes = {"p": an_outcome(record=[2.0] * 3), "q": an_outcome(record=[8.0] * 3)}
        mean = rows_of("record_over_engine.wall", outcomes)[-1]
        self.assertAlmostEqual(mean.value, 4.0)
        self.assertFalse(mean.held)
        outcomes["q"].trace = {"bytes": 70, "records": 100}
        self.assertEqual(rows_of("trace.bytes_per_record", outcomes)[-1].value, 0.55)

    def test_rates_must_be_at_least_so_large(self):
        row = rows_of("simulate.m.memory_pass_records_per_microsecond", {"p": an_outcome()})[0]
        self.assertAlmostEqual(row.value, 300.0)
        self.assertFalse(row.held)
        row = rows_of("simulate.m.memory_plain_records_per_microsecond", {"p": an_outcome()})[0]
        self.assertIsNone(row.held)

    def test_each_rate_and_their_mean_have_targets_of_their_own(self):
        outcome = an_outcome()
        outcome.from_memory["m"]["pass"] = [3 / 425]
        rows = rows_of("simulate.m.memory_pass_records_per_microsecond", {"p": outcome})
        held = [(row.program, row.limit, row.held) for row in rows]
        self.assertEqual(held, [("p", 400, True), ("geometric mean", 550, False)])

    def test_designs_have_rates_of_their_own_beside_the_plain_loop(self):
        def row(key):
            return rows_of(f"designs.{key}_records_per_microsecond", {"p": an_outcome()})[0]

        self.assertAlmostEqual(row("hundred").value, 60.0)
        self.assertAlmostEqual(row("hundred_plain").value, 0.5)
        held = [row(key).held for key in ("fifo", "random", "tree_plru", "fifo_plain", "rivals")]
        self.assertEqual(held, [False, True, True, None, True])

    def test_a_software_managed_machine_has_a_target_where_misses_are_rare(self):
        outcome = an_outcome()
        key = "designs.software_rare_records_per_microsecond"
        rare = rows_of(key, {"p": outcome})[0]
        self.assertAlmostEqual(rare.value, 120.0)
        self.assertTrue(rare.held)
        outcome.designs["software"]["walks"] = 31_000
        self.assertEqual(rows_of(key, {"p": outcome}), [])
        row = rows_of("designs.software_records_per_microsecond", {"p": outcome})[0]
        self.assertIsNone(row.held)

    def test_a_kernel_is_paced_by_the_machine_without_it_in_the_same_repetition(self):
        row = rows_of("designs.kernel_over_pass", {"p": an_outcome()})[0]
        self.assertAlmostEqual(row.value, 1.3)
        self.assertEqual((row.low, row.high), (1.2, 1.4))
        row = rows_of("designs.recoloring_over_system", {"p": an_outcome()})[0]
        self.assertAlmostEqual(row.value, 1.3)

    def test_what_serves_data_alone_is_paced_by_data_references_alone(self):
        def value(way):
            return rows_of(f"families.{way}_records_per_microsecond", {"p": an_outcome()})[0].value

        self.assertAlmostEqual(value("family_data"), 20.0)
        self.assertAlmostEqual(value("family_everything"), 30.0)
        self.assertAlmostEqual(value("distances_data"), 20.0)

    def test_a_sweep_may_not_grow_with_its_trace(self):
        swept = an_outcome()
        swept.sweeps = {"short": {"bytes_peak": 20_000_000}, "long": {"bytes_peak": 24_000_000}}
        rows = rows_of("memory.sweep_long_over_short", {"p": an_outcome(), "q": swept})
        self.assertEqual([(row.program, row.value, row.held) for row in rows], [("q", 1.2, False)])
        self.assertEqual(rows_of("memory.sweep_long_megabytes", {"p": an_outcome()}), [])

    def test_a_miss_by_page_fault_costs_the_difference_of_run_times(self):
        trapped = an_outcome()
        trapped.traps = {
            "small": [{"misses": 100_000, "run_seconds": 1.75, "native_seconds": 0.5}],
            "large": [{"misses": 900, "run_seconds": 1.0, "native_seconds": 0.8}],
        }
        cost = rows_of("trap.microseconds_per_miss", {"p": trapped, "q": an_outcome()})
        self.assertEqual([(row.program, row.value, row.held) for row in cost if row.program in "pq"], [("p", 12.5, False)])
        self.assertEqual(rows_of("trap.slowdown_of_rare_misses", {"p": trapped})[0].value, 1.25)

    def test_neither_few_misses_have_a_cost_nor_many_a_slowdown(self):
        trapped = an_outcome()
        trapped.traps = {
            "small": [{"misses": 9_999, "run_seconds": 2.0, "native_seconds": 0.5}],
            "large": [{"misses": 1_000, "run_seconds": 1.0, "native_seconds": 0.5}],
        }
        for key in ("trap.microseconds_per_miss", "trap.slowdown_of_rare_misses"):
            self.assertEqual(rows_of(key, {"p": trapped}), [])

    def test_noise_may_make_a_miss_cost_less_than_nothing(self):
        outcomes = {}
        for program, seconds in (("p", 1.5), ("q", 0.75)):
            outcomes[program] = an_outcome()
            outcomes[program].traps = {"small": [{"misses": 100_000, "run_seconds": seconds, "native_seconds": 1.0}]}
        rows = rows_of("trap.microseconds_per_miss", outcomes)
        self.assertEqual([(row.program, row.value) for row in rows], [("p", 5.0), ("q", -2.5), ("mean", 1.25)])

    def test_the_geometric_mean_with_a_nothing_is_nothing(self):
        self.assertEqual(measures.geometric_mean([0.0, 2.0]), 0.0)

    def test_memory_is_what_pagewalk_takes_and_what_valgrind_takes_more(self):
        outcome = an_outcome()
        outcome.runs["none"] = [a_run(root=99_000_000, tree=80_000_000)]
        outcome.runs["profile"] = [a_run(root=250_000_000, tree=500_000_000, descendants=131_000_000)]
        row = rows_of("memory.profile_megabytes", {"p": outcome})[0]
        self.assertEqual(row.value, 301.0)
        self.assertFalse(row.held)

    def test_of_memory_the_most_is_told(self):
        modest = an_outcome()
        modest.runs["profile"] = [a_run(root=10_000_000)]
        rows = rows_of("memory.profile_megabytes", {"p": an_outcome(), "q": modest})
        self.assertEqual([(row.program, row.value) for row in rows], [("p", 0.0), ("q", 10.0), ("most", 10.0)])

    def test_a_machine_that_others_use_is_not_quiet(self):
        outcome = an_outcome(native=[1.0, 1.5, 2.0])
        noise = measures.noise({"p": outcome})
        self.assertTrue(noise.quiet)
        self.assertEqual((noise.spread_median, noise.spread_worst), (0.0, 1 / 1.5))
        self.assertIn("Two processors at once did 1.25 to 2.00 times the work of one.", output.noise_text(noise))
        outcome.runs["none"] = [a_run(foreign=0.5)] * 30
        self.assertFalse(measures.noise({"p": outcome}).quiet)


    def test_two_processes_do_something_at_once(self):
        self.assertGreater(running.processors_worth(0.05), 0)


class Output(unittest.TestCase):
    def test_a_miss_stands_out_in_the_table(self):
        text = output.table(rows_of("engine_over_none.wall", {"p": an_outcome(engine=[2.125] * 3)}))
        self.assertEqual(
            text.splitlines()[2].split(),
            ["bare", "engine", "/", "--tool=none", "p", "2.12", "2.12", "-", "2.12", "<=", "2", "NO"],
        )

    def test_the_document_tells_commands_but_no_paths_of_this_machine(self):
        outcome = an_outcome()
        outcome.commands = {"native": ["gzip", "/tmp/x7/text"]}
        text = output.document({}, {}, {"p": outcome}, [], None, {}, {"/tmp/x7": "INPUTS"})
        self.assertEqual(json.loads(text)["programs"]["p"]["commands"], {"native": "gzip INPUTS/text"})

    def test_a_home_that_is_the_root_hides_nothing(self):
        outcome = an_outcome()
        outcome.commands = {"native": ["gzip", "/tmp/x7/text"]}
        text = output.document({}, {}, {"p": outcome}, [], None, {}, {"/": "~"})
        self.assertEqual(json.loads(text)["programs"]["p"]["commands"], {"native": "gzip /tmp/x7/text"})

    def test_every_raw_run_is_in_the_document(self):
        outcome = an_outcome()
        outcome.traps = {"small": [{"misses": 100_000, "run_seconds": 1.5, "native_seconds": 1.0}]}
        written = json.loads(output.document({}, {}, {"p": outcome}, [], None, {}, {}))["programs"]["p"]
        names = {"simulated": "simulate"}
        for field in dataclasses.fields(outcome):
            self.assertIn(names.get(field.name, field.name), written)
        self.assertEqual(written["traps"], outcome.traps)

    def test_runs_kept_on_one_day_do_not_replace_each_other(self):
        host = {"date": "2026-11-20T10:00:00+00:00", "cpu": "Some(R) CPU @ 3.00GHz", "processors": 2}
        with tempfile.TemporaryDirectory() as folder:
            kept = [output.new_folder(pathlib.Path(folder), host).name for _ in range(2)]
        self.assertEqual(kept, ["2026-11-20-some-cpu-3-00ghz-2p", "2026-11-20-some-cpu-3-00ghz-2p-2"])


class Raw(unittest.TestCase):
    """Raw runs are kept, whatever ends the work."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "runs.json"
        host = dict.fromkeys(("cpu", "processors", "kernel", "valgrind", "commit", "commit_changed", "date"))
        self.journal = bench.Journal([self.file], host, {}, {})
        self.options = bench.parse([*Arguments.WHERE, "--quick"])

    def written(self):
        return json.loads(self.file.read_text())["programs"].keys()

    def test_are_written_after_each_program(self):
        tools = types.SimpleNamespace(folder=None, clear=lambda: None)
        prepared = [programs.Program("p", []), programs.Program("q", [])]
        with (
            unittest.mock.patch.object(programs, "prepare", return_value=prepared),
            unittest.mock.patch.object(bench, "measure", side_effect=[an_outcome(), KeyboardInterrupt]),
            self.assertRaises(KeyboardInterrupt),
        ):
            bench.measure_all(tools, self.options, self.journal)
        self.assertEqual(self.written(), {"p"})

    def test_that_cannot_be_written_leave_the_table(self):
        self.journal.places.insert(0, self.file / "nowhere")
        self.file.touch()
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
            text, is_written = bench.report(self.options, self.journal, ["m"], {"p": an_outcome()}, {})
        self.assertIn("bare engine", text)
        self.assertFalse(is_written)
        self.assertIn("runs.json/nowhere: Not a directory", err.getvalue())
        self.assertEqual(self.written(), {"p"})


class Inputs(unittest.TestCase):
    def test_inputs_are_the_same_bytes_everywhere(self):
        def name(data):
            return hashlib.sha256(data).hexdigest()[:16]

        self.assertEqual(name(programs.text(100_000)), "31000a69c4d7bcdc")
        self.assertEqual(name("\n".join(programs.sql(500)).encode()), "5f26a1ab11a576e6")
        self.assertEqual(name("\n".join(programs.c_source(500)).encode()), "373b986477524c7e")

    def test_sizes_are_what_was_asked_for(self):
        self.assertEqual(len(programs.text(12_345)), 12_345)
        self.assertEqual(len(programs.c_source(5_000)), 5_000)

    def test_frequent_words_are_as_frequent_as_zipf_has_them(self):
        counts = {}
        words = programs.text(2_000_000).split()
        for word in words:
            counts[word] = counts.get(word, 0) + 1
        ranked = sorted(counts.values(), reverse=True)
        self.assertAlmostEqual(ranked[0] / ranked[9], (9 + 2.7) / (0 + 2.7), delta=0.2)


class Tools(unittest.TestCase):
    def test_counts_and_seconds_of_traces_add_up(self):
        traces = [
            {"records": 3, "data_references": 2, "seconds": [1.0, 2.0], "rate": 1.0},
            {"records": 30, "data_references": 20, "seconds": [0.5, 0.25], "rate": 1.0},
        ]
        self.assertEqual(tools.sum_of(traces), {"records": 33, "data_references": 22, "seconds": [1.5, 2.25]})

    def test_the_study_of_a_sweep_names_its_traces(self):
        study = tools.study([pathlib.Path("/tmp/a b/t.pwt"), pathlib.Path('/tmp/"q"/t.1.pwt')])
        self.assertIn('\ntraces = ["/tmp/a b/t.pwt", "/tmp/\\"q\\"/t.1.pwt"]\n', study)


class Running(unittest.TestCase):
    def test_memory_of_all_processes_is_seen(self):
        child = "import time; b = bytearray(60_000_000); b[::4096] = b'x' * len(b[::4096]); time.sleep(0.5)"
        parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {child!r}])"
        # The interpreter itself, because a shim's own shells would count.
        done = running.run([sys.executable, "-c", parent])
        self.assertGreater(done.descendants_bytes_peak, 60_000_000)
        self.assertLess(done.root_bytes_peak, 50_000_000)
        self.assertGreater(done.tree_bytes_peak, done.descendants_bytes_peak)
        self.assertGreater(done.wall_seconds, 0.5)

    def test_time_of_children_counts(self):
        burn = "import time\nwhile time.process_time() < 0.3: pass"
        parent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {burn!r}])"
        self.assertGreater(running.run([sys.executable, "-c", parent]).cpu_seconds, 0.3)

    def test_a_run_that_fails_says_what_failed_and_why(self):
        with self.assertRaises(running.RunFailed) as caught:
            running.run([sys.executable, "-c", "import sys; sys.exit('the disk is full')"])
        self.assertIn("exit 1: ", str(caught.exception))
        self.assertTrue(str(caught.exception).endswith("\nthe disk is full"))
        with self.assertRaises(running.RunFailed):
            running.run(["no-such-program-here"])


    def test_a_program_is_the_same_in_every_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "own"
            file.touch(mode=0o755)
            relative = os.path.relpath(file)
            self.assertEqual(os.path.realpath(running.find_program(relative)), os.path.realpath(file))
            with unittest.mock.patch.dict(os.environ, PATH=folder):
                self.assertEqual(running.find_program("own"), file)

    def ended(self, number, code):
        """Runs Python code that starts a shell, sends the signal when a program of the shell runs; the exit code, and
        whether the program still runs."""
        with tempfile.TemporaryDirectory() as folder:
            note = pathlib.Path(folder) / "note"
            shell = f"sleep 60 & echo $! >{note}.new; mv {note}.new {note}; wait"
            # Background processes of a shell ignore interrupts.
            heeds = "import signal, test_bench as t; signal.signal(signal.SIGINT, signal.default_int_handler)"
            code = f"{heeds}\nshell = ['sh', '-c', {shell!r}]\n{code}"
            parent = subprocess.Popen([sys.executable, "-B", "-c", code], cwd=FOLDER, stderr=subprocess.DEVNULL)
            while not note.exists() and parent.poll() is None:
                time.sleep(0.01)
            parent.send_signal(number)
            return parent.wait(), is_running(int(note.read_text()))

    def test_a_signal_ends_what_runs_with_all_that_it_started(self):
        waits = {
            "bench": "t.running.run_main('x', lambda: t.running.run(shell))",
            "probing": "t.running.run_main('x', lambda: t.probing.answer(shell))",
        }
        for name, code in waits.items():
            for number, exit_code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
                with self.subTest(name, number=number):
                    self.assertEqual(self.ended(number, code), (exit_code, False))


def is_running(pid):
    """Whether the process is still running after a short wait."""
    for _ in range(200):
        try:
            if ") Z " in pathlib.Path(f"/proc/{pid}/stat").read_text():
                return False
        except FileNotFoundError:
            return False
        time.sleep(0.01)
    return True


class Arguments(unittest.TestCase):
    WHERE = ["--pagewalk", "p", "--examples", "e"]

    def test_repetitions_follow_quick_unless_given(self):
        self.assertEqual(bench.parse(self.WHERE).repetitions, 3)
        self.assertEqual(bench.parse([*self.WHERE, "--quick"]).repetitions, 1)
        self.assertEqual(bench.parse([*self.WHERE, "--quick", "--repetitions", "5"]).repetitions, 5)

    def test_only_takes_known_programs(self):
        self.assertEqual(bench.parse(self.WHERE).only, ["gzip", "sort", "python", "sqlite3", "gcc"])
        self.assertEqual(bench._names("sort,gcc"), ["sort", "gcc"])
        with self.assertRaisesRegex(Exception, "unknown program 'tar'; there are gzip, sort"):
            bench._names("gzip,tar")


if __name__ == "__main__":
    unittest.main()
