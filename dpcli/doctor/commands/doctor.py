"""The commands `dpcli doctor` and `dpcli version`, for the two questions of a bug report: is the machine fit, and what is installed?"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import click

from dpcli.cli.options import emit, output_options

# The required packages whose versions a report states. tomli is left out, because it only reads files, and file/toml/syntax.py rewords its
# messages, whose spelling depends on the version.
CORE_PACKAGES = ("click", "numpy", "scipy", "rich")
DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # name of the package that installs a module, if the names differ


@click.command(short_help="Check that this machine has what dpcli needs.")
@click.option("--ledger", metavar="PATH", help="Examine the folder or server of this ledger. Default: the current directory.")
@output_options("text")
def command(ledger: str | None, format_: str, outputs: tuple[str, ...]) -> int:
    """Examine this machine and print advice. The checks cover versions, extras, SQLite, the file system, random numbers, clock and git.

    The exit code is 1 if something that dpcli needs is broken. After warnings or with absent extras, it is 0.
    """
    from dpcli.doctor.checks import examine
    from dpcli.doctor.documents.doctor import document

    return emit(document(examine(ledger)), format_, outputs)


@click.command(short_help="Print the versions of dpcli and of its packages.")
@output_options("text")
def version(format_: str, outputs: tuple[str, ...]) -> int:
    """Print the versions that a report should state.

    -f json also prints the platform, the installed extras, and the formats of files and of JSON that this version knows.
    """
    import platform

    from dpcli import __version__
    from dpcli.base.extras import EXTRAS
    from dpcli.doctor.documents.doctor import version_document
    from dpcli.file.pipeline.canonical import FORMAT
    from dpcli.ledger.stores import postgres_install, sqlite_file

    extras = installed(DISTRIBUTIONS.get(module, module) for module in EXTRAS)
    formats = {
        "file": dict(FORMAT.schema)["const"],  # the only value that the key `format` of a pipeline file may have
        "ledger_sqlite": sqlite_file.VERSION,
        "ledger_postgresql": postgres_install.VERSION,
    }
    result = version_document(
        __version__, platform.python_version(), platform.platform(), installed(CORE_PACKAGES), extras, formats
    )
    return emit(result, format_, outputs)


def installed(names: Iterable[str]) -> dict[str, str]:
    """Return the version of each installed package among the given names."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as version_of

    versions = {}
    for name in names:
        with suppress(PackageNotFoundError):
            versions[name] = version_of(name)
    return versions
