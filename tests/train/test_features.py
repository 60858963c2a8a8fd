"""dpcli train on more than one plain mechanism: schedules, correlated noise, passes, units, functions of one's own."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from dpcli.base.errors import InputError
from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms
from dpcli.random.streams import system_entropy
from dpcli.train.plan.plan import plan_of
from dpcli.train.run.ranks import Ranks
from dpcli.train.run.training_run import train
from dpcli.train.step.prepare import prepare
from tests.train.entries import (
    BALLS,
    BANDED,
    BUFFERED,
    CUT,
    FULL,
    HISTOGRAM,
    MAIN,
    MATRIX,
    PER_RECORD,
    PER_UNIT,
    SHUFFLE,
    SIZE,
    TRAIN,
    TREE,
    UNITS,
    USERS,
    WARM,
)
from tests.train.samples import Stopped, stop_at


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(1)
    monkeypatch.chdir(tmp_path)


def write(*parts: str) -> str:
    Path("staged.toml").write_text("".join(parts))
    return "staged.toml"


@pytest.mark.sampled(2, 2)
@pytest.mark.parametrize(
    "entries",
    [FULL, CUT, SHUFFLE, BALLS, TREE, BANDED, MATRIX, BUFFERED],
    ids=["full", "cut", "shuffle", "balls", "tree", "banded", "matrix", "buffered"],
)
def test_every_mechanism_trains(entries: str) -> None:
    quiet = entries.replace("multiplier = 2.0", "multiplier = 0.3").replace("multiplier = 5.0", "multiplier = 0.5")
    outcome = train(plan_of(write(SIZE, quiet, TRAIN)))
    assert outcome.metrics["accuracy"] > 0.2
    assert outcome.epsilon == outcome.plan.account.upper


class Recorded:
    """A source of noise that says how much it was asked for."""

    def __init__(self, inner, seen: list[float], std: float) -> None:
        self.inner, self.seen, self.std, self.drawn_std = inner, seen, std, inner.drawn_std

    def parts(self, count):
        self.seen.append(self.std)
        return self.inner.parts(count)


@pytest.mark.long
def test_a_schedule_draws_each_entrys_noise_in_each_of_its_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    import dpcli.train.step.prepare as module

    seen: list[float] = []
    real = module.noise_of
    monkeypatch.setattr(
        module, "noise_of", lambda spec, bound, stream: Recorded(real(spec, bound, stream), seen, spec.noise_multiplier)
    )
    outcome = train(plan_of(write(SIZE, WARM, MAIN, HISTOGRAM, TRAIN, 'mechanism = ["warm", "main"]\n')))
    assert seen == [3.0] * 15 + [2.0] * 20
    statement = (Path(outcome.folder) / "statement.md").read_text()
    assert "35 steps with noise multiplier 3, then 2 and" in statement


def test_a_correlated_run_that_is_cut_short_counts_as_one_more(tmp_path: Path) -> None:
    plan = plan_of(write(SIZE, TREE, TRAIN))
    books = init(
        str(tmp_path / "l.db"), "digits", LedgerTerms("example", "add-remove", 9.0, 1e-5, filter="rdp", parameters={"order": 4.0})
    )
    with pytest.raises(Stopped):
        train(plan, books, report=stop_at(19))
    seen: list[int] = []
    outcome = train(plan, books, resume=True, report=lambda step, metrics: seen.append(step))
    assert (seen[0], seen[-1]) == (17, 48)  # from the state at the end of the first run
    assert outcome.repeated == ((16, 20),)
    whole, again = books.state().runs.values()
    assert whole.pipeline["mechanism"][0]["steps"] == 3
    assert again.pipeline["mechanism"][0].get("steps", 1) == 1
    assert outcome.epsilon > plan.account.upper


def prepared(text: str):
    Path("users.py").write_text(USERS)
    return prepare(plan_of(text), system_entropy(), Ranks(), None, ".")


@pytest.mark.long
def test_a_unit_is_drawn_as_a_whole_and_clipped_as_one() -> None:
    found = prepared(write(PER_UNIT, MAIN.replace("batch_size = 50", "rate = 0.2"), UNITS, "records_per_unit = 4\n"))
    (inputs, _), real = found.problem.records
    assert inputs.shape == (30, 4, 4)
    assert real.sum(1).tolist() == [3] * 30
    whole = found.trainer.gradients(found.problem.records)
    for user in range(30):
        rest = [other for other in range(30) if other != user]
        others = found.trainer.gradients(((inputs[rest], found.problem.records[0][1][rest]), real[rest]))
        moved = sum(float((whole.gradients[name] - others.gradients[name]).square().sum()) for name in whole.gradients) ** 0.5
        assert moved <= 0.5 * (1 + 1e-6)
    # A user's loss is the mean over the three records, not over the copy that fills up the fourth place.
    losses = found.problem.loss(found.problem.model, found.problem.records)
    x, y = inputs[0, :3], found.problem.records[0][1][0, :3]
    alone = torch.nn.functional.cross_entropy(found.problem.model(x), y)
    assert losses[0].item() == pytest.approx(alone.item(), abs=1e-6)
    assert train(found.plan).metrics["accuracy"] > 0.1


@pytest.mark.long
def test_records_of_a_unit_are_bounded_where_each_is_clipped_for_itself() -> None:
    found = prepared(write(PER_RECORD, MAIN, UNITS))
    assert found.problem.count == 60  # two of each user's three
    assert train(found.plan).metrics["accuracy"] > 0.1


@pytest.mark.parametrize(
    ("head", "more", "words"),
    [
        (PER_RECORD, "records_per_unit = 4\n", "expected 1 with train.records_per_unit, found 2"),
        (PER_UNIT.replace("= 30", "= 29"), "", "privacy.dataset_size: expected at least"),
    ],
)
def test_what_a_unit_owns_must_be_bounded_as_accounted(head: str, more: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        prepared(write(head, MAIN.replace("batch_size = 50", "rate = 0.2"), UNITS, more))
