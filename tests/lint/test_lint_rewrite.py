"""Tests of lint --fix on files: which it changes, which it leaves, and that one unrepairable file does not stop the others."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from dpcli.base.fields import Constraint
from dpcli.exam.subjects import SEED
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.kinds import Number, WholeNumber
from dpcli.file.pipeline.model import Entry
from dpcli.file.pipeline.read import checked_document
from dpcli.file.pipeline.section import MECHANISM_TYPES
from dpcli.file.toml.syntax import tables_of
from dpcli.lint import mend
from dpcli.lint.mend import mended, only_slip
from tests.cases import of_each
from tests.command import ROOT, dpcli
from tests.gate.samples import GATE
from tests.lint.typos import KEY, WORD, with_typo

SLIP = GATE.replace("noise_multiplier", "noise_multipler")
WITHOUT = GATE.replace("format = 1\n", "", 1)
FOREIGN = {
    "hugo.toml": 'title = "blog"\n[privacy]\n[privacy.youtube]\nprivacyEnhanced = true\n[sources]\na = 1\n[budgets]\nb = 2\n',
    "grafana.toml": '[[query]]\nnme = "a"\ntabel = "x"\n[sorce]\nurl = "x"\n',
    "other.toml": '[mechanism]\ntype = "spring"\n[defualts]\nc = 3\n',
}


def test_files_of_other_programs_are_neither_changed_nor_judged(tmp_path: Path) -> None:
    for name, text in FOREIGN.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "a.toml").write_text(GATE)
    result = dpcli("lint", "--fix", ".", folder=tmp_path)
    assert (result.code, result.err) == (0, "") and "in 1 file" in result.out
    assert dpcli("gate", ".", folder=tmp_path).code == 0
    for name, text in FOREIGN.items():
        dpcli("lint", "--fix", name, folder=tmp_path)
        assert (tmp_path / name).read_text() == text


PLAIN = [
    WITHOUT,
    WITHOUT.replace("noise_multiplier", "noise_multipler"),
    'name = "a"\n[privacy]\ndelta = 1e-6\n[train]\ntask = "x"\n',
    'fromat = 1\n[[mechanism]]\ntype = "gaussian"\n',
    "[privacy]\nx = 1\n[[mechanism]]\nx = 2\n",
]


@of_each("text", PLAIN)
def test_a_pipeline_that_lacks_its_format_is_reported_and_left(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(text)
    for command in (("lint", "--fix", "."), ("lint", "."), ("gate", ".")):
        result = dpcli(*command, folder=tmp_path)
        assert result.code == 2 and "format" in result.out + result.err
    assert (tmp_path / "a.toml").read_text() == text


@of_each("value", ["2", "true", '"json"', "[1]", "{ a = 1 }"])
def test_another_format_is_left(value: str) -> None:
    text = SLIP.replace("format = 1\n", f"format = {value}\n", 1).encode()
    assert mended(text, "x") == (text, ())


def test_a_change_by_another_program_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.toml"
    path.write_text(SLIP)
    other = SLIP.replace("steps = 5_000", "steps = 7777")
    real = mend.mended

    def slow(data: bytes, name: str) -> object:
        path.write_text(other)
        return real(data, name)

    monkeypatch.setattr(mend, "mended", slow)
    result = dpcli("lint", "--fix", "a.toml", folder=tmp_path)
    assert result.code == 2
    assert "dpcli: --fix: a.toml: not repaired: it was changed by another program in the meantime\n" in result.err
    assert path.read_text() == other and [one.name for one in tmp_path.iterdir()] == ["a.toml"]


def test_a_file_whose_owner_cannot_be_kept_is_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.toml"
    path.write_text(SLIP)

    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "chown", refuse)
    result = dpcli("lint", "--fix", "a.toml", folder=tmp_path)
    assert (result.code, path.read_text()) == (2, SLIP), result.err
    assert "--fix: a.toml: cannot be written: Operation not permitted" in result.err
    assert [one.name for one in tmp_path.iterdir()] == ["a.toml"]


def read_only(path: Path) -> None:
    path.chmod(0o444)


def hard_link(path: Path) -> None:
    os.link(path, path.with_suffix(".hard"))


def out_of_the_folder(path: Path) -> None:
    (path.parent.parent / "outside").mkdir()
    path.rename(path.parent.parent / "outside" / "o.toml")
    path.symlink_to("../outside/o.toml")


def mixed(path: Path) -> None:
    path.write_bytes(SLIP.replace("\n", "\r\n", 3).encode())


REFUSED = {
    read_only: "not repaired: it is read-only",
    hard_link: "not repaired: it has 2 names (hard links), which would become different files",
    out_of_the_folder: "outside of the folder",
    mixed: "expected line ends of one kind",
}


@pytest.mark.parametrize("change", REFUSED)
def test_what_a_new_file_would_not_keep_is_refused_and_the_others_are_mended(change: object, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for name in "abc":
        (folder / f"{name}.toml").write_text(SLIP)
    assert callable(change)
    change(folder / "b.toml")
    before = (folder / "b.toml").read_bytes()
    result = dpcli("lint", "--fix", "in", folder=tmp_path)
    assert result.code == 2 and REFUSED[change] in result.err  # type: ignore[index]
    assert (folder / "b.toml").read_bytes() == before
    assert [(folder / f"{name}.toml").read_text() for name in "ac"] == [GATE, GATE]
    assert {one.suffix for one in folder.iterdir()} <= {".toml", ".hard"}


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def loop(path: Path) -> None:
    path.symlink_to(path.name)


@pytest.mark.parametrize("make", [dangling, os.mkfifo, device, loop])
@pytest.mark.parametrize("fix", [(), ("--fix",)])
def test_what_is_no_file_in_a_folder_is_a_fault_of_its_own(make: object, fix: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(GATE.replace("delta = 1e-8", "delta = 1e-3"))
    assert callable(make)
    make(tmp_path / "z.toml")
    result = dpcli("lint", *fix, ".", folder=tmp_path)
    assert result.code == 2 and "./a.toml:" in result.out and "DP105" in result.out
    assert "./z.toml: error DP001: expected a pipeline file, found " in result.out and "in 2 files" in result.out
    assert dpcli("gate", ".", folder=tmp_path).code == 2


def test_a_word_near_to_two_is_left() -> None:
    text = (ROOT / "examples" / "pmixed.toml").read_text()
    bad = text.replace("\nmodel =", "\nmodle =", 1).encode()
    assert bad != text.encode() and mended(bad, "x") == (bad, ())


@of_each("word", ["", "mode", "model", "modle", "MODEL", "mod-el", "modal", "medal"])
def test_a_repair_is_the_only_one_near(word: str) -> None:
    assert only_slip(word, ("mode", "model")) == {"mode": "mode", "model": "model", "MODEL": "model", "mod-el": "model"}.get(
        word, {"modal": "model"}.get(word)
    )


@pytest.mark.parametrize("slips", [2, pytest.param(6, marks=pytest.mark.long)])
def test_no_repair_of_a_slip_is_another_key_than_was_written(slips: int) -> None:
    """In every example and template: back to what it was, or left."""
    draw = random.Random(SEED)
    files = sorted([*(ROOT / "examples").rglob("*.toml"), *(ROOT / "dpcli" / "templates").rglob("*.toml")])
    for path in files:
        text = path.read_text()
        spots = [one.span(1) for pattern in (KEY, WORD) for one in pattern.finditer(text)]
        for first, last in draw.sample(spots, min(slips, len(spots))):
            bad = text[:first] + with_typo(draw, text[first:last]) + text[last:]
            try:
                wrong = checked_document(bad.encode(), "x").findings.items
            except ValueError:
                continue
            after, done = mended(bad.encode(), "x")
            if wrong and done and not any(one.rule == "DP117" for one in done):
                assert tables_of(after.decode()) == tables_of(text), (SEED, path, bad[first - 20 : last + 20])


def numbers() -> list[tuple[str, str, Constraint | None]]:
    return sorted(
        {
            (name, key, member.rule)
            for name in MECHANISM_TYPES.registry
            for key, member in {**MECHANISM_TYPES.class_members(name), **members_of(Entry)}.items()
            if isinstance(member.kind, Number | WholeNumber)
        },
        key=lambda one: one[:2],
    )


@of_each("value", ['"10%"', '"1000%"', '"inf"', '"-inf"', '"nan"', '"1e400"', "9007199254740993.0", "1e18"])
def test_what_means_nothing_is_not_made_a_number(value: str) -> None:
    """A share in percent is one; a count or a noise in percent, infinity, and a float that is no exact whole number are not."""
    for name, key, rule in numbers():
        if "%" in value and rule is not None and rule.holds(0.5) and not rule.holds(1.5):
            continue
        text = f'format = 1\n[privacy]\ndelta = 1e-6\n[[mechanism]]\nname = "m"\ntype = "{name}"\n{key} = {value}\n'
        after, done = mended(text.encode(), "x")
        assert not [one for one in done if one.words.startswith(f"{key}:")], (name, key, done)
        assert f"\n{key} = {value}\n" in after.decode()


@pytest.mark.long
def test_many_slips_are_mended_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is read a few times, however many slips it has."""
    read: list[bytes] = []

    def counted(data: bytes, name: str) -> object:
        read.append(data)
        return checked_document(data, name)

    monkeypatch.setattr(mend, "checked_document", counted)
    entry = '[[mechanism]]\nname = "e{}"\ntype = "gaussian"\nnoise_multipier = "50.0"\n'
    text = 'format = 1\n[privacy]\nunit = "example"\nadjacency = "add-remove"\ndelta = 1e-6\n'
    whole = text + "".join(entry.format(number) for number in range(400))
    after, done = mended(whole.encode(), "x")
    assert 0 < len(read) <= 40, len(read)
    assert len(done) == 800 and after.decode() == whole.replace("noise_multipier", "noise_multiplier").replace('"50.0"', "50.0")
