"""A private search: the number of trials, what its theorem needs, what it costs, and that the best alone is left."""

from __future__ import annotations

import json
import math
import stat
from collections import Counter
from decimal import Decimal, localcontext
from itertools import islice
from pathlib import Path

import pytest

from dpcli.analysis.account import account
from dpcli.base.errors import Denied, InputError
from dpcli.file.pipeline.read import load, parse
from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms
from dpcli.mechanisms.choice.repeat_and_select import RepeatAndSelect
from dpcli.mechanisms.choice.trial_numbers import BinomialTrials, NegativeBinomial, PoissonTrials
from dpcli.mechanisms.noise.gaussian import Gaussian
from dpcli.sweep import private_search
from dpcli.sweep import sweep_trials as law
from dpcli.sweep.documents.sweep import search_document
from dpcli.sweep.private_search import BEST, SEARCH, TRIALS, search
from dpcli.sweep.sweep_plan import SweepPlan, plan_sweep
from dpcli.sweep.sweep_trials import draw_count, draw_settings
from dpcli.sweep.worker import RESULT, RUN_FOLDER, Job, JobAnswer
from tests.command import dpcli
from tests.mechanisms.trials import Counts
from tests.sweep.fake_runs import InOneProcess, fake_runs
from tests.sweep.samples import CUSTOM, PRIVATE, TRAIN

DISTRIBUTIONS = [
    NegativeBinomial(1.0, 0.3),
    NegativeBinomial(0.0, 0.2),
    NegativeBinomial(-0.5, 0.01),
    NegativeBinomial(2.5, 0.4),
    NegativeBinomial(1e-300, 0.2),
    PoissonTrials(4.0),
    PoissonTrials(0.3),
    BinomialTrials(7, 3.0),
    BinomialTrials(10**18, 3.0),
]


def masses(trials: object, number: int) -> tuple[int, list[Decimal]]:
    with localcontext(prec=law.DIGITS):
        first, found = law._DISTRIBUTIONS[type(trials)](trials)
        return first, list(islice(found, number))


@pytest.mark.parametrize("trials", DISTRIBUTIONS, ids=repr)
def test_the_law_is_the_one_whose_generating_function_is_accounted_for(trials: Counts) -> None:
    """The probabilities end in 1, have the mean, and f'(x) is what the accounting writes down."""
    first, found = masses(trials, 4000)
    assert abs(sum(found) - 1) < Decimal("1e-12")
    assert float(sum(k * p for k, p in enumerate(found, first))) == pytest.approx(trials.mean, rel=1e-7)
    for x in (0.1, 0.5, 0.9):
        slope = float(sum(k * float(p) * x ** (k - 1) for k, p in enumerate(found, first) if k))
        assert slope == pytest.approx(_slope(trials, x), rel=1e-7)


def _slope(trials: Counts, x: float) -> float:
    if isinstance(trials, PoissonTrials):
        return trials.mean * math.exp(trials.mean * (x - 1.0))
    if isinstance(trials, BinomialTrials):
        return trials.mean * math.exp((trials.most - 1) * math.log1p(trials.mean / trials.most * (x - 1.0)))
    return trials.mean * (trials.gamma / (1.0 - (1.0 - trials.gamma) * x)) ** (trials.eta + 1.0)


@pytest.mark.parametrize("trials", DISTRIBUTIONS, ids=repr)
def test_inversion_at_every_level(trials: Counts) -> None:
    first, found = masses(trials, 20)
    level = Decimal(0)
    for k, mass in enumerate(found, first):
        if mass < Decimal("1e-9"):
            break
        assert draw_count(trials, level + mass * Decimal("1e-6")) == k
        assert draw_count(trials, level + mass * (1 - Decimal("1e-6"))) == k
        level += mass
    with localcontext(prec=law.DIGITS):
        largest = Decimal(2**law.BITS - 1) / 2**law.BITS
    assert largest < 1
    assert draw_count(trials, largest) > trials.mean  # which ends, too


