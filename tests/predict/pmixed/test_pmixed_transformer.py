"""dpcli pmixed on a tiny transformer: low-rank adapters on eight shards, beside DP-SGD of one adapter."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dpcli.base.errors import InputError
from dpcli.predict.pmixed.ensemble_fit import model_file
from dpcli.predict.pmixed.model_ensemble import Ensemble, ensemble
from dpcli.predict.pmixed.pmixed_plan import plan_of
from dpcli.predict.pmixed.public_side import PublicSide, public_side
from dpcli.predict.pmixed.shard_models import fitted_models, private_texts, shard_texts
from tests.command import dpcli
from tests.predict.pmixed.pmixed_files import HEAD
from tests.predict.samples import working_folder

pytestmark = pytest.mark.needs("torch", "transformers", "peft", "safetensors")

OWN = """
import torch, transformers
from tests.predict.pmixed.pmixed_files import sentences

def model():
    torch.manual_seed(3)
    config = transformers.GPT2Config(
        n_layer=1, n_head=2, n_embd=16, vocab_size=256, n_positions=32, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)

def bag():
    return torch.nn.Flatten()

class Wide:
    end = None
    def ids(self, text):
        return [300 for _ in text]
    def text(self, ids):
        return "x" * len(ids)

def wide():
    return Wide()

def letters():
    return sentences(160, 2, 5)

def published():
    return sentences(6, 3, 5)
"""

TABLE = """[pmixed]
data = "tiny_texts:letters"
model = "tiny_texts:model"
tokenizer = "bytes"
test = "tiny_texts:published"
context = 32
max_tokens = 4
lora = { rank = 4, targets = ["c_attn", "c_fc"] }
learning_rate = 0.03
epochs = 2
batch_size = 10
"""


def placed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    working_folder(folder, monkeypatch, "tiny_texts")
    (folder / "tiny_texts.py").write_text(OWN)
    file = folder / "tiny.toml"
    file.write_text(HEAD.partition("[pmixed]")[0].replace("shards = 6", "shards = 8") + TABLE)
    return file


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return placed(tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    """Adapters that were fitted in this process, of a model without code of the user's: those answer in one process."""
    with pytest.MonkeyPatch.context() as monkeypatch:
        path = placed(tmp_path_factory.mktemp("tiny"), monkeypatch)
        import tiny_texts  # type: ignore[import-not-found]

        tiny_texts.model().save_pretrained(path.parent / "weights")
        path.write_text(path.read_text().replace("tiny_texts:model", "weights"))
        plan = plan_of(str(path))
        side = public_side(plan.pmixed, plan.path)
        learnt = [side.learn(side.private_records(texts)) for texts in shard_texts(plan, private_texts(plan))]
        yield Ensemble(plan, None, side, fitted_models(plan, side, learnt))  # type: ignore[arg-type]


@pytest.mark.nightly
def test_eight_adapters_are_fitted_and_asked(path: Path) -> None:
    assert dpcli("pmixed", "fit", str(path), folder=path.parent).code == 0
    plan = plan_of(str(path))
    sizes = {Path(model_file(plan.folder, shard)).stat().st_size for shard in range(8)}
    assert len(sizes) == 1 and sizes.pop() < 20_000  # the adapter, and not the model
    answer = json.loads(dpcli("pmixed", "predict", str(path), "--prompt", "w1 w2", "-f", "json", folder=path.parent).out)
    assert answer["tokens"] + (answer["ended_by"] == "the end of the text") == answer["taken"]
    long = dpcli("pmixed", "predict", str(path), "--prompt", "w" * 30, folder=path.parent)
    assert long.code == 2 and "prompts are never cut" in long.err


@pytest.mark.nightly
@pytest.mark.long
def test_the_ensemble_and_dp_sgd_lie_between_the_public_model_and_no_privacy(path: Path) -> None:
    result = json.loads(dpcli("pmixed", "evaluate", str(path), "-f", "json", folder=path.parent).out)
    of = {way["kind"]: way["perplexity"] for way in reversed(result["ways"])}
    assert of["all"] < of["sound"] < of["public"] and of["all"] < of["dp"] < of["public"]


@pytest.mark.nightly
def test_adapters_learn_from_their_own_shard_alone(path: Path) -> None:
    """Each answers as it did, whoever was asked before; and the public model as if there were none."""
    dpcli("pmixed", "fit", str(path), folder=path.parent)
    models = ensemble(plan_of(str(path)))
    context = models.vocabulary.ids("w3 w8")
    public, first = models.public.next_token([context]), models.members[0].next_token([context])
    others = [member.next_token([context]) for member in models.members[1:]]
    assert all((first != other).any() for other in others)
    assert (models.members[0].next_token([context]) == first).all()
    assert models.public.next_token([context]) == pytest.approx(public, abs=1e-6)


