"""The changes between two pipelines and the cost of each (analysis/difference.py), against accounts of the edited files."""

from __future__ import annotations

import math
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.analysis.account import account
from dpcli.analysis.difference import Difference, difference
from dpcli.analysis.table_changes import changes
from dpcli.base.errors import InputError
from dpcli.file.pipeline.read import load, toml_document
from dpcli.file.pipeline.series import comparable_tables, plain_entries
from dpcli.file.toml import syntax
from dpcli.lint.sections import train_section

BASE = """\
format = 1
name = "base"

[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 60_000
delta = 1e-5

[[mechanism]]
name = "train"
type = "gaussian"
noise_multiplier = 1.1
steps = 2_000
sampling = { scheme = "poisson", batch_size = 256 }

[[mechanism]]
name = "count"
type = "laplace"
scale = 20.0
sensitivity = 1.0
"""

HISTOGRAM = '\n[[mechanism]]\nname = "histogram"\ntype = "pure-dp"\nepsilon = 0.25\n'


@pytest.fixture
def compare(tmp_path: Path):  # type: ignore[no-untyped-def]
    def run(after: str, before: str = BASE, delta: float | None = None) -> Difference:
        (tmp_path / "a.toml").write_text(before)
        (tmp_path / "b.toml").write_text(after)
        return difference(str(tmp_path / "a.toml"), str(tmp_path / "b.toml"), delta)

    return run


def edited(*pairs: tuple[str, str], text: str = BASE) -> str:
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def keys(found: Difference) -> list[list[str]]:
    return [[edit.key for edit in one.change.edits] for one in found.priced]


def test_the_same_file_twice(compare) -> None:  # type: ignore[no-untyped-def]
    found = compare(BASE)
    assert (found.priced, found.statement, found.increase, found.exit_code) == ((), (), 0.0, 0)


def test_order_comments_and_spelling_are_no_changes(compare) -> None:  # type: ignore[no-untyped-def]
    head, train, count = BASE.split("[[mechanism]]")
    moved = f"# a comment\n{head}[[mechanism]]{count}\n[[mechanism]]{train}".replace("60_000", "60000").replace("1e-5", "0.00001")
    found = compare(moved)
    assert found.priced == ()
    assert found.before.upper == found.after.upper


