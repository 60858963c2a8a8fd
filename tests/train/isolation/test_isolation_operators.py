"""Every isolation rule (train/isolation/operators.py, moves.py) against the operator itself, on random calls and on chains of calls.

A record is changed, also to extreme numbers, or left out. Numbers that the rule gives to other records, or to none, must then stay the
same, and record indices must be record indices.
"""

from __future__ import annotations

import itertools
import logging
import math
import os
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_leaves, tree_map_only

from dpcli.base.errors import InputError
from dpcli.train.isolation import moves, operators
from dpcli.train.isolation.batch_size import Shapes, batch_symbol
from dpcli.train.isolation.layout import SHARED, AlongRecords, Layout, Merged, RecordIndices, Shared, coefficient, is_symbolic
from dpcli.train.isolation.operators import RULES
from dpcli.train.isolation.tracker import IsolationFindings, LayoutTracker, Unfollowed
from tests.cases import require_each
from tests.train.isolation.operator_calls import BESIDE, Argument, Example, Times, example

EXTREME = (math.nan, math.inf, -math.inf, 0.0, 1e300, -1e300, 1e-300)


@dataclass(frozen=True, slots=True)
class Claims:
    """What each output holds, and what is written to afterwards, by the rules; whether numbers are drawn."""

    kinds: list[Layout]
    random: bool
    outputs: tuple[Argument, ...] = ()  # as arguments of what follows

    @property
    def understood(self) -> bool:
        """Whether records are followed through it."""
        return any(isinstance(kind, AlongRecords | RecordIndices) for kind in self.kinds)


def tensors(example: Example, out: Any, args: Sequence[Any]) -> list[Any]:
    """What is looked at: what comes out, None where that is nothing, and what was written to."""
    return [leaf for leaf in (*tree_leaves(out), *(args[i] for i in example.written)) if leaf is None or torch.is_tensor(leaf)]


def filled(structure: Any, leaf: Any, count: Any) -> Any:
    """Arguments for a number of records."""
    found = tree_map_only(Argument, leaf, structure)
    return tree_map_only(Times, lambda length: length.by * count, found)


def claims(example: Example) -> Claims | None:
    """By the rules; None where the call is wrong for any number of records."""
    seen = IsolationFindings()
    environment = Shapes(seen)
    follower = LayoutTracker(seen, batch_symbol(environment), lambda: "model", {})
    with torch.no_grad(), FakeTensorMode(shape_env=environment, allow_non_fake_inputs=True), enable_python_dispatcher():

        def made(argument: Argument) -> Tensor:
            shape = [n.by * follower.size if isinstance(n, Times) else n for n in argument.shape]
            found = torch.empty(shape, dtype=argument.dtype)
            follower.store(found, argument.kind)
            return found

        args, kwargs = filled((example.args, dict(example.kwargs)), made, follower.size)
        try:
            with follower:
                out = example.function(*args, **kwargs)
        except (InputError, Unfollowed):
            return Claims([Merged("refused")], False)
        except Exception:  # whatever torch says of arguments that do not fit
            return None
        looked = [tensor for tensor in tensors(example, out, args) if tensor is not None]
        kinds = [follower.layout_of(tensor) for tensor in looked]
        try:
            outputs = [Argument(tuple(map(length, one.shape)), kind, one.dtype) for one, kind in zip(looked, kinds, strict=True)]
        except Unfollowed:  # a length that is no multiple of the number of records, as a window over them leaves
            outputs = []
        return Claims(kinds, seen.random, tuple(outputs))


def length(found: Any) -> int | Times:
    """Of a tensor that is followed."""
    times = coefficient(found) if is_symbolic(found) else None
    return int(found) if times is None else Times(times)


class Earlier:
    """Stands for what the step before made."""


@dataclass(frozen=True, slots=True)
class Steps:
    """One call after the other, on one output of the one before."""

    functions: tuple[Any, ...] = ()
    taken: tuple[int, ...] = ()

    def __call__(self, found: Tensor, *steps: Any) -> Any:
        out: Any = found
        for function, taken, (args, kwargs) in zip(self.functions, self.taken, steps, strict=True):
            args, kwargs = tree_map_only(Earlier, lambda _, now=found: now, (args, kwargs))
            out = [leaf for leaf in tree_leaves(function(*args, **kwargs)) if torch.is_tensor(leaf)]
            found = out[taken]
        return out


def chain(seed: int, names: Sequence[str]) -> tuple[Example, Claims]:
    """A few steps, each of which the rules follow the records through."""
    draw = random.Random(seed)
    start = Argument(tuple(draw.choice([(Times(1), 2, 3), (Times(1), 4), (3, Times(1)), (2, Times(2), 2)])), SHARED)
    dim = next(i for i, n in enumerate(start.shape) if isinstance(n, Times))
    now = start = Argument(start.shape, AlongRecords(dim, 1, 1 if start.shape[dim] == Times(1) else 2), start.dtype)
    if draw.random() < 0.3:
        now = start = Argument((Times(1), 1), RecordIndices(0), torch.int64)
    found = Example("steps", Steps(), (start,), {})
    said = claims(found)
    assert said is not None
    for attempt in range(40):
        if len(found.function.functions) >= draw.randint(3, 6):
            break
        like = replace(now, kind=AlongRecords(now.kind.dim)) if isinstance(now.kind, RecordIndices) else now
        try:
            step = example(draw.choice(names), f"{seed} {attempt}", like)
        except (IndexError, TypeError, KeyError, ValueError):  # of what has another rank
            continue
        swapped = tree_map_only(
            Argument,
            lambda one, like=like: (
                Earlier() if (one.shape, one.kind) == (like.shape, like.kind) and not one.kind.identical else one
            ),
            (step.args, dict(step.kwargs)),
        )
        if not any(isinstance(leaf, Earlier) for leaf in tree_leaves(swapped)):
            continue
        for taken in draw.sample(range(2), 2):
            longer = Steps((*found.function.functions, step.function), (*found.function.taken, taken))
            trial = Example("steps", longer, (*found.args, swapped), {})
            then = claims(trial)
            if then is None or not then.outputs or taken >= len(then.outputs):
                continue
            if isinstance(then.outputs[taken].kind, AlongRecords | RecordIndices):
                found, said, now = trial, then, then.outputs[taken]
                break
    return found, said


