"""Measures this host with `pagewalk probe`."""

import json
import subprocess

import running

PROBES = 5


def take_probe(pagewalk, path):
    """Probes this host; repeats if other load hides the cost of a walk."""
    for _ in range(PROBES):
        answer([pagewalk, "probe", "-q", "-o", path])
        figures = json.loads(path.read_text())["figures"]
        known = {figure["name"] for figure in figures if figure["value"] is not None}
        if known >= {"tlb.4k.walk_extra", "walk_extra.32m.chains_1", "fault.anonymous_4k", "fault.anonymous_2m"}:
            return True
    return False


def answer(command, environment=None, folder=None):
    """The standard output of a command; its standard error is shown."""
    words = [str(word) for word in command]
    how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "env": environment, "cwd": folder}
    with running.started(words, **how) as child:
        printed, _ = child.communicate()
    if child.returncode != 0:
        raise running.RunFailed(f"exit {child.returncode}: {' '.join(words)}")
    return printed
