"""Where does address translation cost a program time?"""

import sys

import pagewalk

command = sys.argv[1:] or ["/bin/ls", "/"]
results = pagewalk.Experiment("golden_cove", command=command).run()
print(f"{results.walks} walks, {results.walk_cycle_share:.1%} of all cycles")
for mapping in results.processes[0]["attribution"]["mappings"][:3]:
    print(mapping["name"], mapping["walks_data"])
