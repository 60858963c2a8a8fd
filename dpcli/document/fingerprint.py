"""Fingerprints of findings, by which a CI system knows a finding again in the next run.

GitLab (formats/gitlab.py) and code scanning (formats/sarif.py) call a finding new if its fingerprint is new. A fingerprint is made of the
file, the rule and the key, not of the line or the message, so that an edit elsewhere in the file makes nothing new.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Sequence
from urllib.parse import quote

from dpcli.document.document import Finding
from dpcli.git.work_trees import path_in_repository


def fingerprints(findings: Sequence[Finding]) -> list[str]:
    """Return one fingerprint for each finding. Findings with equal file, rule and key are numbered, so all fingerprints differ."""
    counts: dict[tuple[str, str, str], int] = {}
    result = []
    for finding in findings:
        identity = (repository_path(finding.path), finding.rule, finding.key)
        counts[identity] = counts.get(identity, 0) + 1
        text = "\0".join((*identity, str(counts[identity])))
        result.append(hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest())
    return result


def repository_path(path: str) -> str:
    """Return a path relative to the root of the repository, with forward slashes and without "./", as CI systems compare paths."""
    return posixpath.normpath(path_in_repository(path).replace("\\", "/"))


def uri(path: str) -> str:
    """Return the path in its repository as a URI reference, as SARIF wants it: "a b.toml" -> "a%20b.toml"."""
    return quote(repository_path(path), safe="/", errors="surrogateescape")
