"""Settings that are hardly ever meant: silence on sound files, and accountants that agree where a rule says that nothing is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.analysis.account import headline
from dpcli.lint.rule import HEAD, TRAIN, edited
from dpcli.lint.run import findings, lint, lint_bytes
from dpcli.lint.settings import section
from dpcli.lint.slips import LITTLE_NOISE, SEPARATED
from tests.cases import of_each
from tests.command import ROOT
from tests.strategies import dp_sgd, log_uniform

SLIPS = {"DP123", "DP124", "DP125", "DP126", "DP307", "DP308", "DP309", "DP310"}
SHIPPED = sorted([*ROOT.glob("examples/**/*.toml"), *ROOT.glob("dpcli/templates/*.toml")])
UNHIDDEN = {"DP307", "DP308", "DP309"}  # the noise does not hide a record


def codes(text: str) -> set[str]:
    return {diagnostic.rule for diagnostic in lint_bytes(text.encode(), "pipeline.toml")}


def trained(noise: str, runs: str, sampling: str) -> str:
    """A file whose one mechanism has Gaussian noise."""
    keys = (f"noise_multiplier = {noise}", runs, f"sampling = {{ {sampling} }}")
    return HEAD + "\n".join(["\n[[mechanism]]", 'name = "train"', 'type = "gaussian"', *keys, ""])


@of_each("path", SHIPPED)
def test_no_shipped_file_has_a_slip(path: Path) -> None:
    """Examples, published deployments and templates; none of them shows such a fault on purpose."""
    found = lint(str(path))
    assert not SLIPS & {one.rule for one in found}
    assert not [one for one in found if one.rule == "DP101" and "counted as Poisson" in one.message]


@of_each(
    "noise, runs, sampling",
    [
        ("9.4", "steps = 2_468", 'scheme = "poisson", batch_size = 16_384'),  # De et al. 2022 on CIFAR-10
        ("1.1", "steps = 100", 'scheme = "poisson", rate = 0.25'),
        ("20.0", "steps = 3_000", 'scheme = "poisson", rate = 0.25'),
        ("14.0", "steps = 100", 'scheme = "none"'),
        ("30.0", "steps = 5_000", 'scheme = "poisson", rate = 1.0'),
        ("50.0", "epochs = 2_000", 'scheme = "poisson", rate = 0.1'),
        ("1.1", "steps = 1", 'scheme = "poisson", rate = 0.001'),
        ("1.1", "epochs = 0.3", 'scheme = "poisson", rate = 0.001'),
        ("1.1", "steps = 2_000", 'scheme = "poisson", rate = 0.0004'),  # rounds of a federation
        ("[2.0, 1.9, 1.8]", "steps = 1", 'scheme = "poisson", rate = 0.01'),  # a schedule
    ],
)
def test_an_unusual_run_that_is_right_passes(noise: str, runs: str, sampling: str) -> None:
    assert codes(trained(noise, runs, sampling)) == set()


@pytest.mark.parametrize("examples", [5, pytest.param(40, marks=pytest.mark.long)])
def test_noise_that_hides_nothing_has_an_epsilon_above_10(examples: int) -> None:
    """Where one of these rules speaks, the least bound is large too: no right run is told so."""

    @settings(max_examples=examples, deadline=None)
    @given(log_uniform(-1.5, 1.0), log_uniform(-3.0, 0.0), st.one_of(st.integers(1, 200), st.integers(200, 10**6)))
    def each(noise: float, rate: float, steps: int) -> None:
        pipeline = dp_sgd(noise, rate, steps, delta=1e-6)
        if UNHIDDEN & {info.code for info, _ in findings(pipeline)}:
            assert headline(pipeline).upper > 10.0

    each()


@of_each("noise, least", [(1.0 / SEPARATED, 10.0), (LITTLE_NOISE, 35.0)])
def test_the_epsilons_that_the_rules_speak_of(noise: float, least: float) -> None:
    assert least < headline(dp_sgd(noise, None, 1, delta=1e-6)).upper < least + 2.0


def test_queries_on_samples_are_no_epochs() -> None:
    """A sigma of its own unit is that of a question asked each month, and not of training."""
    text = trained("1.1", "steps = 12", 'scheme = "poisson", rate = 0.01')
    assert codes(text) == {"DP123"}
    assert codes(edited(text, "noise_multiplier = 1.1", "sigma = 11.0\nsensitivity = 10.0")) == set()


def test_rounds_of_a_federation_are_no_epochs() -> None:
    text = (ROOT / "examples" / "federated.toml").read_text()
    rare = edited(text, "dataset_size = 400", "dataset_size = 1_000_000")
    assert "DP123" not in codes(rare) and "DP123" in codes(rare.partition("\n[federated]")[0])


def test_steps_that_dpcli_runs_itself_are_those_that_are_charged() -> None:
    text = trained("1.1", "steps = 12", 'scheme = "poisson", rate = 0.01')
    assert codes(text + section({})) == set()


def test_epochs_beyond_any_count_are_left_to_the_reader() -> None:
    assert not SLIPS & codes(trained("1.1", "epochs = 1e300", 'scheme = "poisson", rate = 0.5'))


@of_each(
    "text, spoken",
    [
        ("torch DataLoader(shuffle=True)", True),
        ("loader with shuffle = True, drop_last", True),
        ("Opacus, poisson_sampling=False", True),
        ("the data are shuffled each epoch", True),
        ("RandomSampler", True),
        ("shuffled mini-batches of 256", True),
        ("DataLoader(shuffle=True) replaced by a Poisson sampler", False),
        ("Opacus make_private turns DataLoader(shuffle=True) into Poisson samples", False),
        ("an own coin for each record, not DataLoader(shuffle=True)", False),
        ("Poisson samples instead of shuffled batches", False),
        ("a reshuffle of the test set", False),
    ],
)
@of_each("place", ["description", "sampler", "implementation"])
def test_a_loader_that_shuffles_in_words(text: str, spoken: bool, place: str) -> None:
    said = f'{place} = "{text}"\n'
    poisson = HEAD + TRAIN + (said if place == "description" else f"\n[disclosure]\n{said}")
    assert codes(poisson) == ({"DP101"} if spoken else set())
    key = lint_bytes(poisson.encode(), "it.toml")[0].key if spoken else ""
    assert key.endswith(place if spoken else "")
    unsampled = edited(poisson, 'scheme = "poisson", batch_size = 256', 'scheme = "none"')
    assert codes(unsampled) == set()


def test_a_note_that_tuning_is_not_counted_is_read_in_covers_too() -> None:
    text = (ROOT / "dpcli" / "templates" / "train.toml").read_text()
    assert "DP126" not in codes(text)
    noted = "covers = { tuning = " + '"12 runs, not counted" }\n'
    head, _, rest = text.partition("[train]\n")
    bare = "\n".join(line for line in rest.splitlines() if not line.startswith("covers"))
    assert "DP126" in codes(f"{head}[train]\n{noted}{bare}")
