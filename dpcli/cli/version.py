"""dpcli version."""

from __future__ import annotations

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
    from importlib.metadata import PackageNotFoundError, version

    from dpcli import __version__
    from dpcli.extras import EXTRAS
    from dpcli.ledger.stores import postgres_install, sqlite_file
    from dpcli.pipeline.document import FORMAT
    from dpcli.present.version import document

    extras = {}
    for name in (DISTRIBUTIONS.get(module, module) for module in EXTRAS):
        with suppress(PackageNotFoundError):
            extras[name] = version(name)
    formats = {
        "file": dict(FORMAT.schema)["const"],
        "ledger_sqlite": sqlite_file.VERSION,
        "ledger_postgresql": postgres_install.VERSION,
    }
    packages = {name: version(name) for name in COMPUTING}
    found = document(__version__, platform.python_version(), platform.platform(), packages, extras, formats)
    return emit(found, format_, outputs)