def real(example: Example, records: Sequence[int]) -> list[Any]:
    """With numbers: each record's are drawn from its own seed."""
    places = iter(range(10**6))

    def made(argument: Argument) -> Tensor:
        return numbers(argument, next(places), records)

    args, kwargs = filled((example.args, dict(example.kwargs)), made, len(records))
    torch.manual_seed(0)
    with torch.no_grad():
        out = example.function(*args, **kwargs)
    return [None if tensor is None else tensor.clone() for tensor in tensors(example, out, args)]


def numbers(argument: Argument, place: int, records: Sequence[int]) -> Tensor:
    """One tensor of these records."""
    kind, count = argument.kind, len(records)
    shape = [n.by * count if isinstance(n, Times) else n for n in argument.shape]
    if isinstance(kind, RecordIndices):
        return torch.arange(count).view(shape).to(argument.dtype)
    if isinstance(kind, Shared):
        return block(argument, place, -1, shape)
    assert isinstance(kind, AlongRecords)
    own = [*shape[: kind.dim], kind.outer, kind.inner, *shape[kind.dim + 1 :]]
    blocks = [block(argument, place, -1 if kind.identical else record, own) for record in records]
    return torch.stack(blocks, kind.dim + 1).reshape(shape)


def block(argument: Argument, place: int, seed: int, shape: Sequence[int]) -> Tensor:
    draw = np.random.default_rng([place, seed + 1])
    if argument.dtype in (torch.int64, torch.int32, torch.int16):
        return torch.from_numpy(draw.integers(0, argument.choices, shape)).to(argument.dtype)
    if argument.dtype == torch.bool:
        return torch.from_numpy(np.asarray(draw.integers(0, 2, shape) > 0))
    found = torch.from_numpy(np.asarray(draw.uniform(0.05, 0.95, shape)))
    if seed >= 100 and seed % 2:
        found = torch.full_like(found, EXTREME[seed // 2 % len(EXTREME)])
    return found.to(argument.dtype)


def of_each(tensor: Tensor, kind: AlongRecords, count: int) -> Tensor:
    """Each record's numbers, first dimension the records."""
    shape = tensor.shape
    parted = tensor.reshape(*shape[: kind.dim], kind.outer, count, kind.inner, *shape[kind.dim + 1 :])
    return parted.movedim(kind.dim + 1, 0)


def alike(one: Tensor, other: Tensor) -> bool:
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    if not (one.is_floating_point() or one.is_complex()):
        return torch.equal(one, other)
    tolerance = 1e-9 if one.dtype in (torch.float64, torch.complex128) else 1e-4
    return torch.allclose(one, other, rtol=tolerance, atol=tolerance, equal_nan=True)


def contradicted(example: Example, found: Claims, extreme: int) -> Iterator[str]:
    """What the rules say that is not so."""
    if not any(isinstance(kind, AlongRecords | RecordIndices | Shared) for kind in found.kinds):
        return
    for count in (2, 3, 5):
        records = [*range(count)]
        try:
            usual = real(example, records)
        except Exception:  # wrong for numbers only
            return
        if len(usual) != len(found.kinds):
            yield f"{len(usual)} tensors, {len(found.kinds)} claims"
            return
        for tensor, kind in zip(usual, found.kinds, strict=True):
            if tensor is None:
                continue
            if isinstance(kind, RecordIndices):
                places = torch.arange(count).view([-1 if i == kind.dim else 1 for i in range(tensor.dim())])
                if not torch.equal(tensor, places.expand_as(tensor).to(tensor.dtype)):
                    yield f"{count} records: {kind} are no places"
            if isinstance(kind, AlongRecords) and kind.identical:
                each = of_each(tensor, kind, count)
                if not alike(each, each[:1].expand_as(each)):
                    yield f"{count} records: {kind} differ"
        for record in records:
            for other in (100 + 2 * record, 101 + 2 * extreme):
                yield from unlike(example, found, usual, records, [other if r == record else r for r in records], record)
            if count > 2 and not found.random:
                yield from unlike(example, found, usual, records, [r for r in records if r != record], record)


def unlike(example: Example, found: Claims, usual: list[Any], records: list[int], others: list[int], record: int) -> Iterator[str]:
    try:
        changed = real(example, others)
    except Exception:
        return
    kept = [r for r in records if r != record]
    places = [others.index(r) for r in kept]
    for place, (kind, one, other) in enumerate(zip(found.kinds, usual, changed, strict=True)):
        if one is None:
            continue
        if isinstance(kind, Shared) and not alike(one, other):
            yield f"output {place}: {kind} changes with record {record} of {len(records)} ({others})"
        if isinstance(kind, AlongRecords):
            whole = of_each(one, kind, len(records))[kept]
            if not alike(whole, of_each(other, kind, len(others))[places]):
                yield f"output {place}: {kind}: others change with record {record} of {len(records)} ({others})"


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
