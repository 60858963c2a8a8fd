"""Whole runs of tiny language models: the files of the run, the trained parameters, and adapters that are loaded again."""

from __future__ import annotations

import copy
import json
import warnings
from pathlib import Path

import pytest
import torch

from dpcli.train.plan.plan import plan_of
from dpcli.train.run.outcome import MODEL, Outcome
from dpcli.train.run.training_run import train
from dpcli.train.tasks.causal_lm import build
from dpcli.train.tasks.lm_models import logits, save_adapter
from tests.command import ROOT, dpcli
from tests.train.tasks.language import FILE, HELD, WAYS, awake, table

OWNED = 'public = "own_language:texts"\nunits = "writer"\nrecords_per_unit = 2'
LABELS = 'labels = ["negative", "positive"]'
RUNS = {
    "full": ("causal-lm", "texts", HELD, "perplexity", "transformer.wte.weight"),
    "lora": (
        "causal-lm",
        "texts",
        f'{HELD}lora = {{ rank = 2, targets = ["c_attn"] }}',
        "perplexity",
        "c_attn.lora_A.default.weight",
    ),
    "prompt": ("causal-lm", "texts", f"{HELD}soft_prompt = 3", "perplexity", "prompt.weight"),
    "classifier": ("soft-prompt", "labelled", f"{HELD}soft_prompt = 3\n{LABELS}", "accuracy", "prompt.weight"),
    "units": ("causal-lm", "owned", OWNED, "perplexity", "transformer.wte.weight"),
}


def outcome(name: str, path: str) -> Outcome:
    task, data, more, *_ = RUNS[name]
    Path(path).write_text(FILE.format(task=task, data=data, more=more))
    return train(plan_of(path))


@pytest.mark.nightly
@pytest.mark.long
@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("name", RUNS)
def test_a_run_leaves_what_it_trained(name: str, place: str) -> None:
    from safetensors import safe_open

    found = outcome(name, place)
    metric, parameter = RUNS[name][3:]
    assert list(found.metrics) == [metric]
    assert found.metrics[metric] >= 0.0
    assert found.method.startswith("vmap" if name == "units" else "book-keeping")  # a unit is several rows of the model's batch
    last = json.loads((Path(found.folder) / "metrics.jsonl").read_text().splitlines()[-1])
    assert last[metric] == found.metrics[metric]
    with safe_open(str(Path(found.folder) / MODEL), "pt") as weights:  # type: ignore[no-untyped-call]
        names = list(weights.keys())
    assert any(one.endswith(parameter) for one in names)
    assert name in ("full", "units") or not any("wte" in one for one in names)
    assert (Path(found.folder) / "adapter" / "adapter_model.safetensors").exists() == (name in ("lora", "prompt", "classifier"))


@pytest.mark.parametrize("way", ["lora", "prompt"])
def test_an_adapter_is_loaded_again_by_peft(way: str, place: str) -> None:
    import peft

    torch.manual_seed(3)
    base = build(table(), place).model
    torch.manual_seed(3)
    adapted = awake(build(table(**WAYS[way]), place).model).float()
    folder = str(Path(place).with_name("adapter"))
    assert save_adapter(adapted, "somewhere", folder)
    assert not save_adapter(base, "somewhere", folder)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        again = peft.PeftModel.from_pretrained(copy.deepcopy(base), folder).eval()
    ids = torch.randint(0, 256, (2, 9))
    with torch.no_grad():
        torch.testing.assert_close(again(input_ids=ids).logits[:, -9:], logits(adapted, ids)[:, -9:])
        assert not torch.allclose(base(ids).logits, logits(adapted, ids)[:, -9:])


def test_the_examples_can_be_read_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a dry run downloads nothing."""
    import sys

    monkeypatch.setitem(sys.modules, "transformers", None)
    found = dpcli("train", str(ROOT / "examples" / "lm" / "gpt2.toml"), "--dry-run", "-f", "json")
    assert found.code == 0, found.err
    assert json.loads(found.out)["estimate"] == "language models: transformers is not installed: pip install 'dpcli[lm]'"


@pytest.mark.long
@pytest.mark.parametrize("name", ["lm.toml", "gpt2.toml"])
def test_the_examples_keep_their_budget(name: str) -> None:
    plan = plan_of(str(ROOT / "examples" / "lm" / name))
    assert plan.pipeline.budget is not None
    assert 7.99 < plan.account.upper <= plan.pipeline.budget.epsilon


@pytest.mark.long
def test_the_example_has_the_records_that_it_declares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "lm"))
    import language_model

    texts = language_model.source_code()
    plan = plan_of(str(ROOT / "examples" / "lm" / "lm.toml"))
    every = round(1.0 / plan.train.held_out)
    assert len(texts) == language_model.RECORDS
    assert len(texts) - len(texts[::every]) == plan.size
    assert {len(text) for text in texts} == {language_model.LENGTH} == {plan.train.context}
    assert len(language_model.documentation()) > 5000
