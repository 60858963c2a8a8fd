"""The house rules that a machine can check: which way imports flow, and what is imported before it is needed."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from dpcli.accountants.plugin import SETTLING
from dpcli.base import registry
from dpcli.ledger.plugin import FILTERS
from tests.command import ROOT
from tests.layers import FEATURES, LAYER_OF

PACKAGE = ROOT / "dpcli"

# Who alone may import what, by the first part of the module's name.
HOMES = {
    "click": lambda name: room_of(name) == "cli" or ".commands." in name,
    "torch": lambda name: room_of(name) in ("train", "predict"),
    "rich": lambda name: name == "dpcli.document.formats.table",
    "scipy.stats": lambda name: name.startswith("dpcli.exam."),
}

# Rooms that ask a Spec what it states, and know no kind of it: what they judge or print must not cost the import of the others.
STRANGERS = frozenset(
    {"lint", "lint.documents", "document", "document.formats", "plots", "gate", "disclosure", "analysis.documents"}
)

# What holds the name of a registered thing.
ASKED = frozenset({"type", "kind", "scheme", "accountant", "filter", "format", "fmt", "key", "name"})

Sources = Mapping[str, str]  # the text of each module by its full name


@cache
def sources() -> Sources:
    return {name_of(path): path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}


def name_of(path: Path) -> str:
    name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    return name if name == "dpcli.__init__" else name.removesuffix(".__init__")


def room_of(name: str) -> str:
    """The room of a module: its folder, or the folder in it that has a floor of its own; "" of the package itself."""
    parts = name.split(".")
    inner = ".".join(parts[1:3])
    return inner if inner in LAYER_OF or inner in FEATURES else parts[1] if len(parts) > 1 else ""


@cache
def parsed(text: str) -> ast.Module:
    return ast.parse(text)


@cache
def imports(text: str) -> tuple[str, ...]:
    """Every name that a file imports, anywhere in it, for types too: "package.module" and "package.module.name"."""
    return tuple(imported(ast.walk(parsed(text))))


def imported(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def named(text: str) -> Iterator[str]:
    """What a file imports, and modules that it names in a text."""
    yield from imports(text)
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"dpcli(\.\w+)+(:\w+)?", node.value):
            yield node.value.partition(":")[0]


def may(own: str, to: str) -> bool:
    """Whether one room may name another."""
    if own in LAYER_OF:
        return to in LAYER_OF and LAYER_OF[to] < LAYER_OF[own]
    return to in LAYER_OF or to in FEATURES[own]


def upwards(files: Sources) -> list[str]:
    """What a room names that it may not, by an import or by a text. The package's front may name all; a plugin.py, its own folder."""
    rooms = {name: room_of(name) for name in files}
    return [
        f"{name} names {each}"
        for name, text in files.items()
        if name not in ("dpcli.__init__", "dpcli.__main__") and (own := rooms[name]) in {*LAYER_OF, *FEATURES}
        for each in named(text)
        if each.startswith("dpcli.") and (to := room_of(each)) in {*LAYER_OF, *FEATURES} and to != own and not may(own, to)
        if not (name.endswith(".plugin") and each.split(".")[1] == name.split(".")[1])
    ]


def homeless(files: Sources) -> list[str]:
    """Modules in no room of the core and in no feature."""
    return [name for name in files if room_of(name) not in {*LAYER_OF, *FEATURES, "__init__", "__main__", "file"}]


def relative(files: Sources) -> list[str]:
    return [name for name, text in files.items() if any(each.startswith(".") for each in imports(text))]


def abroad(files: Sources) -> list[str]:
    """Packages that are imported outside of their home."""
    return [
        f"{name} imports {package}"
        for name, text in files.items()
        for package, home in HOMES.items()
        if not home(name) and any(each == package or each.startswith(f"{package}.") for each in imports(text))
    ]


def circles(files: Sources) -> list[str]:
    """What is left when modules that import nothing, or that nothing imports, are taken away until there is none."""
    left = {name: {each for each in imports(text) if each in files} - {name} for name, text in files.items()}
    while free := [name for name, to in left.items() if not to & left.keys() or not any(name in other for other in left.values())]:
        for name in free:
            del left[name]
    return sorted(left)


