"""dpcli doctor and dpcli version."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import click

from dpcli.cli.options import emit, output_options


@click.command(short_help="Check that this machine has what dpcli needs.")
@click.option("--ledger", metavar="PATH", help="Look at the place of this ledger instead of the current directory.")
@output_options("text")
def command(ledger: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Examine versions, extras, SQLite, the file system under a ledger, random numbers, clock and git, and say what to do.

    Exit code 1 where something that dpcli needs is broken; warnings and absent extras leave it at 0.
    """
    from dpcli.doctor.checks import examine
    from dpcli.doctor.documents.doctor import document

    return emit(document(examine(ledger)), format_, outputs)


CORE_PACKAGES = ("click", "numpy", "scipy", "rich")
DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # modules whose package has another name


@click.command(short_help="Versions of dpcli and of what it computes with.")
@output_options("text")
def version(format_: str, outputs: tuple[str, ...]) -> int:
    """Print the versions that a report should state.

    With -f json also the platform, the extras that are installed, and the formats of files and of JSON that this version knows.
    """
    import platform

    from dpcli import __version__
    from dpcli.base.extras import EXTRAS
    from dpcli.doctor.documents.doctor import version_document
    from dpcli.file.pipeline.canonical import FORMAT
    from dpcli.ledger.stores import postgres_install, sqlite_file

    extras = installed(DISTRIBUTIONS.get(module, module) for module in EXTRAS)
    formats = {
        "file": dict(FORMAT.schema)["const"],
        "ledger_sqlite": sqlite_file.VERSION,
        "ledger_postgresql": postgres_install.VERSION,
    }
    result = version_document(
        __version__, platform.python_version(), platform.platform(), installed(CORE_PACKAGES), extras, formats
    )
    return emit(result, format_, outputs)


def installed(names: Iterable[str]) -> dict[str, str]:
    """Return the version of each package that is installed."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    versions = {}
    for name in names:
        with suppress(PackageNotFoundError):
            versions[name] = version_of(name)
    return versions
