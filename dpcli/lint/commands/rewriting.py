"""A file with its repairs: replaced whole, where nothing else of it changes by that, and nobody else has changed it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence

from dpcli.base.errors import InputError
from dpcli.base.extras import require_posix
from dpcli.file.pipeline.read import below
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import escaped_path, read_bytes
from dpcli.lint.mend import Mend, mended
from dpcli.sessions.folder import replaced

ACCESS_LIST = "system.posix_acl_access"


def rewrite(path: str, folders: Sequence[str]) -> tuple[Mend, ...]:
    """Mend the file at a path, in one piece; a link keeps leading to it, and a file that is not TOML, or cannot be read, is left.

    folders: where it must lie; anywhere, where there are none. Raises InputError where it cannot be replaced with all else as it was, or
    has changed since it was read.
    """
    if path == "-":
        raise InputError("--fix: expected files, found standard input, which cannot be changed")
    try:
        before = read_bytes(path)
    except InputError:
        return ()
    try:
        data, done = mended(before, path)
    except InvalidFile:
        return ()
    if not done:
        return ()
    require_posix("lint --fix")
    real = os.path.realpath(path)
    refusal = next(_refusals(real, folders), None)
    if refusal is not None:
        raise InputError(f"--fix: {escaped_path(path)}: not mended: {refusal}")

    def unchanged() -> None:
        if read_bytes(real) != before:
            raise InputError(f"--fix: {escaped_path(path)}: not mended: it was changed by another program in the meantime")

    try:
        info = os.stat(real)
        replaced(real, data, stat.S_IMODE(info.st_mode), fresh=True, last=unchanged)
        os.chown(real, info.st_uid, info.st_gid)
    except OSError as error:
        raise InputError(f"--fix: {escaped_path(path)}: cannot be written: {error.strerror}") from None
    return done


def _refusals(real: str, folders: Sequence[str]) -> Iterator[str]:
    """What a new file in the place of the old one would change besides."""
    info = os.stat(real)
    if folders and not any(below(real, folder) for folder in folders):
        yield f"it is a link to {escaped_path(real)}, outside of the folder"
    if info.st_nlink > 1:
        yield f"it has {info.st_nlink} names (hard links), which would become different files"
    if info.st_mode & (stat.S_ISUID | stat.S_ISGID | stat.S_ISVTX):
        yield "it has a setuid, setgid or sticky bit"
    if not info.st_mode & 0o222 or not os.access(real, os.W_OK):
        yield "it is read-only"
    me = os.geteuid()
    if me != 0 and (info.st_uid != me or info.st_gid not in {os.getegid(), *os.getgroups()}):
        yield "it belongs to another user or group"
    if ACCESS_LIST in _attributes(real):
        yield "it has an access control list"


def _attributes(real: str) -> Sequence[str]:
    try:
        return os.listxattr(real) if hasattr(os, "listxattr") else ()
    except OSError:
        return ()
