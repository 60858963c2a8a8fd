"""The wheel and the source distribution: what they hold, that a build depends on nothing but the sources, and what the metadata say."""

from __future__ import annotations

import email
import email.message
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.command import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PROJECT = PYPROJECT["project"]
builds = pytest.mark.needs("hatchling", "hatch_fancy_pypi_readme")
BUILD = "import sys, hatchling.build as one; one.build_wheel(sys.argv[1]); one.build_sdist(sys.argv[1])"


def built(source: Path, folder: Path, **settings: str) -> Path:
    """The folder with a wheel and a source distribution of a tree, as `pip` and `build` have them built without isolation."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "SOURCE_DATE_EPOCH")} | settings
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=source, env=environment, check=True)
    return folder


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(ROOT, tmp_path_factory.mktemp("distributions"))


@pytest.fixture(scope="module")
def unpacked(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tree of the source distribution."""
    (archive,) = distributions.glob("*.tar.gz")
    folder = tmp_path_factory.mktemp("unpacked")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    (tree,) = folder.iterdir()
    return tree


@pytest.fixture(scope="module")
def metadata(distributions: Path) -> email.message.Message:
    (archive,) = distributions.glob("*.whl")
    with zipfile.ZipFile(archive) as packed:
        (place,) = [name for name in packed.namelist() if name.endswith("/METADATA")]
        return email.message_from_bytes(packed.read(place))


def files(tree: Path) -> set[str]:
    return {path.relative_to(tree).as_posix() for path in tree.rglob("*") if path.is_file()}


def sources(*words: str) -> set[str]:
    """The files of the project that git lists; of a tree without git, all but what its tests leave behind."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", *words], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout.splitlines()
        return {name for name in listed if (ROOT / name).exists()}
    return {name for name in files(ROOT) if not re.search(r"__pycache__/|^\.(pytest|hypothesis|mypy|ruff)|^PKG-INFO$", name)}


@pytest.mark.long
@builds
def test_the_source_distribution_holds_every_file_of_the_project(unpacked: Path) -> None:
    """So the tests run from it: those of the project's own files too."""
    found = files(unpacked)
    assert sources() - found == set()
    assert found - sources("--cached", "--others", "--exclude-standard") == {"PKG-INFO"}


