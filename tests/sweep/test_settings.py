"""[sweep]: what is read, what is refused and where, and the file that each run follows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpcli.analysis.account import account
from dpcli.base.errors import CannotCertify, InputError
from dpcli.base.lazy import load
from dpcli.exam.subjects import SEED
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import Members, SelectedTable
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.section import MECHANISM_TYPES, SAMPLING_SCHEMES
from dpcli.file.toml.findings import Findings, InvalidFile
from dpcli.file.toml.shown import quoted
from dpcli.file.toml.write import toml_text, value_text
from dpcli.lint.run import lint_bytes
from dpcli.sweep.setting import changed_path
from dpcli.sweep.sweep_plan import SweepPlan, plan_sweep
from dpcli.train.plan.settings import Train
from dpcli.train.plugin import TASKS
from tests.cases import require_each
from tests.command import ROOT, dpcli
from tests.sweep.samples import CUSTOM, GRID, HEAD, PRIVATE, PUBLIC, SAMPLED, SEARCH, SWEEP, TRAIN, TUNE


def planned(folder: Path, text: str) -> SweepPlan:
    path = folder / "tiny.toml"
    path.write_text(text)
    return plan_sweep(str(path))


def test_every_setting_at_every_epsilon_with_its_noise_solved_for(tmp_path: Path) -> None:
    plan = planned(tmp_path, PUBLIC + GRID + '"mechanism.sgd.steps" = [10, 20]\n')
    assert [(v.epsilon, v.setting.label) for v in plan.variants[:4]] == [
        (1.0, "learning_rate 0.25, steps 10"),
        (1.0, "learning_rate 0.25, steps 20"),
        (1.0, "learning_rate 1.0, steps 10"),
        (1.0, "learning_rate 1.0, steps 20"),
    ]
    assert len(plan.variants) == 8
    for variant in plan.variants:
        upper = account(parse(variant.text.encode(), "v.toml")).upper
        assert variant.epsilon * (1.0 - 1e-4) < upper <= variant.epsilon
        assert upper == variant.plan.account.upper
        assert variant.plan.steps == {c.dotted: c.value for c in variant.setting.changes}["mechanism.sgd.steps"]
    assert len({variant.fingerprint for variant in plan.variants}) == 8


@pytest.mark.parametrize(
    "more",
    [
        '"train.clipping.norm" = [0.5, 0.7]\n"train.clipping" = [{ norm = 2.0 }]\n',
        '"train.clipping" = [{ norm = 2.0 }]\n"train.clipping.norm" = [0.5, 0.7]\n',
        "train.learning_rate = [2.0]\n",
    ],
)
def test_no_setting_names_a_value_that_another_of_its_keys_replaces(more: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="once in a setting"):
        planned(tmp_path, PUBLIC + GRID + more)


def test_the_file_of_a_run_is_that_of_the_sweep_with_its_values(tmp_path: Path) -> None:
    (variant, _) = planned(tmp_path, PUBLIC.replace("[1.0, 8.0]", "[8.0]") + GRID).variants
    tables = tomllib.loads(HEAD + TRAIN)
    tables["budget"] = {"epsilon": 8.0}
    (tables["mechanism"][0]["noise_multiplier"],) = variant.noise_multipliers
    tables["train"]["learning_rate"] = 0.25
    assert tomllib.loads(variant.text) == tables


@pytest.mark.long
def test_one_setting_for_each_epsilon(tmp_path: Path) -> None:
    settings = """[[sweep.setting]]
