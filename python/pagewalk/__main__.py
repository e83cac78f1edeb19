"""The command `pagewalk`: the same as the binary's, with its exit codes and signals."""

import signal
import sys

from pagewalk._pagewalk import main as run


def main() -> None:
    """Runs the command with the arguments of this process, and ends it with the command's exit code."""
    # Python sets these for itself. The command, and the programs that it starts, expect the defaults.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    sys.exit(run(["pagewalk", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
