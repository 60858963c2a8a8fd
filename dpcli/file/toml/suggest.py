"""What a mistyped or misplaced word was probably meant to be; asked only when there is something to say."""

from __future__ import annotations

from collections.abc import Iterable

from dpcli.file.toml.shown import quoted

# A tenth of a millisecond per choice, for each of up to a hundred findings.
MOST_CHOICES = 128
LONGEST_WORD = 64

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


_SEPARATORS = str.maketrans("", "", "-_ /.")


def closest(word: str, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    """The one of `known` that `word` most likely stands for, or None. `cutoff`: difflib's ratio, 1 for equal words."""
    import difflib

    choices = list(dict.fromkeys(known))
    if len(choices) > MOST_CHOICES:
        return None
    folded = word.casefold()[:LONGEST_WORD]
    for choice in choices:
        if _same(folded, choice):
            return choice
    for meant in SYNONYMS.get(folded.replace("_", "-"), ()) + SYNONYMS.get(folded.replace("-", "_"), ()):
        if meant in choices:
            return meant
    close = difflib.get_close_matches(folded, choices, n=1, cutoff=cutoff)
    return close[0] if close else _begun(folded, choices)


def _begun(word: str, choices: list[str]) -> str | None:
    """The one of several words that begins with this one whole: 'final' of 'final-model'."""
    begun = [choice for choice in choices if choice.startswith((f"{word}-", f"{word}_"))]
    return begun[0] if len(begun) == 1 else None


def _same(word: str, choice: str) -> bool:
    """Equal but for case, and for what separates the words."""
    return word.translate(_SEPARATORS) == choice.translate(_SEPARATORS)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`did you mean 'x'`, or nothing."""
    meant = closest(word, known)
    return f"did you mean {quoted(meant)}" if meant else ""
