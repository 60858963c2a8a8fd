"""Answers as they are printed: what a reader takes from them is what was answered."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from dpcli.release.documents.release import answer_lines, answer_table, interval_text
from dpcli.release.query_answer import AnswerRow, QueryAnswer

FINITE = st.floats(min_value=-1e14, max_value=1e14)


def answer(*rows: AnswerRow, by: tuple[str, ...] = (), confidence: float = 0.95) -> QueryAnswer:
    return QueryAnswer("q", "sum", by, rows, confidence, "the noise")


def test_sums_of_money_are_written_out() -> None:
    row = AnswerRow(("CA",), 65257900.0, 64658811.25, 65856988.75)
    assert list(answer_lines(answer(row, by=("state",)))) == ["q, state=CA: 65,257,900 (64,658,811 to 65,856,989, 95 %)"]
    assert answer_table(answer(row, by=("state",))).columns == ("state", "sum", "95 % interval")


def test_a_confidence_is_printed_as_it_is_stated() -> None:
    for confidence, said in ((0.9, "90 %"), (0.995, "99.5 %"), (0.9999, "99.99 %"), (0.07, "7 %")):
        assert answer_table(answer(AnswerRow((), 1, 0.0, 2.0), confidence=confidence)).columns[-1] == f"{said} interval"


def test_truth_is_written_as_in_csv() -> None:
    assert list(answer_lines(answer(AnswerRow((True,), False), by=("old",)))) == ["q, old=true: false"]


@given(FINITE, FINITE)
def test_a_printed_interval_holds_the_interval(a: float, b: float) -> None:
    low, high = min(a, b), max(a, b)
    shown_low, shown_high = (Decimal(end.replace(",", "")) for end in interval_text(AnswerRow((), 1.0, low, high)).split(" to "))
    assert shown_low <= Decimal(repr(low)) and Decimal(repr(high)) <= shown_high
