"""The start of the process (the script `dpcli` calls `run`). It makes the settings that must precede the imports of main.py."""

from __future__ import annotations

import gc
import os
import sys

# Number of allocations between two garbage collections. Python's default of 700 to 2000 would cost time for nothing, because most objects
# belong to modules and are never collected.
ALLOCATIONS = 50_000


def run() -> None:
    """Run the command line and end the process with its exit code. A plugin that cannot be loaded gives a message and its exit code."""
    gc.set_threshold(ALLOCATIONS)
    # numpy reads this when it is imported. Matrix products are small here, so that more threads only slow them down. Training uses torch.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from dpcli.base.errors import InputError

    try:
        from dpcli.cli import main
    except InputError as error:  # a broken plugin of another package
        sys.stderr.write(f"dpcli: {error}\n")
        sys.exit(error.exit_code)

    try:
        main.run()
    finally:
        gc.freeze()  # the process ends, so that a search for reference cycles would waste time
