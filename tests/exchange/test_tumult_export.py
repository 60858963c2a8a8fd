"""A stated guarantee as a Session's budget, and back."""

from __future__ import annotations

import json
from typing import Any

import pytest

import dpcli
from dpcli.base.errors import InputError
from dpcli.base.lazy import load
from dpcli.exchange.stated import Asserted
from dpcli.exchange.tumult import file_of_session
from dpcli.exchange.tumult_export import BUDGETS, session_of
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.section import MECHANISMS
from tests.cases import of_each
from tests.command import dpcli as command
from tests.exchange.peers import VECTORS

HEAD = """\
format = 1
privacy = { adjacency = "add-remove", unit = "user", max_contributions = 3, releases = "outputs", delta = 1e-6 }
"""
PURE = HEAD + '[[mechanism]]\nname = "it"\ntype = "pure-dp"\nepsilon = 0.7\nstated_for = "unit"\n'


def again(text: str) -> Pipeline:
    return parse(file_of_session(text.encode(), Asserted(unit="user"), (), "session.json").encode(), "it.toml")


@of_each("case", VECTORS["tumult"])
def test_every_session_comes_back(case: dict[str, Any]) -> None:
    """Its tables are one, as the file does not say which; whom it protects and what it may spend are the same."""
    first = again(json.dumps(case["session"]))
    second = again(session_of(first, "data"))
    assert second.mechanisms[0].spec == first.mechanisms[0].spec
    assert second.privacy.max_contributions == first.privacy.max_contributions
    assert dpcli.account(second, delta=1e-6).upper == dpcli.account(first, delta=1e-6).upper


@of_each("kind", sorted(MECHANISMS.registry))
def test_every_type_is_a_budget_or_refused_by_its_name(kind: str) -> None:
    spec = load(MECHANISMS.registry[kind])
    if kind in BUDGETS:
        keys = {"pure-dp": "epsilon = 1.0", "approx-dp": "epsilon = 1.0\ndelta = 1e-7", "zcdp": "rho = 0.1"}[kind]
        assert "privacy_budget" in session_of(
            parse(f'{HEAD}[[mechanism]]\nname = "it"\ntype = "{kind}"\nstated_for = "unit"\n{keys}\n'.encode(), ""), "t"
        )
        return
    first = parse(PURE.encode(), "it.toml")
    entry = first.mechanisms[0]
    made = object.__new__(type(entry))
    for name in ("name", "steps", "epochs", "sampling", "sample", "partition", "description", "uncounted"):
        object.__setattr__(made, name, getattr(entry, name))
    object.__setattr__(made, "type", kind)
    object.__setattr__(made, "spec", object.__new__(spec))
    whole = object.__new__(Pipeline)
    for name in ("privacy", "name", "budget", "gate"):
        object.__setattr__(whole, name, getattr(first, name))
    object.__setattr__(whole, "mechanisms", (made,))
    with pytest.raises(InputError, match="found none" if spec.free else f"its type is {kind}"):
        session_of(whole, "data")


REFUSED = [
    ('"add-remove"', '"replace-one"', "expected add-remove, found replace-one"),
    ("epsilon = 0.7", "epsilon = 0.7\nsteps = 2", "runs more than once"),
    ("epsilon = 0.7", 'epsilon = 0.7\nsampling = { scheme = "poisson", rate = 0.1 }\nsteps = 1', "it is sampled"),
    ("epsilon = 0.7", 'epsilon = 0.7\npartition = "region"', "partition"),
    ('"unit"\n', '"record"\n', "stated for a record"),
    ("delta = 1e-6", "delta = 1e-6, adaptive = true", "expected adaptive = false"),
    ("epsilon = 0.7", 'epsilon = 0.7\nadjacency = "zero-out"', "stated for zero-out"),
    ("[[mechanism]]", '[[mechanism]]\nname = "b"\ntype = "zcdp"\nrho = 0.1\nstated_for = "unit"\n[[mechanism]]', "found 2"),
]


@of_each("old, new, why", REFUSED)
def test_what_a_session_cannot_say_is_refused(old: str, new: str, why: str) -> None:
    assert PURE.count(old) == 1
    with pytest.raises(InputError, match=why):
        session_of(parse(PURE.replace(old, new).encode(), "it.toml"), "data")


def test_the_command_writes_what_the_other_reads(tmp_path: Any) -> None:
    (tmp_path / "it.toml").write_text(PURE)
    result = command("export", "tumult", "it.toml", "--table", "visits", folder=tmp_path)
    assert json.loads(result.out) == {
        "privacy_budget": {"type": "PureDPBudget", "epsilon": 0.7},
        "protected_changes": {"visits": {"type": "AddMaxRows", "max_rows": 3}},
    }
