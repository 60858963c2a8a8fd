"""The start of the process: settings that must precede all imports, and the help that never changes."""

from __future__ import annotations

import gc
import os
import sys

ALLOCATIONS = 50_000  # between two searches for cycles: what modules are made of stays, and is searched in vain


def run() -> None:
    """Run the command line and leave the process with its exit code."""
    gc.set_threshold(ALLOCATIONS)
    # Before numpy is imported: our products are small, and threads that wait for them cost many times what one takes. Training has torch's.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if sys.argv[1:] in (["--help"], ["-h"]) and _usual():
        from dpcli.cli.overview import HELP

        try:
            sys.stdout.write(HELP)
            sys.stdout.flush()
            return
        except OSError:  # whoever read it has left, or there is no room: the command line knows what to do then
            pass
    from dpcli.base.errors import InputError

    try:
        from dpcli.cli import main
    except InputError as error:  # a plugin of another package that cannot be one
        sys.stderr.write(f"dpcli: {error}\n")
        sys.exit(error.exit_code)

    try:
        main.run()
    finally:
        gc.freeze()  # the process gives all of it back as it ends: the interpreter need not search that for cycles


def _usual() -> bool:
    """Return whether help is laid out for 80 columns or more, as it is without a screen."""
    if "_DPCLI_COMPLETE" in os.environ or sys.stdout is None:
        return False
    try:
        return int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns) >= 80
    except ValueError:
        return False
    except OSError:  # no terminal
        return True
