"""dpcli version."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import click

from dpcli.cli.options import emit, output_options

COMPUTING = ("click", "numpy", "scipy", "rich")
DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # where a package is not called as its module is


@click.command(short_help="Versions of dpcli and of what it computes with.")
@output_options("text")
def command(format_: str, outputs: tuple[str, ...]) -> int:
    """Print the versions that a report should state.

    With -f json also the platform, the extras that are installed, and the formats of files and of JSON that this version knows.
    """
    import platform

    from dpcli import __version__
    from dpcli.base.extras import EXTRAS
    from dpcli.doctor.documents.version import document
    from dpcli.file.pipeline.document import FORMAT
    from dpcli.ledger.stores import postgres_install, sqlite_file

    extras = installed(DISTRIBUTIONS.get(module, module) for module in EXTRAS)
    formats = {
        "file": dict(FORMAT.schema)["const"],
        "ledger_sqlite": sqlite_file.VERSION,
        "ledger_postgresql": postgres_install.VERSION,
    }
    result = document(__version__, platform.python_version(), platform.platform(), installed(COMPUTING), extras, formats)
    return emit(result, format_, outputs)


def installed(names: Iterable[str]) -> dict[str, str]:
    """The version of each package that is installed."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for name in names:
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions
