"""Records a program and looks at the trace."""

import sys

import pagewalk

recording = pagewalk.record(sys.argv[1:] or ["/bin/true"], output="recorded.pwt")
trace = recording.trace
print(trace.info["references"], "references,", trace.info["events"])
print("rules broken:", trace.check()["rules_broken"])
