"""[train] and [train.clipping], over every registered task and style: what each accepts, what it refuses and where.

The JSON schema and the reader accept the same words for texts.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dpcli.base.fields import Constraint
from dpcli.base.lazy import load
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import plain
from dpcli.file.toml.findings import InvalidFile
from dpcli.train.plan.clipping import Clipping
from dpcli.train.plan.settings import Train, every_key, read_train
from dpcli.train.plan.sources import FUNCTION
from dpcli.train.plugin import STYLES, TASKS
from tests.cases import require_each
from tests.command import ROOT
from tests.inline import toml
from tests.train.tables import BASE, CLASSES, HEAD, PLAIN, SCHEMA, Table, lines, table

CLIPPING: dict[str, type[Clipping]] = {style: load(target) for style, target in STYLES.items()}


def read(text: str) -> Train:
    return read_train((HEAD + text).encode(), "t.toml")


def refused(text: str) -> str:
    with pytest.raises(InvalidFile) as raised:
        read(text)
    return str(raised.value)


def validates(text: str) -> bool:
    return SCHEMA.is_valid(tomllib.loads(HEAD + text))


def example_of(name: str, key: str) -> Table:
    """The example that states a key: the task's own, else the one of all tasks."""
    return next(table for table in (*CLASSES[name].examples, *Train.examples) if key in table)


def test_every_task_and_style_states_every_key_of_its_own_in_an_example() -> None:
    common = set().union(*Train.examples)
    for task, cls in CLASSES.items():
        assert set().union(*cls.examples) | common | {"task", "clipping"} == set(members_of(cls)), task
    for style, of_style in CLIPPING.items():
        assert set().union(*of_style.examples) | {"style"} == set(members_of(of_style)), style


@pytest.mark.parametrize("task", TASKS)
def test_a_plain_table_of_each_task_is_read(task: str) -> None:
    assert type(read(table(task))) is CLASSES[task]
    assert read(table(task)).task == task


@pytest.mark.sampled(1)
@pytest.mark.parametrize("task", TASKS)
def test_each_key_is_accepted_with_its_example_value(task: str) -> None:
    def accepted(key: str) -> None:
        stated = {} if key in ("task", "clipping") else example_of(task, key)
        text = table(task, {**Train.examples[0], **stated})
        found = getattr(read(text), key)
        assert validates(text)
        assert key in ("task", "clipping") or plain(found) == stated[key]

    require_each(members_of(CLASSES[task]), accepted)


@pytest.mark.parametrize("style", STYLES)
def test_each_key_of_a_style_is_accepted_with_its_example_value(style: str) -> None:
    (stated,) = CLIPPING[style].examples
    text = table("classification", {"clipping": {"style": style, **stated}})
    found = read(text).clipping
    assert validates(text)
    assert type(found) is CLIPPING[style]
    for key in members_of(CLIPPING[style]):
        assert getattr(found, key) == (style if key == "style" else stated[key]), key


@pytest.mark.sampled(1)
@pytest.mark.parametrize("task", TASKS)
def test_a_key_is_refused_beside_every_task_that_does_not_read_it(task: str) -> None:
    """At its default value too: nothing reads it there either."""

    def refused_here(foreign: tuple[str, str]) -> None:
        other, key = foreign
        for value in (example_of(other, key)[key], plain(members_of(CLASSES[other])[key].default)):
            if value is not None:
                text = table(task, {key: value})
                said = refused(text)
                line = (HEAD + text).splitlines().index(f"{key} = {toml(value)}") + 1
                assert said.startswith(
                    f"t.toml:{line}:1: error DP002: train.{key}: expected a known key, found '{key}'; it belongs to "
                )
                assert f'"{other}"' in said.splitlines()[0]
                assert not validates(text)

    own = members_of(CLASSES[task])
    require_each([(other, key) for other in TASKS for key in members_of(CLASSES[other]) if key not in own], refused_here)


@pytest.mark.parametrize("style", STYLES)
def test_a_key_is_refused_beside_every_style_that_does_not_read_it(style: str) -> None:
    (own,) = CLIPPING[style].examples

    def refused_here(foreign: tuple[str, str]) -> None:
        other, key = foreign
        text = table("classification", {"clipping": {"style": style, **own, key: CLIPPING[other].examples[0][key]}})
        expected = f"error DP002: train.clipping.{key}: expected a known key, found '{key}'; it belongs to style = \"{other}\""
        assert expected in refused(text)
        assert not validates(text)

    require_each([(other, key) for other in STYLES for key in CLIPPING[other].examples[0] if key not in own], refused_here)


