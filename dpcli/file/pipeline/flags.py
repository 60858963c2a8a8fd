"""A pipeline of one mechanism that flags describe, as the tables and the text of an equivalent file.

`dpcli account --noise-multiplier 1.1 ...` and `dpcli calibrate-sigma` without FILE take flags in place of a file. `Stated` holds the values
of the flags and makes the tables of a file from them; `text_of_flags` writes these as text, which the ordinary reader reads
(`pipeline_of_flags`). So a number from flags and one from a file have the same meaning, and --write stores the same text. Messages of the
reader name the flag in place of the key.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Pipeline
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.write import lines_with_comments, toml_text, value_text

PLACE = "the command line"  # path of the pipeline in messages
FLAG_OF_KEY = {"rate": "sampling_rate", "epsilon": "pure"}  # names of flags by the key of the file, where they differ
# A flag together with FILE is refused, with advice what to change in FILE instead: by the name of the flag; "" for no advice. For a flag
# that is not listed, it is the key of that name.
KEY_OF_FLAG = {"sampling_rate": "sampling.rate", "pure": "the mechanism", "laplace": "the mechanism", "write": ""}
# Comments that `text_of_flags` adds to lines, by key.
COMMENTS = {
    "unit": "one individual; any other unit needs max_contributions",
    "adjacency": "add-remove | replace-one | zero-out",
    "dataset_size": "declared public",
    "warn_at": "1 = no warning, as the noise was chosen to use the whole budget",
    "releases": "final-model | all-checkpoints | outputs",
    "noise_multiplier": "standard deviation (Laplace: scale) / largest contribution of one record to the sum",
    "sampling": '"poisson": each step draws a fresh sample; "shuffle": slices of a shuffled order',
}
COLUMN = 30  # width to which a line is filled before its comment


@dataclass(frozen=True, slots=True)
class Stated:
    """The values of the flags; None for an absent flag.

    Attributes:
        noise_multiplier: Noise multiplier of Gaussian noise or, with `laplace`, of Laplace noise.
        pure: Epsilon of one step, if the step satisfies pure differential privacy.
        sampling_rate: Rate of Poisson sampling.
        batch_size: Expected batch size of Poisson sampling. The rate is then batch_size / dataset_size.
        dataset_size: Number of records, declared public.
        steps, epochs: Number of steps, or of passes over the data. Without both, an unsampled mechanism runs once.
        adjacency: Adjacency; add-remove if it is absent.
    """

    noise_multiplier: float | None = None
    laplace: bool = False
    pure: float | None = None
    sampling_rate: float | None = None
    batch_size: int | None = None
    dataset_size: int | None = None
    steps: int | None = None
    epochs: float | None = None
    adjacency: str | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The flags that were given, by name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if value is not None and value is not False}

    @property
    def sampled(self) -> bool:
        """True if a step reads only a sample of the records."""
        return self.sampling_rate is not None or self.batch_size is not None

    def tables(self, delta: float | None, target: float | None = None) -> dict[str, Any]:
        """Return the equivalent file as plain tables.

        Args:
            delta: Delta at which epsilon is reported; None if none is stated.
            target: Epsilon for which the noise was solved, as the cap of [budget]; None for a file without [budget].

        Raises InputError if the flags describe no mechanism or two, or they contradict each other.
        """
        sampling = {"rate": self.sampling_rate, "batch_size": self.batch_size}
        privacy = {
            "unit": "example",
            "adjacency": self.adjacency or "add-remove",
            "dataset_size": self.dataset_size,
            "delta": delta,
            # Sampled steps stand for a training run, and the bound on its epsilon holds for the release of every checkpoint.
            "releases": "all-checkpoints" if self.sampled else "outputs",
        }
        name = "dp-sgd" if self.sampled and self.pure is None and not self.laplace else "releases"
        entry = {"name": name, **self._noise(), **self._count()}
        if self.sampled:
            entry["sampling"] = {"scheme": "poisson", **_present(sampling)}
        budget = {} if target is None else {"budget": {"epsilon": target, "warn_at": 1.0}}
        return {"format": 1, "name": name, "privacy": _present(privacy), **budget, "mechanism": [_present(entry)]}

    def _noise(self) -> dict[str, Any]:
        """Return the keys of the mechanism type. Raises InputError unless the flags describe exactly one mechanism."""
        if self.pure is not None:
            if self.noise_multiplier is not None or self.laplace:
                raise InputError("expected --pure or --noise-multiplier, found both")
            return {"type": "pure-dp", "epsilon": self.pure}
        if self.noise_multiplier is None:
            raise InputError("expected FILE, --noise-multiplier (with --laplace if the noise is Laplace) or --pure")
        return {"type": "laplace" if self.laplace else "gaussian", "noise_multiplier": self.noise_multiplier}

    def _count(self) -> dict[str, Any]:
        """Return the key for the number of runs. Raises InputError if it is missing or stated twice."""
        if self.steps is not None and self.epochs is not None:
            raise InputError("expected --steps or --epochs, found both")
        if self.epochs is not None:
            return {"epochs": _as_count(self.epochs)}
        if self.steps is None and self.sampled:
            raise InputError(
                "expected --steps or --epochs with --sampling-rate or --batch-size, found neither (--steps 1 for one step)"
            )
        return {"steps": 1 if self.steps is None else self.steps}


def pipeline_of_flags(tables: Mapping[str, Any], text: str | None = None) -> Pipeline:
    """Return the pipeline of `Stated.tables`.

    Args:
        text: The text of the file with these tables, which is read; None to write it here.

    Raises InputError if the reader refuses a value. The message names the flag in place of the key.
    """
    text = toml_text(tables) if text is None else text
    try:
        return parse(text.encode(), PLACE)
    except InvalidFile as invalid:
        messages = [_as_flag(diagnostic.key, diagnostic.message) for diagnostic in invalid.diagnostics]
        raise InputError("; ".join(dict.fromkeys(messages))) from None


def _as_flag(key: str, message: str) -> str:
    """Return a message of the reader in which the flag replaces the key, such as `mechanism[1].sampling.rate`."""
    last = key.rpartition(".")[2]
    flag = FLAG_OF_KEY.get(last, last)
    flags = {field.name for field in fields(Stated)} | {"delta"}
    name = f"--{flag.replace('_', '-')}" if flag in flags else key
    return f"{name}: {message.replace('privacy.dataset_size', '--dataset-size').replace('batch_size', '--batch-size')}"


def text_of_flags(tables: Mapping[str, Any], command: str, given: Mapping[str, Any]) -> str:
    """Return the text of the equivalent file, with a comment on each key that has alternatives.

    Args:
        given: The flags by name. The first line of the text quotes them.
    """
    first_line = f"# As dpcli {command} {shlex.join(words_of_flags(given))}"
    return "\n".join((first_line, *lines_with_comments(tables, COMMENTS, COLUMN))) + "\n"


def words_of_flags(given: Mapping[str, Any]) -> list[str]:
    """Return flags, which are given by name, as words of a command line."""
    return [word for name, value in given.items() for word in _flag(name, value)]


def _flag(name: str, value: Any) -> Iterator[str]:
    """Yield a flag and, unless it is a switch that is on (True), its value."""
    yield "--" + name.replace("_", "-")
    if value is not True:
        yield value if type(value) is str else value_text(_as_count(value))


def _as_count(value: Any) -> Any:
    """Return a float that is a whole number as an int, such as 1000.0 -> 1000, and any other value unchanged."""
    return int(value) if type(value) is float and value.is_integer() else value


def _present(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the table without the keys whose value is None."""
    return {key: value for key, value in table.items() if value is not None}
