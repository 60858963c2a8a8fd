"""Messages that list names stop at eight, and one function cuts them: who has thousands of entries reads a line, not a file."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from dpcli.file.toml.shown import NAMED, first_names
from tests.command import ROOT, dpcli
from tests.trees import nodes

# What is joined in full: it has a few parts whatever a file says, by the expression that stands there.
FEW = {
    "(one.value for one in Adjacency)",
    "(a.value for a in Adjacency)",
    "given",  # goals that were stated
    "formats.choices",
    "map(shown, names)",  # of one class
    "others",  # kinds of inputs of a session
    "needed",  # fields of an object
    "(*needed, *optional)",
    "classes",
    "found",  # commits of one name
    "sorted(given)",  # keys of blocks
    "cells",  # cut by characters, as the next three
    "stated",
    "pipeline.privacy.window",
    "(s.capitalize() for s in scripts)",
    "map(str, first.key)",  # one key
    "map(str, key)",
    "wanted",  # arrays of a file
    "names",
    "other",  # fields of a run
    "sorted({str(one) for one in types})",
    "failing",  # two conditions
    "sorted(kinds)",  # kinds of files
    "types",
    "map(str, shape)",
}


def joined(every: Iterable[ast.AST]) -> Iterator[tuple[int, str]]:
    """What messages of a module join with a separator, but for names that the code itself holds, and slices."""
    for text in (node for node in every if isinstance(node, ast.JoinedStr)):
        words = "".join(part.value for part in text.values if isinstance(part, ast.Constant))
        if "expected" not in words and "found" not in words:
            continue
        for call in (call for part in text.values if isinstance(part, ast.FormattedValue) for call in ast.walk(part)):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr == "join":
                inside = list(ast.walk(call.args[0]))
                own = any(isinstance(one, ast.Name) and (one.id.isupper() or one.id == "get_args") for one in inside)
                if not own and not any(isinstance(one, ast.Slice) for one in inside):
                    yield text.lineno, ast.unparse(call.args[0])


def test_no_message_joins_names_of_a_file_by_itself() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {what}"
        for path in sorted((ROOT / "dpcli").rglob("*.py"))
        if ".join(" in (text := path.read_text()) and ("expected" in text or "found" in text)
        for line, what in joined(nodes(path))
        if what not in FEW
    ]
    assert not found, "list them with dpcli.file.toml.shown.first_names"
    planted = ast.parse("raise InputError(f\"expected one of {', '.join(e.name for e in entries)}, found {name}\")")
    assert list(joined(ast.walk(planted))) == [(1, "(e.name for e in entries)")]


@pytest.mark.parametrize("count", [0, 1, NAMED, NAMED + 1, 3_000])
def test_eight_are_named_and_the_others_counted(count: int) -> None:
    told = first_names((f"n{k}" for k in range(count)), "nothing")
    expected = ", ".join(f"n{k}" for k in range(min(count, 8))) or "nothing"
    assert told == expected + (f" and {count - 8:,} more" if count > 8 else "")


ENTRY = '[[mechanism]]\nname = "number-{}"\ntype = "{}"\nnoise_multiplier = 900.0\n'
PRIVACY = '[privacy]\nunit = "example"\nadjacency = "add-remove"\ndelta = 0.0\n'
TABLES = {
    "train": '[train]\nmechanism = "other"\n',
    "federated": '[federated]\nmechanism = "other"\n',
}


@pytest.mark.parametrize(
    ("arguments", "table"),
    [
        (("calibrate", "--solve", "noise", "-m", "other", "--target-epsilon", "1", "--delta", "1e-6"), ""),
        (("calibrate", "--solve", "noise", "--target-epsilon", "1", "--delta", "1e-6"), ""),
        (("account",), ""),
        (("account",), TABLES["train"]),
        (("account",), TABLES["federated"]),
        (("train", "--dry-run"), TABLES["train"]),
        (("pate", "account"), "[pate]\n"),
        (("generate", "--dry-run"), "[generate]\n"),
    ],
)
def test_no_line_of_a_refusal_grows_with_the_file(arguments: tuple[str, ...], table: str, tmp_path: Path) -> None:
    entries = "".join(ENTRY.format(k, "gaussian") for k in range(1_500))
    (tmp_path / "many.toml").write_text(f"format = 1\n{PRIVACY}{table}{entries}")
    name, *flags = arguments
    said = (
        dpcli(name, *flags[:1], "many.toml", *flags[1:], folder=tmp_path)
        if name == "pate"
        else dpcli(name, "many.toml", *flags, folder=tmp_path)
    )
    assert said.code and max(map(len, said.err.splitlines())) < 700, said.err[:1000]
