"""A memory of isolation checks, so that tests of runs do not check the same few models of dpcli's own tasks again and again.

The memory is not used in tests of the engine and of the isolation itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any
from unittest import mock

if TYPE_CHECKING:
    from dpcli.train.isolation.traced_program import Program

OURS = ("torch", "dpcli", "transformers", "peft")

_found: dict[Any, tuple[Program, tuple[int, ...]]] = {}


def key(model: Any, loss: Any, draw: Callable[[int], Any]) -> tuple[object, ...] | None:
    """What a program is: None where some of it is the user's or a test's, of which nothing is remembered."""
    from torch.utils._pytree import tree_leaves

    given = ()
    while isinstance(loss, partial):
        given, loss = (*given, repr(loss.args), repr(loss.keywords)), loss.func
    written = [getattr(loss, "__module__", ""), *(type(module).__module__ for module in model.modules())]
    if any(module.partition(".")[0] not in OURS for module in written) or getattr(loss, "__closure__", ()) is not None:
        return None  # a closure may hold a function of the user's
    parameters = tuple((name, p.shape, p.dtype, p.requires_grad) for name, p in model.named_parameters())
    leaves = tuple((leaf.shape[1:], leaf.dtype) for leaf in tree_leaves(draw(1)))
    return (
        repr(model),
        str(getattr(model, "config", "")),
        model.training,
        parameters,
        loss.__module__,
        loss.__qualname__,
        given,
        leaves,
    )


@contextmanager
def following_once() -> Iterator[None]:
    """Inside, no such program is followed again; as many records are drawn as if it were, so that a seed means the same each time."""
    from dpcli.train.engine import per_example

    check_isolation = per_example.check_isolation

    def once(model: Any, loss: Any, draw: Callable[[int], Any]) -> Program:
        program = key(model, loss, draw)
        if program is None:
            return check_isolation(model, loss, draw)
        if program in _found:
            answer, counts = _found[program]
            for count in counts:
                draw(count)
            return answer
        drawn: list[int] = []

        def counted(count: int) -> Any:
            drawn.append(count)
            return draw(count)

        answer = check_isolation(model, loss, counted)
        _found[program] = answer, tuple(drawn)
        return answer

    with mock.patch.object(per_example, "check_isolation", once):
        yield
