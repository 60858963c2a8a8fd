"""Tests of diagnostics as a person sees them, verbatim."""

from __future__ import annotations

from dataclasses import replace

from dpcli.file.toml.findings import WIDTH, Diagnostic, InvalidFile, render, render_all
from tests.cases import of_each


def diagnostic(source: str, column: int, path: str = "train.toml") -> Diagnostic:
    return Diagnostic("DP004", "error", "expected a number > 0, found -1", path, "mechanism[2].sigma", 12, column, source)


HEAD = "train.toml:12:{}: error DP004: mechanism[2].sigma: expected a number > 0, found -1\n"


@of_each(
    ("source", "column", "excerpt"),
    [
        ("sigma = -1", 1, "    sigma = -1\n    ^"),
        ("x = { sigma = -1 }", 7, "    x = { sigma = -1 }\n          ^"),
        ("\t\tsigma = -1", 3, "    \t\tsigma = -1\n    \t\t^"),
        ('"\x1b[31m" = 1', 8, '    "\\u001b[31m" = 1\n                ^'),
        ('"\u202e" = 1, x = 2', 10, '    "\\u202e" = 1, x = 2\n                  ^'),
        ('"\u5bc6\u7801" = 1', 6, '    "\u5bc6\u7801" = 1\n           ^'),
        ('"e\u0301" = 1', 6, '    "e\u0301" = 1\n        ^'),
    ],
)
def test_caret(source: str, column: int, excerpt: str) -> None:
    assert render(diagnostic(source, column)) == HEAD.format(column) + excerpt


def test_no_source_line() -> None:
    assert render(diagnostic("", 1)) + "\n" == HEAD.format(1)


def test_no_place() -> None:
    whole = Diagnostic("DP001", "error", "expected a file of at most 1024 KiB, found more", "train.toml")
    assert render(whole) == "train.toml: error DP001: expected a file of at most 1024 KiB, found more"


def test_a_long_line_is_cut_at_the_end() -> None:
    line, caret = render(diagnostic("sigma = " + "1" * 500, 1)).split("\n")[1:]
    assert line == "    sigma = " + "1" * (WIDTH - 8) + "..."
    assert caret == "    ^"


def test_a_long_line_is_cut_on_both_sides() -> None:
    line, caret = render(diagnostic("x" * 300 + "sigma" + "y" * 300, 301)).split("\n")[1:]
    assert line[caret.index("^") :].startswith("sigma")
    assert line.startswith("    ...xxx")
    assert line.endswith("yyy...")
    assert len(line) == WIDTH + 10


def test_a_path_cannot_command_the_terminal() -> None:
    assert render(diagnostic("", 1, "a\x1b[31m.toml")).startswith("a\\u001b[31m.toml:12:1: error DP004: ")


def test_all_of_them() -> None:
    both = (diagnostic("sigma = -1", 1), diagnostic("sigma = -1", 2))
    assert render_all(both) == render(both[0]) + "\n" + render(both[1])
    assert str(InvalidFile(both)) == render_all(both)
    again = replace(both[0], key="mechanism[2].sigma")
    assert render_all((both[0], again)) == render(replace(both[0], key=f"{both[0].key} and 1 more"))
