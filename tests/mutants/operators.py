"""Small changes of a function's syntax tree, each of which makes a program that should fail some test.

A mutant replaces the text of one node by another text on the same lines, so that nothing else of the file moves. What only describes
(docstrings, annotations, messages of errors, decorators) is left alone.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

COMPARISONS = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in", ast.NotIn: "in",
    ast.Is: "is not", ast.IsNot: "is",
}  # fmt: skip
ARITHMETIC = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "/", ast.Mod: "//"}
EXTREMES = {
    "min": "max",
    "max": "min",
    "any": "all",
    "all": "any",
    "floor": "ceil",
    "ceil": "floor",
    "minimum": "maximum",
    "maximum": "minimum",
}


@dataclass(frozen=True)
class Mutant:
    """One change: in `function`, whose text from byte `start` to byte `end` of the file becomes `new`."""

    function: str
    line: int
    operator: str
    start: int
    end: int
    new: str

    def applied(self, source: str) -> str:
        """Return the source with the change in it."""
        text = source.encode()
        return (text[: self.start] + self.new.encode() + text[self.end :]).decode()

    def shown(self, source: str) -> str:
        """Return the old and the new text, on one line."""
        old = source.encode()[self.start : self.end].decode()
        return f"{' '.join(old.split())} -> {' '.join(self.new.split())}"


def mutants(source: str) -> list[Mutant]:
    """Return every mutant of every function of a file, in the order of the file."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    result = []
    for name, function in functions(ast.parse(source)):
        for node in working(function):
            for operator, new in changes(node):
                start, end = span(node)
                result.append(Mutant(name, node.lineno, operator, start, end, new))
    return sorted(set(result), key=lambda one: (one.start, one.end, one.new))


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Yield the functions of a module and the methods of its classes, with their names."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            yield node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{one.name}", one) for one in node.body if isinstance(one, ast.FunctionDef))


def working(node: ast.AST) -> Iterator[ast.expr | ast.stmt]:
    """Yield the expressions and statements within a function that do something, and none that only describe."""
    for field, value in ast.iter_fields(node):
        if field in {"annotation", "returns", "decorator_list", "args" if isinstance(node, ast.FunctionDef) else ""}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.JoinedStr | ast.Assert):
                continue
            if isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant):  # a docstring
                continue
            if isinstance(child, ast.expr | ast.stmt):
                yield child
            yield from working(child)


def changes(node: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the name of an operator and the text that it puts in a node's place."""
    match node:
        case ast.Compare(left=left, ops=[operator], comparators=[right]) if type(operator) in COMPARISONS:
            yield "comparison", f"({ast.unparse(left)} {COMPARISONS[type(operator)]} {ast.unparse(right)})"
        case ast.BoolOp(op=operator, values=values):
            word = " or " if isinstance(operator, ast.And) else " and "
            yield "connective", f"({word.join(f'({ast.unparse(value)})' for value in values)})"
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "negation", f"bool({ast.unparse(operand)})"
        case ast.UnaryOp(op=ast.USub(), operand=operand) if not isinstance(operand, ast.Constant):
            yield "sign", f"({ast.unparse(operand)})"
        case ast.BinOp(left=left, op=operator, right=right) if (
            type(operator) in ARITHMETIC and not _text(left) and not _text(right)
        ):
            yield "arithmetic", f"(({ast.unparse(left)}) {ARITHMETIC[type(operator)]} ({ast.unparse(right)}))"
        case ast.Constant(value=bool() as value):
            yield "constant", str(not value)
        case ast.Constant(value=int() | float() as value):
            yield "constant", repr(value + 1 if value + 1 != value else 0.5 * value)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=words) if name in EXTREMES:
            yield "extreme", f"{EXTREMES[name]}({', '.join(map(ast.unparse, [*arguments, *words]))})"
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=arguments, keywords=words) if name in EXTREMES:
            yield "extreme", f"{ast.unparse(owner)}.{EXTREMES[name]}({', '.join(map(ast.unparse, [*arguments, *words]))})"
        case ast.IfExp(test=test, body=body, orelse=orelse):
            yield "branch", f"(({ast.unparse(orelse)}) if {ast.unparse(test)} else ({ast.unparse(body)}))"
        case ast.Expr(value=ast.Call()):
            yield "statement", "pass"


def _text(node: ast.expr) -> bool:
    """Return whether a node is a text, on which + and % do not compute numbers."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