def test_a_task_that_is_none_leaves_the_common_keys_judged() -> None:
    for task, word in itertools.product(TASKS, ("classificatoin", 3)):
        said = refused(lines({**PLAIN[task], **BASE, "task": word, "schedule": "fast", "larning_rate": 1.0}))
        keys = [line.split(": ")[2] for line in said.splitlines() if " error " in line]
        assert keys == ["train.task", "train.schedule", "train.larning_rate"], (task, word)


READ_BY = [
    ("classification", {"model": "cnn", "hidden": 32}, "hidden", 'model = "mlp"'),
    ("classification", {"optimizer": "adam", "momentum": 0.9}, "momentum", 'optimizer = "sgd"'),
    ("custom", {"optimizer": "adam", "moment_floor": 0.2}, "moment_floor", 'optimizer = "adam-bc"'),
    ("causal-lm", {"held_out": 0.1}, "held_out", 'public = "held-out"'),
    ("soft-prompt", {"held_out": 0.1, "public": "p.csv"}, "held_out", 'public = "held-out"'),
    ("custom", {"metric": "own:metric"}, "metric", "public"),
    ("custom", {"public": "own:public"}, "public", "metric"),
    ("classification", {"label": "y", "data": "digits"}, "label", "data in a file with columns"),
    ("soft-prompt", {"label": "y", "data": "own:data"}, "label", "data in a file with columns"),
    ("causal-lm", {"text": "words"}, "text", "data in a file with columns"),
    ("causal-lm", {"record": "paragraph", "data": "d.csv", "public": "p.txt"}, "record", "data in a .txt file"),
    ("causal-lm", {"record": "paragraph", "data": "own:data"}, "record", "data in a .txt file"),
]


def test_a_key_is_refused_without_what_reads_it() -> None:
    def refused_alone(case: tuple[str, Table, str, str]) -> None:
        task, extra, key, reader = case
        assert f"train.{key}: expected this key only with {reader}, found " in refused(table(task, extra))

    require_each(READ_BY, refused_alone)


READ = [
    ("causal-lm", {"record": "paragraph"}),
    ("causal-lm", {"record": "window", "data": "own:data"}),
    ("causal-lm", {"text": "words", "public": "p.jsonl"}),
    ("classification", {"momentum": 0.9, "model": "mlp", "hidden": 32}),
    ("classification", {"hidden": 64, "momentum": 0.0, "optimizer": "adam", "held_out": 0.2}),  # defaults
    ("custom", {"metric": "own:metric", "public": "own:public"}),
]


def test_what_is_read_passes_and_so_does_a_default() -> None:
    require_each(READ, lambda case: read(table(*case)))


def test_devices() -> None:
    for device in ("cpu", "cuda", "cuda:0", "cuda:11"):
        assert read(table("classification", {"device": device})).device == device
    for other in ("gpu", "CPU", "cuda:", "cuda:-1", "cuda:01", "cuda:1 ", "cuda:١"):
        assert "train.device: expected cpu, cuda, or cuda:N, found " in refused(table("classification", {"device": other})), other


REFUSED: list[tuple[str, Table, str]] = [
    ("classification", {"momentum": 1.0}, "train.momentum: expected a number in [0, 1), found 1"),
    *(("custom", {key: "mlp"}, f'train.{key}: expected module:function, found "mlp"') for key in ("model", "data", "loss")),
    ("custom", {"metric": "mlp", "public": "own:p"}, 'train.metric: expected module:function, found "mlp"'),
    (
        "causal-lm",
        {"soft_prompt": 4, "lora": {"rank": 4}},
        "train.soft_prompt: expected only one of lora and soft_prompt, found both",
    ),
    ("causal-lm", {"model": "mlp"}, 'train.model: expected a path or name of a language model, or module:function, found "mlp"'),
    ("soft-prompt", {"labels": ["a", "a"]}, "train.labels: expected at least two labels, found 1"),
    ("soft-prompt", {"verbalizers": ["x"]}, "train.verbalizers: expected one word for each of 2 labels, found 1"),
    ("soft-prompt", {"template": "what"}, 'train.template: expected text with {text} in it once, found "what"'),
]


def test_a_value_that_a_task_cannot_use_is_refused() -> None:
    def check(case: tuple[str, Table, str]) -> None:
        task, extra, expected = case
        assert expected in refused(table(task, extra))

    require_each(REFUSED, check)


