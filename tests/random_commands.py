"""Random command lines with random pipeline files, for tests that no input makes dpcli crash or contradict itself.

`case(name)` returns one call of a command, with the files that it reads; a name is a seed, and gives the same case each time. `Files` draws
whole pipeline files from the keys that the registered mechanism types declare (dpcli/exam/drawn_files.py), and `Commands` adds a command
and its flags.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from dpcli.analysis.solved_keys import parameter_key
from dpcli.base.errors import DpcliError
from dpcli.base.registry import ACCOUNTANTS, MECHANISMS, PLOTS
from dpcli.exam.drawn_files import TRIES, Document, Drawing
from dpcli.file.keys.annotations import members_of
from dpcli.file.pipeline.parts import SAMPLING_KEYS
from dpcli.file.pipeline.read import parse
from dpcli.file.pipeline.resolve import resolve
from dpcli.file.toml.write import toml_text
from dpcli.mechanisms.neighbours import Adjacency
from dpcli.mechanisms.sampling.schemes import Poisson

FORMATS = ("table", "json", "markdown", "csv", "total")


@dataclass(frozen=True)
class Case:
    """One call of the command line: `arguments`, in a folder that holds `files`."""

    name: str
    files: Mapping[str, str]
    arguments: tuple[str, ...]

    def written(self, folder: Path) -> None:
        """Write the files."""
        for name, text in self.files.items():
            (folder / name).write_text(text)

    def shown(self) -> str:
        """Return the command and its files as text, with which a failure can be repeated."""
        files = "\n".join(f"# {name}\n{text}" for name, text in self.files.items())
        return f"{self.name}: dpcli {' '.join(self.arguments)}\n{files}"


def case(name: str) -> Case:
    """Return the case of this name, which is the seed."""
    return Commands(Random(name)).case(name)


class Files(Drawing):
    """A generator of whole files. Most are valid, and dpcli must refuse the others with a message."""

    def document(self) -> Document:
        privacy: Document = {"adjacency": self.random.choice([a.value for a in Adjacency])}
        if self.odds(0.7):
            privacy["dataset_size"] = self.count_of(None, 10)
        if self.odds(0.97):
            privacy["delta"] = self.delta()
        if self.odds(0.3):
            privacy |= {"unit": "user", "max_contributions": self.random.choice([1, 2, 5, 64, 65, 1000, 10**9])}
        if self.odds(0.1):
            privacy["adaptive"] = True
        document: Document = {"format": 1, "privacy": privacy, "mechanism": []}
        for _ in range(self.random.choice([1, 1, 1, 2, 2, 3, 4])):
            document = self.grown(document)
        if self.odds(0.4):
            document["budget"] = {"epsilon": self.random.choice([1.0, 3.0, 8.0])}
        return document

    def grown(self, document: Document) -> Document:
        """Return the document with one more entry. In a few cases dpcli refuses it."""
        for _ in range(TRIES):
            longer: Document = json.loads(json.dumps(document))
            longer["mechanism"].append(self.entry(longer))
            if self.odds(0.2):
                self.share(longer["mechanism"])
            if resolves(longer) or self.odds(0.02):
                return longer
        return longer

    def entry(self, document: Document) -> Document:
        names = [entry["name"] for entry in document["mechanism"]]
        keys: Document | None = None
        while keys is None:
            kind = self.random.choice(list(MECHANISMS))
            keys = self.keys(kind, document["privacy"]["adjacency"], names)
        entry = {"name": f"m{len(names)}", "type": kind, **keys}
        if self.odds(0.7):
            entry["steps"] = self.count_of(None, 18)
        if self.odds(0.5):
            entry["sampling"] = self.sampling(document["privacy"])
            if self.odds(0.2) and entry["sampling"]["scheme"] != "none":
                entry.pop("steps", None)
                entry["epochs"] = self.random.choice([1, 2.5, 100, 1e6])
        if self.odds(0.1):
            entry["partition"] = self.random.choice(["region", {"of": "region", "part": f"p{len(names) % 2}"}])
        return entry

    def share(self, entries: list[Document]) -> None:
        """Let the last entry share the sample of another entry, or state that it draws its own."""
        *others, last = entries
        known = [
            table
            for table in others
            if table.get("sampling", {"scheme": "none"})["scheme"] != "none" and table.get("sample") != "own"
        ]
        if known and self.odds(0.8):
            first = self.random.choice(known)
            first.setdefault("sample", f"s{len(entries)}")
            for key in SAMPLING_KEYS:
                last.pop(key, None)
            last.update({key: first[key] for key in ("sample", *SAMPLING_KEYS) if key in first})
        elif last.get("sampling", {"scheme": "none"})["scheme"] != "none":
            last["sample"] = "own"

    def delta(self) -> float:
        return self.random.choice(
            [0.0, 0.5, 0.9, *(float(f"{10.0 ** self.random.uniform(-14.0, -1.0):.3g}") for _ in range(12)), 1e-300]
        )


def resolves(document: Document) -> bool:
    """Return whether the file is valid, or dpcli crashes on it. A crash is what the tests look for, so such a file is kept."""
    try:
        resolve(parse(toml_text(document).encode(), "a.toml"))
    except DpcliError:
        return False
    except Exception:
        return True
    return True


class Commands(Files):
    """A generator of files, each with a command about it."""

    def case(self, name: str) -> Case:
        document = self.document()
        files = {"a.toml": toml_text(document)}
        verb = self.random.choice(["account"] * 6 + [*COMMANDS])
        arguments = COMMANDS[verb](self, document)
        if verb == "diff":
            files["b.toml"] = toml_text(self.changed(document))
        return Case(name, files, tuple(map(str, arguments)))

    def changed(self, document: Document) -> Document:
        """Return the file with other steps in one of its entries, and sometimes with one more entry."""
        other: Document = json.loads(json.dumps(document))
        entry, steps = self.random.choice(other["mechanism"]), self.count_of(None, 18)
        shared = entry.get("sample", "own")
        for one in other["mechanism"]:
            if one is entry or (shared != "own" and one.get("sample") == shared):
                one["steps"] = steps
                one.pop("epochs", None)
        if self.odds(0.3):
            other = self.grown(other)
        return other

    def chosen(self) -> list[Any]:
        """Draw the flags -a, --delta and --group-size, or none."""
        flags: list[Any] = []
        if self.odds(0.4):
            for name in self.random.sample(list(ACCOUNTANTS), self.random.choice([1, 1, 2, 5])):
                flags += ["-a", name]
        if self.odds(0.3):
            flags += ["--delta", self.delta()]
        if self.odds(0.2):
            flags += ["--group-size", self.random.choice([1, 2, 3, 64, 1000, 10**6])]
        return flags

    def form(self) -> list[Any]:
        return ["-f", self.random.choice(FORMATS)] if self.odds(0.5) else []

    def target(self) -> list[Any]:
        return ["--target-epsilon", self.random.choice([0.01, 0.5, 1.0, 3.0, 8.0, 50.0])]

    def mechanism(self, document: Document, solve: str) -> list[Any]:
        """Draw the flag -m with an entry that has the parameter, or with the first entry if none has it."""
        with suppress(DpcliError):
            entries = parse(toml_text(document).encode(), "a.toml").mechanisms
            return ["-m", self.random.choice([one.name for one in entries if parameter_key(one, solve)] or [entries[0].name])]  # type: ignore[arg-type]
        return []

    def account(self, document: Document) -> list[Any]:
        flags = self.chosen()
        if self.odds(0.3) and "--delta" not in flags:
            flags += ["--epsilon", self.random.choice([0.0, 0.1, 1, 4, 40, 1e4, self.number(None)])]
        if self.odds(0.1):
            flags += ["--tolerance", self.random.choice([1e-9, 1e-6, 1e-4, 0.1])]
        return ["account", "a.toml", *flags, *self.form()]

    def calibrate(self, document: Document) -> list[Any]:
        solve = self.random.choice(["steps", "epochs", "batch-size", "rate", "scale", "noise"])
        return [
            "calibrate",
            "a.toml",
            "--solve",
            solve,
            *self.mechanism(document, solve),
            *self.target(),
            *self.chosen(),
            *self.form(),
        ]

    def calibrate_sigma(self, document: Document) -> list[Any]:
        if self.odds(0.5):
            flags = [
                "--sampling-rate",
                self.number(members_of(Poisson)["rate"].rule),
                "--steps",
                self.count_of(None, 18),
                "--delta",
                self.delta(),
            ]
            return ["calibrate-sigma", *self.target(), *flags, "--adjacency", document["privacy"]["adjacency"]]
        return ["calibrate-sigma", "a.toml", *self.mechanism(document, "noise"), *self.target(), *self.chosen(), *self.form()]

    def explain(self, document: Document) -> list[Any]:
        return ["explain", "a.toml", *(["--delta", self.delta()] if self.odds(0.3) else []), *self.form()]

    def diff(self, document: Document) -> list[Any]:
        return ["diff", "a.toml", "b.toml", *self.form()]

    def plot(self, document: Document) -> list[Any]:
        kind = self.random.choice(list(PLOTS))
        name = self.mechanism(document, "noise") if kind == "epsilon-sigma" else []
        return ["plot", kind, "a.toml", *name, *self.chosen(), "-f", "csv"]

    def report(self, document: Document) -> list[Any]:
        return ["report", "a.toml"]

    def lint(self, document: Document) -> list[Any]:
        return ["lint", "a.toml"]

    def gate(self, document: Document) -> list[Any]:
        flags = ["--max-epsilon", 3.0] if self.odds(0.7) else []
        if self.odds(0.4):
            flags += ["--horizon", self.count_of(None, 6) + 1, "--horizon-epsilon", 8.0]
        return ["gate", "a.toml", *flags]


COMMANDS = {
    "account": Commands.account,
    "calibrate": Commands.calibrate,
    "calibrate-sigma": Commands.calibrate_sigma,
    "explain": Commands.explain,
    "diff": Commands.diff,
    "plot": Commands.plot,
    "report": Commands.report,
    "lint": Commands.lint,
    "gate": Commands.gate,
}
