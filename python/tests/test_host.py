"""Studies, advice and plans."""

import os
import unittest
from pathlib import Path

from support import TRACE, InFolder, python, skip

import pagewalk

STUDY = """schema = 1
name = "small"
traces = ["{trace}"]
machines = ["k8"]
[vary]
"tlb.l2d.entries" = [256, 512]
"""


PLAN = """schema = "pagewalk.plan/1"
[program]
path = "{program}"
[[range]]
what = "heap"
from = "0x0"
to = "0x200000"
"""


class Studies(InFolder):
    def setUp(self) -> None:
        super().setUp()
        Path("small.toml").write_text(STUDY.format(trace=TRACE))

    def test_a_study_has_a_row_for_each_choice_and_is_not_done_twice(self) -> None:
        results = pagewalk.sweep("small.toml", output="out", threads=2)
        results.check()
        self.assertEqual(results.folder, Path("out"))
        frame = results.frame()
        self.assertGreater(frame.height, 0)
        done = {path: path.stat().st_mtime_ns for path in Path("out/units").rglob("*") if path.is_file()}
        self.assertTrue(done)
        again = pagewalk.sweep("small.toml", output="out")
        self.assertEqual(again.to_json(), results.to_json())
        self.assertEqual(done, {path: path.stat().st_mtime_ns for path in done})

    def test_a_study_is_read_again_from_its_json(self) -> None:
        results = pagewalk.sweep("small.toml", output="out")
        again = pagewalk.StudyResults.read("out/results.json")
        self.assertEqual(again.to_html(), Path("out/index.html").read_text())
        self.assertEqual(again.data, results.data)
        with self.assertRaises(ValueError):
            again.frame()

    def test_a_wrong_study_is_named(self) -> None:
        Path("bad.toml").write_text("schema = 1\nname = 'bad'\nmachines = ['k9']\n")
        with self.assertRaisesRegex(pagewalk.BadInputError, "bad.toml"):
            pagewalk.sweep("bad.toml")


class Plans(InFolder):
    def test_a_plan_that_is_none_is_named(self) -> None:
        Path("plan.toml").write_text("nonsense = 1\n")
        with self.assertRaisesRegex(pagewalk.PagewalkError, "plan.toml"):
            pagewalk.plan("plan.toml")

    def test_a_plan_says_what_it_would_do(self) -> None:
        program = os.path.realpath("/bin/true")
        Path("plan.toml").write_text(PLAN.format(program=program))
        plan = pagewalk.plan("plan.toml")
        self.assertIn("heap", plan.preview().text())
        self.assertTrue(plan.preview().data["dry_run"])
        with self.assertRaises(pagewalk.UsageError):
            plan.apply([])

    def test_a_plan_without_effect_is_an_error_that_has_the_result(self) -> None:
        Path("plan.toml").write_text(PLAN.format(program=os.path.realpath("/bin/ls")))
        try:
            pagewalk.plan("plan.toml").apply(["/bin/true"])
        except pagewalk.HostCannotError as error:
            skip("tracing", str(error))
        except pagewalk.NotInEffectError as error:
            self.assertRegex(str(error), "/ls did not run")
            self.assertGreater(error.result.seconds, 0)
        else:
            self.fail("the plan had an effect")


class Probes(unittest.TestCase):
    def test_ctrl_c_ends_a_probe_after_its_part(self) -> None:
        lines = [
            "import os, pagewalk, signal, threading",
            "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()",
            "try:",
            "    pagewalk.probe(quick=True)",
            "except KeyboardInterrupt:",
            "    print('stopped')",
        ]
        done = python("-c", "\n".join(lines))
        self.assertEqual((done.returncode, done.stdout), (0, "stopped\n"), done.stderr)


class Advices(InFolder):
    def test_advice_refuses_more_than_the_command_does(self) -> None:
        with self.assertRaisesRegex(pagewalk.UsageError, "no program"):
            pagewalk.advise()
        with self.assertRaises(pagewalk.PagewalkError):
            pagewalk.advise(pid=2**31 - 1)


if __name__ == "__main__":
    unittest.main()
