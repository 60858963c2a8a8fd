"""Errors that nobody foresaw: what a library says of them may quote the data."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable
from typing import TypeVar

from dpcli.base.errors import DpcliError, InternalError, LedgerError

Result = TypeVar("Result")


def quietly(done: Callable[[], Result], place: str, charge: str) -> Result:
    """What it returns.

    Args:
        place: what messages call it. charge: what became of the charge, a clause.

    Raises DpcliError as it does; LedgerError, with the system's words, where the machine lacks something; for all else InternalError, which
    names type and line, and holds nothing of the error.
    """
    try:
        return done()
    except DpcliError:
        raise
    except OSError as error:
        failure: DpcliError = LedgerError(f"{place}: cannot be answered ({error.strerror or type(error).__name__}): {charge}")
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{os.path.basename(last.filename)}:{last.lineno}"
        failure = InternalError(
            f"{place}: internal error ({type(error).__name__}, {where}), whose words may quote the data: {charge}"
        )
    raise failure
