"""Tests of files that people give in place of a pipeline: the message says what the file is, and which command reads it."""

from __future__ import annotations

import json
import pickle
import random
import shlex
import sqlite3
from contextlib import suppress
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.exam.subjects import SEED
from dpcli.exchange.commands.importing import SUBCOMMANDS
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import MAX_BYTES
from tests.command import ROOT, dpcli
from tests.exchange.peers import VECTORS as PEERS

SAVED = sorted(path for path in (ROOT / "tests" / "vectors" / "opacus").iterdir() if path.suffix in (".pt", ".json"))
EVENT = {"type": "GaussianDpEvent", "noise_multiplier": 2.0}
GIVEN: dict[str, list[bytes]] = {
    "opacus": [*(path.read_bytes() for path in SAVED), pickle.dumps({"history": [(1.0, 0.1, 1)], "mechanism": "rdp"})],
    "dp-accounting": [
        json.dumps(EVENT).encode(),
        json.dumps({"schema": "dpcli/dp-event/v1", "event": EVENT}, indent=2).encode(),
        b'["dp_accounting.dp_event", "GaussianDpEvent", 2.0]',
    ],
    "tf-privacy": [
        b"--N=60000 --batch_size=256 --noise_multiplier=1.12 --epochs=60\n",
        b"--N 60000\n--batch_size=256\n--noise_multiplier=1\n--epochs=1",
    ],
    "jax-privacy": [json.dumps({**case["config"], "poisson_sampling_in_fit": True}).encode() for case in PEERS["jax_privacy"]],
    "opendp": [json.dumps(case["accountant"]).encode() for case in PEERS["opendp"]],
    "tumult": [json.dumps(case["session"]).encode() for case in PEERS["tumult"]],
    "schedule": [b"noise_multiplier,sampling_rate\n1.0,0.01\n", b"steps,noise_multiplier,sampling_rate\r\n3,1.0,0.01\r\n4,2.0,0.01"],
}  # fmt: skip


@pytest.mark.sampled(1)
@pytest.mark.parametrize("tool", SUBCOMMANDS)
def test_what_an_import_reads_is_told_its_command(tool: str, tmp_path: Path) -> None:
    """By every command that reads a pipeline file; the command that is told makes one of it."""
    path = tmp_path / "a file"
    for data in GIVEN[tool]:
        path.write_bytes(data)
        for command in ("account", "lint", "explain", "gate"):
            done = dpcli(command, str(path))
            assert done.code == 2 and f"dpcli import {tool} {shlex.quote(str(path))}" in done.err + done.out, (command, done.err)
        said = dpcli("account", str(path)).err
        assert len(said.splitlines()) == 1
        words = shlex.split(said.partition(": dpcli ")[2].partition(" reads it")[0].partition(" (")[0])
        done = dpcli(*words, *(("--unit", "user") if tool in ("opendp", "tumult") else ()))
        assert done.code == 0, (words, done.err)


def database(path: Path) -> bytes:
    with sqlite3.connect(path) as base:
        base.execute("create table a (b)")
    return path.read_bytes()


def test_other_files_are_told_what_they_are(tmp_path: Path) -> None:
    others = {
        "an SQLite database, such as a ledger: dpcli budget show": database(tmp_path / "a.db"),
        "an array of numpy": b"\x93NUMPY\x01\x00",
        "a csv": b"age,income\n1,2\n",
        "JSON; dpcli import reads the records of other libraries": b'{"a": 1}',
        "JSON": b"[1, 2]",
        "JSON that dpcli printed about a pipeline file": dpcli("account", "examples/mnist.toml", "-f", "json").out.encode(),
    }
    for words, data in others.items():
        with pytest.raises(InvalidFile) as refused:
            parse(data, "given")
        assert f"expected a pipeline file, found a file that looks like {words}" in str(refused.value)


@pytest.mark.parametrize("data", [b"", b"\n", b" \t\r\n\n"], ids=repr)
def test_nothing_is_said_to_be_nothing(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "e.toml"
    path.write_bytes(data)
    assert "e.toml: error DP001: expected a pipeline file, found an empty file" in dpcli("account", str(path)).err
    assert "expected a pipeline file, found empty standard input" in dpcli("account", "-", stdin=data).err


def test_large_files_are_told_too(tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    path.write_bytes(SAVED[0].read_bytes() + b"\x00" * MAX_BYTES)
    assert "a file of torch.save: dpcli import opacus" in dpcli("account", str(path)).err


def told(data: bytes) -> str:
    with suppress(InputError):
        try:
            parse(data, "x")
        except InvalidFile as refused:
            return str(refused)
    return ""


def test_a_slip_in_a_pipeline_file_is_still_told_by_its_place() -> None:
    """Of any example: a NUL or a brace anywhere, and an end of it, and bytes that are nothing."""
    rng = random.Random(SEED)
    examples = sorted((ROOT / "examples").glob("*.toml"))
    for _ in range(60):
        text = rng.choice(examples).read_bytes()
        place = rng.randrange(1, len(text))
        for data in (text[:place] + b"\x00" + text[place:], text[:place] + b"}=" + text[place:], text[place:]):
            assert "looks like" not in told(data) or data.lstrip()[:1] in (b"[", b"-", b"{"), (SEED, data[:80])
        with pytest.raises(InputError):
            parse(rng.randbytes(rng.randrange(1, 200)), "x")
