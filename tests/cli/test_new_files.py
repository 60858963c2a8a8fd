"""Tests of new files: a command that fails leaves none, and the next command that is printed runs."""

from __future__ import annotations

import errno
import json
import os
import random
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest

from dpcli.base.errors import InputError
from dpcli.base.registry import COMMANDS
from dpcli.cli import new_files
from dpcli.cli.main import cli
from dpcli.exam.subjects import SEED
from dpcli.exchange.commands.importing import SUBCOMMANDS
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.exchange.peers import VECTORS as PEERS

MNIST = str(ROOT / "examples" / "mnist.toml")
SGD = ("--sampling-rate", "0.004", "--steps", "200")
WRITING: dict[str, tuple[str, ...]] = {
    "account": ("account", "--noise-multiplier", "1.1", *SGD, "--delta", "1e-6"),
    "account at an epsilon": ("account", "--noise-multiplier", "1.1", *SGD, "--epsilon", "1"),
    "account of what is pure": ("account", "--pure", "0.5"),
    "calibrate-sigma": ("calibrate-sigma", "--target-epsilon", "2", "--delta", "1e-6", *SGD),
    "calibrate-sigma FILE": ("calibrate-sigma", MNIST, "--target-epsilon", "2"),
    "calibrate": ("calibrate", MNIST, "--solve", "noise", "--target-epsilon", "2"),
}


def options(command: click.Command) -> set[str]:
    return {option for parameter in command.params for option in parameter.opts}


def test_every_command_that_writes_is_here() -> None:
    context = click.Context(cli)
    found = {name for name in COMMANDS if (command := cli.get_command(context, name)) and "--write" in options(command)}
    assert found == {words[0] for words in WRITING.values()} | {"certify"}  # whose certificate is no pipeline file


@pytest.mark.parametrize("names", [[*WRITING][::2], pytest.param([*WRITING][1::2], marks=pytest.mark.long)], ids=["some", "others"])
def test_what_is_written_is_read_by_the_command_that_is_named(names: list[str], tmp_path: Path) -> None:
    for name in names:
        path = tmp_path / f"it's a file of {name}.toml"
        done = dpcli(*WRITING[name], "--write", str(path))
        assert done.code == 0, (name, done.err)
        follow(done.err, path)


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize(
    "names", [[*WRITING][:3], pytest.param([*WRITING][3:], marks=pytest.mark.long)], ids=["accounts", "calibrations"]
)
def test_quiet_says_nothing_of_what_is_written(names: list[str], tmp_path: Path) -> None:
    for name in names:
        (folder := tmp_path / name).mkdir()
        loud, quiet = (dpcli(*words, *WRITING[name], "--write", str(folder / f"{len(words)}.toml")) for words in ((), ("-q",)))
        assert (loud.code, quiet.code) == (0, 0) and "wrote" in loud.err and "wrote" not in quiet.err, name
        assert (folder / "0.toml").read_text() == (folder / "1.toml").read_text(), name


@pytest.mark.long
@of_each("target", ["0.5", "2", "7.25"])
def test_noise_solved_for_a_budget_of_flags_is_no_warning(target: str, tmp_path: Path) -> None:
    """All of it is what was asked for."""
    path = tmp_path / "x.toml"
    assert dpcli("calibrate-sigma", "--target-epsilon", target, "--delta", "1e-6", *SGD, "--write", str(path)).code == 0
    assert json.loads(dpcli("account", str(path), "-f", "json").out)["budget"]["verdict"] == "pass"


