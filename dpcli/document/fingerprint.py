"""Fingerprints by which a finding is the same one later: file, rule and key, without line and numbers."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Sequence
from urllib.parse import quote

from dpcli.document.document import Finding
from dpcli.git.command import in_repository


def fingerprints(findings: Sequence[Finding]) -> list[str]:
    """Return one fingerprint per finding, all different: a second one of the same file, rule and key is counted."""
    seen: dict[tuple[str, str, str], int] = {}
    result = []
    for finding in findings:
        what = (tidy(finding.path), finding.rule, finding.key)
        seen[what] = seen.get(what, 0) + 1
        text = "\0".join((*what, str(seen[what])))
        result.append(hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest())
    return result


def tidy(path: str) -> str:
    """A path as CI systems compare it: from the root of the repository, forward slashes, no "./"."""
    return posixpath.normpath(in_repository(path).replace("\\", "/"))


def uri(path: str) -> str:
    """The path as a URI reference."""
    return quote(tidy(path), safe="/", errors="surrogateescape")
