"""Messages that list names stop at eight: who has thousands of entries reads a line, not a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpcli.file.toml.shown import NAMED, first_names
from tests.command import dpcli


@pytest.mark.parametrize("count", [0, 1, NAMED, NAMED + 1, 3_000])
def test_eight_are_named_and_the_others_counted(count: int) -> None:
    told = first_names((f"n{k}" for k in range(count)), "nothing")
    expected = ", ".join(f"n{k}" for k in range(min(count, 8))) or "nothing"
    assert told == expected + (f" and {count - 8:,} more" if count > 8 else "")


ENTRY = '[[mechanism]]\nname = "number-{}"\ntype = "{}"\nnoise_multiplier = 900.0\n'
PRIVACY = '[privacy]\nunit = "example"\nadjacency = "add-remove"\ndelta = 0.0\n'
TABLES = {
    "train": '[train]\nmechanism = "other"\n',
    "federated": '[federated]\nmechanism = "other"\n',
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("arguments", "table"),
    [
        (("calibrate", "--solve", "noise", "-m", "other", "--target-epsilon", "1", "--delta", "1e-6"), ""),
        (("calibrate", "--solve", "noise", "--target-epsilon", "1", "--delta", "1e-6"), ""),
        (("account",), ""),
        (("account",), TABLES["train"]),
        (("account",), TABLES["federated"]),
        (("train", "--dry-run"), TABLES["train"]),
        (("pate", "account"), "[pate]\n"),
        (("generate", "--dry-run"), "[generate]\n"),
    ],
)
def test_no_line_of_a_refusal_grows_with_the_file(arguments: tuple[str, ...], table: str, tmp_path: Path) -> None:
    entries = "".join(ENTRY.format(k, "gaussian") for k in range(1_500))
    (tmp_path / "many.toml").write_text(f"format = 1\n{PRIVACY}{table}{entries}")
    name, *flags = arguments
    said = (
        dpcli(name, *flags[:1], "many.toml", *flags[1:], folder=tmp_path)
        if name == "pate"
        else dpcli(name, "many.toml", *flags, folder=tmp_path)
    )
    assert said.code and max(map(len, said.err.splitlines())) < 700, said.err[:1000]
