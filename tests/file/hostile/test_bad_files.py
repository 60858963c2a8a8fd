"""Tests of every bad file of tests/vectors: the reader reports the right rule, place and words, and raises no other exception."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from dpcli.base.errors import InputError
from dpcli.file.pipeline.read import load, parse
from dpcli.file.toml.findings import InvalidFile
from dpcli.file.toml.limits import MAX_BYTES, escaped_path
from tests.cases import of_each
from tests.file.samples import BAD, GOOD, changed, in_words, refused, said

EXPECT = "# expect: "
BOM = "expected UTF-8 text without a byte order mark, found one at its start; save the file as UTF-8 without BOM"


def test_there_are_bad_files() -> None:
    assert len(BAD) >= 40


def test_every_bad_file_is_refused_in_its_words_and_shows_its_line() -> None:
    faults: list[tuple[str, object, object]] = []
    for path in BAD:
        lines = path.read_text(encoding="utf-8").split("\n")
        expected = [line.removeprefix(EXPECT) for line in lines if line.startswith(EXPECT)]
        try:
            load(path)
        except InvalidFile as refused:
            found, told = refused.diagnostics, str(refused)
        else:
            found, told = (), ""
        words = [in_words(diagnostic) for diagnostic in found]
        faults += [(path.stem, words, expected)] if words != expected or not words else []
        for diagnostic in found:
            source = lines[diagnostic.line - 1]
            if diagnostic.source != source or diagnostic.column > len(source) + 1:
                faults.append((path.stem, diagnostic, source))
        if not all(part.isprintable() for part in told.replace("\t", " ").split("\n")):
            faults.append((path.stem, told, "printable text"))
    assert faults == []


@of_each(
    ("data", "expected"),
    [
        (b"\xef\xbb\xbf" + GOOD.encode(), f"1:1 {BOM}"),
        (GOOD.encode("utf-16"), "1:1 expected UTF-8 text, found UTF-16 or UTF-32; save the file as UTF-8"),
        (GOOD.encode("utf-32"), "1:1 expected UTF-8 text, found UTF-16 or UTF-32; save the file as UTF-8"),
        (b"\xfe\xff" + GOOD.encode("utf-16-be"), "1:1 expected UTF-8 text, found UTF-16 or UTF-32; save the file as UTF-8"),
        (b"format = 1\nna\x00me = 1\n", "2:3 expected UTF-8 text, found a NUL byte"),
        (GOOD.encode("utf-16-le"), "1:2 expected UTF-8 text, found a NUL byte"),
        (b"format = 1\n# \xc3\xa9t\xe9\n", "2:5 expected UTF-8 text, found byte 0xe9"),
        (b"\x1f\x8b\x08", "1:2 expected UTF-8 text, found byte 0x8b"),
        (b"format = 1\rname = 2", "1:11 expected the end of the line after a value, found \\r"),
        (b"format = " + b"9" * 5000, "1:10 expected a number, found 5000 digits"),
        (b"a = " + b"[" * 100_000, "1:37 expected at most 32 levels of nesting, found more"),
        (b"a = " + b"{a=" * 100_000, "1:101 expected at most 32 levels of nesting, found more"),
        (b"a" + b".a" * 100_000 + b" = 1", "1:2 expected at most 32 levels of nesting, found more"),
        (b"a = '''" + b"x" * 1000, "1:1008 expected text ended by its quote, found no end"),
    ],
)
def test_not_toml(data: bytes, expected: str) -> None:
    assert said(data) == [f"DP001 {expected}"]


def test_the_line_of_a_fault_ends_before_its_carriage_return() -> None:
    (fault,) = refused(b"format = 1\r\na = = 2\r\n")
    assert (fault.line, fault.source) == (2, "a = = 2")


def test_too_large() -> None:
    assert said(b"#" * (MAX_BYTES + 1)) == ["DP001 0:0 expected a file of at most 1024 KiB, found more"]


def test_huge_file_is_not_read(tmp_path: Path) -> None:
    with open(tmp_path / "huge.toml", "wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(InvalidFile, match="expected a file of at most 1024 KiB, found more"):
        load(tmp_path / "huge.toml")


def test_at_most_a_hundred_problems() -> None:
    found = said("".join(f"key{index} = 1\n" for index in range(1000)))
    assert len(found) == 101
    assert found[-1] == "DP001 0:0 expected at most 100 problems, found more; the others are not listed"


def test_every_problem_at_once() -> None:
    text = changed("max_contributions = 5", "max_contributions = 5.0")
    text = changed("epsilon = 3.0", "epsilon = 0", text)
    text = changed("scale = 20.0\n", "", text)
    text = changed("rdp", "rdq", text)
    assert [diagnostic.line for diagnostic in refused(text)] == [7, 13, 15, 38]


def test_problems_come_in_the_order_of_the_file() -> None:
    places = [(diagnostic.line, diagnostic.column) for diagnostic in refused(GOOD.replace(" = ", "x = "))]
    assert places == sorted(places)
    assert len(places) > 10


def message_of(path: str | Path) -> str:
    with pytest.raises(InputError) as caught:
        load(path)
    assert not isinstance(caught.value, InvalidFile)
    assert caught.value.exit_code == 2
    return str(caught.value)


PLACES = {
    "none.toml": "no such file",
    ".": "a directory",
    "pipe": "a named pipe; use - to read standard input",
    "/dev/zero": "a device; use - to read standard input",
    "/dev/null": "a device; use - to read standard input",
    "socket": "a socket",
    "a" * 300: "file name too long",
    "file/train.toml": "not a directory",
    "a\x00b": "a path that cannot exist",
}


def test_what_is_no_file_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    os.mkfifo("pipe")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
        for place, found in PLACES.items():
            assert message_of(place) == f"{escaped_path(place)}: expected a pipeline file, found {found}"


def test_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "secret.toml"
    path.write_text(GOOD)
    path.chmod(0)
    if os.access(path, os.R_OK):
        pytest.skip("this user may read every file")
    assert message_of(path) == f"{path}: expected a pipeline file, found no permission to read it"


def test_closed_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert message_of("-") == "<stdin>: expected a pipeline file, found standard input closed"


def test_standard_input_is_called_so(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidFile, match=r"^<stdin>:1:1: error DP005: format: expected 1 "):
        parse(b"# nothing", "-")
