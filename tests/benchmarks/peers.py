"""dpcli's accountants beside those of other libraries: epsilon, CPU time and peak memory on the settings of settings.py, in one run.

    pip install -e '.[bench]'
    python -m tests.benchmarks.peers --csv peers.csv --markdown

Answers are appended to the CSV as they come, and those found there are not asked again (delete the file to start anew). A library that
cannot be installed beside the others runs under an interpreter of its own: --python autodp=/path/to/python.

Times are CPU seconds of one call in a warm process (see isolation.py), so the ratios compare libraries and not their import. "gap" is
by how much an epsilon is above the certified upper bound of dpcli's exact accountant, relative to it. Targets: against dp-accounting's
PLD a median ratio of at least 50 and none under 5; against prv-accountant a median of at least 200; no peer tighter, unless it is
below the certified lower bound: then it claims too much privacy.
"""

from __future__ import annotations

import argparse
import csv
import math
import os
import statistics
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.benchmarks.adapters import PEERS
from tests.benchmarks.isolation import Answer, Worker
from tests.benchmarks.settings import SETTINGS, Setting
from tests.benchmarks.soundness import CASES

FIELDS = ("setting", "digest", "peer", "version", "status", "lower", "upper", "cpu", "runs", "peak", "message")
ROUNDING = 1e-12  # relative: closer than this is equal
Table = list[list[str]]


@dataclass(slots=True)
class Results:
    """Every answer so far, by setting's name and peer, and the versions that gave them."""

    answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)

    def get(self, setting: Setting, peer: str) -> Answer:
        return self.answers.get((setting.name, peer), Answer("not asked"))


@dataclass(slots=True)
class Workers:
    """The peers' processes, started when they are first asked; one that dies is started again."""

    limit: float
    memory: float
    pythons: dict[str, str]
    running: dict[str, Worker] = field(default_factory=dict)

    def ask(self, peer: str, key: str) -> tuple[Answer, str]:
        """(answer, version of the library)."""
        try:
            if peer not in self.running:
                self.running[peer] = Worker(peer, self.limit, self.memory, self.pythons.get(peer, sys.executable))
            return self.running[peer].ask(key), self.running[peer].version
        except (RuntimeError, BrokenPipeError) as error:
            self.running.pop(peer, None)
            return Answer("failed", message=f"its process ended: {error}"), ""

    def close(self) -> None:
        for worker in self.running.values():
            worker.close()


def default_peers() -> list[str]:
    """Every peer, without those of dpcli's accountants that are not there."""
    from dpcli.base.registry import ACCOUNTANTS

    return [name for name, peer in PEERS.items() if peer.distribution != "dpcli" or name in ACCOUNTANTS]


def measure(settings: Sequence[Setting], peers: Sequence[str], workers: Workers, path: Path | None) -> Results:
    """Ask what the CSV does not answer yet: setting by setting, all peers in turn, so that they share what the machine does."""
    results = _stored(path, settings)
    todo = [(setting, peer) for setting in settings for peer in peers if (setting.name, peer) not in results.answers]
    for number, (setting, peer) in enumerate(todo, 1):
        answer, version = workers.ask(peer, setting.name)
        results.answers[setting.name, peer], results.versions[peer] = answer, version
        _store(path, setting, peer, version, answer)
        said = f"{answer.upper:.6g} in {1e3 * answer.cpu:.3g} ms" if answer.status == "ok" else f"{answer.status}: {answer.message}"
        sys.stderr.write(f"[{number}/{len(todo)}] {setting.name}: {peer}: {said}\n")
    return results


def _stored(path: Path | None, settings: Sequence[Setting]) -> Results:
    results, digests = Results(), {setting.name: setting.digest for setting in settings}
    if path is None or not path.exists():
        return results
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if digests.get(row["setting"]) == row["digest"]:
                lower = float(row["lower"]) if row["lower"] else None
                numbers = float(row["upper"]), float(row["cpu"]), int(row["runs"]), float(row["peak"])
                results.answers[row["setting"], row["peer"]] = Answer(row["status"], lower, *numbers, row["message"])
                results.versions[row["peer"]] = row["version"]
    return results


def _store(path: Path | None, setting: Setting, peer: str, version: str, answer: Answer) -> None:
    if path is None:
        return
    new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow(FIELDS)
        numbers = (answer.lower, answer.upper, answer.cpu, answer.runs, answer.peak)
        writer.writerow((setting.name, setting.digest, peer, version, answer.status, *numbers, answer.message))


def gap(exact: Answer, other: Answer) -> float:
    """How far an epsilon lies above exact's upper bound, relative to it; NaN where either is missing."""
    return (other.upper - exact.upper) / exact.upper if exact.finite and other.finite and exact.upper > 0.0 else math.nan


