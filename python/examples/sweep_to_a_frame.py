"""A study of a TLB's size, as a data frame."""

import sys
from pathlib import Path

import pagewalk

STUDY = 'schema = 1\nname = "sizes"\ntraces = ["T"]\nmachines = ["k8"]\nvary = { "tlb.l2d.entries" = [256, 512] }\n'
Path("sizes.toml").write_text(STUDY.replace('"T"', f'"{sys.argv[1]}"'))
print(pagewalk.sweep("sizes.toml", output="sizes").frame())
