"""No arithmetic on a privacy parameter in documents and charts: what they show, they ask of the class that owns it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import dpcli

PARAMETER = re.compile(r"epsilon|sigma|delta|scale|(?<![a-z])rho(?![a-z])")
LOG_OR_ROOT = re.compile(r"(math|np|numpy)[.](log|exp|sqrt|erf|pow|expm1|log1p)")
# A file, the whole expression, and why it is none of a mechanism's.
REASONED = {
    ("comments/documents/comment.py", "file.epsilon_at_base_delta - file.base.epsilon"): "by how much two answers differ",
    ("gate/documents/gate.py", "file.epsilon_at_base_delta - file.base.epsilon"): "by how much two answers differ",
    ("predict/documents/sessions.py", "rho * generate.tokens"): "rho adds up, token by token",
    ("ledger/documents/ledger_balance.py", "LEAST_TOLD_CONVERSION * state.epsilon"): "from where on a line is worth its place",
    ("plots/renyi_divergence.py", "TALL * epsilon"): "where an axis ends",
    ("plots/renyi_divergence.py", "math.log(delta)"): "an argument of the conversion, which has delta so",
}


def formulas() -> set[tuple[str, str]]:
    """File and expression, the outermost one of each, of all that presents or draws."""
    found, package = set(), Path(dpcli.__file__).parent
    for path in sorted((*package.glob("*/documents/*.py"), *package.glob("plots/*.py"))):
        for node in ast.walk(ast.parse(path.read_text())):
            computes = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.Div | ast.Pow)
            computes = computes or (isinstance(node, ast.Call) and LOG_OR_ROOT.match(ast.unparse(node.func)) is not None)
            annotation = isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr)
            if computes and not annotation and any(map(_parameter, _operands(node))):
                found.add((path.relative_to(package).as_posix(), ast.unparse(node)))
    return found


def _operands(node: ast.AST) -> list[ast.expr]:
    return [node.left, node.right] if isinstance(node, ast.BinOp) else list(getattr(node, "args", ()))


def _parameter(node: ast.expr) -> bool:
    """Whether a number by such a name is in it, not as an argument of a function that owns what it answers."""
    if isinstance(node, ast.Name | ast.Attribute):
        return PARAMETER.search((node.id if isinstance(node, ast.Name) else node.attr).lower()) is not None
    if isinstance(node, ast.Call) and LOG_OR_ROOT.match(ast.unparse(node.func)) is None:
        return False
    return any(_parameter(each) for each in ast.iter_child_nodes(node) if isinstance(each, ast.expr))


def test_nothing_shown_is_computed_from_a_parameter() -> None:
    assert formulas() == set(REASONED)


def test_a_formula_is_seen() -> None:
    node = ast.parse("2.0 * math.log(1.0 / found.delta) / found.epsilon").body[0]
    assert isinstance(node, ast.Expr) and any(map(_parameter, _operands(node.value)))
