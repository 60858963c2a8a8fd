"""Lint findings for people: every one with its source line and caret, then the count. Loads nothing else: lint is to be fast."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dpcli.document.document import visible
from dpcli.file.toml.findings import Diagnostic, render_all


def render(paths: Sequence[str], diagnostics: Sequence[Diagnostic], left: Mapping[str, int] | None = None) -> str:
    """The findings and the summary line."""
    return (render_all(tuple(diagnostics)) + "\n" if diagnostics else "") + summary(paths, diagnostics, left) + "\n"


def summary(paths: Sequence[str], diagnostics: Sequence[Diagnostic], left: Mapping[str, int] | None = None) -> str:
    """How many errors and warnings in how many files; and how many findings there are of rules that were not to be told."""
    errors = sum(d.severity == "error" for d in diagnostics)
    counts = ((errors, "error"), (len(diagnostics) - errors, "warning"), (len(paths), "file"))
    said = "{}, {} in {}".format(*(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts))
    return said + (f"; {left_out(left)}" if left else "")


def left_out(left: Mapping[str, int]) -> str:
    """`3 left out by --select or --ignore (2 DP105, 1 DP304)`."""
    rules = ", ".join(f"{count} {code}" for code, count in left.items())
    return f"{sum(left.values())} left out by --select or --ignore ({rules})"


def exit_code(diagnostics: Sequence[Diagnostic]) -> int:
    """2 where a file cannot be read as a pipeline, 1 where there is an error, else 0."""
    errors = [d.rule for d in diagnostics if d.severity == "error"]
    return 2 if any(rule <= "DP005" for rule in errors) else 1 if errors else 0


def first_error(diagnostics: Sequence[Diagnostic]) -> str:
    """The first error in one line, and how many more there are."""
    first, *more = [d for d in diagnostics if d.severity == "error"]
    place = f"{first.path}:{first.line}:{first.column}" if first.line else first.path
    words = f"{place}: {first.rule}: {f'{first.key}: ' if first.key else ''}{first.message}"
    return visible(words) + (f" (and {len(more)} more)" if more else "")