epsilon = 1.0
train.learning_rate = 0.5
[[sweep.setting]]
epsilon = 8.0
"train.learning_rate" = 2.0
"train.clipping.norm" = 0.5
"mechanism.sgd.sampling.batch_size" = 128
"""
    first, second = planned(tmp_path, SAMPLED + settings).variants
    assert (first.epsilon, first.plan.train.learning_rate, first.plan.train.clipping.norm) == (1.0, 0.5, 1.0)
    assert (second.epsilon, second.plan.train.learning_rate, second.plan.train.clipping.norm) == (8.0, 2.0, 0.5)
    assert second.plan.stages[0].expected_batch == 128
    assert second.setting.label == "learning_rate 2.0, norm 0.5, batch_size 128"


def test_without_a_grid_the_file_is_its_own_setting(tmp_path: Path) -> None:
    plan = planned(tmp_path, PUBLIC)
    assert [variant.setting.label for variant in plan.variants] == ["as in the file", "as in the file"]
    assert plan.folder == os.path.join(os.getcwd(), "runs", "tiny-sweep")


OWN = PUBLIC.replace(TRAIN, CUSTOM)


@pytest.mark.parametrize("better", ["higher", "lower"])
def test_a_custom_task_says_which_value_is_better(tmp_path: Path, better: str) -> None:
    assert planned(tmp_path, f'{OWN}better = "{better}"\n').better == better
    assert planned(tmp_path, PUBLIC).better == planned(tmp_path, PUBLIC + 'better = "higher"\n').better == "higher"


def test_of_perplexity_the_lower_value_is_better(tmp_path: Path) -> None:
    text = PUBLIC.replace('"classification"', '"causal-lm"').replace('"digits"', '"d.txt"').replace('"logistic"', '"own:model"')
    assert planned(tmp_path, text).better == planned(tmp_path, text + 'better = "lower"\n').better == "lower"
    with pytest.raises(InvalidFile, match=r'sweep\.better: expected "lower", because the task measures perplexity, found "higher"'):
        planned(tmp_path, text + 'better = "higher"\n')


def test_names_of_mechanisms_may_hold_dots(tmp_path: Path) -> None:
    text = PUBLIC.replace('name = "sgd"', 'name = "sgd.steps"') + '[sweep.grid]\n"mechanism.sgd.steps.steps" = [5]\n'
    assert planned(tmp_path, text).variants[0].plan.steps == 5


def test_a_misspelt_key_of_a_sweep_is_reported_by_lint_and_account(tmp_path: Path) -> None:
    """Each key that [train] and the entry have in the file, with its last letter twice; in a grid and in a setting."""
    keys = [("train", key, value) for key, value in Train.examples[0].items() if not isinstance(value, dict)]
    keys += [("mechanism.sgd", "steps", 5), ("train.clipping", "norm", 2.0), ("train", "hidden", 32)]
    for table, key, value in keys:
        wrong = f"{table}.{key}{key[-1]}"
        for swept in (
            f'[sweep.grid]\n"{wrong}" = [{json.dumps(value)}]\n',
            f'[[sweep.setting]]\n"{wrong}" = {json.dumps(value)}\n',
        ):
            (tmp_path / "t.toml").write_text(PUBLIC + swept)
            (found,) = json.loads(dpcli("lint", "t.toml", "-f", "json", folder=tmp_path).out)["diagnostics"]
            assert (found["rule"], found["line"], found["column"]) == ("DP002", PUBLIC.count("\n") + 2, 1)
            assert found["message"].endswith(f"found '{key}{key[-1]}'; did you mean '{key}'")
            assert f"did you mean '{key}'" in dpcli("account", "t.toml", folder=tmp_path).err


@pytest.mark.parametrize("task", TASKS)
def test_a_sweep_changes_the_keys_that_say_so_and_no_other(task: str) -> None:
    tables = {"train": {"task": task}, "mechanism": []}
    for key, member in members_of(load(TASKS[task])).items():
        findings = Findings()
        found = changed_path(f"train.{key}", ("sweep", "grid", key), tables, findings, [])
        assert (found == ("train", key)) == (not findings.items) == member.varies, key


def test_what_runs_are_compared_by_and_whose_data_are_protected_is_the_same_for_all() -> None:
    keys = {key: member for target in TASKS.values() for key, member in members_of(load(target)).items()}
    assert {key for key, member in keys.items() if not member.varies} == {
        *("task", "data", "label", "labels", "classes", "text", "record", "context", "tokenizer"),
        *("units", "records_per_unit", "public", "held_out", "metric", "mechanism", "output", "covers", "device"),
        *("columns", "missing_words"),
    }


def test_what_a_run_may_change_of_an_entry_is_said_by_its_key() -> None:
    """Of every type: what training itself does. All else is a claim about data or about another release, and the same for all runs."""
    entry = {
        "entry": {"steps", "epochs", "sampling"},
        "tree-aggregation": {"iterations", "max_participations", "min_separation", "trees"},
        "banded-toeplitz": {"iterations", "max_participations", "min_separation", "coefficients", "bands"},
        "banded-matrix": {"iterations", "max_participations", "min_separation", "bands"},
        "buffered-toeplitz": {"iterations", "max_participations", "min_separation", "buf_decay", "output_scale"},
    }
    for type_ in MECHANISM_TYPES.registry:
        tables = {"mechanism": [{"name": "x", "type": type_}]}
        allowed = entry["entry"] | entry.get(type_, set())
        for key in {**members_of(Entry), **MECHANISM_TYPES.class_members(type_)}:
            findings = Findings()
            found = changed_path(f"mechanism.x.{key}", ("sweep", "grid", key), tables, findings, [])
            assert (found == ("mechanism", 0, key)) == (not findings.items) == (key in allowed), (type_, key)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("table", ["mechanism.sgd.sampling", "train.clipping"])
def test_a_key_within_a_table_is_asked_too(table: str, whole: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each key of each class of a table that a run may change: fixed in one of the classes, it is none, alone or in a whole table."""
    selected = SAMPLING_SCHEMES if table.endswith("sampling") else members_of(load(TASKS["custom"]))["clipping"].kind
    assert isinstance(selected, SelectedTable)
    tables = {"train": {"task": "custom"}, "mechanism": [{"name": "sgd", "type": "gaussian"}]}
    own = SelectedTable.class_members

    def planted(cls: str, key: str) -> Callable[..., Members]:
        fixed = {**own(selected, cls), key: replace(own(selected, cls)[key], varies=False)}
        return lambda of, word: fixed if (of.selector, word) == (selected.selector, cls) else own(of, word)

    for cls in selected.registry:
        for key in own(selected, cls):
            dotted, value = (table, {key: 1}) if whole else (f"{table}.{key}", 1)
            assert changed_path(dotted, ("sweep",), tables, Findings(), [value])
            with monkeypatch.context() as patched:
                patched.setattr(SelectedTable, "class_members", planted(cls, key))
                assert not changed_path(dotted, ("sweep",), tables, Findings(), [value]), (cls, key)


