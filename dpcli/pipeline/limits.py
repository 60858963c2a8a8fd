"""Reading the bytes of a file without trusting it to be one."""

from __future__ import annotations

import os
import stat
import sys

from dpcli.errors import InputError
from dpcli.pipeline.shown import escaped

# tomllib needs up to 500 bytes of memory per byte of hostile text; a thousand mechanisms take 150 KiB.
MAX_BYTES = 512 * 1024
MAX_DEPTH = 32

_NOT_A_FILE = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe; use - to read standard input",
    stat.S_IFCHR: "a device; use - to read standard input",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """At most `MAX_BYTES` + 1 bytes of the regular file at `path`, or of standard input for "-".

    Raises:
        InputError: there is no such file, it is not a regular file, or it cannot be read. Nothing else is opened or waited for.
    """
    name = os.fspath(path)
    return _standard_input() if name == "-" else _regular_file(name)


def _regular_file(name: str) -> bytes:
    try:
        _check_regular(name, os.stat(name).st_mode)
        # Non-blocking, and looked at again once open: the name may have become a pipe in between.
        descriptor = os.open(name, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
        with open(descriptor, "rb") as file:
            _check_regular(name, os.fstat(descriptor).st_mode)
            return file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        raise _refused(name, "no such file") from None
    except PermissionError:
        raise _refused(name, "no permission to read it") from None
    except OSError as error:
        raise _refused(name, (error.strerror or "an unreadable file").lower()) from None
    except ValueError:
        raise _refused(name, "a path that cannot exist") from None


def _check_regular(name: str, mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise _refused(name, _NOT_A_FILE.get(stat.S_IFMT(mode), "something else"))


def _standard_input() -> bytes:
    if sys.stdin is None:
        raise _refused("<stdin>", "standard input closed")
    try:
        return sys.stdin.buffer.read(MAX_BYTES + 1)
    except ValueError:
        raise _refused("<stdin>", "standard input closed") from None
    except OSError as error:
        raise _refused("<stdin>", (error.strerror or "unreadable standard input").lower()) from None


def _refused(name: str, found: str) -> InputError:
    return InputError(f"{escaped_path(name)}: expected a pipeline file, found {found}")


def escaped_path(name: str) -> str:
    """A path as a message may show it: control characters and undecodable bytes escaped."""
    return name if name.isprintable() and len(name) < 400 else escaped(name)