def test_numbers_and_settings_are_drawn_from_their_laws() -> None:
    """4,000 searches: chi-square within its 1e-9 quantiles, of the number of trials and of the settings."""
    trials, rounds = NegativeBinomial(1.0, 0.4), 4000
    drawn = [draw_settings(trials, 4) for _ in range(rounds)]
    expected = [rounds * 0.4 * 0.6**k for k in range(8)]
    counted = Counter(len(search) for search in drawn)
    assert sum((counted[k + 1] - e) ** 2 / e for k, e in enumerate(expected)) < 65.0  # 8 cells
    total = sum(map(len, drawn))
    settings = Counter(index for search in drawn for index in search)
    assert set(settings) == {0, 1, 2, 3}
    assert sum((settings[i] - total / 4) ** 2 / (total / 4) for i in range(4)) < 45.0
    pairs = Counter((search[0], search[1]) for search in drawn if len(search) > 1)
    assert sum((pairs[i, j] - e) ** 2 / e for i in range(4) for j in range(4) for e in [sum(pairs.values()) / 16]) < 85.0


def planned(folder: Path, text: str = PRIVATE) -> SweepPlan:
    path = folder / "tiny.toml"
    path.write_text(text.replace("[sweep]", f'[sweep]\noutput = "{folder / "runs"}"', 1))
    return plan_sweep(str(path))


@pytest.mark.nightly
def test_the_whole_search_costs_what_account_says(tmp_path: Path) -> None:
    """Against `dpcli account` on the file with the solved noise, and against the theorem on one run written out here."""
    plan = planned(tmp_path)
    (noise,) = plan.variants[0].noise_multipliers
    text = (tmp_path / "tiny.toml").read_text().replace("noise_multiplier = 2.0", f"noise_multiplier = {noise!r}")
    (tmp_path / "solved.toml").write_text(text)
    whole = account(load(str(tmp_path / "solved.toml"))).upper
    assert {variant.plan.account.upper for variant in plan.variants} == {whole}
    assert 3.0 * (1.0 - 1e-4) < whole <= 3.0
    one_run = Gaussian(math.sqrt(10.0) / noise)
    assert whole >= RepeatAndSelect(one_run, NegativeBinomial(1.0, 0.5)).approx_dp(1e-5) * (1.0 - 1e-6)
    single = account(
        parse(text.replace('type = "repeat-and-select"', 'type = "post-processing"').replace(_TRIALS, "").encode(), "one")
    )
    assert single.upper < 0.9 * whole  # one run alone costs much less, and is not what is claimed


_TRIALS = 'mechanism = "sgd"\ntrials = { distribution = "geometric", mean = 2 }\n'


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> type[InOneProcess]:
    monkeypatch.setattr(private_search, "Pool", InOneProcess)
    monkeypatch.setattr(private_search, "draw_settings", lambda trials, settings: [1, 0, 1])
    InOneProcess.done = []
    InOneProcess.work = staticmethod(fake_runs(lambda job: {"1": 0.3, "2": 0.8, "3": 0.6}[Path(job.folder).name]))  # type: ignore[assignment]
    return InOneProcess


def left(plan: SweepPlan) -> set[str]:
    return {str(path.relative_to(plan.folder)) for path in Path(plan.folder).rglob("*") if path.is_file()}


@pytest.mark.long
def test_the_best_alone_is_left(tmp_path: Path, pool: type[InOneProcess]) -> None:
    plan = planned(tmp_path)
    found = search(plan, 1, None)
    assert found.value == 0.8
    assert found.variant is plan.variants[0]
    assert left(plan) == {
        ".lock",
        SEARCH,
        f"{BEST}/{RESULT}",
        f"{BEST}/pipeline.toml",
        f"{BEST}/{RUN_FOLDER}/model.safetensors",
        f"{BEST}/{RUN_FOLDER}/statement.md",
    }
    state = json.loads((Path(plan.folder) / SEARCH).read_text())
    assert set(state) == {"schema", "fingerprint", "charge", "chosen"}
    assert state["chosen"] == {"metric": "accuracy", "value": 0.8, "variant": 0}


