"""Diagnostics in the machine form, and as CI systems show them."""

from __future__ import annotations

from typing import Any

from dpcli.document.document import Finding
from dpcli.toml.diagnostics import Diagnostic


def diagnostic_data(d: Diagnostic) -> dict[str, Any]:
    """One diagnostic in the machine form."""
    return {
        "rule": d.rule,
        "severity": d.severity,
        "file": d.path,
        "path": d.key,
        "line": d.line,
        "column": d.column,
        "message": d.message,
    }


def finding(d: Diagnostic) -> Finding:
    """A diagnostic as CI systems show it."""
    from dpcli.lint.catalogue import address, in_short, words

    return Finding(
        d.path,
        d.rule,
        d.severity,
        f"{d.key}: {d.message}" if d.key else d.message,
        d.line,
        d.column,
        words(d.rule).title,
        d.key,
        help=in_short(d.rule),
        link=address(d.rule),
    )
