"""[train]: keys that nothing reads are refused at their place, and which keys a task reads is what its source says."""

from __future__ import annotations

import ast
import dataclasses
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from dpcli.toml.render import InvalidFile
from dpcli.train.plan.settings import Train, read_train
from dpcli.train.plan.unread import READS, SPECIFIC
from tests.command import ROOT

HEAD = """format = 1
[privacy]
unit = "example"
adjacency = "add-remove"
dataset_size = 1_437
delta = 1e-5
[[mechanism]]
name = "sgd"
type = "gaussian"
noise_multiplier = 2.0
steps = 10
[train]
"""
BASE = "learning_rate = 1.0\nclipping = { norm = 1.0 }\n"
TASKS = {
    "classification": 'task = "classification"\ndata = "digits"\n',
    "causal-lm": 'task = "causal-lm"\ndata = "d.txt"\nmodel = "gpt2"\n',
    "soft-prompt": 'task = "soft-prompt"\ndata = "d.csv"\nmodel = "gpt2"\nsoft_prompt = 4\nlabels = ["a", "b"]\n',
    "custom": 'task = "custom"\ndata = "own:data"\nmodel = "own:model"\nloss = "own:loss"\n',
}
VALUES = {
    "classes": "9",
    "shift": "0.5",
    "label": '"y"',
    "hidden": "32",
    "tokenizer": '"bytes"',
    "context": "64",
    "text": '"words"',
    "record": '"window"',
    "token_loss": '"sum"',
    "lora": "{ rank = 4 }",
    "soft_prompt": "4",
    "labels": '["a", "b"]',
    "verbalizers": '["one", "two"]',
    "template": '"{text}:"',
    "held_out": "0.1",
    "loss": '"own:loss"',
    "metric": '"own:metric"',
    "canary": '"own:canary"',
}
BESIDE = {  # what else a key needs, to be read
    "hidden": 'model = "mlp"\n',
    "held_out": 'public = "held-out"\n',
    "metric": 'public = "own:public"\n',
}


def read(text: str) -> Train:
    return read_train((HEAD + text).encode(), "t.toml")


def table(task: str, extra: str = "") -> str:
    """A valid [train] of a task; a key of `extra` replaces that of the task."""
    keys = tomllib.loads(extra)
    own = [line for line in TASKS[task].splitlines() if line.partition(" = ")[0] not in keys]
    return "\n".join(own) + "\n" + BASE + extra


def refused(text: str) -> str:
    with pytest.raises(InvalidFile) as raised:
        read(text)
    return str(raised.value)


@pytest.mark.parametrize("task", TASKS)
def test_a_plain_table_of_each_task_is_read(task: str) -> None:
    assert read(table(task)).task == task


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("key", sorted(SPECIFIC))
def test_a_key_is_refused_beside_every_task_that_does_not_read_it(task: str, key: str) -> None:
    text = table(task, f"{key} = {VALUES[key]}\n")
    if key not in READS[task]:
        said = refused(text)
        assert f'error DP005: train.{key}: expected no such key with task = "{task}", which does not read it, found ' in said
        assert said.startswith(f"t.toml:{(HEAD + text).splitlines().index(f'{key} = {VALUES[key]}') + 1}:")
        return
    data = {"label": 'data = "d.csv"\n', "text": 'data = "d.csv"\n'}.get(key, "")
    read(table(task, f"{key} = {VALUES[key]}\n{BESIDE.get(key, '')}{data}"))


@pytest.mark.parametrize(
    ("task", "extra", "key", "reader"),
    [
        ("classification", 'model = "cnn"\nhidden = 32\n', "hidden", 'model = "mlp"'),
        ("classification", 'optimizer = "adam"\nmomentum = 0.9\n', "momentum", 'optimizer = "sgd"'),
        ("causal-lm", "held_out = 0.1\n", "held_out", 'public = "held-out"'),
        ("causal-lm", 'held_out = 0.1\npublic = "p.txt"\n', "held_out", 'public = "held-out"'),
        ("custom", 'metric = "own:metric"\n', "metric", "public"),
        ("custom", 'public = "own:public"\n', "public", "metric"),
        ("classification", 'label = "y"\n', "label", "data in a file with columns"),
        ("causal-lm", 'text = "words"\n', "text", "data in a file with columns"),
        ("causal-lm", 'record = "paragraph"\ndata = "d.csv"\npublic = "p.txt"\n', "record", "data in a .txt file"),
        ("causal-lm", 'record = "paragraph"\ndata = "own:data"\n', "record", "data in a .txt file"),
        *(
            (
                "classification",
                f'clipping.norm = 1.0\nclipping.style = "{style}"\nclipping.{key} = 0.7\n',
                f"clipping.{key}",
                reader,
            )
            for key, reader in (
                ("gamma", 'style = "automatic"'),
                ("quantile", 'style = "adaptive"'),
                ("quantile_noise", 'style = "adaptive"'),
                ("quantile_rate", 'style = "adaptive"'),
            )
            for style in ("flat", "per-layer", "automatic", "adaptive")
            if style not in reader
        ),
    ],
)
def test_a_key_is_refused_without_what_reads_it(task: str, extra: str, key: str, reader: str) -> None:
    text = table(task, extra)
    text = text.replace("clipping = { norm = 1.0 }\n", "") if "clipping." in extra else text
    assert f"train.{key}: expected no such key without {reader}, which alone reads it, found " in refused(text)


