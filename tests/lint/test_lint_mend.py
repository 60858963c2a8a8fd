"""Tests of repairs: a slip in any key or value of any file is repaired or left, and nothing else is touched."""

from __future__ import annotations

import functools
import random
from pathlib import Path

import pytest

from dpcli.analysis.account import account
from dpcli.exam.subjects import SEED
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.syntax import tables_of
from dpcli.lint.catalogue import RULES, rule
from dpcli.lint.mend import is_slip, mended
from dpcli.lint.run import lint_bytes
from tests.cases import of_each
from tests.command import dpcli
from tests.lint.typos import text_with_typo

ROOT = Path(__file__).parents[2]
GOOD = rule("DP101").good
WRONG = GOOD.replace("noise_multiplier = 1.1", 'noise_multipler = "1.1" # measured').replace("steps = 1000", "epochs = 2.5")


@functools.cache
def files() -> dict[str, str]:
    """Every file of the catalogue and of the examples that can be read, and whose epochs are whole numbers of steps."""
    texts = {code: rule(code).good for code in RULES}
    texts |= {str(path.relative_to(ROOT)): path.read_text() for path in sorted((ROOT / "examples").rglob("*.toml"))}
    return {name: text for name, text in texts.items() if not any(mendable(one.rule) for one in lint_bytes(text.encode(), name))}


def mendable(code: str) -> bool:
    return code < "DP006" or code == "DP117"


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("slips", [2, pytest.param(20, marks=pytest.mark.long)])
@of_each("name", files)
def test_a_slip_anywhere_is_mended_or_left(name: str, slips: int) -> None:
    draw, text = random.Random(f"{SEED} {name} {slips}"), files()[name]
    for _ in range(slips):
        bad = text_with_typo(draw, text)
        after, done = mended(bad.encode(), name)
        if not any(one.rule in {mend.rule for mend in done} for one in lint_bytes(bad.encode(), name)):
            assert after == bad.encode(), SEED
        else:
            assert tables_of(after.decode()) in (tables_of(text), tables_of(bad)), (SEED, bad)


@pytest.mark.long
def test_most_slips_in_files_of_the_catalogue_are_mended() -> None:
    draw = random.Random(5)
    texts = [text for name, text in files().items() if name.startswith("DP")]
    pairs = [(text, text_with_typo(draw, text)) for text in texts for _ in range(10)]
    wrong = [(text, bad) for text, bad in pairs if any(one.rule < "DP006" for one in lint_bytes(bad.encode(), "x"))]
    back = [tables_of(mended(bad.encode(), "x")[0].decode()) == tables_of(text) for text, bad in wrong]
    assert len(wrong) > 100 and sum(back) > 0.8 * len(back)


@of_each("name", files)
def test_a_file_without_slips_is_left_as_it_is(name: str) -> None:
    text = files()[name]
    assert mended(text.encode(), name) == (text.encode(), ())


@pytest.mark.parametrize("epochs", ["2.5", "0.1", "3.0000001", "1e-3"])
def test_epochs_become_the_steps_that_they_cost(epochs: str) -> None:
    before = GOOD.replace("steps = 1000", f"epochs = {epochs}")
    after, (mend,) = mended(before.encode(), "x")
    assert mend.rule == "DP117" and b"steps = " in after and b"epochs" not in after
    assert account(parse(after, "x")).upper == account(parse(before.encode(), "x")).upper
    assert not any(one.rule == "DP117" for one in lint_bytes(after, "x"))


def test_comments_order_and_line_ends_stay() -> None:
    for ends in ("\n", "\r\n"):
        after, done = mended(WRONG.replace("\n", ends).encode(), "x")
        expected = WRONG.replace('noise_multipler = "1.1"', "noise_multiplier = 1.1").replace("epochs = 2.5", "steps = 586")
        assert after == expected.replace("\n", ends).encode()
        assert [mend.rule for mend in done] == ["DP002", "DP003", "DP117"]


@of_each(
    "word, meant, slip",
    [
        ("l1_sensitivity", "l2_sensitivity", False),
        ("l_sensitivity", "l1_sensitivity", False),
        ("linf_sensitivity", "l1_sensitivity", False),
        ("max_epsilon", "min_epsilon", False),
        ("std", "sigma", False),
        ("q", "rate", False),
        ("noiseMultiplier", "noise_multiplier", True),
        ("sigam", "sigma", True),
        ("step", "steps", True),
        ("rates", "rate", True),
        ("", "steps", False),
        ("sigma", "sigma", True),
    ],
)
def test_what_is_a_slip(word: str, meant: str, slip: bool) -> None:
    assert is_slip(word, meant) is slip


def test_the_command_says_each_change_and_then_what_is_left(tmp_path: Path) -> None:
    path = tmp_path / "run.toml"
    path.write_text(WRONG.replace("delta = 1e-6", "delta = 1e-3"))
    path.chmod(0o664)
    link = tmp_path / "link.toml"
    link.symlink_to("run.toml")
    result = dpcli("lint", "link.toml", "--fix", folder=tmp_path)
    assert result.err.splitlines()[:3] == [
        "dpcli: link.toml:13: DP002: repaired: noise_multipler -> noise_multiplier",
        'dpcli: link.toml:13: DP003: repaired: noise_multiplier: "1.1" -> 1.1',
        "dpcli: link.toml:14: DP117: repaired: epochs = 2.5 -> steps = 586",
    ]
    assert result.code == 1 and "DP105" in result.out and "# measured" in path.read_text()
    assert link.is_symlink() and path.stat().st_mode & 0o777 == 0o664
    assert not dpcli("lint", "run.toml", "--fix", folder=tmp_path).err.count("repaired")


def test_what_cannot_be_changed_is_refused_or_left(tmp_path: Path) -> None:
    assert dpcli("lint", "-", "--fix", stdin=WRONG.encode()).code == 2
    (tmp_path / "broken.toml").write_text("x = = 1\n")
    assert dpcli("lint", "broken.toml", "--fix", folder=tmp_path).code == 2
    assert (tmp_path / "broken.toml").read_text() == "x = = 1\n"
    (tmp_path / "mixed.toml").write_bytes(WRONG.replace("\n", "\r\n", 1).encode())
    assert "line ends of one kind" in dpcli("lint", "mixed.toml", "--fix", folder=tmp_path).err
    (tmp_path / "run.toml").write_text(WRONG)
    (tmp_path / "run.toml.new").write_text("somebody's own")
    assert dpcli("lint", "run.toml", "--fix", folder=tmp_path).code == 2
    assert (tmp_path / "run.toml").read_text() == WRONG and (tmp_path / "run.toml.new").read_text() == "somebody's own"
    several = WRONG.replace("epochs = 2.5", "steps = [1, 2]")
    assert mended(several.encode(), "x") == (several.encode(), ())