LOWER = PRIVATE.replace(TRAIN, CUSTOM).replace("[sweep]", '[sweep]\nbetter = "lower"')


@pytest.mark.long
def test_the_lowest_is_the_best_where_the_file_says_so(tmp_path: Path, pool: type[InOneProcess]) -> None:
    """A name that nobody has a list with: the file decides, and its decision is a part of the search that was begun."""
    values = {"1": 0.3, "2": 0.8, "3": 0.6}
    pool.work = staticmethod(fake_runs(lambda job: values[Path(job.folder).name], lambda job: "nll"))  # type: ignore[assignment]
    plan = planned(tmp_path, LOWER)
    found = search(plan, 1, None)
    assert (found.metric, found.value, found.variant) == ("nll", 0.3, plan.variants[1])
    with pytest.raises(InputError, match="the file has changed since this search began"):
        search(planned(tmp_path, LOWER.replace('"lower"', '"higher"')), 1, None)


@pytest.mark.long
def test_trials_with_different_metrics_are_not_compared(tmp_path: Path, pool: type[InOneProcess]) -> None:
    names = {"1": "nll", "2": "nll", "3": "accuracy"}
    pool.work = staticmethod(fake_runs(lambda job: 0.5, lambda job: names[Path(job.folder).name]))  # type: ignore[assignment]
    found = search(planned(tmp_path, LOWER), 1, None)
    assert found.failures == ("expected trials with the same first metric, found several",)
    assert (found.value, found.variant) == (None, None)


def test_a_search_is_made_once(tmp_path: Path, pool: type[InOneProcess]) -> None:
    plan = planned(tmp_path)
    first = search(plan, 1, None)
    pool.done.clear()
    assert search(plan, 1, None) == first
    assert pool.done == []
    with pytest.raises(InputError, match="the file has changed since this search began"):
        search(planned(tmp_path, PRIVATE.replace("0.25, 1.0", "0.25, 2.0")), 1, None)
    (Path(plan.folder) / SEARCH).write_text("{")
    with pytest.raises(InputError, match="the file has changed since this search began"):
        search(plan, 1, None)
    (Path(plan.folder) / SEARCH).unlink()
    with pytest.raises(InputError, match="found the model of an earlier search"):
        search(plan, 1, None)


class Stopped(BaseException):
    pass


