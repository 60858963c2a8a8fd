"""The values in a checkpoint: a file of torch.save (zip, or as before torch 1.6), a plain pickle, or JSON."""

from __future__ import annotations

import io
import zipfile
from typing import Any

from dpcli.base.errors import InputError
from dpcli.exchange.foreign import read_fields
from dpcli.exchange.opacus.inert_pickle import read_pickle
from dpcli.file.toml.limits import read_head, title

MAX_PICKLE = 64 * 1024 * 1024  # of values without their tensors, which stand elsewhere in the file
LEGACY = 0x1950A86A20F9469CFC6C  # the first pickle in a file of torch before 1.6; the checkpoint is the fourth
ZIP = b"PK\x03\x04"


def read_checkpoint(path: str) -> Any:
    """What the file holds: plain values, with an Inert for each tensor and object. Nothing in it is run, and torch is not imported.

    Raises InputError where the file cannot be read, is none of these, or is a pickle that would run something.
    """
    head, name = read_head(path, MAX_PICKLE, "a checkpoint"), title(path)
    if head.lstrip()[:1] == b"{":
        return read_fields(head, name).fields
    try:
        if head.startswith(ZIP):
            return read_pickle(io.BytesIO(_zipped(io.BytesIO(head) if path == "-" else path)))
        return _pickled(io.BytesIO(head))
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _zipped(source: str | io.BytesIO) -> bytes:
    """The pickle of values in a zip of torch.save."""
    try:
        with zipfile.ZipFile(source) as archive:
            names = [name for name in archive.namelist() if name.rpartition("/")[2] == "data.pkl"]
            if len(names) != 1:
                raise InputError(f"expected a file of torch.save, found a zip with {len(names)} data.pkl in it")
            with archive.open(names[0]) as file:
                data = file.read(MAX_PICKLE + 1)
    except InputError:
        raise
    except Exception:  # of any of four decompressors, or of the zip itself: what is damaged may fail anywhere
        raise InputError("expected a file of torch.save, found a damaged zip") from None
    if len(data) > MAX_PICKLE:
        raise InputError(f"expected values of at most {MAX_PICKLE // 1024**2} MiB without their tensors, found more")
    return data


def _pickled(stream: io.BytesIO) -> Any:
    value = read_pickle(stream)
    if type(value) is int and value == LEGACY:
        for _ in range(3):
            value = read_pickle(stream)
    return value
