"""Programs under the engine: recording, experiments, Ctrl-C."""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

from support import InFolder, need_engine, python

import pagewalk

LONG = ["/bin/sh", "-c", "echo begun > begun; while :; do :; done"]


class Programs(InFolder):
    def setUp(self) -> None:
        need_engine()
        super().setUp()

    def test_a_recording_has_a_trace_for_each_image_and_the_exit_code(self) -> None:
        recording = pagewalk.record(["/bin/sh", "-c", "/bin/true; exit 3"], "t.pwt")
        self.assertEqual(recording.status, 3)
        self.assertEqual(len(recording.traces), len(recording.data["files"]))
        self.assertEqual(recording.trace.path, Path("t.pwt"))
        self.assertEqual(recording.trace.check()["rules_broken"], 0)

    def test_a_program_and_its_recording_have_the_same_instructions(self) -> None:
        live = pagewalk.Experiment("zen4", command=["/bin/true"]).run()
        self.assertEqual(live.status, 0)
        pagewalk.record(["/bin/true"], "t.pwt", grain="page")
        # The same environment; only addresses of the stack may differ.
        self.assertAlmostEqual(live.instructions, pagewalk.Trace("t.pwt").info["instructions"], delta=1000)

    def test_what_cannot_run_is_named(self) -> None:
        with self.assertRaisesRegex(pagewalk.UsageError, "no/such"):
            pagewalk.record(["no/such"], "t.pwt")
        self.assertFalse(Path("t.pwt").exists())
        with self.assertRaises(pagewalk.UsageError):
            pagewalk.record([])
        with self.assertRaisesRegex(pagewalk.UsageError, "byte, page"):
            pagewalk.record(["/bin/true"], grain="bit")

    def interrupted(self, code: str) -> subprocess.CompletedProcess[str]:
        """Runs code in another Python, and sends it SIGINT once its program has begun."""
        words = [sys.executable, "-c", f"import pagewalk\ntry:\n    {code}\nexcept KeyboardInterrupt:\n    print('stopped')"]
        running = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(running.kill)
        deadline = time.monotonic() + 60
        while not Path("begun").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertTrue(Path("begun").exists())
        os.kill(running.pid, signal.SIGINT)
        out, errors = running.communicate(timeout=60)
        return subprocess.CompletedProcess(words, running.returncode, out, errors)

    def test_ctrl_c_ends_a_recording_whose_trace_can_be_read(self) -> None:
        done = self.interrupted(f"pagewalk.record({LONG!r}, 't.pwt')")
        self.assertEqual((done.returncode, done.stdout), (0, "stopped\n"), done.stderr)
        checked = pagewalk.Trace("t.pwt").check()
        self.assertEqual((checked["rules_broken"], checked["whole"]), (0, True))

    def test_ctrl_c_ends_a_run(self) -> None:
        done = self.interrupted(f"pagewalk.Experiment('zen4', command={LONG!r}).run()")
        self.assertEqual((done.returncode, done.stdout), (0, "stopped\n"), done.stderr)

    def test_ctrl_c_ends_reading_of_traces(self) -> None:
        pagewalk.record(["/bin/sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"], "t.pwt")
        machines = 'machines = ["k8"]\nvary = { "tlb.l2d.entries" = [64, 128, 256, 512, 1024, 2048] }'
        for number in range(100):
            os.symlink("t.pwt", f"t{number}.pwt")
        names = [f"t{number}.pwt" for number in range(100)]
        Path("s.toml").write_text(f'schema = 1\nname = "s"\ntraces = {names}\n{machines}\n')
        for work in ("pagewalk.Experiment([], ['t.pwt'] * 500, what_if=True).run()", "pagewalk.sweep('s.toml')"):
            lines = [
                "import os, pagewalk, signal, threading, time",
                "threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()",
                "begun = time.monotonic()",
                "try:",
                f"    {work}",
                "except KeyboardInterrupt:",
                "    print(time.monotonic() - begun)",
            ]
            done = python("-c", "\n".join(lines))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLess(float(done.stdout), 5, work)


if __name__ == "__main__":
    unittest.main()
