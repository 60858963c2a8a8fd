"""Every item is there, NOT STATED where the file is silent, and stated by exactly the keys that it names."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from dpcli.disclosure.items import NOT_STATED, REGISTRY, STATEMENT
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.model import Disclosure
from dpcli.lint.sections import train_section
from tests.cases import of_each
from tests.command import dpcli

from .samples import FULL, MINIMAL, SAMPLED, facts, silent, statements, toml, without

FORMS = {"report": STATEMENT, "registry": REGISTRY}
ITEMS = {form: {item.id: item for chapter in chapters for item in chapter.items} for form, chapters in FORMS.items()}
DISCLOSED = sorted(set(members_of(Disclosure)) - {"license", "url"})  # for a release's description, which is no statement


@pytest.mark.parametrize("form", FORMS)
def test_every_item_is_asked_once_and_with_its_source(form: str) -> None:
    found = [item for chapter in FORMS[form] for item in chapter.items]
    assert len({item.id for item in found}) == len(found)
    assert len({item.question for item in found}) == len(found)
    assert all(item.asked_by and item.question for item in found)


def test_every_key_of_the_table_states_an_item() -> None:
    stated = {key for items in ITEMS.values() for item in items.values() for key in item.keys}
    assert {f"disclosure.{key}" for key in DISCLOSED} <= stated


def test_the_full_example_states_everything() -> None:
    assert silent(toml(FULL)) == (set(), set())


def test_a_minimal_file_states_nothing_that_it_does_not_say() -> None:
    for statement, form in zip(statements(MINIMAL), FORMS, strict=True):
        expected = {item.id for item in ITEMS[form].values() if item.keys}
        assert {answer.item.id for answer in statement.silent} == expected
        assert all(answer.line.startswith(NOT_STATED) and answer.item.keys[0] in answer.line for answer in statement.silent)
        assert {answer.item.id for answer in statement.answers} == ITEMS[form].keys() - {
            "proof"
        }  # of a certificate, if one is given


def naming(key: str, form: str) -> set[str]:
    return {item.id for item in ITEMS[form].values() if any(key in keys.split() for keys in item.keys)}


@pytest.mark.long
@of_each(
    "table, keys, expected",
    [
        ("budget", (), ({"budget"}, {"budget"})),
        ("privacy", ("releases",), ({"releases"}, {"releases"})),
        ("privacy", ("unit", "max_contributions"), ({"unit", "contributions"}, {"unit", "contributions"})),
    ],
)
def test_other_keys_taken_out(table: str, keys: tuple[str, ...], expected: tuple[set[str], set[str]]) -> None:
    assert silent(toml(without(FULL, table, *keys))) == expected


def test_the_number_of_records_is_an_item_of_the_registry() -> None:
    text = toml(without(SAMPLED, "privacy", "dataset_size")).replace("batch_size = 100000", "rate = 0.0025")
    assert silent(text) == (set(), {"dataset-size"})
    (delta,) = (answer.line for answer in statements(text)[0].answers if answer.item.id == "delta")
    assert NOT_STATED in delta


@of_each("key", DISCLOSED)
def test_a_key_alone_states_exactly_its_items(key: str) -> None:
    bare = silent(MINIMAL)
    with_it = silent(toml({"disclosure": {key: FULL["disclosure"][key]}}) + MINIMAL)
    assert tuple(before - after for before, after in zip(bare, with_it, strict=True)) == (
        naming(f"disclosure.{key}", "report"),
        naming(f"disclosure.{key}", "registry"),
    )


def answer(text: str, name: str) -> str:
    return next(answer.line for answer in statements(text)[0].answers if answer.item.id == name)


@pytest.mark.long
@of_each(
    "more, expected",
    [
        (train_section({"covers": '{ tuning = "steps counts all three runs" }'}), "steps counts all three runs"),
        (train_section({"covers": '{ tuning = "..." }'}), "NOT STATED (disclosure.tuning or train.covers.tuning)"),
        (train_section({"covers": '{ tuning = "Not  Stated" }'}), "NOT STATED (disclosure.tuning or train.covers.tuning)"),
        (train_section({}), "NOT STATED (disclosure.tuning or train.covers.tuning)"),
        (
            '[[mechanism]]\nname = "best"\ntype = "repeat-and-select"\nmechanism = "count"\n'
            'trials = { distribution = "geometric", mean = 3 }\n',
            "accounted for by best",
        ),
    ],
)
def test_tuning_is_stated_by_words_or_by_a_mechanism(more: str, expected: str) -> None:
    assert answer(MINIMAL + more, "tuning") == expected


def test_words_over_several_lines_become_one() -> None:
    assert answer(MINIMAL + '[disclosure]\nclipping = """\n a\n\tb """\n', "clipping") == "a b"


@pytest.mark.long
def test_sensitivity_says_what_the_file_says() -> None:
    text = MINIMAL + "\n".join(
        [
            '[[mechanism]]\nname = "sum"\ntype = "laplace"\nscale = 3.0\nsensitivity = 2.5',
            '[[mechanism]]\nname = "mode"\ntype = "exponential"\nepsilon = 0.5',
            '[[mechanism]]\nname = "both"\ntype = "composed"\nmechanisms = ["sum", "mode"]',
            '[[mechanism]]\nname = "page"\ntype = "post-processing"\n',
        ]
    )
    assert answer(text, "sensitivity") == (
        "noise_multiplier over the bound C on one record's contribution (count); sensitivity 2.5 under the file's adjacency, as stated "
        "(sum); its privacy parameters are stated directly (mode); stated by its parts: sum, mode (both); reads no private data (page)"
    )
    assert answer(text, "counted") == "only the mechanisms of the file: count (1 run), both (1 run)"


def test_a_long_file_is_cut_with_a_count() -> None:
    more = "".join(f'[[mechanism]]\nname = "m{i}"\ntype = "gaussian"\nnoise_multiplier = 9.0\n' for i in range(20))
    assert answer(MINIMAL + more, "counted").endswith("m6 (1 run), and 13 more")


@pytest.mark.long
def test_without_amplification_there_is_no_better_number() -> None:
    for scheme in ("poisson", "balls-in-bins"):
        text = MINIMAL.replace("delta = 1e-6", "delta = 1e-6\ndataset_size = 1000")
        found = facts(text + f'steps = 20\nsampling = {{ scheme = "{scheme}", batch_size = 50 }}\n')
        assert found.unamplified is not None
        assert found.unamplified.upper > found.account.upper
    assert facts(MINIMAL).unamplified is None


@of_each("caps", ["rho = 0.5", "rho = 0.5\nepsilon = 9.0"])
@of_each("delta", [1e-5, 1e-9])
def test_a_budget_in_rho_is_told_as_zcdp_with_the_epsilon_that_it_implies(caps: str, delta: float, tmp_path: Path) -> None:
    """By the conversion of Canonne, Kamath and Steinke (arXiv:2004.00010, Corollary 13), searched over orders here."""
    text = f'[privacy]\nunit = "example"\nadjacency = "add-remove"\ndelta = {delta}\n[budget]\n{caps}\n'
    (tmp_path / "x.toml").write_text(f'format = 1\n{text}[[mechanism]]\nname = "x"\ntype = "gaussian"\nnoise_multiplier = 2.0\n')
    told = dict(
        line.split(": ", 1) for line in dpcli("report", str(tmp_path / "x.toml"), "-f", "text").out.splitlines() if ": " in line
    )
    assert told["definition"].startswith("zero-concentrated differential privacy (zCDP)") and "rho <= 0.1250" in told["guarantee"]
    for item, rho in (("guarantee", 0.125), ("budget", 0.5)):
        orders = [1.0 + 10 ** (k / 500) for k in range(-1000, 2000)]
        least = min(rho * a + math.log1p(-1.0 / a) - math.log(a * delta) / (a - 1.0) for a in orders)
        (said,) = re.findall(r"implies epsilon <= ([\d.]+)", told[item])
        assert least - 1e-3 <= float(said) <= least + 1e-3
    file = (tmp_path / "x.toml").read_text().replace("rho = 0.5\n", "" if "epsilon" in caps else "epsilon = 9.0\n")
    (tmp_path / "x.toml").write_text(file)
    assert "zCDP" not in dpcli("report", str(tmp_path / "x.toml"), "-f", "text").out