def test_no_run_leaves_a_number_to_be_solved_for(tmp_path: Path) -> None:
    """Only the file does, of its noise; a value of a grid is a value, at its place."""

    def check(value: str) -> None:
        key, values = ("sampling", value) if "scheme" in value else ("steps", f"[10, {value}]")
        with pytest.raises(InvalidFile, match=r'grid.*: expected .*, found "calibrate"'):
            planned(tmp_path, f'{PUBLIC}[sweep.grid]\n"mechanism.sgd.{key}" = {values}\n')

    require_each(['"calibrate"', '[{ scheme = "poisson", rate = "calibrate" }]'], check)


@pytest.mark.long
def test_every_run_of_last_iterate_keeps_its_premises(tmp_path: Path) -> None:
    """Those that share the calibration of another one too."""
    keys = "learning_rate = 3.0\nsmoothness = 0.3\nstrong_convexity = 0.05\n"
    head, _ = HEAD.split("[[mechanism]]")
    entry = f'[[mechanism]]\nname = "sgd"\ntype = "last-iterate"\nnoise_multiplier = 20.0\niterations = 14\n{keys}'
    train = TRAIN.replace('"logistic"\nlearning_rate = 1.0', '"bounded-logistic"\nlearning_rate = 3.0\nweight_decay = 0.05')
    for key, values in (("learning_rate", "[3.0, 6.0]"), ("momentum", "[0.0, 0.9]"), ("model", '["bounded-logistic", "mlp"]')):
        with pytest.raises(InputError, match="because the price of last-iterate needs it"):
            planned(tmp_path, f'{head}{entry}{train}{SWEEP}[sweep.grid]\n"train.{key}" = {values}\n')


def test_two_settings_that_make_one_file_are_one(tmp_path: Path) -> None:
    def check(case: tuple[str, str]) -> None:
        first, second = case
        with pytest.raises(InvalidFile, match=r"sweep\.setting\[2\]: expected a setting that differs from all others"):
            planned(tmp_path, f"{PUBLIC}[[sweep.setting]]\n{first}[[sweep.setting]]\n{second}")

    require_each(
        [
            (
                '"train.learning_rate" = 0.5\n"mechanism.sgd.steps" = 5\n',
                '"mechanism.sgd.steps" = 5\n"train.learning_rate" = 0.5\n',
            ),
            ('"train.learning_rate" = 1\n', "train.learning_rate = 1.0\n"),
            ("", '"mechanism.sgd.steps" = 10\n'),  # as in the file
            ('"train.clipping.norm" = 2.0\n', '"train.clipping" = { norm = 2.0 }\n'),
        ],
        check,
    )


