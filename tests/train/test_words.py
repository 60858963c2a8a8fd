"""The JSON schema, the reader of [train] and training itself accept the same words for texts."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcli.base.fields import Constraint
from dpcli.base.lazy import load
from dpcli.file.keys.annotations import members_of
from dpcli.train.plan.sources import FUNCTION
from dpcli.train.plugin import TASKS


def ruled() -> Iterator[tuple[str, str, Constraint, str]]:
    """Every text key of every task that a pattern describes."""
    for task, target in TASKS.items():
        for key, member in members_of(load(target)).items():
            patterns = [value for name, value in member.rule.schema if name == "pattern"] if member.rule else []
            if member.rule is not None and patterns:
                yield task, key, member.rule, patterns[0]


RULED = list(ruled())
PIECES = (*"mf:./\\ \n-é0", "()", "digits", "held-out", "mlp", "cuda", ".csv", ".npz", ".parquet", ".CSV")
TEXTS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("task", "key", "rule", "pattern"), RULED, ids=[f"{task}.{key}" for task, key, *_ in RULED])
@given(text=TEXTS)
@example(text=".csv")
@example(text="a/.csv")
@example(text="..csv")
@example(text="m:f\n")
def test_the_schema_takes_what_the_reader_takes(task: str, key: str, rule: Constraint, pattern: str, text: str) -> None:
    """An editor's red line and ours: the pattern as ECMA 262 reads it, whose $ is the end and no line break before it."""
    assert rule.holds(text) == (re.search(pattern.replace("$", r"\Z"), text) is not None)


@given(
    st.lists(st.sampled_from(["m", "own_code", "a-b", "f", "x1", ".", ":", "/", "\\", "(", ")", "()", " "]), max_size=6).map(
        "".join
    )
)
@example("m:f()")
@example("c:/data.npy")
@example("m:f.g")
@example(".m:f")
@example("m.:f")
def test_a_function_is_one_that_can_be_imported(text: str) -> None:
    """module:function, the module a dotted name: what Python's import refuses by its words alone is refused by ours."""
    module, colon, name = text.partition(":")
    dotted = bool(module) and all(part and not set(part) & set(" /\\():") for part in module.split("."))
    assert FUNCTION.holds(text) == (bool(colon) and dotted and bool(name) and not set(name) & set(" /\\():."))
