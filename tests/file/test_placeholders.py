"""Tests of the numbers that stand for "calibrate"."""

from __future__ import annotations

from itertools import product

import pytest

from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS as TYPES
from dpcli.file.keys.kinds import CALIBRATE, WholeNumber
from dpcli.file.pipeline.placeholders import NOISE_KEYS, SENSITIVITY_KEYS
from dpcli.file.pipeline.read import examine
from dpcli.file.pipeline.section import MECHANISM_TYPES
from dpcli.file.toml.findings import Diagnostic
from dpcli.file.toml.write import value_text

HEAD = 'format = 1\n[privacy]\nadjacency = "add-remove"\ndelta = 1e-5\n[[mechanism]]\nname = "x"\n'
CASES = [
    (name, noise, covered)
    for name in TYPES
    for noise, covered in product(sorted(NOISE_KEYS), SENSITIVITY_KEYS)
    if noise in MECHANISM_TYPES.class_members(name) and covered in MECHANISM_TYPES.class_members(name)
]


@pytest.mark.parametrize("most", [1, 30, 4000])
def test_no_rule_refuses_noise_that_is_not_solved_for_yet(most: int) -> None:
    """However much it is to cover: what a rule says of both, it says of the answer."""
    faults = {case: refusals(*case, most) for case in CASES}
    assert {case: found for case, found in faults.items() if found} == {}


def refusals(name: str, noise: str, covered: str, most: int) -> tuple[Diagnostic, ...]:
    """What is said of an entry of a type whose noise is still to be solved for."""
    whole = isinstance(MECHANISM_TYPES.class_members(name)[covered].kind, WholeNumber)
    stated_keys = (*NOISE_KEYS, *SENSITIVITY_KEYS, "noise_multiplier")
    rest = {key: value for key, value in load(TYPES[name]).example.items() if key not in stated_keys}
    table = {"type": name, **rest, covered: most if whole else float(most), noise: CALIBRATE}
    text = HEAD + "".join(f"{key} = {value_text(value)}\n" for key, value in table.items())
    return examine(text.encode(), "a")[1]
