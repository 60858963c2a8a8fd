"""Tests of rules about probable mistakes: silence on sound files, and agreement with accountants where no record is hidden."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpcli.analysis.account import headline
from dpcli.lint.rule_info import HEAD, TRAIN, edited
from dpcli.lint.run import findings, lint, lint_bytes
from dpcli.lint.sections import train_section
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
        ("0.7", "steps = 90", 'scheme = "poisson", rate = 0.00512'),  # LoRA, half a pass
        ("0.6", "steps = 30", 'scheme = "poisson", rate = 0.0114'),  # instruction tuning in large batches
        ("1.0", "steps = 100", 'scheme = "poisson", rate = 0.0001'),  # rounds of a federation
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


SHORT = trained("1.1", "steps = 12", 'scheme = "poisson", rate = 0.005')


def test_queries_on_samples_are_no_epochs() -> None:
    """A sigma of its own unit is that of a question asked each month, and not of training; nor are outputs a model."""
    assert codes(SHORT) == {"DP123"}
    assert codes(edited(SHORT, "noise_multiplier = 1.1", "sigma = 11.0\nsensitivity = 10.0")) == set()
    assert "DP123" not in codes(edited(SHORT, "final-model", "outputs"))


@of_each("name", ["warm-up", "warmup", "pilot", "rounds", "fedavg", "survey-waves", "lora", "fine-tuning"])
def test_a_short_run_that_says_so_is_no_slip(name: str) -> None:
    assert codes(edited(SHORT, '"train"', f'"{name}"')) == set()
    assert codes(SHORT + f'description = "{name} of 12 steps"\n') == set()


@of_each("runs, short", [("epochs = 0.5", False), ("steps = 1_000", False), ("steps = 14", True)])
def test_a_short_run_beside_a_longer_one_is_no_slip(runs: str, short: bool) -> None:
    """Whoever states a pass, or takes one, knows what a step is."""
    keys = f'\n[[mechanism]]\nname = "more"\ntype = "gaussian"\nnoise_multiplier = 1.1\n{runs}\n'
    assert ("DP123" in codes(SHORT + keys + 'sampling = { scheme = "poisson", rate = 0.005 }\n')) is short


def test_rounds_of_a_federation_are_no_epochs() -> None:
    text = (ROOT / "examples" / "federated.toml").read_text()
    rare = edited(edited(text, "dataset_size = 400", "dataset_size = 1_000_000"), "steps = 60", "steps = 20")
    rare = edited(rare, 'name = "rounds"', 'name = "train"')
    assert "DP123" not in codes(rare) and "DP123" in codes(rare.partition("\n[federated]")[0])


def test_steps_that_dpcli_runs_itself_are_those_that_are_charged() -> None:
    assert codes(SHORT + train_section({})) == set()


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


LAPLACE = (
    edited(HEAD, "add-remove", "{adjacency}")
    + """
