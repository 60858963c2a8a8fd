"""DP304 on the epsilon that was computed: lint, which computes none, sees those that a file states."""

from __future__ import annotations

import math
from collections.abc import Iterable

from dpcli.analysis.account import Account
from dpcli.base.rounding import up
from dpcli.file.toml.findings import Diagnostic
from dpcli.lint.statement import LARGE, LARGE_EPSILON, protection


def large_epsilon(account: Account, diagnostics: Iterable[Diagnostic] = ()) -> tuple[Diagnostic, ...]:
    """Return a warning of a finite epsilon above 10 of one unit; of the file as a whole, which has no line.

    diagnostics: those of lint; where one of them is DP304, of an epsilon that the file states, this is not said a second time.
    """
    epsilon = account.upper
    if account.quantity != "epsilon" or account.group_size > 1 or not LARGE < epsilon < math.inf:
        return ()
    if any(one.rule == LARGE_EPSILON.code for one in diagnostics):
        return ()
    message = protection(epsilon, up(epsilon), account.delta or 0.0)
    return (Diagnostic(LARGE_EPSILON.code, LARGE_EPSILON.severity, message, account.pipeline.path or "<file>"),)
