"""Writes the site's page of comparisons: dpcli beside other libraries, in accuracy, speed and sharpness.

    python -m tests.benchmarks.table [--peer-python PYTHON ...] [--section SECTION ...] [--write FILE]

Each --peer-python is an interpreter that has some of dp-accounting, prv-accountant, autodp, riskcal and opacus: the extra `bench`, and
`pip install prv-accountant autodp riskcal` in an environment of their own. This one is asked too, and what none of them has is left out.
Without --write the page is printed; the site's is .github/docs/comparison.md. It takes some minutes. With --section, only these sections
are measured (epsilon, attack, training, accuracy), and --write keeps the others of FILE. Each says when and where it was measured.
"""

from __future__ import annotations

import argparse
import datetime
import decimal
import json
import os
import platform
import re
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from dpcli.base.rounding import figures
from tests.benchmarks import peers
from tests.benchmarks.isolation import ONE_THREAD, ROOT, Answer
from tests.benchmarks.random_settings import Drawn, Part

DIGITS = 7
FILE, EPSILON, SEEDS = "examples/breast-cancer.toml", 3.0, (1, 2, 3)
TRAINED = ("mlp",)
ROUNDS = 5


class Setting(NamedTuple):
    """A question, with the words that the page says for it."""

    words: str
    drawn: Drawn


def _sgd(noise: float, rate: float, steps: int, delta: float, replaces: bool = False) -> Drawn:
    return Drawn((Part("gaussian", rate, noise, steps),), delta, replaces)


SETTINGS = (
    Setting("DP-SGD, 60 epochs of 60,000 records in batches of 256, noise 1.1, delta 1e-5", _sgd(1.1, 256 / 60_000, 14_063, 1e-5)),
    Setting("the same under replace-one", _sgd(1.1, 256 / 60_000, 14_063, 1e-5, True)),
    Setting("DP-SGD, 10 steps at rate 0.1, noise 1, delta 1e-6", _sgd(1.0, 0.1, 10, 1e-6)),
    Setting("DP-SGD, 1,000 steps at rate 0.01, noise 0.6, delta 1e-6", _sgd(0.6, 0.01, 1_000, 1e-6)),
    Setting("DP-SGD, 100,000 steps at rate 0.001, noise 1, delta 1e-12", _sgd(1.0, 0.001, 100_000, 1e-12)),
    Setting("DP-SGD, 2,000 steps at rate 0.25, noise 20, delta 1e-7", _sgd(20.0, 0.25, 2_000, 1e-7)),
    Setting("100 Gaussian answers, noise 20, delta 1e-6", _sgd(20.0, 1.0, 100, 1e-6)),
    Setting("100 Laplace answers, scale 20, delta 1e-6", Drawn((Part("laplace", 1.0, 20.0, 100),), 1e-6, False)),
    Setting("1,000 Laplace answers at rate 0.01, scale 2, delta 1e-6", Drawn((Part("laplace", 0.01, 2.0, 1_000),), 1e-6, False)),
    Setting("10 discrete Gaussian counts, sigma 5, delta 1e-9", Drawn((Part("discrete-gaussian", 1.0, 5.0, 10),), 1e-9, False)),
    Setting(
        "500 steps of DP-SGD at rate 0.02, noise 1, with 5 Laplace answers, scale 10, delta 1e-6",
        Drawn((Part("gaussian", 0.02, 1.0, 500), Part("laplace", 1.0, 10.0, 5)), 1e-6, False),
    ),
)


