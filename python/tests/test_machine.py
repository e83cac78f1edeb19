"""Machines: from the library, files, texts and keys; varied; in other processes."""

import contextlib
import pickle
from pathlib import Path

from support import ROOT, InFolder

import pagewalk
from pagewalk import Machine


class Machines(InFolder):
    def test_every_machine_of_the_library_loads_by_its_name(self) -> None:
        files = {file.stem for file in (ROOT / "machines").glob("*.toml")}
        self.assertEqual(set(Machine.names()), files)
        for name in Machine.names():
            self.assertEqual(Machine(name).name, name)

    def test_a_file_a_path_and_a_text_are_the_same_machine(self) -> None:
        file = ROOT / "machines/zen4.toml"
        text = file.read_text()
        self.assertEqual(Machine("zen4"), Machine(file))
        self.assertEqual(Machine("zen4"), Machine(str(file)))
        self.assertEqual(Machine("zen4"), Machine(text))
        self.assertEqual(Machine("zen4").toml, text)

    def test_keys_make_a_machine(self) -> None:
        import tomllib

        keys = tomllib.loads((ROOT / "machines/zen4.toml").read_text())
        self.assertEqual(Machine(**keys).description, Machine("zen4").description)

    def test_varied_keys_change_and_the_rest_stays(self) -> None:
        zen4 = Machine("zen4")
        for larger in (zen4.vary({"tlb.l2d.entries": 6144}), zen4.vary(tlb__l2d__entries=6144)):
            self.assertEqual(larger.name, "zen4_tlb-l2d-entries_6144")
            entries = {tlb["name"]: tlb["entries"] for tlb in larger.description["tlbs"]}
            before = {tlb["name"]: tlb["entries"] for tlb in zen4.description["tlbs"]}
            self.assertEqual(entries, {**before, "l2d": 6144})
        self.assertEqual(zen4.vary(name="mine").name, "mine")

    def test_what_is_wrong_is_named_as_the_command_names_it(self) -> None:
        with self.assertRaisesRegex(pagewalk.UsageError, "zen4"):
            Machine("zen44")
        with self.assertRaisesRegex(pagewalk.UsageError, "`tlb` has no `l3d` to go into; it has .*l2d"):
            Machine("zen4").vary({"tlb.l3d.entries": 1})
        with self.assertRaisesRegex(pagewalk.BadInputError, "machine-files"):
            Machine("zen4").vary({"tlb.l2d.entries": 7})
        with self.assertRaises(pagewalk.UsageError):
            Machine("zen4", name="both")
        with self.assertRaisesRegex(pagewalk.UsageError, "object"):
            Machine(name=object())
        Path("bad.toml").write_text("schema = 1\nname = 7\n")
        with self.assertRaisesRegex(pagewalk.BadInputError, "bad.toml"):
            Machine("bad.toml")

    def test_a_copy_in_another_process_is_equal(self) -> None:
        machine = Machine("k8").vary(tlb__l2d__entries=1024)
        self.assertEqual(pickle.loads(pickle.dumps(machine)), machine)

    def test_files_that_a_machine_names_are_in_its_folder_for_copies_too(self) -> None:
        folder = Path("folder")
        folder.mkdir()
        (folder / "app.frames").write_text("frames of 4K\n0x1000 0x1 1\n")
        own = '\n[os]\npolicy = "fixed"\nplacement = { policy = "listed", frames = "app.frames" }\n'
        (folder / "mine.toml").write_text(Machine("zen4").toml + own)
        machine = Machine("folder/mine.toml")
        with contextlib.chdir("/"):
            self.assertEqual(pickle.loads(pickle.dumps(machine)), machine)
            self.assertEqual(machine.vary(name="varied").name, "varied")
