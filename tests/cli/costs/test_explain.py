"""Tests of dpcli explain."""

from __future__ import annotations

import functools
import json
import math
import re
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.base.registry import COMMANDS, MECHANISMS, SAMPLING
from dpcli.explain.lookup import explain, table_paths
from dpcli.explain.topics import SYMBOLS, TERMS, WRITTEN, source
from dpcli.file.pipeline.key_places import tables
from dpcli.ledger.plugin import SUBCOMMANDS
from dpcli.numerics.closed.normal import gaussian_delta
from dpcli.release.plugin import MEASURES
from dpcli.train.plugin import STYLES, TASKS
from tests.cases import of_each
from tests.command import dpcli

MNIST = "examples/mnist.toml"
WIDE = """\
format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
delta = 0.0
[[mechanism]]
name = "mean"
type = "gaussian"
noise_multiplier = 1.0
"""


def test_a_file_is_explained_in_the_terms_of_an_attack() -> None:
    result = dpcli("explain", MNIST)
    assert (result.code, result.err) == (0, "")
    lines = [" ".join(line.split()) for line in result.out.splitlines()]
    assert lines[0].startswith("epsilon <= 2.3817 at delta = 1e-05 (per example, add-remove, sampling: poisson; accountant: exact")
    assert "1 % 4.03 % 95.97 %" in lines
    assert any(line.startswith("50 % 94.2") and line.endswith("61.23 % 50 %") for line in lines)
    text = " ".join(result.out.split())
    for words in (
        "Neyman-Pearson",
        "advantage: true positives minus false positives are at most 22.45 %",
        "not covered:",
        "mu = 0.58",
    ):
        assert words in text


PLACES = [place for place in tables() if place.path]


PATHS = list(dict.fromkeys(place.path for place in PLACES))


@pytest.mark.parametrize("paths", [pytest.param(PATHS[::5], id="some"), pytest.param(PATHS, id="all", marks=pytest.mark.long)])
def test_every_table_of_a_file_is_explained_by_its_dotted_key(paths: list[str]) -> None:
    for path in paths:
        explained_with_its_keys(path)


def explained_with_its_keys(path: str) -> None:
    """A table with all of its keys, and each of these by its own dotted key too."""
    text = " ".join(explain(path).split())
    assert path in table_paths()
    for place in (place for place in PLACES if place.path == path):
        for key, member in place.members.items():
            own = " ".join(explain(f"{path}.{key}").split())
            assert f"{path}.{key}" in table_paths() or " ".join(member.doc.split()) in own, key
            assert (key in text) if place.selector_value else (f" {key} (" in text), key
        assert not place.selector_value or f"{place.choice}: " in text
    with pytest.raises(InputError, match=f"did you mean .*{path}"):
        explain(f"{path}x.")


@pytest.mark.nightly
@pytest.mark.long
def test_a_key_is_looked_for_in_the_table_that_is_named() -> None:
    for place in PLACES:
        for key in place.members:
            if not any(key in other.members for other in PLACES if other.path == "train"):
                with pytest.raises(InputError):
                    explain(f"train.{key}")


@of_each("path", ["train", "train.clipping"])
def test_a_table_says_that_keys_of_another_word_are_refused(path: str) -> None:
    assert "refused if another of these words selects it, even with its default value" in " ".join(explain(path).split())


def test_machine_form() -> None:
    found = json.loads(dpcli("explain", MNIST, "-f", "json").out)
    assert found["schema"] == "dpcli/meaning/v1"
    assert found["result"]["accountant"] == "exact"
    said = found["meaning"]
    rates = {point["false_positive_rate"]: point["true_positive_rate_upper"] for point in said["trade_off"]}
    assert rates[0.01] == pytest.approx(0.0402, abs=1e-4)
    assert rates[0.0] <= said["advantage_upper"] == pytest.approx(0.224469317, rel=1e-6)
    assert [group["size"] for group in said["groups"]] == [1, 2, 4]
    assert [belief["prior"] for belief in said["posterior"]["beliefs"]] == [0.01, 0.5]
    assert all(point["delta_lower"] <= point["delta_upper"] for point in said["profile"])


def test_priors_and_delta() -> None:
    found = json.loads(dpcli("explain", MNIST, "--prior", "0.2", "--delta", "1e-7", "-f", "json").out)
    assert found["delta"] == found["meaning"]["posterior"]["exception_probability"] == 1e-7
    assert [belief["prior"] for belief in found["meaning"]["posterior"]["beliefs"]] == [0.2]
    assert "expected a probability" in dpcli("explain", MNIST, "--prior", "1").err