def test_each_change_costs_what_the_file_with_that_change_costs(compare, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    noise, steps = ("noise_multiplier = 1.1", "noise_multiplier = 0.9"), ("steps = 2_000", "steps = 3_000")
    found = compare(edited(noise, steps))
    alone = {one.change.edits[0].key: one.epsilon for one in found.priced}
    for pair, key in ((noise, 'mechanism["train"].noise_multiplier'), (steps, 'mechanism["train"].steps')):
        (tmp_path / "alone.toml").write_text(edited(pair))
        assert alone[key] == account(load(tmp_path / "alone.toml")).upper
    assert [one.increase for one in found.priced] == sorted((one.increase for one in found.priced), reverse=True)
    assert found.increase == found.after.upper - found.before.upper
    assert found.interaction == pytest.approx(found.increase - sum(one.increase for one in found.priced))
    assert found.interaction > 0.0  # less noise makes every further step dearer
    assert found.exit_code == 1


def test_mechanisms_come_go_and_are_renamed(compare) -> None:  # type: ignore[no-untyped-def]
    added = compare(BASE + HISTOGRAM)
    assert keys(added) == [['mechanism["histogram"]']]
    assert added.priced[0].increase > 0.0
    removed = compare(BASE, before=BASE + HISTOGRAM)
    assert removed.priced[0].change.edits[0].new is None
    assert removed.priced[0].increase == -added.priced[0].increase
    assert removed.exit_code == 0
    renamed = compare(edited(('name = "count"', 'name = "total"')))
    assert keys(renamed) == [['mechanism["count"].name']]
    assert renamed.increase == renamed.priced[0].increase == 0.0


def test_the_only_mechanism_cannot_be_removed_alone(compare) -> None:  # type: ignore[no-untyped-def]
    head = BASE.split("[[mechanism]]")[0]
    found = compare(head + HISTOGRAM, before=head + '[[mechanism]]\nname = "one"\ntype = "pure-dp"\nepsilon = 0.5\n')
    reasons = [one.reason for one in found.priced if one.reason]
    assert len(reasons) == 1
    assert "not valid alone" in reasons[0]
    assert math.isnan(found.interaction)


def test_alternatives_are_one_change(compare) -> None:  # type: ignore[no-untyped-def]
    found = compare(edited(("steps = 2_000", "epochs = 10"), ("batch_size = 256", "rate = 0.01")))
    assert sorted(keys(found)) == [
        ['mechanism["train"].sampling.batch_size', 'mechanism["train"].sampling.rate'],
        ['mechanism["train"].steps', 'mechanism["train"].epochs'],
    ]
    assert not any(one.reason for one in found.priced)


def test_a_change_of_type_takes_its_keys_with_it(compare) -> None:  # type: ignore[no-untyped-def]
    gaussian = ('type = "laplace"\nscale = 20.0\nsensitivity = 1.0', 'type = "gaussian"\nsigma = 9.0\nsensitivity = 2.0\nsteps = 2')
    found = compare(edited(gaussian))
    assert sorted(map(len, keys(found))) == [1, 4]
    assert not any(one.reason for one in found.priced)


def test_a_change_of_scheme_takes_its_table_with_it(compare) -> None:  # type: ignore[no-untyped-def]
    found = compare(edited(('{ scheme = "poisson", batch_size = 256 }', '{ scheme = "none" }')))
    assert keys(found) == [['mechanism["train"].sampling']]
    assert found.increase > 10.0


def test_what_cannot_stand_alone_says_why(compare) -> None:  # type: ignore[no-untyped-def]
    """Epochs need a rate, and the old file has none."""
    plain = edited(('sampling = { scheme = "poisson", batch_size = 256 }\n', ""))
    found = compare(edited(("steps = 2_000", "epochs = 10")), before=plain)
    reasons = {one.change.edits[0].key: one.reason for one in found.priced}
    assert reasons['mechanism["train"].steps'] == (
        'not valid alone: mechanism["train"].epochs: expected steps, or epochs with a sampling table that has a rate or batch_size, '
        "found epochs alone"
    )
    assert reasons['mechanism["train"].sampling'] is None
    assert math.isnan(found.interaction)
    assert math.isfinite(found.increase)


@pytest.mark.parametrize(
    ("pair", "word"),
    [
        (('unit = "example"', 'unit = "user"\nmax_contributions = 3'), "unit example -> user"),
        (('adjacency = "add-remove"', 'adjacency = "replace-one"'), "adjacency add-remove -> replace-one"),
        (("dataset_size = 60_000", "dataset_size = 70_000"), "dataset_size 60000 -> 70000"),
        (("delta = 1e-5", "delta = 1e-6"), "delta 1e-05 -> 1e-06"),
        (("delta = 1e-5", "delta = 1e-5\nadaptive = true"), "adaptive false -> true"),
    ],
)
def test_changes_of_the_statement_are_called_out(compare, pair: tuple[str, str], word: str) -> None:  # type: ignore[no-untyped-def]
    found = compare(edited(pair))
    assert word in found.statement
    assert found.exit_code == 3
    assert found.before.delta == found.after.delta == 1e-5


def test_a_new_delta_alone_costs_nothing_at_the_old_one(compare) -> None:  # type: ignore[no-untyped-def]
    found = compare(edited(("delta = 1e-5", "delta = 1e-9")))
    assert found.increase == 0.0
    assert [one.increase for one in found.priced] == [0.0]
    same = compare(edited(("delta = 1e-5", "delta = 1e-9")), delta=1e-7)
    assert same.statement == ()
    assert same.before.delta == 1e-7


def test_names_caps_and_sections_are_free(compare) -> None:  # type: ignore[no-untyped-def]
    loose = edited(('name = "base"', 'name = "new"'), ("delta = 1e-5", 'delta = 1e-5\nreleases = "outputs"'))
    found = compare(loose + 'description = "text"\n[budget]\nepsilon = 3.0\n' + train_section({}))
    assert {one.increase for one in found.priced} == {0.0}
    assert len(found.priced) == 5


def test_the_cap_of_an_adaptive_file_costs_what_it_allows(compare) -> None:  # type: ignore[no-untyped-def]
    cap = "delta = 1e-5\nadaptive = true\n[budget]\nepsilon = 3.0\ndelta = 1e-5\n"
    before = edited(("delta = 1e-5\n", cap), ("steps = 2_000\n", ""), ('sampling = { scheme = "poisson", batch_size = 256 }\n', ""))
    before = before.replace("noise_multiplier = 1.1", "noise_multiplier = 30.0")
    (one,) = compare(edited(("epsilon = 3.0", "epsilon = 6.0"), text=before), before).priced
    assert (one.change.edits[0].key, one.epsilon, one.increase) == ("budget.epsilon", 6.0, 3.0)


def test_without_delta_in_the_first_file_the_second_decides(compare) -> None:  # type: ignore[no-untyped-def]
    found = compare(BASE, before=edited(("delta = 1e-5\n", "")))
    assert found.before.delta == 1e-5
    assert found.statement == ("delta none -> 1e-05",)
    with pytest.raises(InputError, match="expected a delta"):
        compare(edited(("delta = 1e-5\n", "")), before=edited(("delta = 1e-5\n", ""), ('name = "base"', 'name = "other"')))


def test_infinite_epsilons_are_not_compared(compare) -> None:  # type: ignore[no-untyped-def]
    wide = edited(("delta = 1e-5", "delta = 0.0"))
    found = compare(edited(("scale = 20.0", "scale = 10.0"), text=wide), before=wide)
    assert math.isnan(found.increase)
    assert found.exit_code == 3


def test_groups_by_name_keep_their_members(compare) -> None:  # type: ignore[no-untyped-def]
    group = '\n[[mechanism]]\nname = "both"\ntype = "composed"\nmechanisms = ["count", "histogram"]\n'
    found = compare(
        edited(('name = "count"', 'name = "total"')) + HISTOGRAM + group.replace('"count"', '"total"'), BASE + HISTOGRAM + group
    )
    reasons = [one.reason for one in found.priced]
    assert all(reason and "not valid alone" in reason for reason in reasons)
    assert found.increase == 0.0


MENU = [
    ("noise_multiplier = 1.1", "noise_multiplier = 1.4"),
    ("steps = 2_000", "epochs = 3"),
    ("batch_size = 256", "rate = 0.003"),
    ("scale = 20.0", "scale = 5.0"),
    ('adjacency = "add-remove"', 'adjacency = "zero-out"'),
    ('name = "count"', 'name = "total"'),
    ("dataset_size = 60_000", "dataset_size = 50_000"),
    ('name = "base"', 'name = "new"'),
    ("sensitivity = 1.0\n", "sensitivity = 1.0\n" + HISTOGRAM),
]


@settings(max_examples=200, deadline=None)
@given(st.sets(st.sampled_from(MENU)), st.sets(st.sampled_from(MENU)))
def test_all_changes_applied_are_the_second_file(left: set[tuple[str, str]], right: set[tuple[str, str]]) -> None:
    a, b = (syntax.tables_of(edited(*some)) for some in (left, right))
    tables = a
    for change in changes(a, b):
        tables = change.applied(tables)
    assert changes(tables, b) == ()
    assert a == syntax.tables_of(edited(*left))  # the original is untouched
    assert (changes(a, b) == ()) == (left == right)


def test_revisions_are_read_as_committed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def git(*arguments: str) -> None:
        names = ("-c", "user.name=t", "-c", "user.email=t@example.org")
        subprocess.run(["git", *names, *arguments], cwd=tmp_path, check=True, capture_output=True)

    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "p.toml").write_text(BASE)
    git("init", "-q")
    git("add", ".")
    git("commit", "-q", "-m", "base")
    (tmp_path / "sub" / "p.toml").write_text(edited(("scale = 20.0", "scale = 10.0")))
    monkeypatch.chdir(tmp_path / "sub")
    assert keys(difference("HEAD:sub/p.toml", "p.toml")) == keys(difference("HEAD:./p.toml", "p.toml"))
    assert keys(difference("HEAD:sub/p.toml", "p.toml")) == [['mechanism["count"].scale']]
    assert difference("HEAD:sub/p.toml", "HEAD:./p.toml").priced == ()
    for wrong in ("HEAD:none.toml", "nothing:sub/p.toml", "HEAD:sub", ":p.toml", "HEAD:", "--help:x", "HEAD:\0"):
        with pytest.raises(InputError, match=r"expected a pipeline file"):
            difference(wrong, "p.toml")


