"""The start of the process: settings that must precede imports, and a fast path for `dpcli --help`."""

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
    if sys.argv[1:] in (["--help"], ["-h"]) and _has_standard_layout():
        from dpcli.cli.overview import HELP

        try:
            sys.stdout.write(HELP)
            sys.stdout.flush()
            return
        except OSError:  # the reader has left, or the disk is full: the command line below handles that
            pass
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


def _has_standard_layout() -> bool:
    """Return whether help is laid out for at least 80 columns, as without a terminal."""
    if "_DPCLI_COMPLETE" in os.environ or sys.stdout is None:
        return False
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns) >= 80
    except ValueError:
        return False
    except OSError:  # no terminal
        return True
