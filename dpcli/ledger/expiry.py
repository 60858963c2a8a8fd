"""When a reservation can no longer be voided."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

from dpcli.base.errors import InputError

STAMP = "%Y-%m-%dT%H:%M:%SZ"


def clock() -> str:
    """Now by this machine's clock, in UTC, to the second: nothing stops it from being set back."""
    return datetime.now(UTC).strftime(STAMP)


def is_stamp(text: str) -> bool:
    """Whether it is a time as entries state one."""
    try:
        datetime.strptime(text, STAMP)
    except ValueError:
        return False
    return len(text) == len("2030-01-01T00:00:00Z")


def later(now: str, days: int = 0, seconds: int = 0) -> str:
    """So much later."""
    try:
        return (datetime.strptime(now, STAMP) + timedelta(days=days, seconds=seconds)).strftime(STAMP)
    except OverflowError:  # the calendar ends
        return now


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