AXES = {  # values that a run may have, and values that none may
    "train.learning_rate": ([0.25, 0.5, 1.0], [-1.0, 0, "fast", "calibrate"]),
    "train.model": (["logistic", "cnn"], ["logistik", 3, "calibrate"]),
    "train.clipping.norm": ([0.5, 1.0, 2.0], [0.0, "calibrate", [1.0]]),
    "train.optimizer": (["sgd", "adam", "adamw", "adam-bc"], ["sdg"]),
    "train.clipping": ([{"norm": 0.5}, {"norm": 2.0}], [{"norm": 1.0, "gamma": 0.1}, {"style": "flat"}, 2.0]),
    "mechanism.sgd.steps": ([5, 10, 20], [0, 1.5, "calibrate"]),
    "mechanism.sgd.sampling.batch_size": ([16, 64, 128], [0, 2_000, "calibrate"]),
    "mechanism.sgd.sampling": ([{"scheme": "poisson", "rate": 0.1}, {"scheme": "none"}], [{"scheme": "poison"}, "calibrate"]),
}


def swept(axes: dict[str, list[Any]]) -> str:
    return SAMPLED + "[sweep.grid]\n" + "".join(f"{json.dumps(key)} = {value_text(values)}\n" for key, values in axes.items())


def test_lint_judges_every_value_of_every_key_of_a_grid(tmp_path: Path) -> None:
    """One value that no run may have, anywhere in a grid of others: found at its place, as by the sweep, and nothing is without it."""

    def check(run: int) -> None:
        random = Random(f"{SEED}/grid/{run}")
        drawn = random.sample(list(AXES), 4)
        keys = [key for key in drawn if not any(key.startswith(f"{other}.") for other in drawn)]
        axes = {key: random.sample(AXES[key][0], random.randint(1, len(AXES[key][0]))) for key in keys}
        assert not lint_bytes(swept(axes).encode(), "t.toml"), (SEED, axes)
        key = random.choice(keys)
        at = random.randint(0, len(axes[key]))
        axes[key].insert(at, random.choice(AXES[key][1]))
        text = swept(axes)
        found = lint_bytes(text.encode(), "t.toml")
        assert f"sweep.grid.{quoted(key)}[{at + 1}]" in {diagnostic.key for diagnostic in found}, (SEED, axes)
        with pytest.raises(InvalidFile) as raised:
            planned(tmp_path, text)
        assert {diagnostic.key for diagnostic in raised.value.diagnostics} >= {diagnostic.key for diagnostic in found}, (SEED, axes)

    require_each(range(40), check)


def test_a_key_that_another_one_of_the_setting_lets_in_is_none(tmp_path: Path) -> None:
    both = '"train.clipping.style" = "adaptive"\n"train.clipping.quantile_noise" = 9.0\n'
    (tmp_path / "t.toml").write_text(f"{PUBLIC}[[sweep.setting]]\n{both}")
    assert dpcli("lint", "t.toml", folder=tmp_path).code == 0


