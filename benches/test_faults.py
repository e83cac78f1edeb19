"""Tests of the random choices and the output of benches/faults."""

import contextlib
import importlib.machinery
import importlib.util
import io
import os
import pathlib
import subprocess
import tempfile
import time
import unittest

FOLDER = pathlib.Path(__file__).parent
# The file is a program without the suffix `.py`, so it cannot be imported as a module.
_loader = importlib.machinery.SourceFileLoader("faults", str(FOLDER / "faults"))
faults = importlib.util.module_from_spec(importlib.util.spec_from_loader("faults", _loader))
_loader.exec_module(faults)


class Draws(unittest.TestCase):
    def test_a_seed_says_what_happens(self):
        self.assertEqual(faults.draw(50, 3, faults.FAULTS), faults.draw(50, 3, faults.FAULTS))
        self.assertNotEqual(faults.draw(50, 3, faults.FAULTS), faults.draw(50, 4, faults.FAULTS))

    def test_every_fault_comes_in_every_way_it_can(self):
        cases = faults.draw(1000, 1, faults.FAULTS)
        self.assertEqual({case["fault"] for case in cases}, set(faults.FAULTS))
        self.assertEqual({case["command"] for case in cases if case["fault"] == "killed"}, {"profile", "record"})
        self.assertEqual({case["command"] for case in cases if case["fault"] == "disk full"}, {"record"})
        self.assertEqual({case["mode"] for case in cases if case["fault"] == "cut"}, {"forks"})
        self.assertTrue(all(0 <= case["moment"] <= faults.LATEST_SHARE for case in cases))


class Judgements(unittest.TestCase):
    def judge(self, fault="stopped", result="9", pid="1", err="", temporary=(), **state):
        case = {"fault": fault}
        state = {"was_killed": False, "pagewalk": 7, "program": None, "left": []} | state
        return faults.judge(case, state, result, pid, "9", err, temporary)[0]

    def test_the_native_result_and_exit_code_are_right(self):
        self.assertEqual(self.judge(), "as natively")
        self.assertEqual(self.judge(result="8"), "wrong")
        self.assertEqual(self.judge(result=None), "wrong")
        self.assertEqual(self.judge(pagewalk=1), "wrong")

    def test_a_program_that_goes_on_alone_is_untraced(self):
        self.assertEqual(self.judge(err="it runs on untraced"), "untraced")
        self.assertEqual(self.judge("killed", was_killed=True, pagewalk=-9, program=7), "untraced")
        self.assertEqual(self.judge("killed", was_killed=True, pagewalk=-9, program=-11), "wrong")
        self.assertEqual(self.judge("killed", was_killed=True, pagewalk=-9, pid=None, result=None), "not begun")

    def test_what_does_not_end_hangs(self):
        self.assertEqual(self.judge(pagewalk=None), "hung")
        self.assertEqual(self.judge(left=["storm (7)"]), "hung")

    def test_a_full_disk_is_pagewalks_own_failure(self):
        self.assertEqual(self.judge("disk full", pagewalk=1), "as natively")
        self.assertEqual(self.judge("disk full", pagewalk=139), "wrong")

    def test_nothing_of_pagewalks_stays_unless_it_was_killed(self):
        self.assertEqual(self.judge(temporary=["pagewalk-x"]), "wrong")
        self.assertEqual(self.judge("killed", was_killed=True, program=7, temporary=["pagewalk-x"]), "untraced")


class Processes(unittest.TestCase):
    def test_processes_of_a_run_are_found_by_their_mark_and_ended(self):
        mark = f"test-{os.getpid()}"
        child = subprocess.Popen(["sleep", "60"], env=os.environ | {faults.MARK: mark})
        self.assertTrue(faults.until(lambda: faults.marked(mark).get(child.pid) == "sleep", 10))
        self.assertEqual(faults.wait_until_gone(mark, child.pid, time.monotonic()), [])
        self.assertEqual(faults.wait_until_gone(mark, 0, time.monotonic()), [f"sleep ({child.pid})"])
        faults.end_all(mark)
        self.assertEqual(faults.marked(mark), {})
        child.wait()

    def test_the_exit_code_of_a_program_is_read(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            child = subprocess.Popen(["sh", "-c", "exit 7"])
            (folder / "pid").write_text(str(child.pid))
            self.assertEqual(faults.wait_for_orphan(folder, "none", time.monotonic() + 10), 7)
            child.returncode = 7


class Sums(unittest.TestCase):
    def test_what_is_wrong_or_hangs_is_a_miss(self):
        for kind, code in (("as natively", 0), ("untraced", 0), ("not begun", 0), ("wrong", 1), ("hung", 1)):
            out = io.StringIO()
            with contextlib.redirect_stdout(out):
                self.assertEqual(faults.conclude([{"fault": "cut"}], [{"kind": kind}]), code)
            self.assertIn("cut", out.getvalue())


if __name__ == "__main__":
    unittest.main()