class Peers:
    """An interpreter that answers for the libraries that it has."""

    def __init__(self, python: str) -> None:
        pipe = subprocess.PIPE
        command, environment = [python, "-m", "tests.benchmarks.peers"], {**os.environ, **ONE_THREAD}
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=environment)
        self.versions: dict[str, str] = json.loads(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def ask(self, question: str, name: str, setting: Drawn) -> Answer:
        """Return what one of peers.QUESTIONS[question] says."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([question, name, asdict(setting)]) + "\n")
        self.process.stdin.flush()
        return Answer(**json.loads(self._line()))

    def close(self) -> None:
        """End the process, which ends where its input does."""
        with self.process:
            pass


def excess(answer: Answer, lower: float) -> str:
    """Return how far a bound is above a certified lower end, or that it is below and claims too much privacy."""
    share = answer.upper / lower - 1.0
    if share < 0.0:
        return f"**{-share:.2g} below: too small**"
    return f"{figures(100.0 * share, 2)} %" if share >= 1e-5 else f"{share:.0e}"


def bound(answer: Answer) -> str:
    """Return an upper bound, after its lower end if there is one; or why there is none."""
    if not answer.finite:
        return "no bound" if answer.status == "ok" else f"{answer.status}: {answer.message}"
    upper = figures(answer.upper, DIGITS, decimal.ROUND_CEILING)
    return upper if answer.lower is None else f"{figures(answer.lower, DIGITS, decimal.ROUND_FLOOR)} to {upper}"


Asked = tuple[str, dict[str, Answer]]  # the words of a setting, and what each library says of it


def sharpness(asked: Sequence[Asked]) -> Iterator[str]:
    """Yield the table of accountants."""
    yield "| setting | by | epsilon | above dpcli's lower end | CPU | times dpcli's |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for words, answers in asked:
        own = answers["dpcli"]
        assert own.lower is not None, words
        for name, answer in answers.items():
            cells = ["", "", ""]
            if answer.finite:
                cells = [excess(answer, own.lower), f"{figures(1e3 * answer.cpu, 3)} ms", figures(answer.cpu / own.cpu, 2)]
            if answer.status != "unsupported":
                yield f"| {words if answer is own else ''} | {name} | {bound(answer)} | {' | '.join(cells)} |"


def attacks(asked: Sequence[Asked]) -> Iterator[str]:
    """Yield the table of hit rates."""
    yield f"| setting | by | hit rate at {100.0 * peers.FALSE_POSITIVES:g} % false alarms | CPU |"
    yield "| --- | --- | --- | --- |"
    for words, answers in asked:
        for name, answer in answers.items():
            yield f"| {words if name == 'dpcli' else ''} | {name} | {bound(answer)} | {figures(1e3 * answer.cpu, 3)} ms |"


class Libraries:
    """All interpreters, and the libraries that they have."""

    def __init__(self, pythons: Sequence[str]) -> None:
        self.workers = [Peers(python) for python in pythons]
        self.homes = {package: worker for worker in reversed(self.workers) for package in worker.versions}
        self.versions = {package: worker.versions[package] for package, worker in self.homes.items()}

    def asked(self, question: str, settings: Sequence[Setting]) -> list[Asked]:
        """Return what each library says of each setting, one after the other."""
        names = {name: self.homes[peer.package] for name, peer in peers.QUESTIONS[question].items() if peer.package in self.homes}
        asked = []
        for words, drawn in settings:
            sys.stderr.write(f"{question}: {words}\n")
            asked.append((words, {name: worker.ask(question, name, drawn) for name, worker in names.items()}))
        return asked

    def close(self) -> None:
        """End all of them."""
        for worker in self.workers:
            worker.close()


def training() -> Iterator[str]:
    """Yield the table of training, which needs torch and Opacus here: CPU time of a step, that of SGD without privacy being 1."""
    from tests.benchmarks.training import STEPS, measured

    yield f"An MLP of 784, 256, 256 and 10 units, batches of 256; the median of {ROUNDS} rounds."
    yield ""
    yield "| step of | CPU time, times that of SGD without privacy |"
    yield "| --- | --- |"
    for case in TRAINED:
        columns = measured(case, [way for way in STEPS if way != "noise"], "step", "cpu", False, ROUNDS, False, sys.executable)
        for column in columns[1:]:
            times = f"{statistics.median(column.ratios(columns[0])):.1f}" if column.turns else column.failure
            yield f"| {case}, {column.name} | {times} |"


def accuracies() -> Iterator[str]:
    """Yield the table of accuracies for the same epsilon, which needs torch and Opacus here."""
    from dpcli.sweep.sweep_plan import plan_sweep
    from tests.benchmarks import accuracy

    (variant,) = [one for one in plan_sweep(str(ROOT / FILE)).variants if one.epsilon == EPSILON]
    results, best = accuracy.compared(FILE, variant, SEEDS, accuracy.Results(None))
    yield f"| {FILE}, epsilon {EPSILON:g} | accuracy, mean of {len(SEEDS)} seeds |"
    yield "| --- | --- |"
    for name, values in results.items():
        yield f"| {name}{f' ({best})' if name == accuracy.TUNED else ''} | {statistics.mean(values):.3f} |"


def machine(versions: dict[str, str]) -> Iterator[str]:
    """Yield when, where and with what the page was measured."""
    load, cores = os.getloadavg()[1], os.cpu_count() or 1
    busy = (
        f" The machine was busy with other work (load {load:.0f}): seconds are too long, and ratios rough." if load > cores else ""
    )
    model = [
        line.partition(":")[2].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")
    ]
    packages = ", ".join(f"{name} {versions[name]}" for name in sorted(versions))
    yield f"Measured on {datetime.datetime.now(datetime.UTC):%Y-%m-%d}.{busy}"
    yield ""
    yield f"Machine: {(model or [platform.machine()])[0]}, {cores} cores, one thread for each question, Python {platform.python_version()}."
    yield f"Versions: {packages}."


ABOUT = """# Comparison with other libraries

Every number here comes from `python -m tests.benchmarks.table`, in which each library answers with the defaults that its
documentation shows. Each section says when it was measured. dpcli's epsilon is an interval: the truth is
proved to lie in it. The next column says how far each bound is above the
lower end of that interval. **Too small** marks a bound below it, which claims more privacy than there is. CPU time is of one call in a warm
process; sharpness does not depend on the machine. A library that does not offer a setting has no row there. Hit rates are of the best
attack on membership: dpcli's is a bound.
[Comparison of releases](release-comparison.md): which questions about a table each library answers.
"""


TITLES = {
    "epsilon": "Epsilon, and the time to get it",
    "attack": "What an attacker may reach",
    "training": "A step of training",
    "accuracy": "Accuracy for the same epsilon",
}
HEADING = re.compile(r"^## (.*)$", re.M)


def section(name: str, libraries: Libraries) -> str:
    """Return a section of the page, without its heading: when and where it was measured, and its table."""
    if name == "epsilon":
        body = list(sharpness(libraries.asked("epsilon", SETTINGS)))
    elif name == "attack":
        body = list(attacks(libraries.asked("attack", [SETTINGS[place] for place in (0, 2, 5)])))
    else:
        body = list({"training": training, "accuracy": accuracies}[name]())
    packages = {peer.package for peer in peers.QUESTIONS.get(name, {}).values()} or {"dpcli", "opacus"}
    versions = {package: version for package, version in libraries.versions.items() if package in packages}
    return "\n".join([*machine(versions), "", *body]) + "\n"


def sections_of(text: str) -> dict[str, str]:
    """Return the sections of a page by their titles."""
    _, *parts = HEADING.split(text)
    return {title: body.strip("\n") + "\n" for title, body in zip(parts[::2], parts[1::2], strict=True)}


def page(sections: Mapping[str, str]) -> str:
    """Return the page of sections by their titles."""
    return "\n".join([ABOUT, *(f"## {title}\n\n{sections[title]}" for title in TITLES.values() if title in sections)])


def main(words: Sequence[str]) -> None:
    """Print the page, or write it to a file."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--peer-python", action="append", default=[], metavar="PYTHON", help="an interpreter that has other libraries"
    )
    parser.add_argument("--section", action="append", choices=TITLES, help="measure this section; repeatable. All if left out.")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keeps the sections of FILE that are not measured")
    options = parser.parse_args(words)
    kept = sections_of(options.write.read_text("utf-8")) if options.write is not None and options.write.exists() else {}
    libraries = Libraries([sys.executable, *options.peer_python])
    try:
        measured = {TITLES[name]: section(name, libraries) for name in options.section or TITLES}
    finally:
        libraries.close()
    text = page({**kept, **measured})
    if options.write is None:
        sys.stdout.write(text)
    else:
        options.write.write_text(text, "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
