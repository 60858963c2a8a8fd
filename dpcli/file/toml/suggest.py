"""Suggestions for a mistyped key, word or column name."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

from dpcli.file.toml.shown import first_names, quoted

MOST_CHOICES = 128  # at a tenth of a millisecond each, for each of up to a hundred findings
LONGEST_WORD = 64  # characters that are compared

# Words of other tools and of papers, and the key that says the same here.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "q": ("rate",),
    "sampling_rate": ("rate",),
    "sample_rate": ("rate",),
    "sampling_probability": ("rate",),
    "batch": ("batch_size",),
    "lot_size": ("batch_size",),
    "z": ("noise_multiplier",),
    "std": ("sigma",),
    "stddev": ("sigma",),
    "standard_deviation": ("sigma",),
    "b": ("scale",),
    "eps": ("epsilon",),
    "target_epsilon": ("epsilon",),
    "target_delta": ("delta",),
    "count": ("steps",),
    "compositions": ("steps",),
    "n": ("dataset_size",),
    "num_examples": ("dataset_size",),
    "neighboring_relation": ("adjacency",),
    "neighbouring": ("adjacency",),
    "neighbors": ("adjacency",),
    "substitute": ("replace-one",),
    "substitution": ("replace-one",),
    "bounded": ("replace-one",),
    "unbounded": ("add-remove",),
    "without-replacement": ("fixed-size",),
    "uniform": ("fixed-size",),
    "random-shuffle": ("shuffle",),
    "dp-sgd": ("gaussian",),
    "dpsgd": ("gaussian",),
    "dp-ftrl": ("tree-aggregation",),
    "median": ("quantile",),
    "percentile": ("quantile",),
    "average": ("mean",),
    "avg": ("mean",),
    "most-common": ("mode",),
    "string": ("text",),
    "varchar": ("text",),
    "float": ("decimal",),
    "double": ("decimal",),
}


def closest(word: str, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    """Return the one of `known` that `word` most likely stands for, or None.

    Args:
        cutoff: Difflib's ratio, 1 for equal words.
    """
    import difflib

    choices = list(dict.fromkeys(known))
    if len(choices) > MOST_CHOICES:
        return None
    folded = word.casefold()[:LONGEST_WORD]
    if (same := _plain(word)) and (spelled := next((choice for choice in choices if _plain(choice) == same), None)):
        return spelled
    for meant in SYNONYMS.get(folded.replace("_", "-"), ()) + SYNONYMS.get(folded.replace("-", "_"), ()):
        if meant in choices:
            return meant
    close = difflib.get_close_matches(folded, choices, n=1, cutoff=cutoff)
    return close[0] if close else _begun(folded, choices)


def _begun(word: str, choices: list[str]) -> str | None:
    """Return the only choice whose first part is this word: final-model for final."""
    begun = [choice for choice in choices if choice.startswith((f"{word}-", f"{word}_"))]
    return begun[0] if len(begun) == 1 else None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'`, or ""."""
    meant = closest(word, known)
    return f"did you mean {quoted(meant)}" if meant else ""


SEPARATORS = str.maketrans("", "", "-_ /.\"'\t\N{ZERO WIDTH NO-BREAK SPACE}")


def instead_of(name: str, names: Sequence[str], known: Collection[str] = (), schema: bool = False) -> str:
    """Complete "expected column X, found ...": none, with the one that was meant, or with the existing ones.

    A file's first line may be a record. So of a name in it that is not spelled like the one that is missing, but for case and separators,
    nothing is said unless the line is sure to hold names.

    Args:
        names: Names of the columns, as the table's schema or first line has them.
        known: Names that are expected there: a line with half of them is no record.
        schema: Whether the names come from where no record can stand.
    """
    others = {*known} - {name}
    near = next((one for one in names if same_word(one, name)), None)
    if near is None and (schema or 0 < len(others) <= 2 * len(others & {*names})):
        near = closest(name, names)
        if near is None:
            return f"none: there {_those(names)}"
    return "none" if near is None else f"none: did you mean {quoted(near)}?"


def meant_in(row: object, names: Iterable[str]) -> str:
    """Complete "a row without it" with a key of the row that is one of the names in another spelling, or with nothing."""
    keys = [key for key in row if isinstance(key, str)] if isinstance(row, Mapping) else []
    near = (one for name in names if name not in keys for one in keys if same_word(one, name))
    return next((f": did you mean {quoted(one)}?" for one in near), "")


def same_word(one: str, other: str) -> bool:
    """Return whether two names differ only in case and in what separates words."""
    return _plain(one) == _plain(other) != ""


def _plain(name: str) -> str:
    return unicodedata.normalize("NFKC", name).casefold().translate(SEPARATORS)


def _those(names: Sequence[str]) -> str:
    if not names:
        return "are no columns"
    return f"{'is' if len(names) == 1 else 'are'} {first_names(map(quoted, names))}"
