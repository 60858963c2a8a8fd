"""Fingerprints of findings, by file, rule and key, so that CI recognizes a finding whose line or numbers have changed."""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Sequence
from urllib.parse import quote

from dpcli.document.document import Finding
from dpcli.git.command import path_in_repository


def fingerprints(findings: Sequence[Finding]) -> list[str]:
    """Return one fingerprint per finding, all different: findings of one file, rule and key are numbered."""
    seen: dict[tuple[str, str, str], int] = {}
    result = []
    for finding in findings:
        identity = (repository_path(finding.path), finding.rule, finding.key)
        seen[identity] = seen.get(identity, 0) + 1
        text = "\0".join((*identity, str(seen[identity])))
        result.append(hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest())
    return result


def repository_path(path: str) -> str:
    """Return a path as CI systems compare it: from the root of the repository, with forward slashes and no "./"."""
    return posixpath.normpath(path_in_repository(path).replace("\\", "/"))


def uri(path: str) -> str:
    """Return the path as a URI reference."""
    return quote(repository_path(path), safe="/", errors="surrogateescape")