# What a run was known by when its keys were in one flat table: a run that was begun then can be resumed.
KNOWN_BY = {
    "classification": (
        'data = "d.csv"\nmodel="mlp"\nhidden=32\nclasses=3\nshift=0.5\nlabel="y"\npublic="held-out"\nheld_out=0.1\nunits="u"\n'
        'momentum=0.9\naverage=0.5\nschedule="linear"\nclipping = { norm = 1.0 }\n',
        "eefd53924bced0bb96e4da5c494ed431cdb7e6e268eeed4d34c7c00757eadc98",
    ),
    "causal-lm": (
        'data = "d.txt"\nmodel = "gpt2"\nlora = { rank = 4, targets = ["c_attn"] }\nrecord="window"\ncontext=64\ntoken_loss="sum"\n'
        'tokenizer="bytes"\npublic="p.csv"\ntext="words"\nclipping = { norm = 1, style = "automatic", gamma = 0.1 }\n',
        "8af246635a56619b633491b83999836e0e0a583615cc2c7e910fb3c10a29ceba",
    ),
    "soft-prompt": (
        'data = "d.csv"\nmodel = "gpt2"\nsoft_prompt = 4\nlabels = ["a", "b"]\nverbalizers=["x","y"]\ntemplate="{text}:"\n'
        'label="z"\nmechanism=["sgd"]\n'
        'clipping = { norm = 2.0, style = "adaptive", quantile_noise = 9.0, quantile = 0.7, quantile_rate = 0.1 }\n',
        "58df07b93a707154fb3e6f44ff613d8835a3ee2392bbc7c2db352a12c092d157",
    ),
    "custom": (
        'data = "own:data"\nmodel = "own:model"\nloss = "own:loss"\nmetric = "own:metric"\npublic = "own:public"\n'
        'canary = "own:canary"\nunits="x"\nrecords_per_unit=3\n'
        'clipping = { norm = 1.0, style = "adaptive", quantile_noise = 9.0 }\n',
        "39ef93234994f0cd6c050dc79d737ab14eb9b347ae8232685f90a1ea5f9d15e1",
    ),
}


@pytest.mark.parametrize("task", KNOWN_BY)
def test_a_run_is_known_by_what_it_was_known_by(task: str) -> None:
    text, known = KNOWN_BY[task]
    found = every_key(read(f'learning_rate = 1.0\ntask = "{task}"\n{text}'))
    assert hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest() == known


EXAMPLES = [path for path in sorted((ROOT / "examples").rglob("*.toml")) if "\n[train]" in path.read_text()]


def test_every_example_is_read() -> None:
    assert len(EXAMPLES) >= 5
    paths = [*EXAMPLES, ROOT / "dpcli" / "templates" / "train.toml"]
    require_each(paths, lambda path: read_train(path.read_bytes(), str(path)))


def test_reading_needs_no_torch(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(HEAD + table("custom"))
    code = (
        "import sys\nfrom dpcli.train.plan.settings import read_train\nread_train(open('t.toml', 'rb').read(), 't.toml')\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})


def ruled() -> Iterator[tuple[str, str, Constraint, str]]:
    """Every text key of every task that a pattern describes."""
    for task, target in TASKS.items():
        for key, member in members_of(load(target)).items():
            patterns = [value for name, value in member.rule.schema if name == "pattern"] if member.rule else []
            if member.rule is not None and patterns:
                yield task, key, member.rule, patterns[0]


RULED = list(ruled())
PIECES = (*"mf:./\\ \n-é0", "()", "digits", "held-out", "mlp", "cuda", ".csv", ".npz", ".parquet", ".CSV")
TEXTS = st.lists(st.sampled_from(PIECES), max_size=5).map("".join)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("task", "key", "rule", "pattern"), RULED, ids=[f"{task}.{key}" for task, key, *_ in RULED])
@given(text=TEXTS)
@example(text=".csv")
@example(text="a/.csv")
@example(text="..csv")
@example(text="m:f\n")
def test_the_schema_takes_what_the_reader_takes(task: str, key: str, rule: Constraint, pattern: str, text: str) -> None:
    """An editor's red line and ours: the pattern as ECMA 262 reads it, whose $ is the end and no line break before it."""
    assert rule.holds(text) == (re.search(pattern.replace("$", r"\Z"), text) is not None)


@given(
    st.lists(st.sampled_from(["m", "own_code", "a-b", "f", "x1", ".", ":", "/", "\\", "(", ")", "()", " "]), max_size=6).map(
        "".join
    )
)
@example("m:f()")
@example("c:/data.npy")
@example("m:f.g")
@example(".m:f")
@example("m.:f")
def test_a_function_is_one_that_can_be_imported(text: str) -> None:
    """module:function, the module a dotted name: what Python's import refuses by its words alone is refused by ours."""
    module, colon, name = text.partition(":")
    dotted = bool(module) and all(part and not set(part) & set(" /\\():") for part in module.split("."))
    assert FUNCTION.holds(text) == (bool(colon) and dotted and bool(name) and not set(name) & set(" /\\():."))
