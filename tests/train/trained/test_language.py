"""The language models in a run's folder: continuations of prompts, and labels of texts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="language models need the lm extra")

import dpcli as package
from dpcli.base.errors import InputError
from dpcli.train.trained.language import TextClassifier, TrainedLanguageModel
from tests.command import ROOT, dpcli
from tests.train.tasks.language import FILE, HELD, OWN


def trained(folder: Path, file: str, code: str, name: str) -> Path:
    (folder / "tiny.toml").write_text(file)
    (folder / f"{name}.py").write_text(code)
    done = dpcli("train", "tiny.toml", folder=folder)
    assert done.code == 0, done
    return next((folder / "runs").iterdir())


@pytest.mark.long
def test_a_language_model_goes_on_from_prompts(tmp_path: Path) -> None:
    text = FILE.format(task="causal-lm", data="texts", more=HELD).replace("own_language:gpt2", "own_language:bag")
    run = trained(tmp_path, text, OWN, "own_language")
    left = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["perplexity"]
    found = json.loads(dpcli("evaluate", str(run), "-f", "json").out)["metrics"]["perplexity"]
    assert found == pytest.approx(left, rel=1e-6)  # sums in single precision
    model = package.load_model(run)
    assert isinstance(model, TrainedLanguageModel)
    likeliest = model.text("text", 5, temperature=0.0)
    assert likeliest == model.text("text", 5, temperature=0.0, seed=9)
    assert model.text("text", 5, seed=1) == model.text("text", 5, seed=1)
    (tmp_path / "prompts.txt").write_text("text\nother\n")
    out = dpcli(
        "predict",
        str(run),
        "prompts.txt",
        "--prompt",
        "first",
        "--tokens",
        "5",
        "--temperature",
        "0",
        "-f",
        "json",
        folder=tmp_path,
    )
    answers = json.loads(out.out)["answers"]
    assert [answer["prompt"] for answer in answers] == ["first", "text", "other"]
    assert answers[1]["text"] == likeliest
    assert dpcli("predict", str(run), "--prompt", "").code == 2
    assert dpcli("attest", str(run)).code == 0


@pytest.mark.long
def test_texts_are_classified_and_another_frozen_model_is_refused(tmp_path: Path) -> None:
    text = (ROOT / "examples" / "soft-prompt.toml").read_text().replace("steps = 100", "steps = 2")
    code = (ROOT / "examples" / "small_reviews.py").read_text()
    run = trained(tmp_path, text, code, "small_reviews")
    left = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["accuracy"]
    assert json.loads(dpcli("evaluate", str(run), "-f", "json").out)["metrics"]["accuracy"] == left
    model = package.load_model(run)
    assert isinstance(model, TextClassifier)
    probabilities = model.probabilities(["ABCDEF", "UVWXYZ"])
    assert probabilities.sum(1) == pytest.approx(1.0)
    said = json.loads(dpcli("predict", str(run), "--prompt", "ABCDEF", "-f", "json").out)["answers"][0]
    assert said["label"] == ("hated", "loved")[int(probabilities[0].argmax())]
    described = json.loads((run / "model.json").read_text())
    described["model"]["frozen_sha256"] = "0" * 64
    (run / "model.json").write_text(json.dumps(described))
    with pytest.raises(InputError, match="not the frozen weights that the run was trained on"):
        package.load_model(run)


@pytest.mark.long
def test_an_adapter_is_loaded_onto_its_own_base_and_is_attested_too(tmp_path: Path) -> None:
    import transformers

    config = {"n_layer": 1, "n_head": 2, "n_embd": 8, "vocab_size": 256, "n_positions": 32, "bos_token_id": 0, "eos_token_id": 0}
    for name in ("base", "other"):
        transformers.GPT2LMHeadModel(transformers.GPT2Config(**config)).save_pretrained(tmp_path / name)
    text = FILE.format(task="causal-lm", data="texts", more=f'{HELD}lora = {{ rank = 2, targets = ["c_attn"] }}')
    run = trained(tmp_path, text.replace("own_language:gpt2", "base"), OWN, "own_language")
    left = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["perplexity"]
    assert json.loads(dpcli("evaluate", str(run), "-f", "json").out)["metrics"]["perplexity"] == pytest.approx(left, rel=1e-6)
    statement = json.loads(dpcli("attest", str(run), "-f", "json").out)["attestation"]
    names = ["model.safetensors", "adapter/adapter_config.json", "adapter/adapter_model.safetensors"]
    assert [one["name"] for one in statement["subject"]] == names
    (run / "adapter" / "adapter_config.json").write_text("{}")
    assert dpcli("attest", str(run), "--verify", str(run / "attestation.json")).code == 1
    (tmp_path / "other").rename(run / "base")  # which comes first
    with pytest.raises(InputError, match="not the frozen weights that the run was trained on"):
        package.load_model(run)


OWN_TASK = """
import torch
def model(): return torch.nn.Linear(3, 1)
def records(): return torch.ones(50, 3), torch.ones(50)
def others(): return torch.ones(25, 3), torch.ones(25)
def loss(model, batch): return (model(batch[0]).squeeze(1) - batch[1]) ** 2
def metric(model, batch): return {"error": float(loss(model, batch).mean())}
"""
CUSTOM = """
format = 1
privacy = { unit = "example", adjacency = "add-remove", dataset_size = 50, delta = 1e-3, releases = "final-model" }
mechanism = [{ name = "sgd", type = "gaussian", noise_multiplier = 5.0, steps = 2, sampling = { scheme = "poisson", batch_size = 10 } }]
[train]
task = "custom"
model = "own_task:model"
data = "own_task:records"
loss = "own_task:loss"
metric = "own_task:metric"
public = "own_task:others"
learning_rate = 0.5
clipping = { norm = 1.0 }
"""


def test_a_model_of_the_users_own_is_measured_by_the_users_metric_and_asked_in_python(tmp_path: Path) -> None:
    run = trained(tmp_path, CUSTOM, OWN_TASK, "own_task")
    left = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])["error"]
    for data in ((), ("own_task:records",)):
        found = json.loads(dpcli("evaluate", str(run), *data, "-f", "json", folder=tmp_path).out)
        assert found["metrics"]["error"] == pytest.approx(left)
        assert found["declared_public"] is not bool(data)
    asked = dpcli("predict", str(run), "own_task:records", folder=tmp_path)
    assert asked.code == 2 and "use dpcli.load_model in Python" in asked.err
    assert tuple(package.load_model(run).module.weight.shape) == (1, 3)
