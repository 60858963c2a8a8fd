"""Arrays of a .npz file, left on the disk where they are stored as they are, as numpy.savez does and numpy.savez_compressed does not."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Sequence
from typing import Any

import numpy as np

LOCAL = struct.Struct("<26xHH")  # of a member's own header in a zip file: the lengths of its name and of what follows that


def arrays_in(place: str, names: Sequence[str]) -> list[Any] | None:
    """The arrays of these names, which never hold objects; None where one is not there.

    What is written into them stays in memory. Raises whatever numpy, zipfile and zlib raise for a file that is none.
    """
    with zipfile.ZipFile(place) as archive:
        members = {info.filename: info for info in archive.infolist()}
        if not {f"{name}.npy" for name in names} <= members.keys():
            return None
        return [_array(place, archive, members[f"{name}.npy"]) for name in names]


def _array(place: str, archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> Any:
    with archive.open(member) as file:  # which also refuses what is encrypted, or of another name in its own header
        if member.compress_type != zipfile.ZIP_STORED:
            return np.lib.format.read_array(file, allow_pickle=False)
        version = np.lib.format.read_magic(file)
        header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, by_columns, kind = header(file)
        start = file.tell()
    if kind.hasobject or member.file_size != start + kind.itemsize * int(np.prod(shape, dtype=object)):
        raise ValueError("expected plain numbers of the stated shape")
    if not member.file_size > start:
        return np.zeros(shape, kind)
    offset = _content(place, member) + start
    found = np.memmap(place, kind, "c", offset, shape, "F" if by_columns else "C").view(np.ndarray)
    return np.require(found, requirements="A")  # a copy where numbers do not lie on multiples of their size


def _content(place: str, member: zipfile.ZipInfo) -> int:
    """Where the content of a member begins in the file."""
    with open(place, "rb") as file:
        file.seek(member.header_offset)
        name, extra = LOCAL.unpack(file.read(LOCAL.size))
    return member.header_offset + LOCAL.size + int(name) + int(extra)
