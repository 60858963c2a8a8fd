"""The errors that dpcli raises on purpose. Each class has the exit code of the command that it ends.

Code raises one of these classes with a message for the user. `dpcli.cli.main` prints the message on standard error and exits with the code.
`dpcli explain exit-codes` lists all codes.
"""

from __future__ import annotations


class DpcliError(Exception):
    """The base class of all errors that dpcli raises on purpose. Commands print the message unchanged."""

    exit_code = 2


class InputError(DpcliError):
    """A file, a flag or a value is not what was expected."""

    exit_code = 2


class Unavailable(InputError):
    """A package, a model or a service is not available on this machine. The file itself may be correct."""


class NotRepresentable(DpcliError):
    """A mechanism has no sound description in the form that an accountant needs, such as a rho or a loss distribution.

    If several accountants are asked, the others still answer, and the message says why this one does not.

    Attributes:
        lacking: Mechanisms without such a description, if the accountant was given several mechanisms.
    """

    exit_code = 3

    def __init__(self, why: str, lacking: tuple[object, ...] = ()) -> None:
        super().__init__(why)
        self.lacking = lacking


class CannotCertify(DpcliError):
    """No sound accountant applies, or a target cannot be met. An unknown cost never passes."""

    exit_code = 3


class Denied(DpcliError):
    """A budget does not allow a cost. Nothing was spent. The message says by how much the cost is too large, and what would fit."""

    exit_code = 1


class LedgerError(DpcliError):
    """A ledger is missing, locked, damaged or of another kind, or has a different entry under the same key. Nothing was written."""

    exit_code = 4


class InternalError(DpcliError):
    """A result cannot be correct, such as NaN or a negative divergence. This is a bug in dpcli. The result is not printed."""

    exit_code = 70
