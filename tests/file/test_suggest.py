"""Tests of suggestions for a mistyped, misplaced or foreign word, or for the name of a missing column."""

from __future__ import annotations

from random import Random
from string import ascii_lowercase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.base.registry import SECTIONS
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import nearest
from dpcli.file.pipeline.canonical import TOP, key_advice
from dpcli.file.pipeline.key_places import tables as all_tables
from dpcli.file.pipeline.misplaced import USUAL_NAMES, keys_by_table
from dpcli.file.pipeline.model import Privacy
from dpcli.file.pipeline.section import TablePlace, places_in
from dpcli.file.toml.shown import NAMED
from dpcli.file.toml.suggest import MOST_CHOICES, SYNONYMS, closest, did_you_mean, instead_of, meant_in
from dpcli.gate.policy import KEYS as POLICY_KEYS
from dpcli.ledger.planning.schedule import KEYS as SCHEDULE_KEYS
from dpcli.release.plugin import MEASURES
from tests.cases import fresh_random, of_each

MECHANISM = ["name", "type", "steps", "epochs", "sampling", "partition", "description", "noise_multiplier", "sigma", "sensitivity"]


@of_each(
    ("word", "meant"),
    [
        ("noise_multiplyer", "noise_multiplier"),
        ("noise-multiplier", "noise_multiplier"),
        ("noiseMultiplier", "noise_multiplier"),
        ("NOISE_MULTIPLIER", "noise_multiplier"),
        ("n\u043eise_multiplier", "noise_multiplier"),
        ("st\u001beps", "steps"),
        ("z", "noise_multiplier"),
        ("l2-sensitivity", "sensitivity"),
        ("nmae", "name"),
        ("noise", "noise_multiplier"),
        ("nois", None),
        ("colour", None),
        ("", None),
        ("x" * 10_000, None),
    ],
)
def test_closest(word: str, meant: str | None) -> None:
    assert closest(word, MECHANISM) == meant


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("median", "quantile"),
        ("average", "mean"),
        ("most_common", "mode"),
        ("counts", "count"),
        ("stddev", "variance"),
        ("max", "quantile"),
    ],
)
def test_a_measure_by_another_name(word: str, meant: str) -> None:
    """Not the one that is spelt like it: a median is no mean."""
    assert closest(word, MEASURES) == meant


def test_too_many_to_compare() -> None:
    assert closest("word1", [f"word{index}" for index in range(MOST_CHOICES + 1)]) is None


def test_did_you_mean() -> None:
    assert did_you_mean("gausian", ["gaussian", "laplace"]) == "did you mean 'gaussian'"
    assert did_you_mean("colour", ["gaussian", "laplace"]) == ""


@of_each(
    ("key", "meant", "words"),
    [
        ("stesp", "steps", "did you mean 'steps'"),
        ("queries", "steps", "did you mean 'steps'"),
        ("rate", None, "it belongs in sampling = { ... }"),
        ("unit", None, "it belongs in [privacy]"),
        (
            "delta",
            None,
            "it belongs in [privacy] or [budget] or a mechanism of type truncated-laplace, truncated-discrete-laplace, "
            "propose-test-release, ...",
        ),
        ("rho", None, "it belongs in [budget] or a mechanism of type zcdp"),
        ("format", None, "it belongs in the top of the file"),
        ("sampling_rate", None, "did you mean 'rate' in sampling = { ... }"),
        ("max_contribution", None, "did you mean 'max_contributions' in [privacy]"),
        ("colour", None, ""),
    ],
)
def test_advice(key: str, meant: str | None, words: str) -> None:
    assert key_advice(key, MECHANISM) == (meant, words)


@of_each("key", ["clip", "max_grad_norm", "l2-norm-clip", "clip_norm", "clipping", "norm", "C"])
def test_a_clipping_norm_beside_a_noise_multiplier_is_said_to_cost_nothing(key: str) -> None:
    meant, words = key_advice(key, MECHANISM)
    assert meant is None and "epsilon does not depend on the clipping norm" in words and "[train] clipping" in words
    assert "clipping norm" not in key_advice(key, ["name", "type", "epsilon"])[1]


PRIVACY = list(members_of(Privacy))
OTHER = frozenset(key for keys in keys_by_table(frozenset(TOP)).values() for key in keys)


