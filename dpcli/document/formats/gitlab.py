"""gitlab: a Code Quality report, which GitLab shows on the lines of a merge request.

A *finding* is an error or warning about a place in a file. GitLab compares the fingerprints of the findings (fingerprint.py) with those of
the target branch, and shows which findings are new and which were fixed.
"""

from __future__ import annotations

import json
from typing import Any

from dpcli.document.document import Document, Finding, visible
from dpcli.document.fingerprint import fingerprints, repository_path

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = True
REQUIRED_FIELDS = frozenset({"findings", "checks"})  # of a document that can be shown
COMPLETE_FIELDS = ("findings",)  # shown in full

SEVERITY = {"error": "critical", "warning": "minor", "note": "info"}


def render(document: Document) -> str:
    """Return a JSON list of issues, which may be empty. A suppressed finding has the severity info."""
    pairs = zip(document.findings, fingerprints(document.findings), strict=True)
    return json.dumps([_issue(finding, fingerprint) for finding, fingerprint in pairs], indent=2) + "\n"


def _issue(finding: Finding, fingerprint: str) -> dict[str, Any]:
    """Return a finding as an issue. GitLab needs a line, so that a finding without a place is shown at the first one."""
    return {
        "description": visible(finding.message),
        "check_name": finding.rule,
        "fingerprint": fingerprint,
        "severity": SEVERITY["note" if finding.suppression else finding.level],
        "location": {"path": repository_path(finding.path), "lines": {"begin": max(finding.line, 1)}},
    }
