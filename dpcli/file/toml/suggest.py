"""Suggestions for a mistyped key, word or column name: words of other tools and papers (SYNONYMS), and similar spellings.

Readers of files and tables call `closest` and its relatives when they refuse a word. A suggestion is printed; `dpcli lint --fix` replaces a
word by it only if its own stricter rules find the same word (dpcli/lint/mend.py). So the limits here touch messages, time, and what may be
repaired. Two words are similar if the ratio of difflib is at least a cutoff: 1 for equal words, 0 for words without a common letter.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence

from dpcli.file.toml.shown import first_names, quoted

# Largest number of words to compare: each takes a tenth of a millisecond, and a file may have a hundred findings.
MOST_CHOICES = 160
# For words of three and two letters: the difflib ratio of two words that differ in one letter, 4/6 and 2/4, rounded down.
SHORT_CUTOFFS = {3: 0.66, 2: 0.5}
LONGEST_WORD = 64  # number of characters that are compared; the time grows with the length

# Words of other tools and of papers, with the words of pipeline files for the same thing.
SYNONYMS: dict[str, tuple[str, ...]] = {
    "q": ("rate",),
    "sampling_rate": ("rate",),
    "sample_rate": ("rate",),
    "sampling_probability": ("rate",),
    "batch": ("batch_size",),
    "lot_size": ("batch_size",),
    "z": ("noise_multiplier",),
    "std": ("sigma", "variance"),
    "stddev": ("sigma", "variance"),
    "standard_deviation": ("sigma", "variance"),
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
    "max": ("quantile",),
    "min": ("quantile",),
    "group_by": ("by",),
    "groupby": ("by",),
    "limit": ("top",),
    "k": ("top",),
    "average": ("mean",),
    "avg": ("mean",),
    "most-common": ("mode",),
    "count-distinct": ("distinct",),
    "unique": ("distinct",),
    "string": ("text",),
    "varchar": ("text",),
    "float": ("decimal",),
    "double": ("decimal",),
}

# Removed before two names are compared. The last character is the byte order mark that some programs put before the first column.
SEPARATORS = str.maketrans("", "", "-_ /.\"'\t\N{ZERO WIDTH NO-BREAK SPACE}")


def closest(word: str, known: Iterable[str], cutoff: float = 0.7) -> str | None:
    """Return the known word that `word` most likely stands for; None if none is likely, or there are too many to compare.

    A word that differs only in case and separators is preferred to a synonym, and that to a similar spelling.

    Args:
        cutoff: Smallest similarity of a suggestion.
    """
    import difflib

    choices = list(dict.fromkeys(known))
    if len(choices) > MOST_CHOICES:
        return None
    plain_word = _plain(word)
    for choice in choices:
        if plain_word and _plain(choice) == plain_word:
            return choice
    folded = word.casefold()[:LONGEST_WORD]
    # SYNONYMS has keys of files, with "_", and values of keys, with "-".
    synonyms = (*SYNONYMS.get(folded.replace("_", "-"), ()), *SYNONYMS.get(folded.replace("-", "_"), ()))
    for synonym in synonyms:
        if synonym in choices:
            return synonym
    similar = difflib.get_close_matches(folded, choices, n=1, cutoff=cutoff)
    return similar[0] if similar else _completion(folded, choices)


def _completion(word: str, choices: list[str]) -> str | None:
    """Return the choice whose first part is this word, such as final-model for final; None unless there is exactly one."""
    completions = [choice for choice in choices if choice.startswith((f"{word}-", f"{word}_"))]
    return completions[0] if len(completions) == 1 else None


def closest_short(word: str, known: Iterable[str]) -> str | None:
    """Return the known word of two or three letters of which `word` may be a slip of one letter; None if there is none.

    Such a slip is too dissimilar for `closest`, which would suggest unrelated longer words at this similarity.
    """
    import difflib

    short_words = [choice for choice in known if len(choice) in SHORT_CUTOFFS]
    for length, cutoff in SHORT_CUTOFFS.items():
        choices = [choice for choice in short_words if len(choice) == length and abs(len(word) - length) <= 1]
        similar = difflib.get_close_matches(word.casefold(), choices, n=1, cutoff=cutoff)
        if similar:
            return similar[0]
    return None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return `did you mean 'x'` for the closest known word; "" if none is close."""
    meant = closest(word, known)
    return f"did you mean {quoted(meant)}" if meant else ""


def instead_of(name: str, names: Sequence[str], known: Collection[str] = (), schema: bool = False) -> str:
    """Return the end of the message "expected column X, found ...": "none" and a suggestion or the list of columns.

    The first line of a file without a header is a private record, whose fields must not be printed. Such a field is therefore shown only
    if it equals the missing name up to case and separators, or if the line certainly is a header.

    Args:
        names: Names of the columns in the schema of the table, or the fields of its first line.
        known: All expected names. A line that contains at least half of the others is a header.
        schema: Whether the names come from a schema, which cannot be a record.
    """
    meant = next((column for column in names if same_word(column, name)), None)
    others = {*known} - {name}
    is_header = schema or 0 < len(others) <= 2 * len(others & {*names})
    if meant is None and is_header:
        meant = closest(name, names)
        if meant is None:
            return f"none: {_column_list(names)}"
    return "none" if meant is None else f"none: did you mean {quoted(meant)}?"


def meant_in(row: object, names: Iterable[str]) -> str:
    """Return a suggestion for a row, such as a JSON object, that lacks one of the names as a key; "" if there is none.

    It suggests the key of the row that is equal up to case and separators, and no other.
    """
    keys = [key for key in row if isinstance(key, str)] if isinstance(row, Mapping) else []
    missing = [name for name in names if name not in keys]
    meant = next((key for name in missing for key in keys if same_word(key, name)), None)
    return "" if meant is None else f": did you mean {quoted(meant)}?"


def same_word(first: str, second: str) -> bool:
    """Return whether two names are equal up to case and the separators of words."""
    return _plain(first) == _plain(second) != ""


def _plain(name: str) -> str:
    """Return a name without case and separators."""
    return unicodedata.normalize("NFKC", name).casefold().translate(SEPARATORS)


def _column_list(names: Sequence[str]) -> str:
    """Return the end of a message that lists the columns of a table."""
    if not names:
        return "there are no columns"
    return f"the {'only column is' if len(names) == 1 else 'columns are'} {first_names(map(quoted, names))}"