def test_no_finite_guarantee_is_said_and_exits_with_3() -> None:
    result = dpcli("explain", "-", stdin=WIDE.encode())
    assert result.code == 3
    assert result.out.startswith("no finite guarantee can be certified")
    assert "set delta > 0" in result.out
    assert json.loads(dpcli("explain", "-", "-f", "json", stdin=WIDE.encode()).out)["meaning"] is None
    assert dpcli("explain", "-", "-f", "total", stdin=WIDE.encode()).out == "inf\n"


def test_without_delta_the_file_is_not_explained() -> None:
    result = dpcli("explain", "-", stdin=WIDE.replace("delta = 0.0\n", "").encode())
    assert result.code == 2
    assert "expected a delta in the file or by --delta" in result.err


@of_each(
    "adjacency, words",
    [
        ("add-remove", '"this example was in the data"'),
        ("replace-one", '"it was this example in the data, and not that one"'),
        ("zero-out", '"this example was in the data, and not blanked"'),
    ],
)
def test_the_claim_is_what_adjacency_compares(adjacency: str, words: str) -> None:
    text = WIDE.replace("add-remove", adjacency).replace("delta = 0.0", "delta = 1e-5")
    assert words in " ".join(dpcli("explain", "-", stdin=text.encode()).out.split())


def test_names_are_still_explained_and_take_no_flags(tmp_path: Path) -> None:
    assert dpcli("explain", "adjacency").out.startswith("adjacency\n")
    assert dpcli("explain", str(tmp_path)).code == 2  # a directory is no pipeline, and no term
    assert "no such file" in dpcli("explain", "missing.toml").err
    for flags in (("--delta", "0.1"), ("--prior", "0.1"), ("-f", "json"), ("-o", "json=/dev/null")):
        assert "with the name of a rule or a term" in dpcli("explain", "DP101", *flags).err


@pytest.mark.long
def test_symbols_and_words_of_papers_lead_to_what_they_mean_here() -> None:
    for symbol, word in SYMBOLS.items():
        assert explain(symbol).startswith(explain(word)), symbol


@pytest.mark.long
def test_every_key_of_a_file_can_be_explained() -> None:
    """Every key of every table, whatever the table; and with the words that describe it."""
    explained = functools.cache(lambda name: dpcli("explain", name))
    for place in tables():
        for name, member in place.members.items():
            result = explained(name)
            assert result.code == 0, f"{place.title} {name}"
            if "a key of the file" in result.out:
                assert " ".join(member.doc.split()) in " ".join(result.out.split())


def test_every_word_that_selects_keys_is_explained_with_them() -> None:
    """Each type, sampling scheme, task and clipping style: every key of its own, whichever table has them."""
    selected = [place for place in tables() if place.selector_value is not None]
    assert {place.selector_value for place in selected} == {*MECHANISMS, *MEASURES, *SAMPLING, *TASKS, *STYLES}
    for place in selected:
        out = dpcli("explain", str(place.selector_value)).out
        assert place.title in out
        for name, member in place.members.items():
            assert f"\n  {name} (" in out and member.doc in out, (place.title, name)


@of_each("name", ["", "  "])
def test_an_empty_name_is_refused(name: str) -> None:
    result = dpcli("explain", name)
    assert (result.code, result.out) == (2, "") and "no explanation of ''" in result.err


@of_each(
    "phrase, first",
    [
        ("zero-concentrated differential privacy", "zcdp: "),
        ("Gaussian differential privacy", "gdp: "),
        ("local differential privacy", "local-dp"),
        ("Rényi differential privacy", "rdp: "),
        ("(epsilon, delta)-DP", "delta"),
        ("(ε, δ)-DP", "delta"),
        ("epsilon-DP", "epsilon"),
        ("ρ-zCDP", "zcdp: "),
        ("mu-GDP", "mu"),
        ("tCDP", "tcdp"),
        ("CGF", "cgf"),
        ("advanced composition theorem", "advanced: "),
        ("group privacy theorem", "group"),
        ("adaptive composition", "adaptive-composition"),
        ("privacy amplification by iteration", "amplification-by-iteration"),
        ("sparse vector technique", 'type = "sparse-vector"'),
        ("post-processing immunity", 'type = "post-processing"'),
        ("McDiarmid's inequality", "mcdiarmid"),
        ("conversion of rho to epsilon", "conversion"),
        ("assumptions", "assumption"),
    ],
)
def test_a_phrase_means_what_it_means_as_a_whole(phrase: str, first: str) -> None:
    assert explain(phrase).split("\n")[0].startswith(first)