def test_adapters_answer_together_as_they_do_alone(models: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    """To 1e-5: sums of other orders in single precision. In any order, however many a pass holds, and whatever the model held before."""
    from dpcli.predict.models import transformer

    context = models.vocabulary.ids("w3 w8")
    alone = np.concatenate([member.next_token([context]) for member in models.members])
    assert np.abs(alone - alone[0]).max() > 0.01
    for room in (transformer.PASS_BYTES, 3 * 10**6, 1):
        monkeypatch.setattr(transformer, "PASS_BYTES", room)
        for order in (list(range(8)), [5, 2, 7]):
            result = models.public.joint_next_token([models.members[place] for place in order], context)  # type: ignore[attr-defined]
            assert result == pytest.approx(alone[order], abs=1e-5)
            rows = np.stack(models._private_rows(order, context))
            assert rows == pytest.approx(alone[order], abs=1e-5)
    assert (models.members[3].next_token([context])[0] == alone[3]).all()


@pytest.mark.long
def test_what_one_adapter_holds_moves_no_bit_of_another(models: Ensemble) -> None:
    context = models.vocabulary.ids("w3")
    before = models.public.joint_next_token(models.members, context)  # type: ignore[attr-defined]
    odd = [
        {name: fill(value) for name, value in models.members[2].weights.items()}  # type: ignore[attr-defined]
        for fill in (lambda value: value * -50.0, lambda value: value * math.nan, lambda value: value * 0.0)
    ]
    for weights in odd:
        others = [*models.members]
        others[2] = replace(others[2], weights=weights)  # type: ignore[type-var]
        after = models.public.joint_next_token(others, context)  # type: ignore[attr-defined]
        same = (before == after).all(axis=1)
        assert same.tolist() == [place != 2 for place in range(8)]
        if np.isnan(after[2]).any():
            rows = replace(models, members=tuple(others))._private_rows(range(8), context)
            assert np.isnan(rows[2]).all() and not np.isnan(rows[1]).any()


def test_models_that_cannot_be_asked_together_are_asked_alone(models: Ensemble, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    from dpcli.predict.models import transformer

    context = models.vocabulary.ids("w3 w8")
    alone = [member.next_token([context])[0] for member in models.members]

    def asked_alone() -> bool:
        return all((row == known).all() for row, known in zip(models._private_rows(range(8), context), alone, strict=True))

    assert models.public.joint_next_token(models.members[:1], context) is None  # type: ignore[attr-defined]
    assert models.public.joint_next_token([models.public, models.members[0]], context) is None  # type: ignore[attr-defined]
    entry = models.plan.entry
    entry = replace(entry, spec=replace(entry.spec, change="remove-shard"))  # type: ignore[type-var]
    removed = replace(models, plan=replace(models.plan, entry=entry))
    assert all((row == known).all() for row, known in zip(removed._private_rows(range(8), context), alone, strict=True))
    with monkeypatch.context() as broken:  # it gives another answer
        broken.setattr(models.public, "_joint_pass_works", None)
        broken.setattr(
            transformer, "_multiply_by", lambda kept: lambda layer, inputs, output: torch.bmm(inputs[0], 2 * kept.transpose(1, 2))
        )
        assert models.public.joint_next_token(models.members, context) is None  # type: ignore[attr-defined]
        assert asked_alone()
    with monkeypatch.context() as broken:  # it runs out of memory at another number than was tried
        broken.setattr(models.public, "_joint_pass_works", True)
        broken.setattr(transformer, "last_scores", lambda *_: torch.empty(10**15))
        assert asked_alone()


def test_what_cannot_be_fine_tuned_is_refused(path: Path) -> None:
    text = path.read_text()

    def side_of(stated: str) -> PublicSide:
        path.write_text(stated)
        plan = plan_of(str(path))
        return public_side(plan.pmixed, plan.path)

    for stated, message in (
        (text.partition("lora =")[0], "pmixed.lora: expected the settings of the adapters that fine-tune tiny_texts:model"),
        (text.replace("tiny_texts:model", "tiny_texts:bag"), "pmixed.model: expected "),
        (text.replace("context = 32", "context = 33"), "pmixed.context: expected at most the model's 32 tokens"),
    ):
        with pytest.raises(InputError, match=message):
            side_of(stated)
    absent = side_of(text.replace('targets = ["c_attn", "c_fc"]', 'targets = ["absent"]'))
    with pytest.raises(InputError, match=r"pmixed\.lora\.targets: expected names of layers that PEFT can adapt"):
        absent.model.tune([])
    wide = side_of(text.replace('"bytes"', '"tiny_texts:wide"'))
    with pytest.raises(InputError, match="the tokenizer belongs to another model"):
        wide.private_records(["w1"])