def test_a_key_of_a_section_in_another_table_is_sent_where_it_belongs() -> None:
    """To the table in it, or the word, that has the key."""
    places: list[tuple[TablePlace, str]] = [
        (place, key)
        for name in SECTIONS
        for place in places_in(TOP[name].kind, name, f"[{name}]")
        for key in place.members
        if key not in OTHER and not closest(key, PRIVACY, 0.9)
    ]
    told = {(place.title, key): key_advice(key, PRIVACY) for place, key in places}
    assert len(told) > 100
    wrong = {
        (title, key): (meant, words)
        for (title, key), (meant, words) in told.items()
        if meant is not None or not words.startswith("it belongs in ") or title not in words
    }
    assert wrong == {}


def test_synonyms_lead_to_keys_and_words_that_exist() -> None:
    known = {key for keys in keys_by_table(frozenset(TOP)).values() for key in keys}
    words = {
        "replace-one",
        "add-remove",
        "fixed-size",
        "shuffle",
        "gaussian",
        "tree-aggregation",
        "text",
        "decimal",
        "by",
        "top",
        *MEASURES,
    }
    assert {meant for meanings in SYNONYMS.values() for meant in meanings} <= known | words
    assert not set(SYNONYMS) & known
    assert {*USUAL_NAMES, *USUAL_NAMES.values()} <= known


NAMES = ["id", "Dept", "salary-of-2024", "First Name", "Straße"]


@pytest.mark.parametrize("schema", [False, True])
def test_another_spelling_is_told_wherever_the_names_are_from(schema: bool) -> None:
    for name in NAMES:
        for stated in {name.upper(): 0, name.lower(): 0, name.replace(" ", "_"): 0, f"\ufeff{name} ": 0}.keys() - set(NAMES):
            said = instead_of(stated, NAMES, schema=schema)
            assert said.startswith("none: did you mean '"), stated
            assert not name.isascii() or said == f"none: did you mean '{name}'?", stated
            assert name.isascii() is (meant_in(dict.fromkeys(NAMES), [stated]) == f": did you mean '{name}'?"), stated


@given(
    line=st.lists(st.text("abcdefgh", min_size=4, max_size=12).map("value-{}".format), min_size=1, max_size=8),
    known=st.sets(st.sampled_from(["id", "dept", "salary", "name"]), min_size=1),
    held=st.sets(st.sampled_from(["id", "dept", "salary", "name"])),
)
def test_a_line_is_shown_only_where_half_of_what_is_expected_is_in_it(line: list[str], known: set[str], held: set[str]) -> None:
    names, others = [*line, *sorted(held - {"dept"})], known - {"dept"}
    said = instead_of("dept", names, known)
    assert ("value-" in said) == (len(others & held) * 2 >= len(others) > 0), said
    assert instead_of("dept", names, known, schema=True).startswith("none: ")


def test_a_few_of_many_are_told() -> None:
    names = [f"c{number}" for number in range(3 * NAMED)]
    said = instead_of("dept", names, schema=True)
    assert said == f"none: the columns are {', '.join(repr(name) for name in names[:NAMED])} and {2 * NAMED} more"
    assert instead_of("dept", names[:1], schema=True) == "none: the only column is 'c0'"
    assert instead_of("dept", [], schema=True) == "none: there are no columns"
    assert "\n" not in instead_of("dept", ["a\n\x1b[2J"], schema=True)


def test_of_a_row_without_names_nothing_is_told() -> None:
    assert meant_in(["Text"], ["text"]) == meant_in({"text": None}, ["text"]) == meant_in({3: "Text"}, ["text"]) == ""


@pytest.mark.long
def test_a_slip_of_one_letter_in_any_key_of_any_table_is_answered() -> None:
    """A wrong, missing, additional or exchanged letter."""
    seed = fresh_random().getrandbits(32)
    letters = Random(seed)
    tables = {tuple(place.members): place.title for keys in (TOP, POLICY_KEYS, SCHEDULE_KEYS) for place in all_tables(keys)}
    unanswered = []
    for known, title in tables.items():
        for key in known:
            letter = letters.choice(ascii_lowercase)
            slips = {key[:i] + key[i + 1 :] for i in range(len(key))}
            slips |= {key[:i] + letter + key[i:] for i in range(len(key) + 1)}
            slips |= {key[:i] + letter + key[i + 1 :] for i in range(len(key))}
            slips |= {key[:i] + key[i + 1] + key[i] + key[i + 2 :] for i in range(len(key) - 1)}
            unanswered += [
                f"{title} {key}: {slip}"
                for slip in slips - {*known}
                if not key_advice(slip, known)[1] or not nearest(slip, known)[1]
            ]
    assert not unanswered, (seed, unanswered)
    assert key_advice("type", ["by", "top", "max"]) == (None, "it belongs in [[mechanism]]")
    assert nearest("type", ["by", "top", "max"]) == nearest("zz", ["by", "top"]) == (None, "")
