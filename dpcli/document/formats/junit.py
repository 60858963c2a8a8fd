"""junit: one test case for each check, for CI systems that read test reports.

A *check* is a condition that a command examined, such as a budget (`Check` in document.py). A check that failed is a failure, one that
could not be decided is an error, and one that failed but was granted an exception (*waived*) is skipped.
"""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from dpcli.document.document import Check, Document, visible

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = True
PATH_ENDINGS = (".xml",)
REQUIRED_FIELDS = frozenset({"checks"})  # of a document that can be shown
COMPLETE_FIELDS = ("checks",)  # shown in full


def render(document: Document) -> str:
    kinds = [_kind(check) for check in document.checks]
    failures, errors, waived = (kinds.count(kind) for kind in ("failure", "error", "skipped"))
    counts = f'tests="{len(kinds)}" failures="{failures}" errors="{errors}" skipped="{waived}"'
    cases = "".join(f"{_case(check)}\n" for check in document.checks)
    suite = f'<testsuite name="dpcli" {counts}>\n{cases}</testsuite>'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="dpcli" {counts}>\n{suite}\n</testsuites>\n'


def _kind(check: Check) -> str:
    """Return the name of the XML element for the outcome of a check; "" if the check passed."""
    if check.waived:
        return "skipped"
    if check.passed:
        return ""
    return "error" if check.error else "failure"


def _case(check: Check) -> str:
    """Return the test case of a check. A waived check has no text in it, only the message."""
    start = f'  <testcase classname="dpcli" name={quoteattr(visible(check.name))}'
    message, kind = visible(check.message), _kind(check)
    if not kind:
        return f"{start}/>"
    text = "/>" if check.waived else f">{escape(message)}</{kind}>"
    return f"{start}>\n    <{kind} message={quoteattr(message)}{text}\n  </testcase>"
