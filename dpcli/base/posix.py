"""Systems that can lock a file as a ledger and a run need it: accounting itself asks nothing of the system."""

from __future__ import annotations

from dpcli.base.errors import Unavailable


def require_posix(what: str) -> None:
    """Raise Unavailable where files cannot be locked: before anything is charged or written."""
    try:
        import fcntl  # noqa: F401
    except ImportError:
        raise Unavailable(f"{what} needs a POSIX system, such as Linux: nothing locks files here (fcntl)") from None
