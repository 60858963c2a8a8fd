"""junit: one test case per check, for CI systems that read test reports."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from dpcli.document.document import Check, Document, visible

JUDGES = True
ENDINGS = (".xml",)
NEEDS = frozenset({"checks"})
SHOWS = ("checks",)


def render(document: Document) -> str:
    """A JUnit XML test suite; what is waived is skipped, with the reason."""
    kinds = [_kind(check) for check in document.checks]
    failures, errors, waived = (kinds.count(kind) for kind in ("failure", "error", "skipped"))
    counts = f'tests="{len(kinds)}" failures="{failures}" errors="{errors}" skipped="{waived}"'
    cases = "".join(f"{_case(check)}\n" for check in document.checks)
    suite = f'<testsuite name="dpcli" {counts}>\n{cases}</testsuite>'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="dpcli" {counts}>\n{suite}\n</testsuites>\n'


def _kind(check: Check) -> str:
    """The element that tells how a test case went; none where it passed."""
    return "skipped" if check.waived else "" if check.passed else "error" if check.error else "failure"


def _case(check: Check) -> str:
    start = f'  <testcase classname="dpcli" name={quoteattr(visible(check.name))}'
    message, kind = visible(check.message), _kind(check)
    if not kind:
        return f"{start}/>"
    text = "/>" if check.waived else f">{escape(message)}</{kind}>"
    return f"{start}>\n    <{kind} message={quoteattr(message)}{text}\n  </testcase>"