def standing(exact: Answer, other: Answer) -> str:
    """Whether exact's upper bound is the smaller, and if not, whether the other's is possible at all."""
    if not exact.finite:
        return "not comparable" if other.finite else "neither"
    if not other.finite:
        return "none" if other.status != "unsupported" else "unsupported"
    if gap(exact, other) >= -ROUNDING:
        return "tighter or equal"
    return "too small" if exact.lower is not None and other.upper < exact.lower else "within the certificate"


def ratio(exact: Answer, other: Answer) -> float:
    """CPU time over exact's, where both gave a finite epsilon; at least this much where the other ran out of time."""
    return other.cpu / exact.cpu if exact.finite and (other.finite or other.status == "timeout") else math.nan


def epsilon_table(results: Results, settings: Sequence[Setting], peers: Sequence[str]) -> Table:
    return [
        ["setting", "question", *(f"{peer} {results.versions.get(peer, '')}".strip() for peer in peers)],
        *([s.name, s.text, *(_epsilon(results.get(s, "exact"), results.get(s, peer), peer) for peer in peers)] for s in settings),
    ]


def _epsilon(exact: Answer, answer: Answer, peer: str) -> str:
    if answer.status != "ok":
        return answer.status
    distance = gap(exact, answer)
    shown = f"{answer.upper:.9g}" if peer == "exact" else f"{answer.upper:.6g}"
    mark = ", TOO SMALL" if standing(exact, answer) == "too small" else ""
    return shown if peer == "exact" or math.isnan(distance) else f"{shown} ({distance:+.1e}{mark})"


def time_table(results: Results, settings: Sequence[Setting], peers: Sequence[str]) -> Table:
    return [
        ["setting", *(f"{peer} ms" for peer in peers)],
        *([s.name, *(_time(results.get(s, "exact"), results.get(s, peer), peer) for peer in peers)] for s in settings),
    ]


def _time(exact: Answer, answer: Answer, peer: str) -> str:
    if math.isnan(answer.cpu):
        return "-"
    times = ratio(exact, answer)
    least = ">" if answer.status == "timeout" else ""
    return f"{least}{1e3 * answer.cpu:.3g}" + ("" if peer == "exact" or math.isnan(times) else f" ({least}{times:.3g}x)")


def memory_table(results: Results, settings: Sequence[Setting], peers: Sequence[str]) -> Table:
    cells = ([s.name, *(_megabytes(results.get(s, peer).peak) for peer in peers)] for s in settings)
    return [["setting", *(f"{peer} MB" for peer in peers)], *cells]


def _megabytes(peak: float) -> str:
    return "-" if math.isnan(peak) else f"{peak:.1f}"


def summary_table(results: Results, settings: Sequence[Setting], peers: Sequence[str]) -> Table:
    head = [
        "peer", "finite", "infinite", "failed", "time ratio: median", "minimum", "maximum", "memory ratio: median",
        "gap: median", "maximum", "exact tighter or equal", "peer too small",
    ]  # fmt: skip
    return [head, *(_summary(results, settings, peer) for peer in peers if peer != "exact")]


def _summary(results: Results, settings: Sequence[Setting], peer: str) -> list[str]:
    pairs = [(results.get(s, "exact"), results.get(s, peer)) for s in settings]
    pairs = [(exact, other) for exact, other in pairs if other.status not in ("unsupported", "not asked")]
    ratios, gaps = _numbers(ratio(*pair) for pair in pairs), _numbers(gap(*pair) for pair in pairs)
    memory = _numbers(other.peak / max(exact.peak, 0.1) for exact, other in pairs if exact.finite and other.finite)
    stands = [standing(*pair) for pair in pairs]
    finite = sum(other.finite for _, other in pairs)
    infinite = sum(other.status == "ok" for _, other in pairs) - finite
    return [
        peer, f"{finite} of {len(pairs)}", str(infinite), str(len(pairs) - finite - infinite),
        *(_show(f(ratios), "x") if ratios else "-" for f in (statistics.median, min, max)),
        _show(statistics.median(memory), "x") if memory else "-",
        *(f"{f(gaps):.1e}" if gaps else "-" for f in (statistics.median, max)),
        str(stands.count("tighter or equal")), str(stands.count("too small")),
    ]  # fmt: skip


def _numbers(values: Iterable[float]) -> list[float]:
    return [value for value in values if not math.isnan(value)]


def _show(value: float, unit: str) -> str:
    return f"{value:.3g}{unit}"


def exceptions(results: Results, settings: Sequence[Setting], peers: Sequence[str]) -> list[str]:
    """Where exact says nothing, where it is not the tightest, where it is slower than five times faster, and who failed why."""
    lines = []
    for setting in settings:
        exact = results.get(setting, "exact")
        if not exact.finite:
            lines.append(f"{setting.name}: exact gives no epsilon: {exact.message or exact.status}")
        elif setting.reference and not _holds(exact, setting.reference):
            lines.append(
                f"{setting.name}: exact [{exact.lower!r}, {exact.upper!r}] does not hold the reference {setting.reference!r}"
            )
        for peer in peers:
            if peer != "exact":
                lines += [f"{setting.name}: {peer}: {line}" for line in _remarks(exact, results.get(setting, peer), peer)]
    return lines


