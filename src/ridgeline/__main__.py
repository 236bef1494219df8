"""`python -m ridgeline`: the command line."""

import sys

from ridgeline.runtime.signals import hold_stop_signals

if __name__ == "__main__":
    if sys.argv[1:2] in (["run"], ["run-list"]):
        hold_stop_signals()  # a scheduler may send one while everything else is being imported
    from ridgeline.cli.main import main

    main()
