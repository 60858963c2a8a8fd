"""junit: one test case per check, for CI systems that read test reports."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from dpcli.report.document import Check, Document, visible


def render(document: Document) -> str:
    """A JUnit XML test suite; what is waived is skipped, with the reason."""
    waived = sum(check.waived for check in document.checks)
    failures = sum(not check.passed and not check.waived for check in document.checks)
    counts = f'tests="{len(document.checks)}" failures="{failures}" errors="0" skipped="{waived}"'
    cases = "".join(f"{_case(check)}\n" for check in document.checks)
    suite = f'<testsuite name="dpcli" {counts}>\n{cases}</testsuite>'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="dpcli" {counts}>\n{suite}\n</testsuites>\n'


def _case(check: Check) -> str:
    name = quoteattr(visible(check.name))
    message = visible(check.message)
    if check.waived:
        return _with(name, f"<skipped message={quoteattr(message)}/>")
    if check.passed:
        return f'  <testcase classname="dpcli" name={name}/>'
    return _with(name, f"<failure message={quoteattr(message)}>{escape(message)}</failure>")


def _with(name: str, element: str) -> str:
    return f'  <testcase classname="dpcli" name={name}>\n    {element}\n  </testcase>'