def test_a_bad_file_is_refused_at_the_place(tmp_path: Path) -> None:
    def check(case: tuple[str, str]) -> None:
        text, words = case
        with pytest.raises(InvalidFile) as raised:
            planned(tmp_path, text)
        assert words in str(raised.value)

    require_each(
        [
            (HEAD + TRAIN, ":1:1: error DP005: sweep: expected a [sweep] table"),
            (PUBLIC.replace('tuning = "public"\n', ""), ':22:2: error DP005: sweep.tuning: expected "public" ('),
            (PUBLIC.replace("repeats", "repeat"), "sweep.repeat: expected a known key, found 'repeat'; did you mean 'repeats'"),
            (OWN, ':24:2: error DP005: sweep.better: expected "higher" or "lower" with task = "custom"'),
            (OWN + 'better = "best"\n', "sweep.better: expected one of 'higher', 'lower', found \"best\""),
            (
                PUBLIC + 'better = "lower"\n',
                'sweep.better: expected "higher", because the task measures accuracy, found "lower"',
            ),
            (
                PUBLIC + '[sweep.grid]\n"train.hidden" = [64, 32]\n',
                "sweep.grid.'train.hidden'[2]: expected this key only with model = \"mlp\", found 32",
            ),
            (PUBLIC.replace("[1.0, 8.0]", "[]"), "sweep.epsilon: expected one or more different numbers, found an empty list"),
            (
                PUBLIC.replace("[1.0, 8.0]", "[1, 1.0]"),
                "sweep.epsilon: expected one or more different numbers, found a repeated number",
            ),
            (PUBLIC.replace("[1.0, 8.0]", "[-1.0]"), "sweep.epsilon[1]: expected a number > 0, found -1.0"),
            (
                PUBLIC + '[sweep.grid]\n"train.learning_rat" = [0.5]\n',
                ":27:1: error DP002: sweep.grid.'train.learning_rat': expected a known key, found 'learning_rat'",
            ),
            (
                PUBLIC + "[sweep.grid]\ntrain.learning_rate = [0.5, -1.0]\n",
                ":27:29: error DP004: sweep.grid.train.learning_rate[2]: expected a number > 0, found -1.0",
            ),
            (PUBLIC + '[sweep.grid]\n"train.learning_rate" = 0.5\n', "'train.learning_rate': expected a list of values, found 0.5"),
            (PUBLIC + '[sweep.grid]\n"train.learning_rate" = []\n', "expected one or more different values, found an empty list"),
            (PUBLIC + '[sweep.grid]\n"train.hidden" = [1, 1]\n', "expected one or more different values, found a repeated value"),
            (PUBLIC + '[sweep.grid]\n"train.learning_rate" = [1.0, true]\n', "expected a number > 0, found true"),
            (PUBLIC + '[sweep.grid]\n"privacy.delta" = [1e-6]\n', "expected train.KEY or mechanism.NAME.KEY"),
            (PUBLIC + '[sweep.grid]\n"mechanism.sdg.steps" = [1]\n', "expected train.KEY or mechanism.NAME.KEY"),
            (PUBLIC + '[sweep.grid]\n"train.data" = ["a.csv"]\n', "expected a key that may differ between the runs of a sweep"),
            (
                PUBLIC + '[sweep.grid]\n"mechanism.sgd.noise_multiplier" = [1.0]\n',
                "expected a key that may differ between the runs",
            ),
            (SAMPLED + '[sweep.grid]\n"mechanism.sgd.epochs" = [1.0]\n', "expected either steps or epochs, found both"),
            (
                PUBLIC + '[sweep.grid]\n"train.clipping.style" = ["flat", "adaptive"]\n',
                "sweep.grid: expected train.clipping.quantile_noise: ",
            ),
            (PUBLIC + GRID + "[[sweep.setting]]\n", "sweep.setting: expected either a grid or settings, found both"),
            (PUBLIC + "[[sweep.setting]]\nepsilon = 2.0\n", "sweep.setting[1].epsilon: expected one of sweep.epsilon, found 2.0"),
            (PUBLIC + "[[sweep.setting]]\nepsilon = 1.0\n", "sweep.setting: expected a setting for epsilon = 8.0, found none"),
            (PUBLIC + "[[sweep.setting]]\n[[sweep.setting]]\nepsilon = 8.0\n", "expected a setting that differs from all others"),
            (
                PUBLIC + f'[sweep.grid]\n"train.hidden" = {list(range(1, 51))}\n"train.classes" = {list(range(2, 52))}\n',
                "'train.classes': expected a key that may differ",
            ),
            (
                PUBLIC + f'[sweep.grid]\n"train.hidden" = {list(range(1, 51))}\n"train.momentum" = {[i / 99 for i in range(50)]}\n',
                "sweep.grid: expected at most 1,000 combinations, found 2,500",
            ),
            (PRIVATE.replace("[3.0]", "[1.0, 3.0]"), 'expected one number with tuning = "repeat-and-select"'),
            (PRIVATE.replace("[sweep.grid]", "repeats = 3\n[sweep.grid]"), "sweep.repeats: expected none with tuning"),
        ],
        check,
    )


