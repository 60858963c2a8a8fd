"""The house rules that a machine can check: which way imports flow, and what is imported before it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.command import ROOT

PACKAGE = ROOT / "dpcli"
MODULES = sorted(PACKAGE.rglob("*.py"))

# Each layer may import itself and those before it.
LAYERS = [
    {"errors", "extras", "registry", "fields", "rounding"},
    {"numerics"},
    {"mechanisms"},
    {"pipeline", "accountants"},
    {"accounting", "calibration", "calibration_file", "lint", "templates"},
    {"ledger"},
    {
        "audit",
        "comparable",
        "glossary",
        "plots",
        "curve",
        "meaning",
        "changes",
        "difference",
        "git",
        "revision",
        "disclosure",
        "doctor",
    },
    {"gate"},
    {"report"},
    {"train"},
    {"sweep"},
    {"cli", "__main__"},
]
RANK = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def imports(path: Path) -> list[str]:
    """Every module that a file imports, anywhere in it."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found.append(node.module or "")
    return found


def area(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_flow_one_way(path: Path) -> None:
    if path == PACKAGE / "__init__.py":
        return
    own = RANK[area(path)]
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "dpcli" and len(parts) > 1:
            assert RANK[parts[1]] <= own, f"{path.name} imports {name}, which is above it"


def test_no_two_files_import_each_other_however_far_round() -> None:
    names = {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in MODULES}
    assert circles({name: imported(path, set(names)) - {name} for name, path in names.items()}) == []


def imported(path: Path, names: set[str]) -> set[str]:
    """The modules of ours that a file imports, anywhere in it, for types too."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {each if (each := f"{node.module}.{alias.name}") in names else node.module for alias in node.names}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return found & names


def circles(graph: dict[str, set[str]]) -> list[str]:
    """What is left when modules that import nothing, or that nothing imports, are taken away until there is none."""
    left = dict(graph)
    while free := [name for name, to in left.items() if not to & left.keys() or not any(name in other for other in left.values())]:
        for name in free:
            del left[name]
    return sorted(left)


def test_a_circle_is_seen() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == ["b", "c"]
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == []


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_frameworks_stay_in_their_rooms(path: Path) -> None:
    tops = {name.split(".")[0] for name in imports(path)}
    assert "click" not in tops or area(path) == "cli"
    assert "torch" not in tops or area(path) in ("train", "predict")
    assert "rich" not in tops or path.name == "format_table.py"
    assert not any(name.startswith("scipy.stats") for name in imports(path))


def test_leaves_import_nothing_of_ours() -> None:
    for name in ("errors", "registry", "fields"):
        assert not [found for found in imports(PACKAGE / f"{name}.py") if found.startswith("dpcli")]


def loaded_after(*arguments: str) -> set[str]:
    """Top-level modules that really ran (a lazy stub has no submodules) in a process of its own."""
    code = (
        "import sys, io, contextlib\nfrom dpcli.cli.main import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n    main({list(arguments)!r})\n"
        "print(' '.join(sorted({m.split('.')[0] for m in sys.modules if '.' in m})))"
    )
    return set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split())


@pytest.mark.parametrize(
    "arguments", [("--help",), ("lint", "examples/mnist.toml"), ("schema",), ("explain", "DP101"), ("init", "query")]
)
def test_fast_commands_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert loaded_after(*arguments) & {"numpy", "scipy", "rich", "torch"} == set()


def test_accounting_loads_numpy_and_no_more() -> None:
    loaded = loaded_after("account", "examples/mnist.toml", "-f", "json")
    assert "numpy" in loaded
    assert loaded & {"scipy", "rich", "torch", "matplotlib"} == set()


def test_top_level_is_as_agreed() -> None:
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.split("\n")
    names = {path.split("/")[0] for path in tracked if path and not path.startswith(".")}
    assert names <= {"pyproject.toml", "dpcli", "tests", "examples", "man", "README.md", "LICENSE"}
