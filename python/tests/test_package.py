"""The package: its command, its types, its weight, its examples and its tutorial."""

import ast
import inspect
import json
import os
import signal
import subprocess
import sys
import unittest
from pathlib import Path

from support import ROOT, TRACE, InFolder, need_engine, python

import pagewalk
from pagewalk import _pagewalk

PYTHON = ROOT / "python"
PACKAGE = PYTHON / "pagewalk"
# Examples whose last argument is a trace; the others run a program.
ON_PROGRAMS = {"profile_a_program", "record_a_program"}


class Command(InFolder):
    def test_exit_codes_are_the_binarys(self) -> None:
        for words, code in [
            (["--version"], 0),
            (["machines", "list"], 0),
            (["nonsense"], 2),
            (["simulate", "-m", "zen44", str(TRACE)], 2),
            (["simulate", "-m", "zen4", "missing.pwt"], 3),
        ]:
            self.assertEqual(python("-m", "pagewalk", *words).returncode, code, words)

    def test_programs_get_the_signals_and_the_exit_code_that_the_binary_gives_them(self) -> None:
        need_engine()
        done = python("-m", "pagewalk", "record", "-q", "-o", "t.pwt", "--", "/bin/sh", "-c", "grep Sig /proc/self/status; exit 7")
        self.assertEqual(done.returncode, 7, done.stderr)
        ignored = next(line for line in done.stdout.splitlines() if line.startswith("SigIgn"))
        mask = int(ignored.split()[1], 16)
        for number in (signal.SIGINT, signal.SIGPIPE, signal.SIGXFSZ):
            self.assertFalse(mask >> (number - 1) & 1, number)

    def test_a_closed_pipe_is_no_error(self) -> None:
        line = f"{sys.executable} -m pagewalk machines list | head -1 >/dev/null; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


class Weight(unittest.TestCase):
    def test_importing_takes_less_than_a_tenth_of_a_second(self) -> None:
        # Of the processor: tests run beside others.
        code = "import time; t = time.process_time(); import pagewalk; print(time.process_time() - t)"
        self.assertLess(min(float(python("-c", code).stdout) for _ in range(5)), 0.1)

    def test_nothing_outside_of_the_standard_library_is_imported(self) -> None:
        code = "import pagewalk, sys; print(*{name.partition('.')[0] for name in sys.modules} - set(sys.stdlib_module_names))"
        outside = set(python("-I", "-S", "-c", f"import sys; sys.path.insert(0, {os.fspath(Path(pagewalk.__file__).parents[1])!r}); {code}").stdout.split())
        self.assertEqual(outside - {"__main__"}, {"pagewalk"})


class Types(unittest.TestCase):
    def test_mypy_accepts_the_package_and_its_examples(self) -> None:
        done = python("-m", "mypy", "--strict", "--cache-dir", os.environ.get("MYPY_CACHE_DIR", ".mypy_cache"), str(PACKAGE), *map(str, (PYTHON / "examples").glob("*.py")), cwd=PYTHON)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_stub_names_what_the_compiled_half_has(self) -> None:
        tree = ast.parse((PACKAGE / "_pagewalk.pyi").read_text())
        stub = {node.name: node for node in tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))}
        there = {name for name in dir(_pagewalk) if not name.startswith("_")}
        self.assertEqual(set(stub), there)
        for name, node in stub.items():
            if isinstance(node, ast.ClassDef) and name != "Batch":
                members = {inner.name for inner in node.body if isinstance(inner, ast.FunctionDef)}
                members |= {ast.unparse(inner.target) for inner in node.body if isinstance(inner, ast.AnnAssign)}
                public = {member for member in vars(getattr(_pagewalk, name)) if not member.startswith("_")}
                self.assertEqual({member for member in members if not member.startswith("_")}, public, name)

    def test_the_stub_of_metrics_has_every_plain_metric_of_a_result(self) -> None:
        tree = ast.parse((PACKAGE / "metrics.pyi").read_text())
        top = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Attributes")
        named = {node.name for node in top.body if isinstance(node, ast.FunctionDef)}
        for machine in ("zen4", "mips_r2000"):
            metrics = pagewalk.Experiment(machine, TRACE, thp="never").run().metrics
            self.assertLessEqual({name.partition(".")[0] for name in metrics}, named)

    def test_everything_public_has_a_docstring(self) -> None:
        for name in pagewalk.__all__:
            thing = getattr(pagewalk, name)
            if inspect.isclass(thing) or inspect.isfunction(thing):
                self.assertTrue(inspect.getdoc(thing), name)


class Examples(InFolder):
    def check(self, on_programs: bool, *words: str) -> None:
        for example in sorted((PYTHON / "examples").glob("*.py")):
            if (example.stem in ON_PROGRAMS) != on_programs:
                continue
            done = python(str(example), *words)
            self.assertEqual((done.returncode, done.stderr), (0, ""), example.name)
            self.assertTrue(done.stdout, example.name)
            code = [line for line in example.read_text().splitlines() if line and not line.startswith(("import", "from", '"""'))]
            self.assertLessEqual(len(code), 10, example.name)

    def test_examples_on_a_trace_are_short_and_run(self) -> None:
        self.check(False, str(TRACE))

    def test_examples_on_programs_are_short_and_run(self) -> None:
        need_engine()
        self.check(True)

    def test_the_tutorial_runs_from_its_first_cell_to_its_last(self) -> None:
        need_engine()
        notebook = json.loads((PYTHON / "tutorial.ipynb").read_text())
        names: dict[str, object] = {}
        for number, cell in enumerate(cell for cell in notebook["cells"] if cell["cell_type"] == "code"):
            self.assertEqual((cell["outputs"], cell["execution_count"]), ([], None), "stored without outputs")
            exec(compile("".join(cell["source"]), f"cell {number}", "exec"), names)


if __name__ == "__main__":
    unittest.main()