[[mechanism]]
name = "{name}"
type = "laplace"
scale = 20.0
sensitivity = {moved}
description = "{text}"
"""
)


@of_each(
    "moved, name, text, spoken",
    [
        ("3.0", "sums", "two sums, records clipped to L2 norm 3", True),
        ("1.0", "counts", "vector of 50 counts, l2-sensitivity 1", True),
        ("1.0", "mean", "mean of embeddings, Euclidean norm clipped", True),
        ("1.41422", "sums", "a vector of two sums", True),
        ("1.732", "histogram", "three bins", True),
        ("1.41422", "sums", "a vector of two sums, L1 sensitivity", False),
        ("1.414", "fee", "a fee", False),
        ("1.414", "bounded-fee", "fees up to 1.414", False),
        ("3.1623", "sqrt-income", "sum of square roots of counts up to 10", False),
        ("3.1623", "sqrt-income", "square roots of incomes in one coordinate", False),
        ("1.0", "mean-norm", "mean of the L2 norms, each clipped to 1", False),
        ("1.0", "norm", "the L2 norm of each vector is clipped to 1 and the norms are averaged", False),
        ("1.0", "clip", "quantile of gradient Euclidean norms for the choice of the clipping bound", False),
        ("1.0", "clip", "median L2 norm", False),
    ],
)
def test_an_l2_norm_in_words(moved: str, name: str, text: str, spoken: bool) -> None:
    assert codes(LAPLACE.format(adjacency="add-remove", name=name, moved=moved, text=text)) == ({"DP124"} if spoken else set())


@of_each(
    "name, text, spoken",
    [
        ("age-histogram", "ages in years", True),
        ("ages", "histogram of total spend", True),
        ("ages", "a contingency table of age and sex", True),
        ("ages", "histogram by half-years", True),
        ("mean-age", "a mean, not a histogram", False),
        ("mean-age", "one number, no histogram", False),
        ("mode", "size of the largest bin of the histogram", False),
        ("total", "total of all bins of the histogram", False),
        ("total", "a histogram's total", False),
        ("empty", "the number of empty bins of a histogram", False),
        ("age-histogram", "total of all bins", False),
        ("males", "one of the two bins of the histogram of sex; the other is n minus it", False),
        ("largest-bin-of-the-histogram", "ages", False),
        ("ages", "histogram weighted by one half: a replaced record moves two bins by 0.5", False),
    ],
)
def test_a_histogram_in_words(name: str, text: str, spoken: bool) -> None:
    found = codes(LAPLACE.format(adjacency="replace-one", name=name, moved="1.0", text=text))
    assert found == ({"DP125"} if spoken else set())


@of_each(
    "text, spoken",
    [
        ("50 runs, not counted; the best on a held-out third of the patients was kept", True),
        ("50 runs, uncounted", True),
        ("50 random-search runs (not counted)", True),
        ("50 runs: not counted", True),
        ("random search; 1,200 trials that were not accounted for", True),
        ("the other 49 runs have not been charged.", True),
        ("50 runs on the private data that were not charged to the public budget", True),
        ("none of the 50 runs is counted; they are not counted", True),
        ("no run has been left unaccounted", False),
        ("12 runs are not counted twice", False),
        ("12 runs, all counted; no run was left uncounted", False),
        ("12 runs are not counted separately: their cost is in the mechanism search", False),
        ("12 runs are not counted: their cost is in the mechanism search", False),
        ("searched on MNIST, which is not charged", False),
        ("searched on CIFAR-10; runs there are not counted", False),
        ("20 runs, not counted: all on MNIST", False),
        ("30 runs on public data, which are not charged", False),
        ("30 runs, not charged: on a public set", False),
        ("their runs were on ImageNet and are not counted here", False),
        ("8 crashed runs that released nothing are not counted", False),
        ("20 runs, not counted, as they used no private data", False),
        ("20 runs, not counted; they used dummy data", False),
        ("12 runs were charged to the ledger; failed starts, which saw no data, were not charged", False),
        ("5 runs; all are counted. Runs of the debugging build used random numbers and are not counted", False),
        ("the 20 runs are charged in run.toml, and not counted a second time here", False),
        ("no runs: nothing was searched, so nothing is not counted", False),
    ],
)
def test_runs_that_are_not_counted_in_words(text: str, spoken: bool) -> None:
    assert codes(HEAD + TRAIN + f'\n[disclosure]\ntuning = "{text}"\n') == ({"DP126"} if spoken else set())


@of_each(
    "text, spoken",
    [
        ("patients of one clinic; the number of patients is confidential", True),
        ("the number of records in this data set must remain secret", True),
        ("the exact size is confidential", True),
        ("dataset size: confidential", True),
        ("the number of users (not public)", True),
        ("the number of patients with diabetes is confidential", False),
        ("messages about 2 topics; a secret size", False),
        ("messages of users, a data set of confidential size", True),
        ("the size of the data set, the names: the dataset size is not public.", True),
        ("phone number and address are confidential", False),
        ("phone number, account number and diagnosis: all confidential", False),
        ("account number, balance: confidential", False),
        ("the social security number is confidential and dropped before training", False),
        ("60,000 patients; names and the number of the insurance are confidential", False),
        ("the number of visits of each is confidential", False),
        ("the number of users per household is confidential", False),
        ("the number of patients of each ward is confidential", False),
        ("the number of contributions per user and all values are confidential", False),
        ("The size of each household is not public.", False),
        ("the size is no secret: 60,000", False),
        ("a size of 60,000 that is public, of records that are confidential", False),
        ("a count of 60,000 users is published yearly; the data are confidential", False),
        ("tax records. The number is rounded to 60,000 because the exact number is confidential", False),
        ("60,000 records; the exact size is secret, 60,000 is a rounded public bound", False),
        ("at most 60,000 patients; the number of patients is confidential", False),
        ("about 60,000 patients; the exact size is secret", False),
        ("the true size is secret, 60,000 is larger than it", False),
        ("the exact size is confidential; we state a padded figure", False),
    ],
)
def test_a_size_that_is_confidential_in_words(text: str, spoken: bool) -> None:
    assert codes(HEAD + TRAIN + f'\n[disclosure]\ndata = "{text}"\n') == ({"DP310"} if spoken else set())
