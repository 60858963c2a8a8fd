"""What a session has released, in a file of one line of JSON each that only grows."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Mapping
from typing import Any

from dpcli.base.errors import InputError


def add_line(path: str, content: Mapping[str, Any]) -> None:
    """One more, durable when it returns. Raises OSError where the disk is full: nothing of it is left."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        line = json.dumps(content, ensure_ascii=False).encode("utf-8", "surrogatepass") + b"\n"
        before = os.fstat(descriptor).st_size
        if os.write(descriptor, line) != len(line):
            os.ftruncate(descriptor, before)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def refuse_others(path: str, counted: bool) -> None:
    """Raise InputError where there are lines of another session: together they cost more than either is charged for.

    counted: whether this session has begun to count, before which it released nothing.
    """
    if not counted and os.path.lexists(path):
        raise InputError(f"{path}: expected nothing that was released before this session, found some: begin in a new folder")


def whole_lines(path: str) -> list[bytes]:
    """Those that were written whole; what a crash cut short is taken away, so that the next one begins a line."""
    if not os.path.lexists(path):
        return []
    with open(path, "r+b") as file:
        content = file.read()
        whole = content.rfind(b"\n") + 1
        file.truncate(whole)
    return content[:whole].splitlines()
