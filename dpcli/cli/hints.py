"""What was meant by a flag that a command does not have, where another spelling or another place has it."""

from __future__ import annotations

import click

SYNONYMS = {
    "--sigma": ("--noise-multiplier", "the standard deviation over the sensitivity"),
    "--noise": ("--noise-multiplier", "the standard deviation over the sensitivity"),
    "--epsilon": ("--target-epsilon", "the epsilon to meet"),
    "--q": ("--sampling-rate", "the probability of each record"),
    "--sample-rate": ("--sampling-rate", "the probability of each record"),
}


def hinted(error: click.NoSuchOption) -> click.UsageError:
    """The same error, with what to write instead; as it was where there is nothing better to say than click does."""
    words = _hint(error.option_name, error.ctx)
    return click.UsageError(f"no such option '{error.option_name}'; {words}", error.ctx) if words else error


def _hint(flag: str, context: click.Context | None) -> str:
    if context is None:
        return ""
    own = [name for one in context.command.params for name in one.opts]
    if flag == "--sampling" and {"--sampling-rate", "--write"} <= set(own):
        return "these flags state Poisson sampling: keep them with --write FILE, then change scheme in the file's sampling table"
    name, meaning = SYNONYMS.get(flag, ("", ""))
    return f"did you mean {name} ({meaning})?" if name in own else ""
