"""The exit codes of every command, which no format changes."""

from __future__ import annotations

from dpcli.explain.wrapped import filled, hanging

EXIT_CODES = (
    ("0", "pass"),
    ("1", "a gate, a budget or a rule said no"),
    ("2", "usage, file or input error"),
    ("3", "cannot certify: no sound accountant applies, or a target cannot be met"),
    ("4", "a ledger is missing, locked or damaged, or holds something else under the same key"),
    ("70", "a bug of dpcli"),
    ("130", "interrupted"),
)
MEANT = (
    "A script or a CI system reads the verdict from the exit code; why it is not 0 is on standard error. Unknown is no pass: where "
    "nothing can be certified the code is 3. Where several hold, 70 goes before 4, 2, 3 and 1."
)


def exit_codes() -> str:
    """All of them, and how they are to be read."""
    return "\n".join(["exit-codes", "", filled(MEANT), "", *(hanging(f"{code}: {words}") for code, words in EXIT_CODES)])