@pytest.mark.sampled(1, 1)
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PUBLIC.replace('public = "held-out"\n', ""), "train.public: name data declared public"),
        (
            PRIVATE.replace('repeat-and-select"\n[sweep.grid]', 'public"\n[sweep.grid]'),
            'sweep.tuning: expected "repeat-and-select"',
        ),
        (HEAD + TRAIN + SEARCH + GRID, 'expected one [[mechanism]] of type "repeat-and-select"'),
        (PRIVATE + '"mechanism.sgd.steps" = [5, 10]\n', "found settings that change a mechanism"),
        pytest.param(
            PRIVATE.replace('mechanism = "sgd"', 'mechanism = "sgd"\nsteps = 2'),
            "expected one search on all of the data",
            marks=pytest.mark.long,
        ),
        pytest.param(PRIVATE.replace("mean = 2", "mean = 20_000"), "expected at most 10000 on average", marks=pytest.mark.long),
        (
            PUBLIC.replace("[train]", "[budget]\nepsilon = 1.0\ndelta = 1e-6\n[train]"),
            "budget.delta: expected the value of privacy.delta",
        ),
    ],
)
def test_what_cannot_be_honoured_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(InputError) as raised:
        planned(tmp_path, text)
    assert words in str(raised.value)


@pytest.mark.nightly
@pytest.mark.long
def test_a_search_that_runs_another_entry_is_refused(tmp_path: Path) -> None:
    other = HEAD[HEAD.index("[[mechanism]]") :].replace("sgd", "other").replace("2.0", "200.0")
    text = HEAD + other + TUNE.replace('"sgd"', '"other"') + TRAIN + 'mechanism = "sgd"\n' + SEARCH + GRID
    with pytest.raises(InputError, match="expected the mechanism of the training, sgd, found other"):
        planned(tmp_path, text)


def test_an_epsilon_that_cannot_be_met_is_named(tmp_path: Path) -> None:
    beside = '[[mechanism]]\nname = "beside"\ntype = "pure-dp"\nepsilon = 2.0\n'
    with pytest.raises(CannotCertify, match=r"epsilon 1\.0, as in the file"):
        planned(tmp_path, HEAD + beside + PUBLIC[len(HEAD) :])


def test_a_schedule_says_what_is_solved_for(tmp_path: Path) -> None:
    second = HEAD[HEAD.index("[[mechanism]]") :].replace("sgd", "late").replace("2.0", "200.0")
    text = HEAD + second + TRAIN + 'mechanism = ["sgd", "late"]\n' + PUBLIC[len(HEAD + TRAIN) :]
    with pytest.raises(InputError, match='set noise_multiplier = "calibrate"'):
        planned(tmp_path, text)
    plan = planned(tmp_path, text.replace("noise_multiplier = 2.0", 'noise_multiplier = "calibrate"', 1))
    assert all(variant.noise_multipliers[1] == 200.0 for variant in plan.variants)
    assert all(variant.plan.account.upper <= variant.epsilon for variant in plan.variants)


@pytest.mark.long
def test_dry_run_prints_the_points_and_loads_no_torch(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(PUBLIC + GRID)
    code = (
        "import sys\nfrom dpcli.cli.main import main\ncode = main(['sweep', 'tiny.toml', '--dry-run'])\n"
        "assert 'torch' not in sys.modules\nsys.exit(code)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, env=environment, check=True)
    assert "4 points, 2 runs each, 8 in all" in result.stdout.replace("\n", " ")
    assert "the epsilon of each point covers one run, and not the search" in result.stdout.replace("\n", " ")
    assert not (tmp_path / "runs").exists()


def test_one_point_is_not_several(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(PUBLIC.replace("[1.0, 8.0]", "[8.0]").replace("repeats = 2", "repeats = 1"))
    out = dpcli("sweep", "tiny.toml", "--dry-run", folder=tmp_path).out
    assert "1 point, 1 run each, 1 in all" in out.replace("\n", " ")


def test_the_document_of_a_search_hides_how_many_trials_there_are(tmp_path: Path) -> None:
    (tmp_path / "tiny.toml").write_text(PRIVATE)
    out = dpcli("sweep", "tiny.toml", "--dry-run", folder=tmp_path).out
    assert "a secret random number of trials" in out.replace("\n", " ")
    assert "2 trials on average" in out.replace("\n", " ")


SCALARS = st.one_of(
    st.booleans(),
    st.integers(-(10**18), 10**18),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(st.characters(exclude_categories=["Cs"])),
    st.dates(),
)
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab."\n é', min_size=1), inner, max_size=3)
)


@given(st.dictionaries(st.text('ab."\n é', min_size=1), VALUES, max_size=5))
def test_tables_survive_being_written(tables: dict[str, object]) -> None:
    assert tomllib.loads(toml_text(tables)) == tables
