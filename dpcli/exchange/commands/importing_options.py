"""What every import may be told beside the file, and where the result goes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import click

from dpcli.base.errors import InputError
from dpcli.cli.options import adjacency_option, composed, dataset_size_option
from dpcli.cli.outputs import leave_pipeline, new_file_option

if TYPE_CHECKING:
    from dpcli.exchange.stated import Asserted

asserted_options = composed(
    adjacency_option("that was accounted"),
    click.option("--delta", type=float, help="Delta at which epsilon is reported."),
    click.option("--unit", help="What one individual is: example, user, ..."),
    click.option("--max-contributions", type=int, help="Most records that one unit contributes."),
    dataset_size_option,
    new_file_option,
)


def ignored_option(part: str) -> Callable[[Any], Any]:
    """--ignore, of what a file of the library has and nobody has said the meaning of."""
    text = f"A {part.lower()} that says nothing about privacy; repeatable."
    return click.option("--ignore", "ignored", multiple=True, metavar=part, help=text)


def leave_made(
    output: str | None, file: str, given: Mapping[str, Any], make: Callable[[Asserted, str], str], note: str = ""
) -> None:
    """Make a text, then print it, or write it where nothing is yet.

    Args:
        given: the flags of `asserted_options`. make: of what they state, and of what messages call the file.
        note: one line on standard error.

    Raises:
        InputError: with the name of the file, in one line also where the reader of files refuses what was made.
    """
    from dpcli.cli.printing import heard
    from dpcli.exchange.stated import Asserted
    from dpcli.file.toml.limits import title

    with naming(file, given):
        text = make(Asserted(**given), title(file))
    leave_pipeline(output, text)
    _tell_delta(text, title(file), given["delta"])
    if note:
        with heard():
            click.echo(f"dpcli: {note}", err=True)


def _tell_delta(text: str, path: str, delta: float | None) -> None:
    """Say on standard error what DP105 says of --delta, by the number of records that the made pipeline states."""
    from dpcli.cli.printing import complain
    from dpcli.file.pipeline.read import parse
    from dpcli.lint.delta import judged_deltas
    from dpcli.lint.documents.diagnostics import note

    if delta is not None:
        for told in judged_deltas({"--delta": delta}, parse(text.encode(), path).privacy.dataset_size, path):
            complain(note(told))


@contextmanager
def naming(file: str, given: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Raise every InputError with the name of the file in front. given: flags that are told in place of the keys that they state."""
    from dpcli.file.toml.findings import InvalidFile
    from dpcli.file.toml.limits import title

    place = title(file)
    try:
        yield
    except InvalidFile as refused:
        said = "; ".join(dict.fromkeys(_by_flags(d.key, d.message, given) for d in refused.diagnostics))
        raise InputError(f"{place}: {said}") from None
    except InputError as error:
        raise InputError(str(error) if str(error).startswith(place) else f"{place}: {error}") from None


def _by_flags(key: str, message: str, given: Mapping[str, Any]) -> str:
    """A message of the reader, with the flag that states a key in its place: where it was stated so, or is lacking."""
    lacking = re.search(r"found (nothing|none)(;|$)", message)
    for name, value in given.items():
        if lacking or value is not None:
            flag = f"--{name.replace('_', '-')}"
            message, key = message.replace(f"privacy.{name}", flag), flag if key == f"privacy.{name}" else key
    return f"{key}: {message}" if key else message
