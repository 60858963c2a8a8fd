"""Folders for the Hugging Face Hub: what loads them finds the same model, and the card states the guarantee of the run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import dpcli as package
from dpcli.train.trained.hub import _one_line
from tests.command import dpcli
from tests.train.tasks.language import FILE

WAYS = {"transformers": "", "peft": 'lora = { rank = 2, targets = ["c_attn"] }\n', "prompt": "soft_prompt = 3\n"}
CODE = 'def texts():\n    return [f"text number {i} of some" for i in range(40)]\n'


def front(folder: Path) -> dict[str, object]:
    """The card's front matter."""
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    _, matter, _ = (folder / "README.md").read_text().split("---\n", 2)
    found: dict[str, object] = yaml.safe_load(matter)
    return found


def test_the_card_says_what_the_run_guarantees(run: Path, tmp_path: Path) -> None:
    there = tmp_path / "hub"
    assert dpcli("export", "hugging-face", str(run), "-o", str(there)).code == 0
    said, stated = front(there), json.loads((run / "model.json").read_text())["guarantee"]
    assert said["library_name"] == "dpcli" and said["tags"] == ["differential-privacy", "dpcli"]
    private = said["differential_privacy"]
    assert isinstance(private, dict)
    assert {name: private[name] for name in ("epsilon", "delta", "unit", "adjacency", "accountant")} == {
        name: stated[name] for name in ("epsilon", "delta", "unit", "adjacency", "accountant")
    }
    attested = json.loads((there / "dpcli-attestation.json").read_text())["predicate"]
    assert attested["statement"]["digest"]["sha256"] == private["statement_sha256"]
    assert dpcli("attest", str(run), "--verify", str(there / "dpcli-attestation.json")).code == 0


def test_the_same_model_is_loaded_from_there(run: Path, tmp_path: Path) -> None:
    there = tmp_path / "hub"
    (run / "adapter").mkdir()  # which the run did not leave
    (run / "adapter" / "adapter_config.json").write_text("{}")
    assert dpcli("export", "hugging-face", str(run), "-o", str(there)).code == 0
    images = np.random.default_rng(0).random((3, 1, 8, 8))
    before, after = (package.load_model(folder).probabilities(images) for folder in (run, there))  # type: ignore[attr-defined]
    assert np.array_equal(before, after)


@pytest.mark.parametrize("name", ["model.safetensors", "statement.md", "pipeline.toml"])
def test_a_run_that_has_changed_leaves_nothing(run: Path, tmp_path: Path, name: str) -> None:
    (run / name).write_bytes((run / name).read_bytes() + b" ")
    before = sorted(tmp_path.iterdir())
    assert dpcli("export", "hugging-face", str(run), "-o", str(tmp_path / "hub")).code == 2
    assert sorted(tmp_path.iterdir()) == before


def test_what_is_there_stays_and_what_is_not_private_is_not_published(run: Path, tmp_path: Path) -> None:
    (tmp_path / "hub").mkdir()
    found = dpcli("export", "hugging-face", str(run), "-o", str(tmp_path / "hub"))
    assert found.code == 2 and "expected a path that does not exist yet" in found.err
    assert dpcli("export", "hugging-face", str(run), "-o", str(tmp_path / "none" / "hub")).code == 2
    described = json.loads((run / "model.json").read_text())
    described["guarantee"] |= {"private": False, "epsilon": None}
    (run / "model.json").write_text(json.dumps(described))
    found = dpcli("export", "hugging-face", str(run), "-o", str(tmp_path / "other"))
    assert found.code == 2 and "NOT PRIVATE" in found.err and not (tmp_path / "other").exists()


def test_a_title_is_one_line_and_no_markup() -> None:
    assert _one_line("a\n---\n<b>[x](y)") == "a\\-\\-\\-\\<b\\>\\[x\\]\\(y\\)"


@pytest.mark.sampled(0, 1)
@pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
@pytest.mark.needs("transformers", "peft")
@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
def test_libraries_read_what_was_trained(way: str, tmp_path: Path) -> None:
    import torch
    import transformers

    config = transformers.GPT2Config(n_layer=1, n_head=2, n_embd=8, vocab_size=256, n_positions=32, bos_token_id=0, eos_token_id=0)
    transformers.GPT2LMHeadModel(config).save_pretrained(tmp_path / "small-gpt2")
    (tmp_path / "own_language.py").write_text(CODE)
    text = FILE.format(task="causal-lm", data="texts", more="").replace("own_language:gpt2", "small-gpt2")
    (tmp_path / "tiny.toml").write_text(text.replace('tokenizer = "bytes"\n', f'tokenizer = "bytes"\n{WAYS[way]}'))
    assert dpcli("train", "tiny.toml", folder=tmp_path).code == 0
    done = dpcli("export", "hugging-face", "runs/tiny", "-o", "hub", folder=tmp_path)
    assert done.code == 0, done
    library = "transformers" if way == "transformers" else "peft"
    assert front(tmp_path / "hub")["library_name"] == library
    base = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / ("hub" if way == "transformers" else "small-gpt2"))
    if library == "peft":
        import peft

        assert front(tmp_path / "hub")["base_model"] == "small-gpt2"
        base = peft.PeftModel.from_pretrained(base, str(tmp_path / "hub"))
    ids = torch.arange(10)[None]
    module = package.load_model(tmp_path / "runs" / "tiny").module
    given = {} if way == "prompt" else {"use_cache": False}
    expected = module(ids, **given).logits if way != "prompt" else module(ids).logits
    found = base.eval()(input_ids=ids).logits
    torch.testing.assert_close(found, expected)
