"""The start of the process. It makes the settings that must precede the imports."""

from __future__ import annotations

import gc
import os
import sys

ALLOCATIONS = 50_000  # between garbage collections; most objects belong to modules and are never collected


def run() -> None:
    """Run the command line and leave the process with its exit code."""
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
