"""Stages (train/plan/stages.py): their order, and the cost of any part of a run."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import binom

from dpcli.analysis.account import account
from dpcli.base.errors import InputError
from dpcli.lint.run import lint_bytes
from dpcli.mechanisms.sampling.schemes import FixedSize, Poisson
from dpcli.train.plan.plan import TrainingPlan, plan_of
from tests.cases import require_each
from tests.train.entries import HEAD, HISTOGRAM, MAIN, TREE, TURNS, WARM

TRAIN = """
[train]
task = "classification"
data = "digits"
learning_rate = 1.0
clipping = { norm = 1.0 }
checkpoint_every = 10
"""


def plan(folder: Path, *entries: str, train: str = TRAIN, head: str = HEAD) -> TrainingPlan:
    path = folder / "staged.toml"
    path.write_text(head + "".join(entries) + train)
    return plan_of(str(path))


def mechanism(name: str) -> str:
    return TRAIN + f"mechanism = {name}\n"


def steps(found: TrainingPlan, *portions: tuple[int, int], with_rest: bool = True) -> dict[str, float]:
    return {e.name: e.epochs or e.steps for e in found.costs(portions, with_rest).mechanisms}


def test_a_schedule_is_several_entries_in_the_order_that_is_stated(tmp_path: Path) -> None:
    found = plan(tmp_path, WARM, MAIN, HISTOGRAM, train=mechanism('["main", "warm"]'))
    assert [(s.entry.name, s.start, s.stop, s.expected_batch, s.noise_multiplier) for s in found.stages] == [
        ("main", 0, 20, 50.0, 2.0),
        ("warm", 20, 35, 100.0, 3.0),
    ]
    assert steps(found, (0, 35)) == {"warm": 15, "main": 20, "histogram": 1}
    assert steps(found, (0, 25)) == {"main": 20, "warm": 5, "histogram": 1}
    assert steps(found, (0, 5)) == {"main": 5, "histogram": 1}  # what is not begun costs nothing
    assert steps(found, (18, 23), with_rest=False) == {"main": 2, "warm": 3}  # what is repeated is training alone
    assert account(found.costs([(0, 35)])).upper == found.account.upper


def test_who_reads_a_batch_of_training_runs_as_often(tmp_path: Path) -> None:
    """An entry that shares the sample of one that is performed: in every portion, in what is repeated too; two performed ones may not."""
    shared = 'sample = "batch"\n'
    share = HISTOGRAM.replace("histogram", "share") + 'steps = 20\nsampling = { scheme = "poisson", batch_size = 50 }\n' + shared
    found = plan(tmp_path, WARM, MAIN + shared, share, train=mechanism('["main", "warm"]'))
    assert steps(found, (0, 35)) == {"warm": 15, "main": 20, "share": 20}
    assert steps(found, (0, 5)) == {"main": 5, "share": 5}
    assert steps(found, (18, 23), with_rest=False) == {"main": 2, "warm": 3, "share": 2}
    assert account(found.costs([(0, 35)])).upper == found.account.upper
    with pytest.raises(InputError, match="each entry of a schedule draws its own"):
        plan(tmp_path, MAIN + shared, MAIN.replace("main", "warm") + shared, train=mechanism('["main", "warm"]'))


def test_states_are_saved_at_the_end_of_a_stage_too(tmp_path: Path) -> None:
    found = plan(tmp_path, WARM, MAIN, train=mechanism('["warm", "main"]'))
    assert [found.milestone(step) for step in (0, 9, 10, 14, 15, 19, 20, 34)] == [10, 10, 15, 15, 20, 20, 30, 35]


def test_a_run_of_correlated_noise_counts_as_a_whole_however_far_it_went(tmp_path: Path) -> None:
    found = plan(tmp_path, TREE)
    assert [(s.start, s.stop, s.expected_batch) for s in found.stages] == [(0, 16, 125.0), (16, 32, 125.0), (32, 48, 125.0)]
    assert steps(found, (0, 1)) == {"tree": 1}
    assert steps(found, (0, 17)) == {"tree": 2}
    assert steps(found, (0, 48), (20, 30)) == {"tree": 4}  # resumed in the second run: a fourth one was begun


def test_a_run_on_samples_divides_by_their_expected_size_and_deals_no_single_records_of_a_unit(tmp_path: Path) -> None:
    """All records of a unit must be in one group, and training would deal them one by one."""
    found = plan(tmp_path, TURNS)
    assert [(s.start, s.stop, s.expected_batch) for s in found.stages] == [(0, 16, 50.0), (16, 32, 50.0), (32, 48, 50.0)]
    assert steps(found, (0, 17)) == {"matrix": 2}
    head = HEAD.replace('"example"', '"user"\nmax_contributions = 2')
    with pytest.raises(InputError, match="expected no sampling with max_contributions = 2"):
        plan(tmp_path, TURNS, head=head, train=TRAIN.replace("[train]", '[train]\nunits = "owner"'))


@pytest.mark.parametrize(
    ("sampling", "length"),
    [('{ scheme = "shuffle", batch_size = 300 }', 4), ('{ scheme = "balls-in-bins", batch_size = 300 }', 3)],
)
def test_a_pass_counts_as_a_whole(tmp_path: Path, sampling: str, length: int) -> None:
    entry = MAIN.replace("steps = 20", "epochs = 3").replace('{ scheme = "poisson", batch_size = 50 }', sampling)
    found = plan(tmp_path, entry)
    assert [(s.steps, s.expected_batch) for s in found.stages] == [(length, 1000 / length)] * 3
    assert steps(found, (0, 1)) == {"main": 1.0}
    assert steps(found, (0, length + 1)) == {"main": 2.0}
    assert account(found.costs([(0, found.steps)])).upper == found.account.upper


def test_what_a_step_performs_must_be_clear(tmp_path: Path) -> None:
    def check(case: tuple[str, str]) -> None:
        train, words = case
        with pytest.raises(InputError, match=words):
            plan(tmp_path, WARM, MAIN, HISTOGRAM, train=train)

    require_each(
        [
            (TRAIN, "found warm, main of warm, main"),
            (mechanism('"other"'), r"mechanism: expected an entry with Gaussian noise \('warm', 'main'\), found 'other'"),
            (mechanism('"histogram"'), r"\('warm', 'main'\), found 'histogram' of type 'laplace'"),
            (mechanism('["warm", "warm"]'), r"mechanism\[2\]: expected each entry once, found 'warm' again"),
            (mechanism("[]"), "expected the name of an entry, or several names in order, found an empty list"),
        ],
        check,
    )


def test_a_misspelt_entry_is_asked_about_at_its_place() -> None:
    def check(name: str) -> None:
        text = HEAD + WARM.replace('"warm"', f'"{name}"') + HISTOGRAM
        for at in range(len(name)):
            wrong = name[:at] + name[at] + name[at:]
            for train, key in ((f'"{wrong}"', "train.mechanism"), (f'["{name}", "{wrong}"]', "train.mechanism[2]")):
                content = text + mechanism(train)
                (found,) = lint_bytes(content.encode(), "staged.toml")
                assert (found.rule, found.key, found.line) == ("DP005", key, content.count("\n"))
                assert found.message.endswith(f"('{name}'), found '{wrong}'; did you mean '{name}'")

    require_each(["warm", "main", "a much longer name of an entry"], check)


def test_a_plan_of_other_content_keeps_the_path(tmp_path: Path) -> None:
    path = tmp_path / "absent.toml"
    found = plan_of(str(path), (HEAD + MAIN + TRAIN).encode())
    assert (found.path, found.steps) == (str(path), 20)


@pytest.mark.parametrize("expected", [0.3, 4.0, 50.0, 900.0])
def test_a_rehearsal_tries_the_memory_of_nearly_every_batch(expected: float, tmp_path: Path) -> None:
    """Of a size that varies, fewer than 1 of 10,000 are larger; of one that is fixed or cut off, none is."""
    stage = replace(plan(tmp_path, MAIN).stages[0], expected_batch=expected)
    assert binom.sf(stage.largest_likely_batch, 1000, expected / 1000) < 1e-4
    fixed = replace(stage, entry=replace(stage.entry, sampling=FixedSize("fixed-size", rate=0.1)))
    assert fixed.largest_likely_batch == math.ceil(expected)
    cut = replace(stage, entry=replace(stage.entry, sampling=Poisson("poisson", rate=0.1, max_batch_size=5)))
    assert cut.largest_likely_batch == 5
