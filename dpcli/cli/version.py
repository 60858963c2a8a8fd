"""dpcli version."""

from __future__ import annotations

import click


@click.command(short_help="Versions of dpcli and of what it computes with.")
def command() -> None:
    """Print the versions that a report should state."""
    import platform
    from importlib.metadata import version

    from dpcli import __version__

    click.echo(f"dpcli {__version__}\npython {platform.python_version()}")
    for name in ("click", "numpy", "scipy", "rich"):
        click.echo(f"{name} {version(name)}")
