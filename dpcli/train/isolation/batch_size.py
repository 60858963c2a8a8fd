"""The batch size as a symbol, and the check that a program runs in the same way for every batch size.

A program that takes another path for some batch sizes lets the presence of one record change the losses of all others. traced_program.py
runs the program on tensors whose first length is the symbol. When the program compares this length with a number, as in `if len(x) > 32`,
torch evaluates the comparison for SIZE_HINT and appends it to a list of *guards*. `Shapes` keeps the guards of the user's own code, and
`require_any_size` evaluates them for other sizes: each must hold for every size from 2 on.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

import torch
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

from dpcli.audit.own_code import PACKAGE
from dpcli.base.errors import InputError
from dpcli.train.isolation.tracker import TORCH_FOLDER, IsolationFindings, Unfollowed
from dpcli.train.torch_internals import source_of_symbol

# Batch size for which torch's operators choose an algorithm. It is a large prime, so that it divides no other length.
SIZE_HINT = 1_000_003
# Batch sizes at which each comparison is evaluated. For a comparison of polynomials, the sizes near its roots are added, between which its
# result does not change. Another comparison, such as one of x % 7, is tested at these sizes only, so a branch at other sizes is not found.
# They are a choice of usual batch sizes.
SMALL_SIZES = range(2, 600)
LARGE_SIZES = (1000, 1024, 2048, 4096, 16384)
# Folders of this package that call operators on behalf of a program. Their comparisons are not the user's.
OWN_FOLDERS = tuple(os.path.join(PACKAGE, "train", folder) for folder in ("isolation", "engine"))


class Shapes(ShapeEnv):
    """A shape environment of torch that records the comparisons of the batch size in the user's code.

    Attributes:
        by_user: Comparisons by the user's code, by their text.
    """

    def __init__(self, findings: IsolationFindings) -> None:
        super().__init__(allow_scalar_outputs=False, allow_dynamic_output_shape_ops=False)
        self.findings = findings
        self.by_user: dict[str, Any] = {}
        self.guards = Guards(self.record)

    def evaluate_expr(self, orig_expr: Any, *args: Any, **named: Any) -> Any:
        """Evaluate an expression. Raises Unfollowed, which ends the run on symbols, if the program reads the batch size, as len() does."""
        if orig_expr.free_symbols and not (orig_expr.is_Boolean or orig_expr.is_Relational):  # a number, and no comparison
            self.findings.doubt("the program reads the number of records")
            raise Unfollowed
        return super().evaluate_expr(orig_expr, *args, **named)

    def record(self, guard: Any) -> None:
        """Record a comparison if the user's code made it. Comparisons by torch's operators choose between equivalent algorithms."""
        appended_by = sys._getframe(2)  # the caller of Guards.append
        if not called_by_operator(appended_by):
            self.by_user[str(guard.expr)] = guard

    def require_any_size(self) -> None:
        """Check that every batch size leads to the same path through the program. Raises InputError if not."""
        sympy = importlib.import_module("sympy")
        for text, guard in self.by_user.items():
            (size,) = guard.expr.free_symbols
            for count in deciding_sizes(guard.expr, size):
                if guard.expr.subs(size, count) not in (sympy.true, True):
                    raise InputError(
                        f"model: expected the same path for every batch size, found a branch on the batch size ({text}){line_of(guard)}; "
                        "let the program treat all batch sizes alike"
                    )

    def _get_user_frame(self) -> FrameType | None:
        """Return the innermost frame of the user's code. Torch's version of this method imports its compilers first (45 MB, 0.3 s)."""
        frame: FrameType | None = sys._getframe()
        while frame is not None and frame.f_code.co_filename.startswith(("<", TORCH_FOLDER, os.path.dirname(__file__))):
            frame = frame.f_back
        return None if frame is None or frame.f_code.co_filename.startswith(PACKAGE + os.sep) else frame


class Guards(list[Any]):
    """The list to which torch appends every comparison of sizes. It passes each new comparison to a function."""

    def __init__(self, record: Callable[[Any], None]) -> None:
        super().__init__()
        self.record = record

    def append(self, guard: Any) -> None:
        super().append(guard)
        self.record(guard)


def deciding_sizes(expression: Any, size: Any) -> Iterator[int]:
    """Yield the batch sizes at which a comparison is evaluated: all small sizes, usual ones, and those near the roots."""
    sympy = importlib.import_module("sympy")
    yield from (*SMALL_SIZES, *LARGE_SIZES)
    for relation in expression.atoms(sympy.core.relational.Relational):
        difference = sympy.expand(relation.lhs - relation.rhs)
        if difference.is_polynomial(size) and difference.has(size):
            for root in sympy.Poly(difference, size).real_roots():
                yield from (n for n in range(int(root) - 1, int(root) + 3) if n >= 2)


def batch_symbol(environment: ShapeEnv) -> torch.SymInt:
    """Return a new symbol for the batch size. Torch assumes that the size is at least 2."""
    source = source_of_symbol("batch")
    expression = environment.create_symbol(SIZE_HINT, source=source, dynamic_dim=DimDynamic.DYNAMIC, constraint_dim=None)
    return environment.create_symintnode(expression, hint=SIZE_HINT)  # type: ignore[return-value]


def line_of(guard: Any) -> str:
    """Return the line of the user's code that compares the size, or an empty text if torch does not know it."""
    match = re.search(r"([^\s/\\]+\.py):(\d+)", str(guard.sloc))
    return f" at {match[1]}, line {match[2]}" if match else ""


def called_by_operator(frame: Any) -> bool:
    """Return whether an operator of torch or this package made a call, and not the user's code or one of its hooks.

    Args:
        frame: Frame of the function that made the call.
    """
    while frame is not None:  # files named "<...>" are code that was generated or is in no file
        file = frame.f_code.co_filename
        if frame.f_code.co_name in ("__torch_dispatch__", "__torch_function__") and file.startswith(
            (TORCH_FOLDER, PACKAGE + os.sep)
        ):
            return True
        # `Shapes.evaluate_expr` is on the stack of every comparison, whoever makes it.
        if not file.startswith(("<", TORCH_FOLDER)) and frame.f_code.co_name != "evaluate_expr":
            return os.path.dirname(file) in OWN_FOLDERS
        frame = frame.f_back
    return False