def test_standard_input_is_read_once() -> None:
    with pytest.raises(InputError, match="found both"):
        difference("-", "-")


def test_beyond_the_cap_changes_are_listed_and_not_priced(compare, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("dpcli.analysis.difference.MOST_PRICED", 1)
    found = compare(edited(("scale = 20.0", "scale = 10.0"), ("steps = 2_000", "steps = 3_000")))
    assert [one.reason for one in found.priced] == [None, "not priced: more than 1 changes"]
    assert math.isnan(found.interaction)
    assert math.isfinite(found.increase)


LISTS = [
    {"noise_multiplier = 1.1": "noise_multiplier = [1.1, 0.9]"},
    {"noise_multiplier = 1.1": "noise_multiplier = [0.9]"},
    {"noise_multiplier = 1.1": "noise_multiplier = [1.1, 0.9, 0.8]", "steps = 2_000": "steps = [100, 200, 300]"},
    {"batch_size = 256": "batch_size = [256, 512]"},
    {"noise_multiplier = 1.1": "noise_multiplier = [0.9, 0.9]", "steps = 2_000": "steps = 1_000"},
]


@pytest.mark.parametrize("lists", LISTS)
def test_a_list_in_the_place_of_one_value_is_a_change_of_that_key(compare, lists: dict[str, str]) -> None:  # type: ignore[no-untyped-def]
    """Each way round, and the changes made together give the other file: no entry comes or goes."""
    after = edited(*lists.items())
    expected = sorted(f'mechanism["train"].{"sampling." * (old[0] == "b")}{old.partition(" ")[0]}' for old in lists)
    for one, other in ((BASE, after), (after, BASE)):
        found = compare(other, one)
        assert sorted(key for each in keys(found) for key in each) == expected
        assert all(each.epsilon is not None for each in found.priced)
        tables = comparable_tables(*(toml_document(text.encode(), "")[1] for text in (one, other)))[0]
        for each in found.priced:
            tables = each.change.applied(tables)
        assert {entry["name"]: entry for entry in plain_entries(tables)["mechanism"]} == {
            entry["name"]: entry for entry in toml_document(other.encode(), "")[1]["mechanism"]
        }


def test_a_stage_more_of_a_list_is_an_entry_more(compare) -> None:  # type: ignore[no-untyped-def]
    two, three = (edited(("noise_multiplier = 1.1", f"noise_multiplier = {values}")) for values in ([1.1, 0.9], [1.1, 0.9, 0.8]))
    assert keys(compare(three, two)) == keys(compare(two, three)) == [['mechanism["train[3]"]']]
