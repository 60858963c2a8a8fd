"""Numbers in a statement are rounded so that what they say never costs less than what was accounted; JSON has them unrounded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from dpcli.analysis.account import account
from dpcli.base.lazy import load
from dpcli.base.registry import MECHANISMS
from dpcli.disclosure.mechanism_words import parameters
from dpcli.document.short_numbers import MORE_IS_SAFER, rounded_key
from dpcli.file.pipeline.read import parse
from tests.cases import of_each
from tests.command import dpcli
from tests.inline import text_of

RELEASE = "examples/release.toml"
PART = {"name": "part", "type": "gaussian", "noise_multiplier": 3.0, "steps": 1}
TOGETHER = {"probabilities"}  # numbers that add up to 1: none of them changes alone


def document(kind: str, keys: Mapping[str, Any]) -> bytes:
    privacy = {"adjacency": "add-remove", "delta": 1e-5, "unit": "example"}
    if load(MECHANISMS[kind]).shows_presence:
        privacy["adjacency"] = "replace-one"
    return text_of({"format": 1, "privacy": privacy, "mechanism": [PART, {"name": "x", "type": kind, **keys}]})


def scaled(value: Any) -> Any:
    return [1.1 * each for each in value] if isinstance(value, list | tuple) else 1.1 * value


def fractional(value: Any) -> bool:
    numbers = value if isinstance(value, list | tuple) else (value,)
    return bool(numbers) and all(isinstance(each, float) for each in numbers)


def numbers() -> Iterator[tuple[str, str]]:
    """(type, key) of every number in the example of every type."""
    for kind, target in MECHANISMS.items():
        yield from ((kind, key) for key, value in load(target).example.items() if fractional(value) and key not in TOGETHER)


@pytest.mark.long
@of_each("kind, key", list(numbers()))
def test_what_is_rounded_down_is_what_costs_less_where_it_is_more(kind: str, key: str) -> None:
    keys = dict(load(MECHANISMS[kind]).example)
    before, after = (
        account(parse(document(kind, {**keys, key: value}), "x.toml")).upper for value in (keys[key], scaled(keys[key]))
    )
    assert after <= before if key in MORE_IS_SAFER else after >= before


@of_each("name", ["sigma", "epsilon", "sensitivity"])
@of_each("value", [561667.2091532831, 8.57511350904838, 0.24738102199128248, 1.2345678e-9, 1e300 / 3, 2**53 + 1.0])
def test_a_long_number_has_six_digits_and_errs_on_the_safe_side(name: str, value: float) -> None:
    shown = rounded_key(name, value)
    assert len(re.sub(r"e.*|\D", "", shown).strip("0")) <= 6 or value > 1e6
    rounded = float(shown.replace(",", ""))
    assert value * (1 - 1e-5) <= rounded <= value if name in MORE_IS_SAFER else value <= rounded <= value * (1 + 1e-5)


@of_each("value", [1.12, 20.0, 1e-06, 0.0042667, 1e-300])
def test_a_number_that_somebody_stated_stays_as_it_is(value: float) -> None:
    assert rounded_key("sigma", value) == rounded_key("epsilon", value) == repr(value)


@of_each("kind", [kind for kind in MECHANISMS if any(fractional(value) for value in load(MECHANISMS[kind]).example.values())])
def test_no_mechanism_is_told_with_a_number_of_many_digits(kind: str) -> None:
    keys = dict(load(MECHANISMS[kind]).example)
    long = {key: value / 1.0000000123 for key, value in keys.items() if isinstance(value, float)}
    entry = parse(document(kind, {**keys, **long}), "x.toml").mechanisms[-1]
    told = parameters(entry)
    assert all(f"{key} = " in told for key in long)
    assert not re.search(r"(?<![\w.])\d+\.\d{7,}", told), told


@pytest.mark.long
def test_a_release_is_told_rounded_and_json_has_every_digit() -> None:
    (sigma,) = (
        one["sigma"]
        for one in json.loads(dpcli("report", RELEASE, "-f", "json").out)["parameters"]
        if one["name"] == "mean-age.sum"
    )
    told = dpcli("report", RELEASE, "-f", "text").out
    assert len(repr(sigma)) > 12 and repr(sigma) not in told and f"sigma = {rounded_key('sigma', sigma)}," in told