@pytest.mark.long
@of_each("name", WRITING)
def test_no_file_is_left_where_the_command_ends_by_an_error(name: str, tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    for output in ("json=no/such", f"json={tmp_path}", f"json={path}", f"csv={path}"):
        done = dpcli(*WRITING[name], "--write", str(path), "-o", output)
        assert done.code == 2, (output, done.err)
        assert not path.exists() or (output.endswith(str(path)) and "schema" not in path.read_text()), output
        path.unlink(missing_ok=True)
    nowhere = str(tmp_path / "no" / "x.toml")
    for words in (
        ("--write", "-"),
        ("--write", nowhere),
        ("--write", str(tmp_path)),
        ("--write", "/dev/null"),
        ("-o", "json=-"),
        ("-o", "csv=-"),
    ):
        done = dpcli(*WRITING[name], *words, folder=tmp_path)
        assert (done.code, done.out) == (2, "") and not os.listdir(tmp_path), (words, done.err)


@of_each("name", WRITING)
def test_what_a_file_does_not_say_is_not_asked_of_it(name: str, tmp_path: Path) -> None:
    """A group of several: the file would say what one unit costs, which is less."""
    path, size = tmp_path / "g.toml", str(random.Random(SEED).randrange(2, 6))
    done = dpcli(*WRITING[name], "--group-size", size, "--write", str(path))
    assert done.code == 2 and f"found {size}" in done.err and "--group-size" in done.err and not path.exists()


def test_a_group_of_one_is_what_a_file_says(tmp_path: Path) -> None:
    words = WRITING["account of what is pure"]
    assert dpcli(*words, "--group-size", "1", "--write", str(tmp_path / "g.toml")).code == 0


def test_a_file_that_cannot_be_finished_is_not_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.toml"

    def full(_path: str, file: Any, _data: bytes, fill: Callable[..., None] = new_files._write_all) -> None:
        class Full:
            def write(self, _: bytes) -> None:
                file.write(b"format")
                raise OSError(errno.ENOSPC, "No space left on device")

        fill(_path, Full(), b"")  # type: ignore[arg-type]

    monkeypatch.setattr(new_files, "_write_all", full)
    with pytest.raises(InputError, match="No space left"):
        new_files.write_new(str(path), "format = 1\n")
    assert not path.exists()


@of_each("words", [("init",), ("export", "opacus", MNIST), ("export", "dp-accounting", MNIST)])
def test_a_dash_is_standard_output(words: tuple[str, ...], tmp_path: Path) -> None:
    done, plain = dpcli(*words, "-o", "-", folder=tmp_path), dpcli(*words)
    assert (done.code, done.out) == (0, plain.out) and not os.listdir(tmp_path)


def follow(said: str, path: Path) -> None:
    """Run what `next:` says, in a shell's words."""
    (words,) = [line.partition("; next: ")[2] for line in said.splitlines() if "; next: " in line]
    program, *arguments = shlex.split(words)
    assert program == "dpcli" and str(path) in arguments
    done = dpcli(*arguments)
    assert done.code in (0, 1), (words, done.err)


SHEET = "noise_multiplier,batch_size\n1.0,100\n2.0,100\n"
IMPORTED: dict[str, tuple[str, tuple[str, ...]]] = {
    "opacus": ('{"history": [[1.1, 0.01, 100], [1.2, 0.01, 7]], "mechanism": "rdp"}', ()),
    "dp-accounting": ('{"type": "GaussianDpEvent", "noise_multiplier": 2.0}', ("--adjacency", "add-remove")),
    "tf-privacy": ("--N=60000 --batch_size=256 --noise_multiplier=1.12 --epochs=60", ("--sampling", "poisson")),
    "jax-privacy": (json.dumps(PEERS["jax_privacy"][0]["config"]), ("--sampling", "poisson")),
    "opendp": (json.dumps(PEERS["opendp"][0]["accountant"]), ("--unit", "user")),
    "tumult": (json.dumps(PEERS["tumult"][0]["session"]), ("--unit", "user")),
    "schedule": (SHEET, ("--sampling", "poisson", "--adjacency", "add-remove", "--dataset-size", "60000")),
}


@of_each("name", SUBCOMMANDS)
def test_what_is_imported_is_read_by_the_command_that_is_named(name: str, tmp_path: Path) -> None:
    """At a delta that the command states, where the file has none."""
    text, words = IMPORTED[name]
    source, path = tmp_path / "source", tmp_path / "z.toml"
    source.write_text(text)
    done = dpcli("import", name, str(source), *words, "-o", str(path))
    assert done.code == 0, done.err
    follow(done.err, path)


@of_each("size", [3, 9, 10, 99_999, 100_000, 60_000_000])
def test_the_delta_that_is_named_is_small_enough(size: int, tmp_path: Path) -> None:
    source, path = tmp_path / "source", tmp_path / "z.toml"
    source.write_text("noise_multiplier,sampling_rate\n1.0,0.1\n")
    words = ("--sampling", "poisson", "--adjacency", "add-remove", "--dataset-size", str(size))
    said = dpcli("import", "schedule", str(source), *words, "-o", str(path)).err
    delta = float(said.split("--delta ")[1])
    assert delta <= min(1e-5, 0.1 / size) * (1 + 1e-9)


LACKING = [
    ("opacus", ("--unit", "user"), "--max-contributions"),
    ("dp-accounting", ("--unit", "user", "--adjacency", "add-remove"), "--max-contributions"),
    ("tf-privacy", ("--unit", "user", "--sampling", "poisson"), "--max-contributions"),
    ("jax-privacy", ("--unit", "user", "--sampling", "poisson"), "--max-contributions"),
    ("schedule", ("--sampling", "poisson", "--adjacency", "add-remove"), "--dataset-size"),
    ("schedule", ("--sampling", "poisson", "--dataset-size", "1000"), "--adjacency"),
    ("schedule", ("--sampling", "poisson", "--adjacency", "add-remove", "--dataset-size", "0"), "--dataset-size: expected"),
    ("dp-accounting", (), "--adjacency"),
    ("opacus", ("--delta", "2"), "--delta: expected"),
    ("opacus", ("--max-contributions", "0", "--unit", "user"), "--max-contributions: expected"),
]


@of_each("name, words, flag", LACKING)
def test_what_is_lacking_or_wrong_is_told_as_the_flag_that_states_it(
    name: str, words: tuple[str, ...], flag: str, tmp_path: Path
) -> None:
    source = tmp_path / "source"
    source.write_text(IMPORTED[name][0])
    done = dpcli("import", name, str(source), *words)
    assert done.code == 2 and flag in done.err and str(source) in done.err and "privacy." not in done.err, done.err


@pytest.mark.long
def test_comments_that_may_speak_of_earlier_values_are_named(tmp_path: Path) -> None:
    source, place = tmp_path / "a.toml", tmp_path / "b.toml"
    text = (ROOT / "examples/mnist.toml").read_text()
    note = "; comments were kept, check those of changed lines: 15; next: "
    for comment in ("  # epsilon 2", ""):
        source.write_text(text.replace("noise_multiplier = 1.1\n", f"noise_multiplier = 1.1{comment}\n"))
        place.unlink(missing_ok=True)
        done = dpcli("calibrate-sigma", str(source), "--target-epsilon", "2", "--write", str(place))
        assert done.code == 0 and (note in done.err) == bool(comment), done.err
    source.write_text(text.replace("noise_multiplier = 1.1\n", 'noise_multiplier = """\ncalibrate"""  # of several lines\n'))
    place.unlink()
    done = dpcli("calibrate-sigma", str(source), "--target-epsilon", "2", "--write", str(place))
    assert done.code == 0 and "comments were kept" not in done.err, done.err
