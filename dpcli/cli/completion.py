"""dpcli completion."""

from __future__ import annotations

import click

from dpcli.cli.printing import show


@click.command(short_help="Shell completion for bash, zsh or fish.")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def command(shell: str) -> None:
    """Print the completion script for SHELL; load it with, for example, eval "$(dpcli completion bash)"."""
    from click.shell_completion import get_completion_class

    from dpcli.cli.completing import VARIABLE, register
    from dpcli.cli.main import cli

    register()
    found = get_completion_class(shell)
    assert found is not None
    script = found(cli, {}, "dpcli", VARIABLE)
    show(script.source_template % script.source_vars())
