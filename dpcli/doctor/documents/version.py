"""The versions as a document: what a report, or a question about a number, should state."""

from __future__ import annotations

from collections.abc import Mapping

from dpcli.document.document import Document, Table
from dpcli.document.schemas import SCHEMAS


def document(
    version: str, python: str, platform: str, packages: Mapping[str, str], extras: Mapping[str, str], formats: Mapping[str, int]
) -> Document:
    """Everything that `dpcli version` says.

    packages: what dpcli computes with; extras: which optional packages are installed. formats: the newest format of each kind of file
    or database that is read and written.
    """
    lines = (("python", python), *packages.items())
    return Document(
        headline=f"dpcli {version}",
        data={
            "schema": "dpcli/version/v1",
            "version": version,
            "python": python,
            "platform": platform,
            "packages": packages,
            "extras": extras,
            "formats": formats,
            "schemas": SCHEMAS,
            "exit_code": 0,
        },
        tables=(
            Table("installed", ("package", "version"), (*lines, *extras.items())),
            Table("formats", ("of", "version"), tuple((name, str(number)) for name, number in formats.items())),
        ),
        details=tuple(f"{name} {number}" for name, number in lines),
    )
