"""Tests of dpcli plot: both streams, exit codes, files."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from unittest import mock

import pytest

from dpcli.base.registry import PLOTS
from tests.cases import of_each
from tests.command import dpcli
from tests.plots.samples import GAUSSIAN, NO_NOISE, PURE, TWO

UNSOUND = GAUSSIAN.replace(b"delta = 1e-5", b"delta = 0.2\ndataset_size = 10")


def test_a_picture_on_standard_output() -> None:
    result = dpcli("plot", "accountants", "examples/mnist.toml")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("epsilon by accountant\nmnist-dp-sgd: per example, add-remove, delta = 1e-05, sampling: poisson\n")
    assert "\x1b" not in result.out
    assert "█" in result.out


def test_the_format_is_the_suffix(tmp_path: Path) -> None:
    names = ("a.svg", "a.csv", "a.vl.json", "b.json", "a.txt")
    outputs = [part for name in names for part in ("-o", str(tmp_path / name))]
    result = dpcli("plot", "epsilon-steps", "-", *outputs, stdin=GAUSSIAN)
    assert (result.code, result.out) == (0, "")
    assert result.err.splitlines() == [f"wrote {tmp_path / name}" for name in names]
    assert dpcli("-q", "plot", "epsilon-steps", "-", *outputs, stdin=GAUSSIAN).err == ""
    assert (tmp_path / "a.svg").read_text().startswith("<?xml")
    assert next(csv.reader((tmp_path / "a.csv").read_text().splitlines()))[0] == "series"
    assert json.loads((tmp_path / "a.vl.json").read_text()) == json.loads((tmp_path / "b.json").read_text())
    assert "epsilon by number of steps" in (tmp_path / "a.txt").read_text(encoding="utf-8")


def test_a_format_can_be_named(tmp_path: Path) -> None:
    assert json.loads(dpcli("plot", "rdp", "-", "-f", "vega-lite", stdin=GAUSSIAN).out)["usermeta"]["dpcli"]["kind"] == "rdp"
    assert dpcli("plot", "rdp", "-", "-f", "csv", "-o", str(tmp_path / "points"), stdin=GAUSSIAN).code == 0
    assert (tmp_path / "points").read_bytes().startswith(b"series,order,")


@of_each(
    "arguments, stdin, message",
    [
        (("trade-of", "-"), GAUSSIAN, "expected a kind of plot among epsilon-steps, "),
        (("trade-of", "-"), GAUSSIAN, "found 'trade-of'; did you mean 'trade-off'"),
        (("own.toml",), b"", "expected KIND FILE, with KIND among epsilon-steps, "),
        (("rdp", "missing.toml"), b"", "missing.toml"),
        (("rdp", "-", "-o", "/nowhere/a.svg"), GAUSSIAN, "/nowhere/a.svg: cannot be written: "),
        (("rdp", "-", "-o", "a.pdf"), GAUSSIAN, "a.pdf: expected a path that ends in .svg, .png, "),
        (("epsilon-sigma", "-"), TWO, "found m, other: name one (--mechanism NAME)"),
        (("epsilon-sigma", "-"), PURE, "expected one mechanism whose noise can be varied, found none"),
        (("accountants", "-", "-a", "rpd"), GAUSSIAN, "did you mean 'rdp'"),
        (("accountants", "-", "--delta", "2"), GAUSSIAN, "expected a delta in [0, 1), found 2.0"),
        (("accountants", "-", "--group-size", "0"), GAUSSIAN, "expected a group size"),
        (("rdp", "-", "-a", "rdp"), GAUSSIAN, "--accountant cannot be combined with rdp"),
    ],
)
def test_bad_use_is_one_clear_message(arguments: tuple[str, ...], stdin: bytes, message: str) -> None:
    result = dpcli("plot", *arguments, stdin=stdin)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert "Traceback" not in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_nothing_is_written_where_nothing_can_be_certified(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    result = dpcli("plot", "trade-off", "-", "-o", str(path), stdin=NO_NOISE)
    assert (result.code, result.out) == (3, "")
    assert "nothing to draw: no finite epsilon at delta = 1e-05" in result.err
    assert not path.exists()


def test_nothing_is_written_where_one_format_is_missing(tmp_path: Path) -> None:
    with mock.patch.dict(sys.modules, {"matplotlib.figure": None}):
        result = dpcli("plot", "rdp", "-", "-o", str(tmp_path / "a.svg"), "-o", str(tmp_path / "a.png"), stdin=GAUSSIAN)
    assert result.code == 2
    assert "pip install 'dpcli[plot]'" in result.err
    assert list(tmp_path.iterdir()) == []


def test_the_input_is_never_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.csv"
    path.write_bytes(GAUSSIAN)
    result = dpcli("plot", "rdp", str(path), "-o", str(path))
    assert result.code == 2
    assert "found the input file" in result.err
    assert path.read_bytes() == GAUSSIAN


def test_an_unsound_file_says_so_in_the_picture() -> None:
    result = dpcli("plot", "accountants", "-", stdin=UNSOUND)
    assert result.code == 1
    assert "NOT SOUND: DP105" in result.out


def test_color_only_where_asked() -> None:
    assert "\x1b[" in dpcli("--color", "always", "plot", "accountants", "-", stdin=GAUSSIAN).out
    assert "\x1b[" not in dpcli("plot", "accountants", "-", stdin=GAUSSIAN).out


def test_columns_are_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    from click.testing import CliRunner

    from dpcli.cli.main import cli

    monkeypatch.setenv("COLUMNS", "60")
    out = CliRunner().invoke(cli, ["plot", "accountants", "-"], input=GAUSSIAN).output
    assert 40 < max(len(line) for line in out.splitlines()) <= 60


def test_names_cannot_smuggle_escapes() -> None:
    text = GAUSSIAN.replace(b'name = "sample"', b'name = "\\u001b[31m<b>"')
    for format_ in ("terminal", "svg", "vega-lite", "csv"):
        out = dpcli("plot", "accountants", "-", "-f", format_, stdin=text).out
        assert "\x1b" not in out
        assert format_ != "svg" or "<b>" not in out


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kind", [kind for kind in PLOTS if kind != "rdp"])
def test_accountants_that_are_named_are_drawn_or_refused(kind: str) -> None:
    """Each by itself decides: where one is refused, so is a picture of it beside another, with its name and its reason."""
    sampled = GAUSSIAN + b"sampling = { scheme = 'poisson', rate = 0.1 }\n"
    for data in (GAUSSIAN, sampled):
        codes = {name: dpcli("plot", kind, "-", "-a", name, "-f", "csv", stdin=data).code for name in ("zcdp", "rdp", "analytic")}
        assert codes["rdp"] == 0
        for name in ("zcdp", "analytic"):
            result = dpcli("plot", kind, "-", "-a", name, "-a", "rdp", "-f", "csv", stdin=data)
            assert result.code == codes[name] == (0 if data == GAUSSIAN else 3)
            shown = {row[0] for row in csv.reader(result.out.splitlines())}
            assert {name, "rdp"} <= shown if result.code == 0 else f"{name}: " in result.err and not result.out
