"""The worst files that fit the size limit are refused within 1 GB and a bounded time: about 3 s of CPU, eight under load that shares it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dpcli.toml.limits import MAX_BYTES

HEAD = 'format = 1\n[privacy]\nunit = "user"\nadjacency = "add-remove"\nmax_contributions = 5\n'
RDP = HEAD + '[[mechanism]]\nname = "c"\ntype = "rdp"\nvalues = [1]\norders = ['
MOST = MAX_BYTES // 78  # entries that fit


def composed(part: str, count: int = MOST) -> str:
    """Entries that each name a part, `part` being an expression in the entry's index i."""
    entry = '[[mechanism]]\nname = "{}"\ntype = "composed"\nmechanisms = ["{}"]\n'
    return HEAD + "".join(entry.format(index, eval(part, {"i": index, "MOST": MOST})) for index in range(count))


def filled(unit: str, before: str = "", after: str = "") -> str:
    """As many units as fit."""
    return before + unit * ((MAX_BYTES - len(before) - len(after)) // len(unit)) + after


HOSTILE = {
    "deep tables": lambda: "\n".join(f"[{index:x}{'.a' * 8}]" for index in range(MAX_BYTES // 24)),
    "array of tables": lambda: filled("[[mechanism]]\n"),
    "unknown keys": lambda: "\n".join(f"k{index:x}=1" for index in range(MAX_BYTES // 9)),
    "negative orders": lambda: filled("-1,", RDP, "]"),
    "many orders": lambda: filled("2,", RDP, "]"),
    "names of nobody": lambda: composed("'a' + str(i)"),
    "one long cycle": lambda: composed("(i + 1) % MOST"),
    "many short cycles": lambda: composed("i ^ 1"),
    "a long key": lambda: filled("a", "", " = 1"),
    "digits": lambda: filled("9", "a = "),
    "hexadecimal": lambda: filled("f", "format = 0x"),
    "escaped quotes": lambda: filled('\\"""', 'a = """'),
    "open quotes": lambda: filled('"\n'),
    "brackets": lambda: filled("[]"),
    "open brackets": lambda: filled("["),
    "dots": lambda: filled(".a", "a"),
    "spaces": lambda: filled(" ", "a = 1"),
}

REFUSED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (30, 30))
from dpcli.errors import InputError
from dpcli.pipeline.read import load
try:
    load(sys.argv[1])
except InputError as error:
    sys.exit(error.exit_code)
"""


@pytest.mark.sampled(4)
@pytest.mark.skipif(sys.platform != "linux", reason="address space and CPU time are limited by Linux's resource limits")
@pytest.mark.parametrize("name", HOSTILE)
def test_refused_in_time(name: str, tmp_path: Path) -> None:
    text = HOSTILE[name]()
    assert MAX_BYTES // 2 < len(text) <= MAX_BYTES
    path = tmp_path / "hostile.toml"
    path.write_text(text)
    done = subprocess.run([sys.executable, "-c", REFUSED, str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (2, "")
