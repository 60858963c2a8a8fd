"""Reading the bytes of a file or of standard input, with limits on its size and on the kind of file.

A file may come from elsewhere: it must not exhaust memory, and a pipe or a device must not make a command wait. Callers get one byte more
than a file may have, by which they see that it is too large (syntax.py refuses it). Standard input can be read only once, so its bytes are
kept.
"""

from __future__ import annotations

import os
import stat
import sys
from typing import TextIO
from weakref import WeakKeyDictionary

from dpcli.base.errors import InputError
from dpcli.file.toml.shown import escaped

# Largest size of a pipeline file. tomli needs up to 500 bytes of memory per byte of hostile text, and a list of a hundred thousand numbers,
# which a file may have, takes 900 KiB.
MAX_BYTES = 1024 * 1024
MAX_DEPTH = 32  # largest depth of nested tables and lists, since tomli recurses; arbitrary, no key of a pipeline is nearly as deep

_stdin_content: WeakKeyDictionary[TextIO, bytes] = WeakKeyDictionary()

_NOT_A_FILE = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a named pipe; use - to read standard input",
    stat.S_IFCHR: "a device; use - to read standard input",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
}


def read_bytes(path: str | os.PathLike[str], what: str = "a pipeline file") -> bytes:
    """Return at most `MAX_BYTES` + 1 bytes of a regular file, or of standard input for "-".

    Args:
        what: The expected kind of file, for the message of an error.

    Raises:
        InputError: There is no such file, it is not a regular file, or it cannot be read. A pipe or a device is never opened or waited for.
    """
    return read_head(path, MAX_BYTES, what)


def read_head(path: str | os.PathLike[str], most: int, what: str) -> bytes:
    """Return at most `most` + 1 bytes of a file. The arguments and errors are those of `read_bytes`."""
    name = os.fspath(path)
    try:
        return _standard_input(most) if name == "-" else _regular_file(name, most)
    except _Unreadable as unreadable:
        raise InputError(f"{unreadable.name}: expected {what}, found {unreadable}") from None


def read_again(path: str) -> bytes:
    """Return the bytes of a file or, for "-", the bytes that were read from standard input before.

    Raises InputError as `read_bytes`, or if nothing was read from standard input before.
    """
    if path == "-" and (sys.stdin is None or sys.stdin not in _stdin_content):
        raise InputError("<stdin>: standard input was not read before")
    return read_bytes(path)


class _Unreadable(Exception):
    """An input that is not a readable file. The message says what it is instead; `name` is its name for messages."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text)
        self.name = escaped_path(name)


def _regular_file(name: str, most: int) -> bytes:
    """Return at most `most` + 1 bytes of a regular file. Raises _Unreadable."""
    try:
        mode = os.stat(name).st_mode
        if not stat.S_ISREG(mode):
            raise _Unreadable(name, _NOT_A_FILE.get(stat.S_IFMT(mode), "a special file"))
        with open(name, "rb") as file:
            return file.read(most + 1)
    except FileNotFoundError:
        raise _Unreadable(name, "no such file") from None
    except PermissionError:
        raise _Unreadable(name, "no permission to read it") from None
    except OSError as error:
        raise _Unreadable(name, (error.strerror or "an unreadable file").lower()) from None
    except ValueError:
        raise _Unreadable(name, "a path that cannot exist") from None


def _standard_input(most: int) -> bytes:
    """Return at most `most` + 1 bytes of standard input. Later calls return what the first call read. Raises _Unreadable."""
    if sys.stdin is None:
        raise _Unreadable("<stdin>", "standard input closed")
    try:
        if sys.stdin not in _stdin_content:
            _stdin_content[sys.stdin] = sys.stdin.buffer.read(most + 1)
        return _stdin_content[sys.stdin]
    except ValueError:
        raise _Unreadable("<stdin>", "standard input closed") from None
    except OSError as error:
        raise _Unreadable("<stdin>", (error.strerror or "unreadable standard input").lower()) from None


def escaped_path(name: str) -> str:
    """Return a path for a message. A path with unprintable characters, or of 400 characters or more (arbitrary), is escaped and cut."""
    return name if name.isprintable() and len(name) < 400 else escaped(name)


def title(path: str | os.PathLike[str]) -> str:
    """Return the name of an input in messages: its path, or <stdin> for "-"."""
    name = os.fspath(path)
    return "<stdin>" if name == "-" else escaped_path(name)
