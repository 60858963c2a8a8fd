"""DP304 on the epsilon that was computed: lint, which computes none, sees those that a file states."""

from __future__ import annotations

import math

from dpcli.analysis.account import Account
from dpcli.lint.statement import LARGE, LARGE_EPSILON, protection
from dpcli.rounding import up
from dpcli.toml.diagnostics import Diagnostic


def large_epsilon(account: Account) -> tuple[Diagnostic, ...]:
    """What there is to say of a finite epsilon above 10 of one unit; of the file as a whole, which has no line."""
    epsilon = account.upper
    if account.quantity != "epsilon" or account.group_size > 1 or not LARGE < epsilon < math.inf:
        return ()
    message = protection(epsilon, up(epsilon), account.delta or 0.0)
    return (Diagnostic(LARGE_EPSILON.code, LARGE_EPSILON.severity, message, account.pipeline.path or "<file>"),)
