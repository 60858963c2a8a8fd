"""Tests of the worst files within the size limit: they are refused within 1 GB, and twice the file takes about twice the steps."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dpcli.base.errors import InputError
from dpcli.file.pipeline.read import parse
from dpcli.file.toml.limits import MAX_BYTES
from tests.cases import by_tier

HEAD = 'format = 1\n[privacy]\nunit = "user"\nadjacency = "add-remove"\nmax_contributions = 5\n'
RDP = HEAD + '[[mechanism]]\nname = "c"\ntype = "rdp"\nvalues = [1]\norders = ['
SHORT = 8192  # bytes: if each pair of their lines took a step, it would be seen; and more faults than are listed


def composed(most: int, part: Callable[[int, int], object]) -> str:
    """Entries that each name a part, by the entry's number and how many there are."""
    entry = '[[mechanism]]\nname = "{}"\ntype = "composed"\nmechanisms = ["{}"]\n'
    count = most // 78  # that fit
    return HEAD + "".join(entry.format(index, part(index, count)) for index in range(count))


def filled(most: int, unit: str, before: str = "", after: str = "") -> str:
    """As many units as fit."""
    return before + unit * ((most - len(before) - len(after)) // len(unit)) + after


HOSTILE: dict[str, Callable[[int], str]] = {  # by how many bytes they may have
    "deep tables": lambda most: "\n".join(f"[{index:x}{'.a' * 8}]" for index in range(most // 24)),
    "array of tables": lambda most: filled(most, "[[mechanism]]\n"),
    "unknown keys": lambda most: "\n".join(f"k{index:x}=1" for index in range(most // 9)),
    "negative orders": lambda most: filled(most, "-1,", RDP, "]"),
    "many orders": lambda most: filled(most, "2,", RDP, "]"),
    "names of nobody": lambda most: composed(most, lambda i, _: f"a{i}"),
    "one long cycle": lambda most: composed(most, lambda i, count: (i + 1) % count),
    "many short cycles": lambda most: composed(most, lambda i, _: i ^ 1),
    "a long key": lambda most: filled(most, "a", "", " = 1"),
    "digits": lambda most: filled(most, "9", "a = "),
    "hexadecimal": lambda most: filled(most, "f", "format = 0x"),
    "escaped quotes": lambda most: filled(most, '\\"""', 'a = """'),
    "open quotes": lambda most: filled(most, '"\n'),
    "brackets": lambda most: filled(most, "[]"),
    "open brackets": lambda most: filled(most, "["),
    "dots": lambda most: filled(most, ".a", "a"),
    "spaces": lambda most: filled(most, " ", "a = 1"),
}
DEAREST = ["deep tables", "unknown keys", "many orders", "negative orders"]
OTHERS = [name for name in HOSTILE if name not in DEAREST]

REFUSED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
from dpcli.base.errors import InputError
from dpcli.file.pipeline.read import load
for path in sys.argv[1:]:
    try:
        load(path)
    except InputError:
        continue
    sys.exit(f"{path} is taken")
"""


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="address space is limited by Linux's resource limits")
@pytest.mark.parametrize("names", by_tier(None, OTHERS, DEAREST), ids=["most", "the dearest"])
def test_refused_within_a_gigabyte(names: list[str], tmp_path: Path) -> None:
    for name in names:
        text = HOSTILE[name](MAX_BYTES)
        assert MAX_BYTES // 2 < len(text) <= MAX_BYTES
        (tmp_path / name).write_text(text)
    command = [sys.executable, "-c", REFUSED, *(str(tmp_path / name) for name in names)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")


def steps_to_refuse(text: str) -> int:
    """Lines of Python that reading a file takes until it is refused."""
    lines = 0

    def count(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal lines
        lines += event == "line"
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        with pytest.raises(InputError):
            parse(text.encode(), "hostile.toml")
    finally:
        sys.settrace(before)
    return lines


@pytest.mark.sampled(0, 1)
@pytest.mark.long
@pytest.mark.parametrize("names", by_tier(OTHERS, DEAREST, None), ids=["most", "the dearest"])
def test_twice_the_file_takes_about_twice_the_steps(names: list[str]) -> None:
    slow = {}
    for name in names:
        hostile = HOSTILE[name]
        with pytest.raises(InputError):
            parse(hostile(SHORT).encode(), "hostile.toml")  # what is imported or remembered is not counted below
        found = [steps_to_refuse(hostile(size)) for size in (SHORT, 2 * SHORT)]
        if found[1] > 3.0 * found[0] + 1000:  # what grows as the square takes four times the steps
            slow[name] = found
    assert slow == {}
