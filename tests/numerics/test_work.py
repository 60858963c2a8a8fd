"""The count of work (numerics/work.py): a computation is refused before it starts if it would take more cells than are left, and what an
answer costs does not depend on the commands before it.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dpcli.base.errors import NotRepresentable
from dpcli.numerics.work import CALL, TABLE, TooMuchWork, allowance, exhausted, hold, limited, remembered, shared, spend


def test_nothing_is_refused_where_nothing_is_limited_but_a_table_beyond_memory() -> None:
    spend(1e30)
    with pytest.raises(NotRepresentable, match=r"a table of 4.2e\+06 numbers"):
        hold(TABLE + 1.0)
    with pytest.raises(TooMuchWork):
        hold(float("nan"))


def test_an_allowance_is_used_up() -> None:
    with allowance(1000.0 + 2 * CALL):
        spend(600.0)
        with pytest.raises(TooMuchWork):
            spend(600.0)
    spend(600.0)


def test_an_inner_allowance_is_part_of_the_outer_one() -> None:
    with allowance(1e6):
        with allowance(1e9) as inner:
            assert inner[0] == 1e6
            spend(9e5)
        with allowance(1e9, least=5e5) as inner:
            assert inner[0] == 5e5
        with allowance(1e9, reserved=5e4) as inner:
            assert inner[0] == pytest.approx(1e6 - 9e5 - CALL - 5e4)
        assert exhausted()


def test_what_is_remembered_is_charged_again() -> None:
    @remembered(4)
    def square(x: float) -> float:
        spend(1000.0)
        return x * x

    for _ in range(2):
        with allowance(1e4) as left:
            assert square(3.0) == 9.0
            assert left[0] <= 1e4 - 1000.0 - CALL
    with allowance(500.0), pytest.raises(TooMuchWork):
        square(3.0)


def test_a_command_has_one_allowance() -> None:
    @limited
    def command() -> None:
        while True:
            spend(1e6)

    with pytest.raises(TooMuchWork):
        command()


def test_a_price_does_not_depend_on_what_an_earlier_command_paid() -> None:
    """An answer that reads what another accountant has already paid for is cheap in that command, and in no other."""

    @shared(4)
    def table(x: float) -> float:
        spend(1000.0)
        return x

    @remembered(4)
    def answer(x: float) -> float:
        return table(x) ** 2

    @limited
    def prices(*first: Callable[[float], float]) -> list[float]:
        return [_price(asked) for asked in (*first, answer, answer)]

    def _price(asked: Callable[[float], float]) -> float:
        with allowance(1e4) as left:
            asked(3.0)
            return 1e4 - left[0]

    alone = prices()
    assert prices(table)[1] < alone[0] >= 1000.0
    answer(3.0)  # where nothing is limited, and nothing counted
    assert prices() == alone
