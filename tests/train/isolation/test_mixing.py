"""`dpcli train` refuses models that mix records in words and before any charge, and trains models that only seem to."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch

from dpcli.base.errors import InputError
from dpcli.ledger.ledger import Ledger
from dpcli.ledger.stores.places import init
from dpcli.ledger.terms import LedgerTerms
from dpcli.train.engine import per_example
from dpcli.train.engine.clip import Flat
from dpcli.train.engine.per_example import ClippedGradients
from dpcli.train.isolation import checked_sums
from dpcli.train.isolation.synthetic_records import draws_like
from tests.cases import require_each
from tests.command import dpcli
from tests.train.engine.oracle import distance
from tests.train.isolation import mixing_models as models
from tests.train.isolation import mixing_unusual as unusual

FILE = """
format = 1
name = "mixing"
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 40
delta = 1e-5
releases = "final-model"
[[mechanism]]
name = "sgd"
type = "gaussian"
noise_multiplier = 4.0
steps = 3
sampling = {{ scheme = "poisson", rate = 0.5 }}
[train]
task = "custom"
model = "{module}:{model}"
data = "{module}:data"
loss = "{module}:{loss}"
learning_rate = 0.1
engine = "{engine}"
clipping = {{ norm = 1.0 }}
covers = {{ tuning = "none" }}
"""


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "CENTRED", None)
    monkeypatch.setattr(models.OfTheClass, "mean", None)
    forget()


def forget() -> None:
    """What models keep outside of themselves."""
    models.CACHE.clear()
    models.KEPT.clear()
    models.table.cache_clear()
    models.CENTRED = models.running()
    models.OfTheClass.mean = None


@pytest.fixture
def books(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ledger:
    monkeypatch.chdir(tmp_path)
    terms = LedgerTerms("example", "add-remove", 30.0, 1e-5, filter="rdp", parameters={"order": 4.0})
    return init(str(tmp_path / "ledger.db"), "mixing", terms)


def run(model: str, loss: str = "loss", engine: str = "dpcli", module: str = models.__name__) -> tuple[int, str]:
    file, place = Path("mixing.toml").resolve(), Path("ledger.db").resolve()
    file.write_text(FILE.format(model=model, loss=loss, engine=engine, module=module))
    found = dpcli("train", str(file), "--ledger", str(place), "--dataset", "mixing", folder=Path.cwd())
    return found.code, found.err


TRAINED = ("Net",)


def require_refused(found: tuple[int, str], books: Ledger) -> None:
    code, said = found
    assert code == 2, said
    assert re.search("^dpcli: (model|loss|Python's random numbers|[\\w.]+).*: expected ", said) and "found" in said, said
    assert (
        "pipeline file" not in said and "internal error" not in said and "Error" not in said
    )  # it says what mixes, not what broke
    assert books.state().runs == {}
    assert not list(Path().glob("runs/*/model.safetensors"))


def require_each_refused(names: Iterable[str], books: Ledger, found: Callable[[str], tuple[int, str]]) -> None:
    """One ledger for all: nothing is charged."""

    def refused(name: str) -> None:
        forget()
        require_refused(found(name), books)

    require_each(names, refused)


# Branches on values that made-up records may not show: where they are not refused, records are taken one at a time.
SELDOM = ("rare_record", "rare_magnitude", "mixup_now_and_then")


@pytest.mark.sampled(1, 2)
@pytest.mark.parametrize("part", range(10))
def test_a_model_that_mixes_is_refused_before_any_charge(part: int, books: Ledger) -> None:
    require_each_refused([name for name in models.MIXING if name not in SELDOM][part::10], books, run)


def test_a_branch_on_values_that_is_not_seen_moves_no_other_record() -> None:
    def apart(name: str) -> None:
        engine, (inputs, labels) = ClippedGradients(models.MIXING[name](), models.loss, Flat(1.0)), models.data()
        inputs[0] = 7.0
        try:
            engine.rehearse(draws_like((inputs, labels)))
        except InputError:
            return
        assert engine.method.isolates
        whole, without = engine((1e4 * inputs, labels)), engine((1e4 * inputs[1:], labels[1:]))
        assert distance(whole.gradients, without.gradients) <= 1.0 + 1e-6

    require_each(SELDOM, apart)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(2))
def test_a_loss_that_mixes_is_refused_before_any_charge(part: int, books: Ledger) -> None:
    require_each_refused([*models.LOSSES][part::2], books, lambda name: run("Net", name))


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize("part", range(20))
def test_an_unusual_model_that_mixes_is_refused_before_any_charge(part: int, books: Ledger) -> None:
    require_each_refused([*unusual.MIXING][part::20], books, lambda name: run(name, module=unusual.__name__))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(4))
def test_an_unusual_loss_that_mixes_is_refused_before_any_charge(part: int, books: Ledger) -> None:
    require_each_refused([*unusual.LOSSES][part::4], books, lambda name: run("Net", name, module=unusual.__name__))


@pytest.mark.sampled(1)
@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize(
    "name",
    [
        "peak_above_a_threshold",
        "half_precision_mean",
        "Hook",
        "Statistics",
        "WritesData",
        "over_len",
        "BySize",
        "HookBySize",
        "ParameterHook",
        "NumpyChance",
    ],
)
def test_opacus_stands_behind_the_same_gate(name: str, books: Ledger) -> None:
    pytest.importorskip("opacus", reason="the engine needs the opacus extra")
    require_refused(run(name, engine="opacus"), books)


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in TRAINED else [pytest.mark.nightly]) for name in models.RIGHT]
)
def test_a_model_that_keeps_records_apart_is_trained(name: str, books: Ledger) -> None:
    code, said = run(name)
    assert code == 0, said
    (charged,) = books.state().runs.values()
    assert charged.status == "committed"


@pytest.mark.parametrize(
    "part", [pytest.param(0, marks=pytest.mark.long), pytest.param(1, marks=pytest.mark.nightly)], ids=["one half", "the other"]
)
def test_a_model_that_keeps_records_apart_is_let_in(part: int) -> None:
    def let_in(name: str) -> None:
        forget()
        records, engine = models.data(), ClippedGradients(models.RIGHT[name](), models.loss, Flat(1.0))
        engine.rehearse(draws_like(records))
        assert bool(engine.checked_sums(records, 3).finite.all())

    require_each([*models.RIGHT][part::2], let_in)


@pytest.mark.sampled(1, 4)
@pytest.mark.parametrize("name", models.RIGHT_LOSSES)
def test_a_loss_that_keeps_records_apart_is_trained(name: str, books: Ledger) -> None:
    code, said = run("Net", name)
    assert code == 0, said


def test_no_record_is_seen_before_the_charge(books: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rehearsal runs on made-up records: of a private one no number reaches the model."""
    seen: list[torch.Tensor] = []
    forward = models.Net.forward

    def listening(self: models.Net, x: torch.Tensor) -> torch.Tensor:
        if type(x) is torch.Tensor and not books.state().runs:
            seen.append(x.detach().clone())
        return forward(self, x)

    monkeypatch.setattr(models.Net, "forward", listening)
    run("Net")
    private = models.data()[0].flatten()
    assert seen and not any(torch.isin(x.flatten().float(), private).any() for x in seen)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", [*unusual.BACKWARDS, "ScaledByAHook", "ScaledByTheFirst"])