@of_each("word", ["theorem", "iteration", "composition", "epsilon", "[privacy]"])
def test_a_phrase_that_is_not_known_is_not_answered_by_one_of_its_words(word: str) -> None:
    with pytest.raises(InputError, match=rf"no explanation of 'qwxz {re.escape(word)}'; did you mean {re.escape(word)}"):
        explain(f"qwxz {word}")


def test_a_longer_part_of_a_phrase_is_explained_as_the_part_that_it_is() -> None:
    told = explain("qwxz group privacy qwxz")
    assert told == f"no explanation of 'qwxz group privacy qwxz'; explanation of its part 'group privacy':\n\n{explain('group')}"


@of_each(
    "word, hint",
    [("anchr", "did you mean anchor"), ("stabilty", "did you mean stability"), ("Bernoulli", "known: "), ("lint-fix", "known: ")],
)
def test_only_words_that_are_spelled_alike_are_suggested(word: str, hint: str) -> None:
    with pytest.raises(InputError, match=f"; {hint}"):
        explain(word)


def test_every_command_is_explained_beside_what_else_its_name_means() -> None:
    for name, (_, does) in {**COMMANDS, **{f"budget {name}": text for name, text in SUBCOMMANDS.items()}}.items():
        assert f"dpcli {name}: {does}\n\ndpcli {name} --help" in dpcli("explain", name).out
    assert dpcli("explain", "gate").out.startswith(explain("gate"))
    assert dpcli("explain", "budget qwxz").code == dpcli("explain", "account qwxz").code == 2


@of_each("name", WRITTEN)
def test_a_topic_is_printed_whole(name: str) -> None:
    """Every line of its text is there, whatever the width and the case of the name; and the lists that take the place of a mark."""
    result = dpcli("explain", name.upper())
    assert (result.code, result.err) == (0, "")
    printed = " ".join(result.out.lower().split())
    is_fenced = False
    for line in source(name).splitlines():
        is_fenced ^= line.startswith("```")
        if line.startswith("|") and not is_fenced:
            line = line.replace("|", " ").replace("---", " ")  # a table is set as columns
        if not line.startswith(("```", "<!--")):
            words = re.sub(r"^- \*\*(.+?)\*\*:|^#+ ", r"\1", line).lower().split()
            assert " ".join(words) in printed, line
    assert "<!--" not in printed


def test_the_glossary_is_printed_whole() -> None:
    printed = " ".join(dpcli("explain", "glossary").out.split())
    for word, text in {**TERMS, **SYMBOLS}.items():
        assert f"{word} {' '.join(text.split())}" in printed


def test_every_symbol_leads_to_a_word_that_is_explained_in_full() -> None:
    """To a term or a word of the file, not to another symbol, and never away from a term of the same name."""
    for symbol, word in SYMBOLS.items():
        assert word not in SYMBOLS or word in TERMS, symbol
        assert symbol not in TERMS, symbol


@of_each("word", ["sigma", "gaussian", "classical-gaussian", "analytic gaussian"])
def test_the_classical_sigma_stands_beside_the_analytic_one(word: str) -> None:
    """Each number by its closed form; the least sigma and its delta rounded up."""
    out = dpcli("explain", word).out
    assert "proved for epsilon < 1 only" in " ".join(out.split())
    rows = [line.split() for line in out.splitlines() if re.match(r" +[\d.]+ +[\d.]+ +[\d.]+ +\d\.\de", line)]
    assert len(rows) == 8
    for epsilon, classical, analytic, delta, *mark in rows:
        mu = float(epsilon) / math.sqrt(2.0 * math.log(1.25 / 1e-5))
        assert 1.0 / mu <= float(classical) <= 1.0001 / mu
        low, high = gaussian_delta(mu, float(epsilon))
        assert low <= float(delta) <= 1.1 * high
        assert (
            gaussian_delta(1.0 / float(analytic), float(epsilon))[1]
            <= 1e-5
            < gaussian_delta(1.002 / float(analytic), float(epsilon))[0]
        )
        assert mark == (["too", "little", "noise"] if high > 1e-5 else [])
    assert {row[0] for row in rows if len(row) > 4} == {"10", "20", "50"}
    for crossing in ("7.47 at delta = 0.001", "8.42 at delta = 1e-05", "9.63 at delta = 1e-09"):  # of 7.4635, 8.4198, 9.6237
        assert crossing in " ".join(out.split())


@pytest.mark.long
def test_no_explanation_sends_its_reader_to_itself_or_shows_a_default_of_nothing() -> None:
    from dpcli.explain.lookup import explain, known_names

    for word in known_names():
        said = " ".join(explain(word).split())
        assert not re.search(rf"[Ss]ee `?dpcli explain {re.escape(word)}(?![\w-]| FILE)", said), word
        assert not re.search(r"default [);]", said), word
