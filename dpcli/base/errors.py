"""The errors that dpcli raises for its users. Each class states the exit code of a process that it ends."""

from __future__ import annotations


class DpcliError(Exception):
    """Base of every error that dpcli raises on purpose. The command line prints the message unchanged."""

    exit_code = 2


class InputError(DpcliError):
    """A file, a flag or a value is not what was expected."""

    exit_code = 2


class Unavailable(InputError):
    """Something that the file needs is not installed or downloaded on this machine. The file itself may be correct."""


class NotRepresentable(DpcliError):
    """An accountant has no sound description of a mechanism, such as its Renyi curve. The message says why.

    Attributes:
        lacking: The mechanisms without a description, if the accountant was given several.
    """

    exit_code = 3

    def __init__(self, why: str, lacking: tuple[object, ...] = ()) -> None:
        super().__init__(why)
        self.lacking = lacking


class CannotCertify(DpcliError):
    """No sound accountant applies, or a target cannot be met. An unknown cost never passes a check."""

    exit_code = 3


class Denied(DpcliError):
    """A budget does not allow a charge, and nothing was spent. The message says by how much, and what would fit."""

    exit_code = 1


class LedgerError(DpcliError):
    """A ledger cannot be used, and nothing was written.

    It is missing, locked, damaged or of another kind, or it holds a different entry under the same key.
    """

    exit_code = 4


class InternalError(DpcliError):
    """A computed result is impossible, such as NaN or a negative divergence. This is a bug in dpcli; the result is never printed."""

    exit_code = 70
