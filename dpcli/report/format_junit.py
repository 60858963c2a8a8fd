"""junit: one test case per check, for CI systems that read test reports."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from dpcli.report.document import Check, Document, visible


def render(document: Document) -> str:
    """A JUnit XML test suite."""
    failures = sum(not check.passed for check in document.checks)
    head = f'<testsuite name="dpcli" tests="{len(document.checks)}" failures="{failures}" errors="0" skipped="0">'
    cases = "\n".join(map(_case, document.checks))
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites>\n{head}\n{cases}\n</testsuite>\n</testsuites>\n'


def _case(check: Check) -> str:
    name = quoteattr(visible(check.name))
    if check.passed:
        return f'  <testcase classname="dpcli" name={name}/>'
    message = visible(check.message)
    failure = f"    <failure message={quoteattr(message)}>{escape(message)}</failure>"
    return f'  <testcase classname="dpcli" name={name}>\n{failure}\n  </testcase>'
