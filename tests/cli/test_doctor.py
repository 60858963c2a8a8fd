"""dpcli doctor: facts, verdicts, exit codes, and that it stays light enough to run where something is missing."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from dpcli.doctor import examine as machine
from dpcli.doctor import storage
from dpcli.doctor.examine import examine, healthy
from dpcli.doctor.fact import Fact
from tests.command import ROOT, dpcli
from tests.of_each import of_each

MOUNTS = """rootfs / rootfs rw 0 0
/dev/vda / ext4 rw 0 0
srv:/data /data nfs4 rw 0 0
//srv/x /data/with\\040blank cifs rw 0 0
me@srv:/ /home/me/far fuse.sshfs rw 0 0
tmpfs /run tmpfs rw 0 0
/dev/vdb /data/local xfs rw 0 0
broken
"""


def named(facts: tuple[Fact, ...], name: str) -> Fact:
    (found,) = [fact for fact in facts if fact.name == name]
    return found


def test_a_whole_machine_is_well() -> None:
    result = dpcli("doctor")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines()[-1].startswith("nothing is broken; ")
    for name in ("dpcli", "python", "click", "numpy", "scipy", "rich", "SQLite", "random numbers", "clock"):
        assert f"ok      {name}: " in result.out


@of_each("format_", ["text", "table", "json", "jsonl", "markdown"])
def test_every_fact_is_in_every_format(format_: str) -> None:
    result = dpcli("doctor", "-f", format_)
    assert result.code == 0
    for fact in examine():
        assert fact.name.split(" (")[0] in result.out


def test_the_machine_form() -> None:
    found = json.loads(dpcli("doctor", "-f", "json").out)
    assert found["schema"] == "dpcli/doctor/v1"
    assert {fact["verdict"] for fact in found["facts"]} <= {"ok", "warn", "fail", "absent"}
    assert all(set(fact) == {"name", "value", "verdict", "advice"} for fact in found["facts"])
    assert found["exit_code"] == 0
    numpy = next(fact for fact in found["facts"] if fact["name"] == "numpy")
    assert numpy["value"] == importlib.metadata.version("numpy")


def versions(monkeypatch: pytest.MonkeyPatch, given: Mapping[str, str | None]) -> None:
    real = importlib.metadata.version

    def version(name: str) -> str:
        found = given.get(name, "") if name in given else real(name)
        if found is None:
            raise importlib.metadata.PackageNotFoundError(name)
        return found

    monkeypatch.setattr(importlib.metadata, "version", version)


@of_each(
    "name, version, value",
    [("numpy", None, "not installed"), ("numpy", "1.25.9", "1.25.9"), ("rich", "9", "9"), ("click", "8.0.4", "8.0.4")],
)
def test_a_needed_library_that_is_missing_or_old_is_broken(
    monkeypatch: pytest.MonkeyPatch, name: str, version: str | None, value: str
) -> None:
    versions(monkeypatch, {name: version})
    fact = named(examine(), name)
    assert (fact.verdict, fact.value) == ("fail", value)
    assert fact.advice.startswith(f"pip install '{name}>=")
    result = dpcli("doctor")
    assert result.code == 1
    assert result.out.splitlines()[-1] == f"broken: {name}"


@of_each("version", ["1.26", "1.26.0", "2.0.0rc1", "10.0"])
def test_new_enough(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    versions(monkeypatch, {"numpy": version})
    assert named(examine(), "numpy").verdict == "ok"


def test_the_needed_versions_are_those_of_the_package() -> None:
    import tomllib

    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    stated = {f"{name}>={'.'.join(map(str, least))}" for name, least in machine.NEEDED.items()}
    assert stated == {one.partition(",")[0] for one in wanted["dependencies"]}
    assert wanted["requires-python"] == ">=" + ".".join(map(str, machine.PYTHON))
    extras = wanted["optional-dependencies"]
    assert all(any(one.startswith(name) for one in extras[extra]) for name, extra in machine.EXTRAS)


def test_extras_that_are_absent_break_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, dict.fromkeys(name for name, _ in machine.EXTRAS))
    facts = examine()
    assert [named(facts, f"{name} (extra {extra})").verdict for name, extra in machine.EXTRAS] == ["absent"] * len(machine.EXTRAS)
    assert healthy(facts)


def test_extras_that_are_there_are_told_without_loading_them(monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, {"torch": "9.9.9"})
    before = set(sys.modules)
    assert named(examine(), "torch (extra train)") == Fact("torch (extra train)", "9.9.9", "ok")
    assert not {name.split(".")[0] for name in set(sys.modules) - before} & {"torch", "numpy", "matplotlib", "psycopg"}


def test_it_loads_nothing_heavy_and_needs_no_table_library() -> None:
    code = (
        "import sys\nfrom dpcli.cli.main import main\nfor name in ('rich', 'numpy', 'scipy'):\n    sys.modules[name] = None\n"
        "sys.exit(main(['doctor']))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (found.returncode, found.stderr) == (0, "")


@of_each(
    "folder, kind",
    [
        ("/", "ext4"),
        ("/home/you", "ext4"),
        ("/data", "nfs4"),
        ("/data/deep/down", "nfs4"),
        ("/data/with blank/x", "cifs"),
        ("/data/local/x", "xfs"),
        ("/datab", "ext4"),
        ("/home/me/far/x", "fuse.sshfs"),
        ("/run/user", "tmpfs"),
    ],
)
def test_the_longest_mount_point_decides(folder: str, kind: str) -> None:
    assert storage.mounted(Path(folder), MOUNTS) == kind


@of_each("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "ceph", "lustre", "fuse.glusterfs", "tmpfs"])
def test_a_ledger_on_a_network_or_in_memory_gets_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    monkeypatch.setattr(storage, "mounted", lambda folder: kind)
    facts = examine(str(tmp_path / "ledger.db"))
    fact = named(facts, "file system, ledger's folder")
    assert (fact.value, fact.verdict) == (kind, "warn")
    assert fact.advice
    assert healthy(facts)
    assert dpcli("doctor", "--ledger", str(tmp_path / "ledger.db")).code == 0


def test_a_machine_without_a_mount_table_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "mounted", lambda folder: None)
    assert named(examine(), "file system, current directory").verdict == "absent"


def test_a_full_disk_gets_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: shutil._ntuple_diskusage(10**9, 10**9, 5 * 2**20))  # type: ignore[attr-defined]
    fact = named(examine(), "free space, current directory")
    assert (fact.value, fact.verdict) == ("5 MiB", "warn")


def test_a_folder_that_is_not_there_is_an_input_error(tmp_path: Path) -> None:
    result = dpcli("doctor", "--ledger", str(tmp_path / "no" / "ledger.db"))
    assert result.code == 2
    assert "expected a file in a folder that exists" in result.err


def test_the_durability_probe_can_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    real = sqlite3.connect

    class Deaf:
        """A library that keeps its own synchronous setting, as one compiled for speed might."""

        def __init__(self, path: object) -> None:
            self.connection = real(path)  # type: ignore[arg-type]

        def execute(self, text: str) -> sqlite3.Cursor:
            return self.connection.execute(text.replace("EXTRA", "NORMAL"))

        def close(self) -> None:
            self.connection.close()

    monkeypatch.setattr(sqlite3, "connect", Deaf)
    fact = named(examine(), "ledger durability")
    assert (fact.verdict, fact.value) == ("fail", "journal_mode delete, synchronous 1")


def test_a_generator_that_repeats_itself_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine.os, "urandom", lambda count: bytes(count))  # type: ignore[attr-defined]
    assert named(tuple(machine._randomness()), "random numbers").verdict == "fail"


def test_a_clock_before_dpcli_was_written_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "EARLIEST", machine.LATEST - 1)
    assert named(tuple(machine._clock()), "clock").verdict == "fail"


def test_without_git(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert named(examine(), "git") == Fact("git", "not found", "absent", "needed only for gate --base-ref")
