"""Every isolation rule (train/isolation/operators.py, moves.py) against the operator itself, on random calls and on chains of calls.

A record is changed, also to extreme numbers, or left out. Numbers that the rule gives to other records, or to none, must then stay the
same, and record indices must be record indices.
"""

from __future__ import annotations

import itertools
import logging
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from dpcli.train.isolation import moves, operators
from dpcli.train.isolation.operators import RULES
from tests.cases import require_each
from tests.train.isolation.operator_calls import BESIDE, example
from tests.train.isolation.operator_truth import Claims, chain, claims, contradicted

SEED = 0 if os.environ.get("CI") else random.SystemRandom().getrandbits(32)
TRIES, ENOUGH = 60, 1 if os.environ.get("CI") else 2
# Whose records are not followed here, and why; a list that is longer or shorter than that is wrong.
NOT_FOLLOWED = {
    **dict.fromkeys(["dot", "embedding_dense_backward", "embedding_sparse_backward", "randperm"], "over all records, always"),
    **dict.fromkeys(["tril", "triu_indices"], "the rule says nothing of them"),
    **dict.fromkeys(["softshrink_backward", "hardshrink_backward"], "torch cannot run them on lengths that are not known"),
    **dict.fromkeys(
        [f"_scaled_dot_product_{kind}_attention{way}" for kind in ("efficient", "flash", "cudnn") for way in ("", "_backward")],
        "of a GPU",
    ),
    "cudnn_batch_norm": "of a GPU",
    "mkldnn_rnn_layer_backward": "takes what its own forward left, and nobody else can read",
}
UNLIKE = {"poisson": "draws as often as its rates say: the next record's draws are others, and as random"}


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Torch logs each call that does not fit."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    yield
    logger.disabled = before


def calls(name: str) -> Iterator[tuple[int, Any, Claims]]:
    """Calls that fit, and what the rules say of them."""
    for seed in range(SEED, SEED + (TRIES // 4 if name in NOT_FOLLOWED else TRIES)):
        try:
            drawn = example(name, seed)
        except IndexError:  # no overload of tensors
            return
        said = claims(drawn)
        if said is not None:
            yield seed, drawn, said


@pytest.mark.sampled(0, 2)
@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_an_operator_does_what_its_rule_says(part: int) -> None:

    def does(name: str) -> None:
        followed = 0
        for seed, drawn, said in calls(name):
            if name not in UNLIKE:
                assert next(contradicted(drawn, said, seed), None) is None, (seed, drawn)
            followed += said.understood
            if followed == ENOUGH:
                break
        assert (followed == 0) == (name in NOT_FOLLOWED)

    require_each([*RULES][part::10], does)


def tagged() -> list[str]:
    """Operators that torch says work number by number, and that need no rule here."""
    found: dict[str, None] = {}
    for text in torch._C._dispatch_get_all_op_names():
        space, _, name = text.partition("::")
        base, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, base, None), overload or "default", None) if space == "aten" else None
        if operator is not None and torch.Tag.pointwise in operator.tags:
            found[base if base.startswith("__") else base.rstrip("_")] = None
    return sorted(set(found) - set(RULES))


@pytest.mark.parametrize("part", [pytest.param(part, marks=pytest.mark.nightly if part else pytest.mark.long) for part in range(4)])
def test_what_torch_calls_pointwise_is(part: int) -> None:
    names = tagged()
    assert len(names) > 100
    for name in names[part::4]:
        for seed, drawn, said in itertools.islice(calls(name), 4):
            assert next(contradicted(drawn, said, seed), None) is None, (name, seed, drawn)
            if said.understood:
                break


MOVES = [name for name, rule in RULES.items() if rule.__module__ == moves.__name__ and rule not in (moves.split, moves.unbind)]
CHAINED = [
    *(name for name in RULES if name not in UNLIKE and RULES[name] not in (moves.split, moves.unbind, operators.recurrent)),
    *BESIDE * 2,
    *MOVES * 3,
]


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(12))
def test_a_chain_of_operators_does_what_the_rules_say(seed: int) -> None:
    drawn, said = chain(SEED + seed, CHAINED)
    assert next(contradicted(drawn, said, SEED + seed), None) is None, (SEED + seed, drawn)
