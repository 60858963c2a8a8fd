"""sarif: findings in the static-analysis interchange format, version 2.1.0."""

from __future__ import annotations

import json
from typing import Any

from dpcli import __version__
from dpcli.report.document import Document, Finding


def render(document: Document) -> str:
    """One run of the tool dpcli, with one result per finding."""
    rules = sorted({finding.rule: finding.title or finding.rule for finding in document.findings}.items())
    driver = {
        "name": "dpcli",
        "version": __version__,
        "rules": [{"id": rule, "shortDescription": {"text": title}} for rule, title in rules],
    }
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding) for finding in document.findings],
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _result(finding: Finding) -> dict[str, Any]:
    location: dict[str, Any] = {"artifactLocation": {"uri": finding.path.replace("\\", "/")}}
    if finding.line:
        location["region"] = {"startLine": finding.line, "startColumn": max(finding.column, 1)}
    return {
        "ruleId": finding.rule,
        "level": finding.level,
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": location}],
    }