@pytest.mark.parametrize(
    ("task", "extra"),
    [
        ("causal-lm", 'record = "paragraph"\n'),
        ("causal-lm", 'record = "window"\ndata = "own:data"\n'),
        ("causal-lm", 'text = "words"\npublic = "p.jsonl"\n'),
        ("classification", 'momentum = 0.9\nmodel = "mlp"\nhidden = 32\n'),
        ("classification", 'hidden = 64\nmomentum = 0.0\noptimizer = "adam"\nheld_out = 0.2\nrecord = "line"\n'),  # defaults
        ("custom", 'metric = "own:metric"\npublic = "own:public"\n'),
    ],
)
def test_what_is_read_passes_and_so_does_a_default(task: str, extra: str) -> None:
    read(table(task, extra))


@pytest.mark.parametrize(
    "style", ['"automatic", gamma = 0.1', '"adaptive", quantile_noise = 9.0, quantile = 0.7, quantile_rate = 0.1']
)
def test_keys_of_a_clipping_style_pass_beside_it(style: str) -> None:
    read(table("classification").replace("norm = 1.0", f"norm = 1.0, style = {style}"))


@pytest.mark.parametrize("device", ["cpu", "cuda", "cuda:0", "cuda:7", "cuda:11"])
def test_devices(device: str) -> None:
    assert read(table("classification", f'device = "{device}"\n')).device == device


@pytest.mark.parametrize("device", ["gpu", "CPU", "cuda:", "cuda:-1", "cuda:01", "cuda:x", "cuda:1 ", "mps", "cpu:0", "cuda:١"])
def test_other_devices_are_refused(device: str) -> None:
    assert "train.device: expected cpu, cuda, or cuda:N, found " in refused(table("classification", f'device = "{device}"\n'))


@pytest.mark.parametrize("momentum", ["1", "1.0", "1.5", "-0.1"])
def test_momentum_is_below_one(momentum: str) -> None:
    assert "train.momentum: expected a number in [0, 1), found " in refused(table("classification", f"momentum = {momentum}\n"))


@pytest.mark.parametrize("key", ["model", "data", "public"])
def test_a_custom_task_has_functions_for_everything(key: str) -> None:
    said = refused(table("custom", f'{key} = "mlp"\n'))
    assert f'train.{key}: expected module:function for a custom task, found "mlp"' in said


def test_a_custom_task_has_a_loss() -> None:
    assert "train.loss: expected module:function for a custom task, found none" in refused(
        table("custom").replace('loss = "own:loss"', "")
    )


def test_one_adapter_at_most() -> None:
    said = refused(table("causal-lm", "soft_prompt = 4\nlora = { rank = 4 }\n"))
    assert "train.soft_prompt: expected lora or soft_prompt, found both" in said


def test_all_problems_are_reported_at_once() -> None:
    said = refused(table("classification", 'lora = { rank = 4 }\ntemplate = "x"\nlabels = ["a"]\ndevice = "gpu"\n'))
    assert [line.split(": ")[2] for line in said.splitlines() if " error " in line] == [
        "train.lora",
        "train.template",
        "train.labels",
        "train.device",
    ]
    assert "found a table" in said
    assert "found a list" in said


FOR_ANOTHER_TASK = {  # what shared modules read, though not for this task
    "causal-lm": {"label"},
    "soft-prompt": {"record", "lora"},
}


def keys_read(module: str, known: set[str]) -> set[str]:
    """Every `train.KEY` in a module of dpcli.train.tasks and in those that it imports."""
    known.add(module)
    nodes = list(ast.walk(ast.parse((ROOT / "dpcli" / "train" / "tasks" / f"{module}.py").read_text())))
    found = {n.attr for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name) and n.value.id == "train"}
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dpcli.train.tasks."):
            inner = (node.module or "").rpartition(".")[2]
            found |= keys_read(inner, known) if inner not in known else set()
    return found


@pytest.mark.parametrize("task", TASKS)
def test_the_table_of_keys_is_what_the_source_of_the_task_reads(task: str) -> None:
    found = keys_read(task.replace("-", "_"), set())
    assert (found & SPECIFIC) - FOR_ANOTHER_TASK.get(task, set()) == READS[task]


def test_every_key_of_one_task_is_a_key() -> None:
    assert {field.name for field in dataclasses.fields(Train)} >= SPECIFIC == VALUES.keys()


EXAMPLES = [path for path in sorted((ROOT / "examples").rglob("*.toml")) if "\n[train]" in path.read_text()]


@pytest.mark.parametrize("path", [*EXAMPLES, ROOT / "dpcli" / "templates" / "train.toml"], ids=lambda path: path.name)
def test_every_example_is_read(path: Path) -> None:
    assert len(EXAMPLES) >= 5
    read_train(path.read_bytes(), str(path))


def test_reading_needs_no_torch(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(HEAD + table("custom"))
    code = (
        "import sys\nfrom dpcli.train.plan.settings import read_train\nread_train(open('t.toml', 'rb').read(), 't.toml')\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)})
