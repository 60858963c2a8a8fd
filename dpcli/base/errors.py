"""The errors that a user can meet, each with the exit code of the process it ends."""

from __future__ import annotations


class DpcliError(Exception):
    """Base of every error that dpcli raises on purpose; the message is shown as it stands."""

    exit_code = 2


class InputError(DpcliError):
    """A file, a flag or a value is not what was expected."""

    exit_code = 2


class Unavailable(InputError):
    """Something that the file asks for is not installed or downloaded on this machine; the file itself may be right."""


class NotRepresentable(DpcliError):
    """A mechanism has no sound description in the terms an accountant needs; the message says why.

    lacking: the mechanisms that it is about, where an accountant has several before it.
    """

    exit_code = 3

    def __init__(self, why: str, lacking: tuple[object, ...] = ()) -> None:
        super().__init__(why)
        self.lacking = lacking


class CannotCertify(DpcliError):
    """No sound accountant applies, or a target cannot be met: unknown is never a pass."""

    exit_code = 3


class Denied(DpcliError):
    """A budget said no: nothing was spent; the message says by how much, and what would fit."""

    exit_code = 1


class LedgerError(DpcliError):
    """A ledger is missing, locked, damaged, of another kind, or holds something else under the same key; nothing was written."""

    exit_code = 4


class InternalError(DpcliError):
    """A result that cannot be right (NaN, negative divergence): a bug of ours, never a number."""

    exit_code = 70