@pytest.mark.parametrize("single", [True, False])
def test_what_keeps_state_in_the_backward_pass_is_refused(name: str, single: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every method: one record at a time is no help, as the next one is divided by what this one left."""
    if single:
        monkeypatch.setattr(per_example, "CANDIDATES", [])
    model, loss = (models.Net(), unusual.LOSSES[name]) if name in unusual.LOSSES else (unusual.MIXING[name](), models.loss)
    engine = ClippedGradients(model, loss, Flat(1.0))
    with pytest.raises(InputError, match="found one that depends on records processed before it"):
        engine.rehearse(draws_like(models.data()))


class Counted(models.Net):
    """Keeps in the backward pass what no gradient depends on."""

    def __init__(self) -> None:
        super().__init__()
        self.lengths: list[float] = []
        self.head.register_full_backward_hook(lambda module, inputs, outputs: self.lengths.append(float(outputs[0].norm())))


def test_a_log_of_the_backward_pass_is_let_in() -> None:
    engine = ClippedGradients(Counted(), models.loss, Flat(1.0))
    engine.rehearse(draws_like(models.data()))
    assert bool(engine.checked_sums(models.data(), 3).finite.all())


class Sleeper(models.Net):
    """Mixes once it is told, as nothing that a rehearsal can see would tell."""

    def done(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0) if torch.is_grad_enabled() and Path("now").exists() else x


@pytest.mark.parametrize("mode", [True, False])
def test_what_begins_to_mix_later_is_stopped_before_noise(mode: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    records = models.data()
    engine = ClippedGradients(Sleeper().train(mode), models.loss, Flat(1.0))
    engine.checked_sums(records, 3)
    Path("now").touch()
    with pytest.raises(
        InputError, match=r"an example's gradient in the batch to equal its gradient alone, .*lower the learning rate"
    ):
        engine.checked_sums(records, 3)


def test_after_the_first_steps_one_of_eight_is_compared_at_random(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 400 steps about 50 are, and what begins to mix then is found: it is missed in 400 steps with probability (7/8)^400 < 1e-23."""
    monkeypatch.chdir(tmp_path)
    records, engine = models.data(), ClippedGradients(Sleeper(), models.loss, Flat(1.0))
    compared: list[int] = []
    alone = checked_sums.norm_alone
    monkeypatch.setattr(checked_sums, "norm_alone", lambda *given: compared.append(engine.step) or alone(*given))
    for _ in range(per_example.ALWAYS_CHECKED + 400):
        engine.checked_sums(records, 3)
    first = [*range(1, per_example.ALWAYS_CHECKED + 1)]
    assert compared[: len(first)] == first
    later = len(compared) - len(first)
    assert 8 <= later <= 120, later  # binomial(400, 1/8) is outside with probability below 1e-14
    Path("now").touch()
    with pytest.raises(
        InputError, match=r"an example's gradient in the batch to equal its gradient alone, .*lower the learning rate"
    ):
        deque((engine.checked_sums(records, 3) for _ in range(400)), maxlen=0)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["Dropout", "Encoder"])