@pytest.mark.long
@builds
def test_the_wheel_holds_the_package_and_nothing_else(distributions: Path) -> None:
    (archive,) = distributions.glob("*.whl")
    with zipfile.ZipFile(archive) as packed:
        names = set(packed.namelist())
    (place,) = {name.partition("/")[0] for name in names} - {"dpcli"}
    described = {f"{place}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    assert names - {name for name in names if name.startswith("dpcli/")} == described
    package = {name for name in sources() if name.startswith("dpcli/")}
    assert package - names == set()
    assert names - described <= sources("--cached", "--others", "--exclude-standard")
    assert {Path(name).suffix or Path(name).name for name in package} == {".py", ".md", ".sql", ".toml", ".typed", ".yaml", ".yml"}


@pytest.mark.long
@builds
def test_a_build_depends_on_nothing_but_the_sources(distributions: Path, unpacked: Path, tmp_path: Path) -> None:
    """Built again from the source distribution, elsewhere, at another time and among leftovers, both have the hashes that they had."""
    leftovers = ("build/lib/dpcli/deleted.py", "dpcli/__pycache__/deleted.cpython-311.pyc", ".venv/lib/dpcli/deleted.py")
    more = (
        "dpcli.egg-info/SOURCES.txt",
        "dist/dpcli-0.0.1.tar.gz",
        "tests/__pycache__/x.pyc",
        ".mypy_cache/x.json",
        "runs/x/model.json",
    )
    for name in (*leftovers, *more):
        (unpacked / name).parent.mkdir(parents=True, exist_ok=True)
        (unpacked / name).write_text("deleted = True\n")
    os.utime(unpacked / "dpcli" / "__init__.py", (2e9, 2e9))
    (unpacked / "README.md").chmod(0o600)
    before = files(unpacked)
    again = built(unpacked, tmp_path, TZ="Asia/Tokyo", PYTHONHASHSEED="7")
    assert files(unpacked) == before  # no folder build/ is left, from which a deleted module might come back
    for name in (*leftovers, *more):
        (unpacked / name).unlink()
    assert hashes(again) == hashes(distributions)
    assert len(hashes(again)) == 2


def hashes(folder: Path) -> Mapping[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.mark.long
@builds
def test_tests_run_from_the_source_distribution(unpacked: Path) -> None:
    """One file of them, with the package that lies beside it."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "tests/base/test_values.py"]
    run = subprocess.run(command, cwd=unpacked, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
    where = [sys.executable, "-c", "import dpcli; print(dpcli.__file__)"]
    place = subprocess.run(where, cwd=unpacked, env=environment, capture_output=True, text=True, check=True).stdout
    assert Path(place.strip()) == unpacked / "dpcli" / "__init__.py"


@pytest.mark.long
@builds
def test_the_installed_doctor_reads_what_the_wheel_declares(distributions: Path, tmp_path: Path) -> None:
    (archive,) = distributions.glob("*.whl")
    with zipfile.ZipFile(archive) as packed:
        packed.extractall(tmp_path)
    command, environment = [sys.executable, "-m", "dpcli", "doctor", "-f", "json"], {**os.environ, "PYTHONPATH": str(tmp_path)}
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment)
    facts = {fact["name"]: fact for fact in json.loads(run.stdout)["facts"]}
    for line in PROJECT["dependencies"]:
        assert facts[re.split("[<>=]", line)[0]]["verdict"] == "ok"
    for extra in set(PROJECT["optional-dependencies"]) - {"bench", "docs", "test", "test-core"}:
        for line in PROJECT["optional-dependencies"][extra]:
            assert f"{re.split('[<>=]', line)[0]} (extra {extra})" in facts


@pytest.mark.long
@builds
def test_links_of_the_readme_are_absolute_in_the_metadata(metadata: email.message.Message) -> None:
    readme, shown = (ROOT / "README.md").read_text(), metadata.get_payload(decode=True).decode()  # type: ignore[union-attr]
    links = re.findall(r"\]\(([^)]*)\)", shown)
    assert links and [link for link in links if not link.startswith("https://")] == []
    assert metadata["Description-Content-Type"] == "text/markdown"
    base = f"{PROJECT['urls']['Homepage']}/blob/HEAD/"
    assert shown.replace(f"]({base}", "](").strip() == readme.strip()
    for link in links:
        if link.startswith(base):
            assert (ROOT / link.removeprefix(base).partition("#")[0]).exists(), link


@pytest.mark.long
@builds
def test_the_metadata_are_of_a_version_that_the_programs_of_a_release_know(metadata: email.message.Message, unpacked: Path) -> None:
    """The action that publishes checks them by a program of its own, which refuses what is later."""
    assert (
        metadata["Metadata-Version"] == email.message_from_bytes((unpacked / "PKG-INFO").read_bytes())["Metadata-Version"] == "2.4"
    )


@pytest.mark.long
@builds
def test_the_metadata_say_whose_it_is_and_what_it_runs_on(metadata: email.message.Message) -> None:
    assert metadata["Author"] or metadata["Author-email"]
    assert metadata["License-Expression"] == "Apache-2.0"
    urls = dict(line.split(", ", 1) for line in metadata.get_all("Project-URL", []))
    assert {"Homepage", "Documentation", "Changelog", "Issues"} <= urls.keys()
    classifiers = metadata.get_all("Classifier", [])
    for version in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Programming Language :: Python :: {version}" in classifiers
    assert metadata["Requires-Python"] == ">=3.11"


def test_the_project_lies_in_one_place() -> None:
    """Who publishes it writes his name for OWNER, in all of these at once."""
    texts = [ROOT / "pyproject.toml", *(ROOT / ".github").rglob("*.y*ml"), *(ROOT / "dpcli" / "templates").glob("*.yml")]
    owners = {owner for path in texts for owner in re.findall(r"github\.com/([\w-]+)/dpcli\b", path.read_text())}
    assert len(owners) == 1


def lowest(*extras: str) -> list[str]:
    command = [sys.executable, str(ROOT / ".ci" / "lowest"), *extras]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_the_lowest_versions_are_those_that_are_declared() -> None:
    """Each of the core, those of an extra that an extra names too, and a pinned one as it is."""
    core = [line.split(",")[0].replace(">=", "==") for line in PROJECT["dependencies"]]
    assert lowest() == core
    extras = PROJECT["optional-dependencies"]
    assert lowest("release", "spark") == core + [line.replace(">=", "==") for line in (*extras["release"], *extras["spark"])]
    test = lowest("test")
    assert "torch==2.13.0" in test and set(lowest("release", "test-core", "lm")) <= set(test)
    assert all(re.fullmatch(r"[\w.-]+(\[\w+\])?==[\d.]+", line) for line in test)


def test_a_package_has_one_lowest_version_in_all_extras() -> None:
    """Or the lowest versions of two extras could not be installed at once."""
    lines = {line for extra in PROJECT["optional-dependencies"].values() for line in extra if "==" not in line}
    names = [re.split(r"[<>=\[]", line)[0] for line in lines if not line.startswith(("dpcli[", "psycopg["))]
    assert sorted(names) == sorted(set(names))
