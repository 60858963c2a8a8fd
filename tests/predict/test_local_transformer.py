"""Sessions on an untrained transformer in a folder, as transformers saves one, and sessions that need no torch."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from dpcli.base.extras import EXTRAS
from tests.command import ROOT, dpcli
from tests.predict import generate_files, prompt_files

PRIVACY = """format = 1
name = "local"
[privacy]
unit = "example"
adjacency = "add-remove"
releases = "outputs"
delta = 1e-5
"""
PROMPT = """[[mechanism]]
name = "votes"
type = "gnmax"
sigma = 4.0
steps = 3
[prompt]
data = "private.csv"
queries = "public.txt"
public = "labelled.csv"
labels = ["a", "b"]
teachers = 6
demonstrations = 3
model = "model"
tokenizer = "bytes"
"""
GENERATE = """[[mechanism]]
name = "bytes"
type = "private-decoding"
clip = 2.0
references = 6
steps = 10
[generate]
data = "private.csv"
model = "model"
tokenizer = "bytes"
prompt = "x"
method = "METHOD"
texts = 2
tokens = 5
longest = 20
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(1)
    config = GPT2Config(n_layer=1, n_head=2, n_embd=16, vocab_size=256, n_positions=40, bos_token_id=0, eos_token_id=0)
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "model")
    rows = "".join(f"text {n},{'ab'[n % 2]}\n" for n in range(12))
    (tmp_path / "private.csv").write_text(f"text,label\n{rows}")
    (tmp_path / "labelled.csv").write_text(f"text,label\n{rows}")
    (tmp_path / "public.txt").write_text("one\ntwo\nthree\nfour\n")
    return tmp_path


@pytest.mark.nightly
@pytest.mark.needs("torch", "transformers")
def test_teachers_vote_by_a_local_transformer(folder: Path) -> None:
    (folder / "local.toml").write_text(PRIVACY + PROMPT)
    result = dpcli("prompt", "local.toml", "-f", "json", folder=folder)
    assert result.code == 0, result.err
    data = json.loads(result.out)
    assert (data["asked"], data["answered"], data["waiting"]) == (3, 3, 1)
    (folder / "public.txt").write_text("x" * 41)
    result = dpcli("prompt", "local.toml", "--resume", folder=folder)
    assert result.code == 2 and "fit into the model's context" in result.err


@pytest.mark.long
@pytest.mark.needs("torch", "transformers")
@pytest.mark.parametrize("method", ["difference", "logits"])
def test_a_local_transformer_writes_private_texts(method: str, folder: Path) -> None:
    (folder / "local.toml").write_text(PRIVACY + GENERATE.replace("METHOD", method))
    result = dpcli("generate", "local.toml", "-f", "json", folder=folder)
    assert result.code == 0, result.err
    assert len(json.loads(result.out)["written"]) == 2
    assert dpcli("generate", "local.toml", "--resume", folder=folder).code == 1
    (folder / "local.toml").write_text((PRIVACY + GENERATE).replace("METHOD", method).replace("longest = 20", "longest = 37"))
    result = dpcli("generate", "local.toml", folder=folder)
    assert result.code == 2 and "at most 36 tokens before 5 new ones" in result.err


BARE = f"import sys; sys.modules.update(dict.fromkeys({list(EXTRAS)})); from dpcli.cli.main import run; run()"


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize(
    ("command", "file", "module", "code"),
    [("prompt", prompt_files.FILE, "stub", prompt_files.STUB), ("generate", generate_files.FILE, "notes", generate_files.NOTES)],
)
def test_a_session_of_functions_needs_no_extra(command: str, file: str, module: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "session.toml").write_text(file)
    (tmp_path / f"{module}.py").write_text(code)
    result = subprocess.run(
        [sys.executable, "-c", BARE, command, "session.toml", "-f", "total"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stderr.count("\n")) == (0, 1) and "charged to no ledger" in result.stderr
    assert float(result.stdout) > 0.0