def test_an_example_is_taken_alone_with_the_numbers_that_it_drew(name: str) -> None:
    records, engine = models.data(), ClippedGradients(models.RIGHT[name](), models.loss, Flat(1.0))
    for row in range(0, models.RECORDS, 7):
        engine.checked_sums(records, row)
    assert engine.program is not None and engine.program.random


@pytest.mark.parametrize("wide", [10, pytest.param(20, marks=pytest.mark.long)])
def test_one_mask_for_all_is_the_one_of_the_example_that_is_taken_alone(wide: int) -> None:
    """Whatever its length has to do with the number of records."""

    def masked(model: torch.nn.Module, batch: models.Batch) -> torch.Tensor:
        inputs, labels = batch
        scores = model(inputs * (torch.rand(wide) < 0.8))
        return torch.nn.functional.cross_entropy(scores, labels, reduction="none")

    records = torch.randn(40, wide), torch.randint(0, 4, (40,))
    engine = ClippedGradients(torch.nn.Linear(wide, 4), masked, Flat(1.0))
    engine.rehearse(draws_like(records))
    assert engine.method.name == "book-keeping"
    for size in (2, 5, 10, 20):
        for row in range(size):
            engine.checked_sums((records[0][:size], records[1][:size]), row)


def test_the_statement_says_what_is_the_users_own(books: Ledger) -> None:
    assert run("Net")[0] == 0
    (said,) = [path.read_text() for path in Path().glob("runs/*/statement.md")]
    assert "which is no proof. Three assumptions were not checked: (1) the initial weights and buffers come" in " ".join(
        said.split()
    )
