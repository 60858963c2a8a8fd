"""Reading a policy file: as strict, and as kind, as a pipeline file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.kinds import KeyPlace
from dpcli.file.keys.tables import Members, read_members
from dpcli.file.pipeline.document import TOP
from dpcli.file.pipeline.read import refuse, toml_document
from dpcli.file.toml.findings import Diagnostic, Findings, InvalidFile, TooMany
from dpcli.file.toml.limits import title
from dpcli.file.toml.suggest import closest
from dpcli.gate.policy import Policy
from dpcli.git.revision import read_source

# The keys at the top of a policy, which no pipeline file has but "format".
KEYS: Members = {"format": TOP["format"], **members_of(Policy)}


def read_policy(source: str) -> Policy:
    """The policy in a file, on standard input ("-"), or at REVISION:PATH, where no change under review can touch it.

    Raises:
        InputError: there is no such file. InvalidFile: with every problem found, at its place.
    """
    return read_policy_bytes(read_source(source, "a policy file"), source)


def read_policy_bytes(data: bytes, source: str) -> Policy:
    """The policy in the bytes of a file that messages call `source`. Raises InvalidFile as `read_policy` does."""
    text, tables = toml_document(data, source)
    from dpcli.file.pipeline.other_files import instead_of_policy

    other = instead_of_policy(tables)
    if other is not None:
        raise InvalidFile((Diagnostic("DP001", "error", f"expected a policy file, found {other}", title(source)),))
    findings = Findings(advice=_advice)
    values: dict[str, Any] = {}
    try:
        values = read_members(KEYS, tables, KeyPlace((), findings))
        for key, expected, found in _policy(values).problems() if not findings.items else ():
            findings.add("DP005", key, expected, found)
    except TooMany:
        pass
    refuse(findings, tables, text, source)
    return replace(_policy(values), path=source)


def _policy(values: dict[str, Any]) -> Policy:
    return Policy(**{key: value for key, value in values.items() if key != "format"})


def _advice(key: str, known: Iterable[str]) -> tuple[str | None, str]:
    meant = closest(key, known)
    return (meant, f"did you mean '{meant}'") if meant else (None, "")
