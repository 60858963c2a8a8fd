"""The start of the process: settings that must precede imports."""

from __future__ import annotations

import gc
import os
import sys

ALLOCATIONS = 50_000  # between two garbage collections: modules, most of what there is, are never collected


def run() -> None:
    """Run the command line and leave the process with its exit code."""
    gc.set_threshold(ALLOCATIONS)
    # Before numpy is imported: matrix products here are small, and more threads only slow them down. Training uses torch's threads.
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
        gc.freeze()  # the process ends: nothing need be searched for cycles