def shared_names(files: Sources) -> list[str]:
    """Names of classes that stand for several things."""
    homes: dict[str, list[str]] = {}
    for name, text in files.items():
        for node in parsed(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes.setdefault(node.name, []).append(name)
    return [f"{each}: {', '.join(names)}" for each, names in sorted(homes.items()) if len(names) > 1]


def asked_by_name(files: Sources) -> list[str]:
    """Comparisons of something with the name of a registered mechanism type, sampling scheme, accountant, filter or format."""
    known = set().union(registry.MECHANISMS, registry.ACCOUNTANTS, registry.SAMPLING, FILTERS, registry.FORMATS)
    found = []
    for name, text in files.items():
        for node in ast.walk(parsed(text)):
            if isinstance(node, ast.Compare) and any(isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops):
                sides = (node.left, *node.comparators)
                texts = {leaf.value for side in sides for leaf in literals(side)} & known
                if any(called(side) in ASKED for side in sides):
                    found += [f"{name}:{node.lineno}: {each}" for each in sorted(texts)]
    return found


def acquainted(files: Sources) -> list[str]:
    """Imports of a registered mechanism by a room that judges or prints."""
    kinds = {target.partition(":")[0] for target in registry.MECHANISMS.values()}
    return [
        f"{name} imports {each}" for name, text in files.items() if room_of(name) in STRANGERS for each in kinds & {*imports(text)}
    ]


def internals(files: Sources) -> list[str]:
    """What of torch has no public name, outside of the file that lists it: private modules and names, and the modules of torch.nn."""
    found = []
    for name, text in files.items():
        if name != "dpcli.train.torch_internals":
            found += [f"{name}: {each}" for each in (*imports(text), *attributes(text)) if PRIVATE_OF_TORCH.match(f"{each}.")]
    return found


# A part that begins with an underscore but is no special name; and torch.nn.modules, whose classes torch.nn shows.
PRIVATE_OF_TORCH = re.compile(r"torch\.(nn\.modules\.|([a-zA-Z]\w*\.)*_(?!_))")


def attributes(text: str) -> Iterator[str]:
    """Each dotted name that begins with a plain name, such as torch.autograd.Variable."""
    for node in ast.walk(parsed(text)):
        if isinstance(node, ast.Attribute):
            parts: list[str] = []
            value: ast.expr = node
            while isinstance(value, ast.Attribute):
                parts.append(value.attr)
                value = value.value
            if isinstance(value, ast.Name):
                yield ".".join([value.id, *reversed(parts)])


def called(side: ast.expr) -> str:
    """The last name of an expression: `type` of step.spec.type."""
    return side.attr if isinstance(side, ast.Attribute) else side.id if isinstance(side, ast.Name) else ""


def literals(side: ast.expr) -> Iterator[ast.Constant]:
    """Texts that stand on one side of a comparison, alone or in a list of them."""
    for leaf in side.elts if isinstance(side, ast.Tuple | ast.List | ast.Set) else [side]:
        if isinstance(leaf, ast.Constant) and isinstance(leaf.value, str):
            yield leaf


RULES = [upwards, homeless, relative, abroad, circles, shared_names, asked_by_name, acquainted, internals]


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_house_keeps_its_rules(rule: Callable[[Sources], list[str]]) -> None:
    assert rule(sources()) == []


BREACHES = {
    upwards: {"dpcli.numerics.planted": "def f():\n    from dpcli.mechanisms.mechanism import Mechanism"},
    homeless: {"dpcli.attic.planted": ""},
    relative: {"dpcli.numerics.planted": "from . import arrays"},
    abroad: {"dpcli.analysis.planted": "if True:\n    import torch.nn"},
    circles: {"dpcli.a.planted": "import dpcli.b.planted", "dpcli.b.planted": "from dpcli.a import planted"},
    shared_names: {"dpcli.a.planted": "class Row: ...", "dpcli.b.planted": "class Row: ..."},
    acquainted: {"dpcli.lint.planted": "from dpcli.mechanisms.noise.laplace import LaplaceSpec"},
    internals: {"dpcli.train.planted": "import torch\nfrom torch.nn.modules.conv import _ConvNd\nx = torch._C.f()"},
    asked_by_name: {"dpcli.gate.planted": "def f(step):\n    return step.spec.type in ('laplace', 'gaussian')"},
}


@pytest.mark.long
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_a_breach_is_seen(rule: Callable[[Sources], list[str]]) -> None:
    """Planted among the modules as they are: what is found is what was planted."""
    planted = BREACHES[rule]
    new = set(rule({**sources(), **planted})) - set(rule(sources()))
    assert new and all(
        any(name.rpartition(".")[2] in each or "laplace" in each or "Row" in each for name in planted) for each in new
    )


def circle(names: Mapping[str, frozenset[str]]) -> list[str]:
    """Features that name each other, directly or by others."""
    left = dict(names)
    while free := [feature for feature, others in left.items() if not others & left.keys()]:
        for feature in free:
            del left[feature]
    return sorted(left)


def test_features_name_each_other_in_no_circle() -> None:
    assert circle(FEATURES) == []
    assert circle({**FEATURES, "audit": frozenset({"train"})}) == sorted(
        {"audit", "train", *(f for f, o in FEATURES.items() if "train" in o or "audit" in o)}
    )


def test_the_ground_imports_nothing_of_ours() -> None:
    for name in ("errors", "plugin", "rounding", "values"):
        assert not [each for each in imports(sources()[f"dpcli.base.{name}"]) if each.startswith("dpcli")]


@cache
def modules_after(*arguments: str) -> dict[str, bool]:
    """Modules that a command in a process of its own has left, and whether each is a package."""
    code = (
        "import sys, io, contextlib\nfrom dpcli.cli.main import main\n"
        f"with contextlib.redirect_stdout(io.StringIO()):\n    main({list(arguments)!r})\n"
        "found = {m: m.startswith('dpcli.') and hasattr(value, '__path__') for m, value in sys.modules.items()}\n"
        "import json\nprint(json.dumps(found))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    found: dict[str, bool] = json.loads(done.stdout)
    return found


def loaded_after(*arguments: str) -> set[str]:
    """Top-level modules that really ran (a lazy stub has no submodules)."""
    return {name.split(".")[0] for name in modules_after(*arguments) if "." in name}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "arguments", [("--help",), ("lint", "examples/mnist.toml"), ("schema",), ("explain", "DP101"), ("init", "query")]
)
def test_fast_commands_load_nothing_heavy(arguments: tuple[str, ...]) -> None:
    assert loaded_after(*arguments) & {"numpy", "scipy", "rich", "torch"} == set()


def test_accounting_loads_numpy_and_no_more() -> None:
    loaded = loaded_after("account", "examples/mnist.toml", "-f", "json")
    assert "numpy" in loaded
    assert loaded & {"scipy", "rich", "torch", "matplotlib"} == set()


# Modules of ours that a command enters, packages left out: one more is paid for by every run, so it needs a reason.
ENTERED = {
    ("account", "examples/mnist.toml"): 134,
    ("lint", "examples/mnist.toml"): 102,
    ("gate", "examples/gate.toml"): 142,
    ("--help",): 32,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("arguments", ENTERED, ids=lambda arguments: arguments[0])
def test_a_command_enters_no_more_modules_than_it_did(arguments: tuple[str, ...]) -> None:
    assert len(entered_by(*arguments)) <= ENTERED[arguments]


def test_a_settled_headline_enters_no_accountant_that_is_not_asked() -> None:
    """The table of an account needs to know what each would take; a gate needs only the one that settles it."""
    account, gate = entered_by("account", "examples/mnist.toml"), entered_by("gate", "examples/gate.toml")
    assert not {name for name in account if name.startswith("dpcli.numerics.grid") or name.endswith("joint_range")}
    homes = {name: target.partition(":")[0] for name, target in registry.ACCOUNTANTS.items()}
    assert gate & set(homes.values()) == {homes[name] for name in SETTLING}


def entered_by(*arguments: str) -> set[str]:
    """Our modules, without the packages that hold them."""
    return {name for name, package in modules_after(*arguments).items() if name.startswith("dpcli.") and not package}


def test_top_level_is_as_agreed() -> None:
    tracked = subprocess.run(["git", "ls-files"], capture_output=True, text=True, cwd=ROOT, check=False).stdout.split("\n")
    names = {path.split("/")[0] for path in tracked if path and not path.startswith(".")}
    assert names <= {"pyproject.toml", "dpcli", "tests", "examples", "man", "README.md", "LICENSE"}
