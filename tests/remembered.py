"""Answers of accountants, remembered from one test to the next, for tests that are about something else.

A gate, a report or a format is tested on the same few files, whose numbers other tests examine. What an accountant says depends on the
question and on the work that is left for it alone (accountants/test_turns.py examines that), so both are the key, the second to two
digits: what was charged before is a little less where something was kept. A remembered answer is charged again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
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

_answers: dict[Any, tuple[AccountRow, float]] = {}
_curves: dict[Any, tuple[ProfileCurve, float]] = {}
_accounts: dict[Any, tuple[accounting.Account, float]] = {}
_parts: dict[Any, tuple[tuple[float, ...], float]] = {}
_row, _profile, _account, _shares = inquiry.row_of, meanings.profile, calibrating.account, accounting._shares


def about(left: float | None) -> str | None:
    """The work that is left, to two digits."""
    return None if left is None else f"{left:.1e}"


def row(accountant: Accountant, profile: Any, quantity: Quantity, at: float, share: float = 1.0) -> Any:
    """`dpcli.analysis.account_rows.row_of`, remembered."""
    left = work._left.get()
    before = None if left is None else left[0]
    key = (accountant.name, type(profile), profile, quantity, at, share, about(before))
    try:
        found = _answers.get(key)
    except TypeError:  # it cannot be hashed
        return _row(accountant, profile, quantity, at, share)
    if found is None:
        answer = _row(accountant, profile, quantity, at, share)
        _answers[key] = answer, 0.0 if left is None or before is None else before - left[0]
        return answer
    if left is not None:
        left[0] -= found[1]
    return found[0]


def profile(pipeline: Pipeline, epsilons: Any, group_size: int = 1, delta: float = 1e-6, points: Any = ()) -> ProfileCurve:
    """`dpcli.analysis.curve.profile`, remembered."""
    left = work._left.get()
    before = None if left is None else left[0]
    asked = tuple(
        (accountant.name, type(one), one) for accountant, one in accounting.sound_profiles(pipeline, group_size=group_size)
    )
    key = (
        asked,
        accounting.attained(pipeline, group_size),
        np.asarray(epsilons, dtype=float).tobytes(),
        delta,
        tuple(points),
        about(before),
    )
    try:
        found = _curves.get(key)
    except TypeError:  # it cannot be hashed
        return _profile(pipeline, epsilons, group_size, delta, points)
    if found is None:
        answer = _profile(pipeline, epsilons, group_size, delta, points)
        _curves[key] = answer, 0.0 if left is None or before is None else before - left[0]
        return answer
    if left is not None:
        left[0] -= found[1]
    return found[0]


def account(pipeline: Pipeline, accountants: Any, delta: float | None, group_size: int = 1, runs: int = 1) -> accounting.Account:
    """`dpcli.analysis.account.account` as calibration asks it, remembered."""
    left = work._left.get()
    before = None if left is None else left[0]
    names = None if accountants is None else tuple(accountants)
    key = (pipeline, names, delta, group_size, runs, about(before))
    try:
        found = _accounts.get(key)
    except TypeError:  # it cannot be hashed
        return _account(pipeline, accountants, delta, group_size=group_size, runs=runs)
    if found is None:
        answer = _account(pipeline, accountants, delta, group_size=group_size, runs=runs)
        _accounts[key] = answer, 0.0 if left is None or before is None else before - left[0]
        return answer
    if left is not None:
        left[0] -= found[1]
    return found[0]


def shares(answers: Any, asked: inquiry.Inquiry) -> tuple[float, ...]:
    """`dpcli.analysis.account._shares`, remembered."""
    winner, left = answers.winner, work._left.get()
    before = None if left is None else left[0]
    if winner is None:
        return _shares(answers, asked)
    key = (winner.accountant.name, winner.upper, type(answers.profile), answers.profile, asked, about(before))
    try:
        found = _parts.get(key)
    except TypeError:  # it cannot be hashed
        return _shares(answers, asked)
    if found is None:
        answer = _shares(answers, asked)
        _parts[key] = answer, 0.0 if left is None or before is None else before - left[0]
        return answer
    if left is not None:
        left[0] -= found[1]
    return found[0]


@contextmanager
def remembering() -> Iterator[None]:
    """Inside, no accountant is asked the same question again."""
    with (
        mock.patch.object(inquiry, "row_of", row),
        mock.patch.object(accounting, "_shares", shares),
        mock.patch.object(calibrating, "account", account),
        mock.patch.object(meanings, "profile", profile),
        mock.patch.object(pictures, "profile", profile),
    ):
        yield
