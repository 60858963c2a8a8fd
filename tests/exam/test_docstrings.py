"""Tests that docstrings of registered classes say what is released, between which neighbours, how good bounds are, and who proved it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from importlib import import_module
from typing import Annotated

from dpcli.accountants.base import Accountant
from dpcli.base.fields import Key
from dpcli.base.lazy import load
from dpcli.base.registry import ACCOUNTANTS, MECHANISMS, SAMPLING
from dpcli.file.keys.annotations import members_of
from dpcli.mechanisms.spec import Spec
from tests.cases import of_each

SHORTEST = 200  # characters
WORDS = ("Neighbours: ", "Bounds: ", "Source: ")
YEAR = re.compile(r"\b(19|20)\d\d\b")


def lacks(found: type) -> Iterator[str]:
    """What the docstring of a mechanism type or sampling scheme leaves unsaid."""
    text = " ".join((vars(found).get("__doc__") or "").split())
    if len(text) < SHORTEST:
        yield f"at least {SHORTEST} characters"
    yield from (word for word in WORDS if word not in text)
    for name, member in members_of(found).items():
        if len(member.doc.split()) < 2:
            yield f"what {name} is"


def lacks_of_mechanism(spec: type[Spec]) -> Iterator[str]:
    yield from lacks(spec)
    text = " ".join((spec.__doc__ or "").split())
    if (spec.evidence or spec.free) and not YEAR.search(text.partition("Source: ")[2]):
        yield "who proved it, and when"
    if spec.needs_delta != ("No finite epsilon" in text) or "delta" not in text:
        yield "what happens at delta = 0"


def lacks_of_accountant(accountant: Accountant, text: str) -> Iterator[str]:
    if len(text) < SHORTEST:
        yield f"at least {SHORTEST} characters"
    yield from (word for word in ("Consumes ", "Bounds: ") if word not in text)
    if accountant.sound == ("Bounds: none" in text):
        yield "whether it is a bound"
    if accountant.adaptive != ("one after the other" in text):
        yield "whether steps may be chosen one after the other"
    if not YEAR.search(accountant.source):
        yield "who proved it, and when"
    if not type(accountant.compose(())).__doc__:
        yield "what its profile is"


@of_each("name", MECHANISMS)
def test_a_mechanism_says_what_it_is(name: str) -> None:
    assert list(lacks_of_mechanism(load(MECHANISMS[name]))) == []


@of_each("name", SAMPLING)
def test_a_sampling_scheme_says_what_it_is(name: str) -> None:
    assert list(lacks(load(SAMPLING[name]))) == []
    assert f'scheme = "{name}"' in load(SAMPLING[name]).__doc__


@of_each("name", ACCOUNTANTS)
def test_an_accountant_says_what_it_is(name: str) -> None:
    text = " ".join((import_module(ACCOUNTANTS[name].partition(":")[0]).__doc__ or "").split())
    assert list(lacks_of_accountant(load(ACCOUNTANTS[name]), text)) == []
    assert {field.name for field in fields(Accountant)} >= {"title", "source"}


@dataclass(frozen=True)
class Silent(Spec):
    """Adds something."""

    scale: Annotated[float, Key("scale")]


def test_what_is_left_unsaid_is_seen() -> None:
    assert list(lacks(Silent)) == ["at least 200 characters", *WORDS, "what scale is"]
    assert list(lacks_of_accountant(load(next(iter(ACCOUNTANTS.values()))), "adds"))