def test_an_interrupted_search_goes_on_with_the_trials_it_has_drawn(
    tmp_path: Path, pool: type[InOneProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, whole = planned(tmp_path), pool.work

    def work(job: Job) -> JobAnswer:
        if job.folder.endswith("/2"):
            raise Stopped
        return whole(job)

    pool.work = staticmethod(work)  # type: ignore[assignment]
    with pytest.raises(Stopped):
        search(plan, 1, None)
    assert json.loads((Path(plan.folder) / SEARCH).read_text())["draws"] == [1, 0, 1]
    assert stat.S_IMODE((Path(plan.folder) / SEARCH).stat().st_mode) == 0o600
    monkeypatch.setattr(private_search, "draw_settings", lambda trials, settings: pytest.fail("drawn a second time"))
    pool.done.clear()
    pool.work = staticmethod(whole)  # type: ignore[assignment]
    assert search(plan, 1, None).value == 0.8
    assert [Path(job.folder).name for job in pool.done] == ["2", "3"]


@pytest.mark.parametrize("step", ["rename", "rmtree"])
def test_an_interruption_at_the_end_changes_nothing(
    tmp_path: Path, pool: type[InOneProcess], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    plan = planned(tmp_path)
    last = f"{TRIALS}/2" if step == "rename" else str(Path(plan.folder) / TRIALS)
    home = private_search.os if step == "rename" else private_search.shutil

    def stop(*_: object, **__: object) -> None:
        raise Stopped

    with monkeypatch.context() as patch:
        real = home.rename if step == "rename" else home.rmtree
        patch.setattr(home, step, lambda *given, **more: stop() if str(given[0]).endswith(last) else real(*given, **more))
        with pytest.raises(Stopped):
            search(plan, 1, None)
    pool.done.clear()
    found = search(plan, 1, None)
    assert pool.done == []
    assert found.value == 0.8
    assert not (Path(plan.folder) / TRIALS).exists()
    assert (Path(plan.folder) / BEST / RUN_FOLDER / "model.safetensors").exists()


def test_a_failed_trial_releases_nothing(tmp_path: Path, pool: type[InOneProcess]) -> None:
    plan, whole = planned(tmp_path), pool.work
    pool.work = staticmethod(lambda job: JobAnswer({}, "no memory") if job.folder.endswith("/1") else whole(job))  # type: ignore[assignment]
    found = search(plan, 1, None)
    document = search_document(found)
    assert (found.value, found.variant, document.exit_code) == (None, None, 2)
    assert "nothing is released" in document.headline
    assert "0.8" not in str(document)
    assert "failed: no memory" in document.notes
    pool.work = staticmethod(whole)  # type: ignore[assignment]
    assert search(plan, 1, None).value == 0.8


@pytest.mark.nightly
@pytest.mark.long
def test_no_trial_at_all_is_an_outcome(tmp_path: Path, pool: type[InOneProcess], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(private_search, "draw_settings", lambda trials, settings: [])
    plan = planned(tmp_path, PRIVATE.replace('"geometric"', '"poisson"'))
    for _ in range(2):
        document = search_document(search(plan, 1, None))
        assert "was drawn as 0" in document.headline
        assert "epsilon <=" in document.headline
        assert document.exit_code == 0


@pytest.mark.nightly
def test_the_ledger_is_charged_once_for_the_whole(tmp_path: Path, pool: type[InOneProcess]) -> None:
    plan = planned(tmp_path)
    books = init(str(tmp_path / "l.db"), "digits", LedgerTerms("example", "add-remove", 4.0, 1e-4, filter="approx-dp"))
    search(plan, 1, books)
    search(plan, 1, books)
    (charged,) = books.state().runs.values()
    assert charged.status == "committed"
    (tmp_path / "poor").mkdir()
    poor = init(str(tmp_path / "poor.db"), "digits", LedgerTerms("example", "add-remove", 2.0, 1e-4, filter="approx-dp"))
    pool.done.clear()
    with pytest.raises(Denied):
        search(planned(tmp_path / "poor"), 1, poor)
    assert pool.done == []
    assert not (tmp_path / "poor" / "runs" / SEARCH).exists()


@pytest.mark.long
@pytest.mark.needs("torch", "safetensors")
def test_what_is_printed_does_not_tell_how_many_trials_there_were(tmp_path: Path, pool: type[InOneProcess]) -> None:
    planned(tmp_path)
    outs = {
        name: dpcli("sweep", "tiny.toml", "-f", name, folder=tmp_path).out
        for name in ("table", "text", "csv", "json", "markdown", "html")
    }
    assert all("0.3" not in out and "0.6" not in out for name, out in outs.items() if name != "html")
    data = json.loads(outs["json"])
    assert set(data) == {
        "schema", "tuning", "covers_search", "statement", "folder", "exit_code", "metric", "value", "setting", "result"
    }  # fmt: skip
    assert data["setting"] == {"train.learning_rate": 0.25}
    assert data["covers_search"] is True
    assert dpcli("sweep", "tiny.toml", "--picture", "x.svg", folder=tmp_path).code == 2


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.needs("torch", "safetensors")
def test_a_real_search_leaves_a_model_that_claims_the_cost_of_the_search(tmp_path: Path) -> None:
    from safetensors import safe_open

    plan = planned(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_search, "draw_settings", lambda trials, settings: [0, 1])
        found = search(plan, 1, None)
    upper = plan.variants[0].plan.account.upper
    with safe_open(Path(found.folder) / RUN_FOLDER / "model.safetensors", "pt") as model:
        assert model.metadata()["epsilon"] == repr(upper)
    statement = (Path(found.folder) / RUN_FOLDER / "statement.md").read_text()
    assert "repeat-and-select" in statement or "tune" in statement
    assert "2.99" in statement or "3.0000" in statement
