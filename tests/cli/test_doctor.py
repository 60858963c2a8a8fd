"""Tests of dpcli doctor: facts, verdicts, exit codes, and that it runs where a package is missing."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import sqlite3
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dpcli import __version__
from dpcli.doctor import checks as machine
from dpcli.doctor.checks import DEVELOPER_EXTRAS, Fact, Requirement, examine, healthy, requirements_of_dpcli
from dpcli.ledger.stores.sqlite_file import NETWORK, file_system_of, network_file_system
from tests.command import ROOT, dpcli

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
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


@pytest.fixture
def distribution(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """A distribution of dpcli that requires what a test says; with nothing, the lines of pyproject.toml."""

    def installed(*requirements: str, python: str = ">=3.11", version: str = __version__) -> None:
        folder = tmp_path / "dpcli-9.dist-info"
        folder.mkdir(exist_ok=True)
        lines = [f"Requires-Dist: {one}" for one in requirements or lines_of_the_project()]
        head = ["Metadata-Version: 2.4", "Name: dpcli", f"Version: {version}", f"Requires-Python: {python}"]
        (folder / "METADATA").write_text("\n".join([*head, *lines, ""]))
        monkeypatch.syspath_prepend(tmp_path)

    return installed


def lines_of_the_project() -> list[str]:
    extras = PROJECT["optional-dependencies"]
    return [*PROJECT["dependencies"], *(f"{line}; extra == '{extra}'" for extra in extras for line in extras[extra])]


def test_every_line_of_the_project_is_read(distribution: Callable[..., None]) -> None:
    """No requirement is passed over: every requirement is told, but for those that only developers need."""
    distribution()
    extras = {extra: lines for extra, lines in PROJECT["optional-dependencies"].items() if extra not in DEVELOPER_EXTRAS}
    stated = [("", line) for line in PROJECT["dependencies"]] + [(extra, line) for extra in extras for line in extras[extra]]
    read = list(requirements_of_dpcli())
    assert [(one.extra, str(one)) for one in read] == stated
    facts = {fact.name: fact for fact in examine()}
    for one in read:
        fact = facts[f"{one.name} (extra {one.extra})" if one.extra else one.name]
        assert fact.verdict == "ok" or one.extra
    assert facts.keys().isdisjoint({"pytest", "dpcli (extra test)", "ruff (extra test)"})


def test_a_changed_requirement_is_followed(distribution: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    versions(monkeypatch, {"numpy": "2.1.3", "torch": "2.9.1+cpu", "transformers": "6.0.0"})
    lines = ["numpy>=2.1", "torch>=2.9; extra == 'train'", 'torch>=2.10; extra == "lm"', "transformers<6,>=5; extra == 'lm'"]
    distribution(*lines)
    facts = examine()
    assert named(facts, "numpy") == Fact("numpy", "2.1.3", "ok")
    assert named(facts, "torch (extra train)").verdict == "ok"
    old = named(facts, "torch (extra lm)")
    assert (old.verdict, old.value, old.advice.partition(":")[0]) == ("warn", "2.9.1+cpu", "pip install 'torch>=2.10'")
    assert named(facts, "transformers (extra lm)").advice.startswith("pip install 'transformers<6,>=5'")
    assert healthy(facts)
    distribution("numpy>=2.2")
    facts = examine()
    assert named(facts, "numpy") == Fact("numpy", "2.1.3", "fail", "pip install 'numpy>=2.2'")
    assert not healthy(facts)
    assert [fact for fact in facts if "torch" in fact.name] == []


@pytest.mark.parametrize(
    ("condition", "met", "missed"),
    [
        (">=1.26", ["1.26", "1.26.0", "2.0.0rc1", "10.0"], ["1.25.9", "1", "0.99"]),
        (">=2", ["2", "2.0.0", "2.0.0.post1"], ["1.99.9"]),
        ("<1.7,>=1.6", ["1.6", "1.6.9"], ["1.5.9", "1.7", "1.7.0", "2"]),
        ("==2.13.0", ["2.13", "2.13.0+cpu"], ["2.13.1", "2.12.9"]),
        ("!=3.1", ["3.1.1", "3"], ["3.1.0"]),
        ("<=3,>1", ["3.0", "1.0.1"], ["3.0.1", "1.0"]),
        (" >= 1.6 , < 2 ", ["1.6"], ["2", "1.5"]),
        ("==2", ["2.0+local.7", "2rc1.dev3"], ["2.7"]),
        ("", ["0"], []),
        *(
            (unknown, [], ["1.4", "1.5", "9"])
            for unknown in ("~=1.4", ">=1,~=1.4", "===1.4", "!=2.*", ">=0!1.4", "@ https://example.org/x")
        ),
    ],
)
def test_conditions(condition: str, met: list[str], missed: list[str]) -> None:
    requirement = Requirement("x", condition)
    assert [version for version in met if not requirement.met(version)] == []
    assert [version for version in missed if requirement.met(version)] == []


@pytest.mark.parametrize(
    ("name", "version", "value"),
    [("numpy", None, "not installed"), ("numpy", "1.26.4", "1.26.4"), ("scipy", "1.11.1", "1.11.1"), ("click", "8.0.4", "8.0.4")],
)
def test_a_needed_library_that_is_missing_or_old_is_broken(
    distribution: Callable[..., None], monkeypatch: pytest.MonkeyPatch, name: str, version: str | None, value: str
) -> None:
    distribution()
    versions(monkeypatch, {name: version})
    fact = named(examine(), name)
    assert (fact.verdict, fact.value) == ("fail", value)
    assert fact.advice.startswith(f"pip install '{name}>=")
    result = dpcli("doctor")
    assert result.code == 1
    assert result.out.splitlines()[-1] == f"broken: {name}"


def test_a_python_that_is_too_old_is_broken(distribution: Callable[..., None]) -> None:
    distribution("numpy", python=">=9.9")
    fact = named(examine(), "python")
    assert (fact.verdict, fact.advice) == ("fail", "install Python >=9.9")


def test_an_installation_of_another_version_gets_a_warning(distribution: Callable[..., None]) -> None:
    """A clone that was brought up to date, and not installed again."""
    distribution("numpy", version="0.0.9")
    fact = named(examine(), "dpcli")
    assert (fact.verdict, fact.value) == ("warn", f"{__version__}, installed as 0.0.9") and "again" in fact.advice


def test_without_an_installation_nothing_is_compared_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "metadata", nowhere)
    monkeypatch.setattr(importlib.metadata, "requires", nowhere)
    facts = examine()
    assert named(facts, "dpcli").verdict == "warn"
    assert healthy(facts) and "numpy" not in {fact.name for fact in facts}


def test_extras_that_are_absent_break_nothing(distribution: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    distribution()
    extras = [one for one in requirements_of_dpcli() if one.extra]
    versions(monkeypatch, dict.fromkeys(one.name for one in extras))
    facts = examine()
    assert {named(facts, f"{one.name} (extra {one.extra})").verdict for one in extras} == {"absent"}
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


@pytest.mark.parametrize(
    ("folder", "kind"),
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
def test_the_longest_mount_point_decides(folder: str, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "read_text", lambda self, **_: MOUNTS)
    assert file_system_of(folder) == kind and network_file_system(f"{folder}/l.db") == (kind if kind in NETWORK else None)


@pytest.mark.parametrize("kind", ["nfs", "nfs4", "cifs", "smb3", "fuse.sshfs", "ceph", "lustre", "fuse.glusterfs", "tmpfs"])
def test_a_ledger_on_a_network_or_in_memory_gets_a_warning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    monkeypatch.setattr(machine, "file_system_of", lambda folder: kind)
    facts = examine(str(tmp_path / "ledger.db"))
    fact = named(facts, "file system, ledger's folder")
    assert (fact.value, fact.verdict) == (kind, "warn")
    assert fact.advice
    assert healthy(facts)
    assert dpcli("doctor", "--ledger", str(tmp_path / "ledger.db")).code == 0


def test_a_machine_without_a_mount_table_is_not_guessed_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "file_system_of", lambda folder: None)
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
    assert named(examine(), "git") == Fact("git", "not found", "absent", "only gate --base-ref needs it")
