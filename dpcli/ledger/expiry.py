"""When a reservation can no longer be voided."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from dpcli.errors import InputError

STAMP = "%Y-%m-%dT%H:%M:%SZ"


def expiry(text: str | None, now: str) -> str | None:
    """The time that `text` means: ISO (UTC where it names no zone), or days or hours from `now` ("14d", "36h").

    Returns it to the second, in UTC. Raises InputError for anything else, or a time that is over.
    """
    if text is None:
        return None
    start = datetime.strptime(now, STAMP).replace(tzinfo=UTC)
    try:
        found = _relative(text, start) or _absolute(text)
    except (ValueError, OverflowError):
        found = start
    if found <= start:
        raise InputError(f"--expires: expected a time to come (2030-12-31T00:00:00Z, 14d or 36h), found {text[:40]!r}")
    return found.strftime(STAMP)


def _relative(text: str, start: datetime) -> datetime | None:
    match = re.fullmatch(r"([0-9]{1,5})([dh])", text)
    return None if match is None else start + timedelta(**{{"d": "days", "h": "hours"}[match[2]]: int(match[1])})


def _absolute(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