def _holds(exact: Answer, reference: float) -> bool:
    return (exact.lower or 0.0) * (1.0 - 1e-9) <= reference <= exact.upper * (1.0 + 1e-9)


def _remarks(exact: Answer, other: Answer, peer: str) -> list[str]:
    if other.status not in ("ok", "unsupported", "not asked"):
        return [f"{other.status}: {other.message}"]
    stands, lines = standing(exact, other), []
    if stands == "too small" and exact.lower is not None:
        lines.append(
            f"TOO SMALL: {other.upper!r} is {(exact.lower - other.upper) / exact.lower:.2e} below the certified lower bound {exact.lower!r}"
        )
    elif stands == "within the certificate":
        lines.append(f"{other.upper!r} is {-gap(exact, other):.1e} below exact's upper bound, but not below its lower bound")
    if peer == "dp-accounting" and ratio(exact, other) < 5.0:
        lines.append(f"exact is only {ratio(exact, other):.3g} times faster")
    return lines


def soundness_table(workers: Workers) -> Table:
    """The cases of known answer; FALSE marks an upper bound below the truth."""
    table = [["case", "truth", "asked", "epsilon", "verdict"]]
    for case in CASES:
        for label in case.asks:
            sys.stderr.write(f"soundness: {case.name}: {label}\n")
            answer, _ = workers.ask("soundness", f"{case.name}: {label}")
            shown = f"{answer.upper:.9g}" if answer.status == "ok" else f"{answer.status}: {answer.message}"
            table.append([case.name, f"{case.truth:.9g}", label, shown, _verdict(case.truth, answer)])
    return table


def _verdict(truth: float, answer: Answer) -> str:
    if answer.status != "ok":
        return "no number"
    if answer.upper < truth * (1.0 - 1e-9):
        return f"FALSE by {truth - answer.upper:.3g}"
    return "sound" if math.isinf(truth) else f"sound, {(answer.upper - truth) / truth:+.1e}"


def rendered(table: Table, markdown: bool) -> str:
    """As Markdown, or in aligned columns."""
    if markdown:
        rows = [table[0], ["---"] * len(table[0]), *table[1:]]
        return "".join("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |\n" for row in rows)
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    return "".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() + "\n" for row in table)


def report(results: Results, settings: Sequence[Setting], peers: Sequence[str], markdown: bool) -> str:
    """Every table, then the summary and its exceptions."""
    titles = {
        "epsilon (gap to exact)": epsilon_table,
        "CPU time (ratio to exact)": time_table,
        "peak memory above the library": memory_table,
        "summary (a timeout counts as the limit in the time ratios)": summary_table,
    }
    parts = [_titled(title, rendered(build(results, settings, peers), markdown), markdown) for title, build in titles.items()]
    found = exceptions(results, settings, peers) or ["none"]
    return "\n".join([*parts, _titled("exceptions", "".join(f"- {line}\n" for line in found), markdown)])


def _titled(title: str, body: str, markdown: bool) -> str:
    return f"## {title}\n\n{body}" if markdown else f"{title}\n{'-' * len(title)}\n{body}"


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--csv", type=Path, metavar="PATH", help="append answers here, and do not ask those found here again")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument("--only", default="", metavar="TEXT", help="settings whose names contain any of these, separated by commas")
    parser.add_argument("--peers", default="", metavar="NAMES", help=f"among {', '.join(PEERS)}; separated by commas")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="CPU time of one question (default 60)")
    parser.add_argument("--memory", type=float, default=8.0, metavar="GB", help="address space of one question (default 8)")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH", help="the interpreter of one peer")
    parser.add_argument("--soundness", choices=("also", "only", "skip"), default="also", help="the cases of known answer")
    return parser.parse_args(words)


def main(words: Sequence[str]) -> str:
    """The whole report."""
    options = arguments(words)
    peers = [name for name in options.peers.split(",") if name] or default_peers()
    settings = [s for s in SETTINGS if any(text in s.name for text in options.only.split(","))]
    workers = Workers(options.limit, options.memory, dict(item.split("=", 1) for item in options.python))
    head = f"Python {sys.version.split()[0]}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}; {len(settings)} settings\n"
    try:
        parts = [head]
        if options.soundness != "only":
            parts.append(report(measure(settings, peers, workers, options.csv), settings, peers, options.markdown))
        if options.soundness != "skip":
            parts.append(_titled("soundness", rendered(soundness_table(workers), options.markdown), options.markdown))
            parts.append("".join(f"- {case.name}: {case.why}\n" for case in CASES))
        return "\n".join(parts)
    finally:
        workers.close()


if __name__ == "__main__":
    sys.stdout.write(main(sys.argv[1:]))
