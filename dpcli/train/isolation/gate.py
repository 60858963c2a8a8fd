"""What every engine asks before the first sum: does this program keep records apart?"""

from __future__ import annotations

import copy
import math
import secrets

import torch
from torch import nn
from torch.utils._pytree import tree_map

from dpcli.base.errors import DpcliError, InputError
from dpcli.train.engine.batches import Batch
from dpcli.train.engine.method import Loss
from dpcli.train.engine.probe import check, shifted
from dpcli.train.isolation.program import Program, followed, found_in
from dpcli.train.isolation.rehearsal import Draw, has_numbers, scaled
from dpcli.train.isolation.state import state

SCALES = (1.0, 1e-3, 30.0, 1e3, 1e6)  # a threshold on magnitudes lies below one of them
SEEDS = 3
RECORDS = 7  # a length that other dimensions rarely have: draws are told apart by it


def isolated(model: nn.Module, loss: Loss, draw: Draw) -> Program:
    """Follows the program on no records, and tries it on made-up ones, all on copies that are thrown away.

    Args:
        draw: made-up records.

    Raises:
        InputError: records meet somewhere, or a forward changes something, or it cannot be told.
    """
    before = state(model, loss)
    program = followed(copied(model), loss, draw(2))
    before.require_same(state(model, loss))
    try:
        wide = copied(model).double()
        tried(wide, loss, lambda count: double(draw(count)), program)
    except InputError:
        raise
    except Exception:  # it insists on its own precision
        try:
            tried(copied(model), loss, draw, program)
        except InputError:
            raise
        except Exception as problem:
            raise failed(problem) from problem
    before.require_same(state(model, loss))
    return program


def tried(model: nn.Module, loss: Loss, draw: Draw, program: Program) -> None:
    """In batches and alone, at several magnitudes, under fresh random numbers; nothing may change meanwhile."""
    tolerance = math.pow(program.coarsest, 0.4) if program.coarsest > 1e-6 else 1e-5
    narrow = max(float(torch.finfo(p.dtype).eps) for p in model.parameters() if p.is_floating_point())
    tolerance = max(tolerance, math.pow(narrow, 0.4))
    with shifted(model):
        before = state(model, loss)
        for _ in range(SEEDS):
            for scale in SCALES if has_numbers(draw(1)) else SCALES[:1]:
                check(model, loss, scaled(draw(RECORDS), scale), secrets.randbits(40), tolerance)
                before.require_same(state(model, loss))


def copied(model: nn.Module) -> nn.Module:
    """One that nobody needs.

    Raises:
        InputError: it cannot be copied.
    """
    try:
        return copy.deepcopy(model)
    except Exception as problem:  # whatever its attributes raise
        raise InputError(
            f"model: expected a module that can be copied, so that it can be tried, found {found_in(problem)}"
        ) from None


def double(batch: Batch) -> Batch:
    """In double precision."""
    found: Batch = tree_map(lambda leaf: leaf.double() if leaf.is_floating_point() else leaf, batch)
    return found


def failed(problem: Exception) -> InputError:
    """Of a program that raises on made-up records."""
    cause = problem.__cause__ if isinstance(problem, DpcliError) and problem.__cause__ is not None else problem
    return InputError(f"model: expected a program that runs on made-up records, found {found_in(cause)}")
