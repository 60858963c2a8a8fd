"""sarif: findings in the static analysis results interchange format, version 2.1.0.

A *finding* is an error or a warning about a place in a file (`Finding` in document.py). It becomes a result at its place, and its rule has
title, help and link. A finding that a file or a policy suppresses stays in the report, marked as suppressed, with its justification. A
*fingerprint* tells code scanning which findings are new (fingerprint.py).
"""

from __future__ import annotations

import json
from typing import Any

from dpcli import __version__
from dpcli.document.document import Document, Finding, Suppression, visible
from dpcli.document.fingerprint import fingerprints, uri

# Properties of the format, which facts.py reads by name.
CI_READS_VERDICT = True  # an empty report would look like a pass
PATH_ENDINGS = (".sarif",)  # such paths select the format
REQUIRED_FIELDS = frozenset({"findings", "checks"})  # documents of other commands have nothing to show here
COMPLETE_FIELDS = ("findings",)  # these are shown in full

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"


def render(document: Document) -> str:
    """Return a log with one run of the tool dpcli and one result for each finding."""
    rules = {finding.rule: finding for finding in document.findings}  # any finding has the title, help and link of its rule
    driver = {"name": "dpcli", "version": __version__, "rules": [_rule(rules[name]) for name in sorted(rules)]}
    pairs = zip(document.findings, fingerprints(document.findings), strict=True)
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": [_result(finding, fingerprint) for finding, fingerprint in pairs],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2) + "\n"


def _rule(finding: Finding) -> dict[str, Any]:
    paragraphs = "\n\n".join(map(visible, finding.help.split("\n\n")))  # `visible` escapes control characters
    return {
        "id": finding.rule,
        "shortDescription": {"text": visible(finding.title or finding.rule)},
        **({"help": {"text": paragraphs}} if paragraphs else {}),
        **({"helpUri": finding.link} if finding.link else {}),
    }


def _result(finding: Finding, fingerprint: str) -> dict[str, Any]:
    """Return a finding as a result, with its place, its fingerprint and, if it is suppressed, the justification."""
    place = uri(finding.path)
    # A path counts from the root of the repository, unless it is absolute, as that of a file outside of it.
    root = {} if place.startswith("/") else {"uriBaseId": "%SRCROOT%"}
    location: dict[str, Any] = {"artifactLocation": {"uri": place, **root}}
    if finding.line:
        location["region"] = {"startLine": finding.line, "startColumn": max(finding.column, 1)}
    return {
        "ruleId": finding.rule,
        "level": finding.level,
        "message": {"text": visible(finding.message)},
        "locations": [{"physicalLocation": location}],
        "partialFingerprints": {"dpcli/v1": fingerprint},
        **({"suppressions": [_suppression(finding.suppression)]} if finding.suppression else {}),
    }


def _suppression(suppression: Suppression) -> dict[str, str]:
    where = "external" if suppression.external else "inSource"
    return {"kind": where, "status": "accepted", "justification": visible(suppression.justification)}
