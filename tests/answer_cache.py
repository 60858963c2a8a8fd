"""A cache of accountants' answers from one test to the next, for tests that are about something else.

A gate, a report or a format is tested on the same few files, whose numbers other tests examine. conftest.py uses this cache in all folders
but those that test numbers. An accountant's answer depends only on the question and on the work that is left for it
(accountants/test_turns.py tests this), so both are the key. The work counts to two digits, as caches within dpcli make earlier answers
slightly cheaper. A cached answer is charged the work that it took when it was computed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast
from unittest import mock

import numpy as np

from dpcli.accountants.base import Accountant
from dpcli.analysis import account as accounting
from dpcli.analysis import calibrate as calibrating
from dpcli.analysis import inquiry
from dpcli.analysis import meaning as meanings
from dpcli.analysis.account_rows import AccountRow, Quantity
from dpcli.analysis.curve import ProfileCurve
from dpcli.file.pipeline.model import Pipeline
from dpcli.numerics import work
from dpcli.plots import trade_off_curve as pictures

Answer = TypeVar("Answer")
Cache = dict[Any, tuple[Any, float]]  # by question: the answer, and the work that it took

_rows: Cache = {}
_curves: Cache = {}
_accounts: Cache = {}
_shares: Cache = {}
# The functions that `remembering` replaces.
real_row, real_profile, real_account, real_shares = inquiry.row_of, meanings.profile, calibrating.account, accounting._shares


def _cached(cache: Cache, question: Callable[[], tuple[Any, ...]], compute: Callable[[], Answer]) -> Answer:
    """Return the answer to a question from the cache. If it is not there, compute it.

    The work that is left (numerics/work.py) is a part of the question, to two digits. A question that cannot be hashed is not cached.
    """
    left = work._left.get()  # a list of one number, or None without a limit
    before = None if left is None else left[0]
    key = (*question(), None if before is None else f"{before:.1e}")
    try:
        entry = cache.get(key)
    except TypeError:
        return compute()
    if entry is None:
        answer = compute()
        cache[key] = answer, 0.0 if left is None or before is None else before - left[0]
        return answer
    cached_answer, cost = entry
    if left is not None:
        left[0] -= cost
    return cast("Answer", cached_answer)


def row(accountant: Accountant, profile: Any, quantity: Quantity, at: float, share: float = 1.0) -> AccountRow:
    """Return the cached `dpcli.analysis.account_rows.row_of`."""
    return _cached(
        _rows,
        lambda: (accountant.name, type(profile), profile, quantity, at, share),
        lambda: real_row(accountant, profile, quantity, at, share),
    )


def profile(pipeline: Pipeline, epsilons: Any, group_size: int = 1, delta: float = 1e-6, points: Any = ()) -> ProfileCurve:
    """Return the cached `dpcli.analysis.curve.profile`."""

    def question() -> tuple[Any, ...]:
        profiles = tuple(
            (accountant.name, type(one), one) for accountant, one in accounting.sound_profiles(pipeline, group_size=group_size)
        )
        is_attained = accounting.attains_pairs(pipeline, group_size)
        return profiles, is_attained, np.asarray(epsilons, dtype=float).tobytes(), delta, tuple(points)

    return _cached(_curves, question, lambda: real_profile(pipeline, epsilons, group_size, delta, points))


def account(pipeline: Pipeline, accountants: Any, delta: float | None, group_size: int = 1, runs: int = 1) -> accounting.Account:
    """Return the cached `dpcli.analysis.account.account`, with the arguments that calibration gives it."""
    names = None if accountants is None else tuple(accountants)
    return _cached(
        _accounts,
        lambda: (pipeline, names, delta, group_size, runs),
        lambda: real_account(pipeline, accountants, delta, group_size=group_size, runs=runs),
    )


def shares(answers: Any, question: inquiry.Inquiry) -> tuple[float, ...]:
    """Return the cached `dpcli.analysis.account._shares`."""
    winner = answers.winner
    if winner is None:
        return real_shares(answers, question)
    return _cached(
        _shares,
        lambda: (winner.accountant.name, winner.upper, type(answers.profile), answers.profile, question),
        lambda: real_shares(answers, question),
    )


@contextmanager
def remembering() -> Iterator[None]:
    """Use the cache within this context."""
    with (
        mock.patch.object(inquiry, "row_of", row),
        mock.patch.object(accounting, "_shares", shares),
        mock.patch.object(calibrating, "account", account),
        mock.patch.object(meanings, "profile", profile),
        mock.patch.object(pictures, "profile", profile),
    ):
        yield
