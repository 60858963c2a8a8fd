"""Random compositions: dpcli's certified interval beside dp-accounting's PLD, on the coarsest grid of its that comes near the truth.

    python -m tests.benchmarks.random_settings [--count 60] [--seed 1] [--peer /path/to/python] [--own] [--pipelines | --wider]

Rates in [1e-8, 1], noise multipliers in [.3, 100], steps in [1, 10^9] (a quarter in [2, 19]) and deltas in [1e-30, .1], each drawn evenly
on a logarithmic scale; add-remove and replace-one; one sampled Gaussian, or two to five with unsampled Gaussian and Laplace noise beside
them. The peer is asked at spacings 1e-4, 1e-5 and 1e-6 until its epsilon is within 1e-3 of the certified upper bound. Times are CPU
seconds of one call in a warm process on one thread, caches emptied (isolation.py). With --own the peer is left out.

With --pipelines, 1 to 40 entries of Gaussian, Laplace, discrete Gaussian, discrete Laplace and pure noise, sampled or not, are asked for
their headline, and the peer at spacings 1e-3, 1e-4 and 1e-5 for as long as it takes less than the limit; promised is that none is looser
than any of the peer's answers by more than 1e-4 (relative), but for those below the certified lower end, and no interval wider than 1e-3.
--write FILE keeps the pipelines and the peer's answers at all spacings: tests/vectors/mixed_pipelines.json is `--pipelines --count 140
--seed 2026 --limit 20 --write`. With --wider, the noises are also the exponential mechanism and randomised response, and pure noise is
sampled too. A pipeline for which the peer has no finite answer above 0 at spacing 1e-3 in a fiftieth of the limit is drawn again, so that
--count pipelines are compared: tests/vectors/wider_pipelines.json is `--wider --count 39 --seed 37 --limit 20 --write`. Which are drawn
again depends a little on the speed of the machine.

Promised, else the exit status is 1: no setting without a certified interval, none that takes more than .2 s, none looser than the peer
by more than 1e-6 (relative), none less than 3 times as fast, and 20 times at the median.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.benchmarks.isolation import ONE_THREAD, ROOT, Answer, Interval, Unsupported, forget_dpcli, isolated

if TYPE_CHECKING:
    from dpcli.mechanisms.mechanism import Mechanism

SPACINGS = (1e-4, 1e-5, 1e-6)
PIPELINE_SPACINGS = (1e-3, 1e-4, 1e-5)
KINDS = ("gaussian", "laplace", "discrete-gaussian", "discrete-laplace", "pure")
WIDER_KINDS = (*KINDS, "exponential", "randomized-response")
CATEGORIES = 4  # of a randomised response
QUICK = 0.02  # share of the limit in which the peer answers at its coarsest spacing what is worth asking it again
NEAR = 1e-3  # relative distance from the truth
LOOSER = 1e-6
PIPELINE_LOOSER, WIDEST = 1e-4, 1e-3
SLOWEST, LEAST, MEDIAN = 0.2, 3.0, 20.0


@dataclass(frozen=True, slots=True)
class Part:
    """Noise `kind` (one of WIDER_KINDS) of `noise` over the sensitivity on a Poisson sample at `rate`, `steps` times."""

    kind: str
    rate: float
    noise: float
    steps: int

    def __str__(self) -> str:
        return f"{self.kind} {self.rate:.2g} {self.noise:.3g} {self.steps:.3g}"


@dataclass(frozen=True, slots=True)
class Drawn:
    """One question."""

    parts: tuple[Part, ...]
    delta: float
    replaces: bool

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.parts))}; delta {self.delta:.1e}{'; replace-one' if self.replaces else ''}"


def between(source: random.Random, low: float, high: float) -> float:
    """Evenly on a logarithmic scale."""
    return float(10.0 ** source.uniform(math.log10(low), math.log10(high)))


def drawn(source: random.Random) -> Drawn:
    """The next setting."""
    form = source.choice(("one", "one", "few", "few", "many", "mixed"))
    parts = [
        Part(
            "gaussian",
            1.0 if source.random() < 0.05 else between(source, 1e-8, 1.0),
            between(source, 0.3, 100.0),
            source.randint(2, 19) if form == "few" else round(between(source, 1.0, 1e9)),
        )
        for _ in range(source.randint(2, 5) if form in ("many", "mixed") else 1)
    ]
    if form == "mixed":
        for _ in range(source.randint(1, 2)):
            kind = source.choice(("gaussian", "laplace"))
            parts.append(Part(kind, 1.0, between(source, 1.0, 100.0), round(between(source, 1.0, 100.0))))
    return Drawn(tuple(parts), between(source, 1e-30, 0.1), form != "mixed" and source.random() < 0.3)


def drawn_pipeline(source: random.Random) -> Drawn:
    """The next pipeline: work is about as hard for a peer whose time grows with the losses, so that many large ones are left out."""
    parts = []
    for _ in range(round(between(source, 1.0, 40.0))):
        kind = source.choice(KINDS)
        rate = 1.0 if kind == "pure" or source.random() < 0.3 else between(source, 1e-8, 1.0)
        noise = between(source, 0.5, 50.0)
        steps = round(between(source, 1.0, min(1e9, max(10.0, 10.0 * (noise / rate) ** 2))))
        parts.append(Part(kind, rate, noise, steps))
    return Drawn(tuple(parts), between(source, 1e-30, 0.1), False)


def drawn_wider(source: random.Random) -> Drawn:
    """Draw the next pipeline of all kinds, each of which may be on a sample."""
    parts = []
    for _ in range(round(between(source, 1.0, 40.0))):
        rate, noise = 1.0 if source.random() < 0.3 else between(source, 1e-8, 1.0), between(source, 0.5, 50.0)
        steps = round(between(source, 1.0, min(1e9, max(10.0, 10.0 * (noise / rate) ** 2))))
        parts.append(Part(source.choice(WIDER_KINDS), rate, noise, steps))
    return Drawn(tuple(parts), between(source, 1e-30, 0.1), False)


def mechanism(part: Part) -> Mechanism:
    """The mechanism of a part, as a pipeline file makes it."""
    from dpcli.mechanisms.choice.exponential import ExponentialChoice
    from dpcli.mechanisms.choice.randomized_response import RandomizedResponse
    from dpcli.mechanisms.noise.discrete_gaussian import DiscreteGaussian
    from dpcli.mechanisms.noise.discrete_laplace import DiscreteLaplace
    from dpcli.mechanisms.noise.gaussian import Gaussian
    from dpcli.mechanisms.noise.gaussian_spec import SampledGaussian
    from dpcli.mechanisms.noise.laplace import Laplace
    from dpcli.mechanisms.sampling.poisson import PoissonSampled
    from dpcli.mechanisms.stated.pure_and_approx import StatedPure

    if part.kind == "gaussian":
        return Gaussian(1.0 / part.noise) if part.rate == 1.0 else SampledGaussian(1.0 / part.noise, part.rate)
    inner: Mechanism = {
        "laplace": lambda: Laplace(1.0 / part.noise),
        "discrete-gaussian": lambda: DiscreteGaussian(part.noise, 1),
        "discrete-laplace": lambda: DiscreteLaplace(part.noise, 1),
        "pure": lambda: StatedPure(1.0 / part.noise),
        "exponential": lambda: ExponentialChoice(1.0 / part.noise),
        "randomized-response": lambda: RandomizedResponse(1.0 / part.noise, CATEGORIES),
    }[part.kind]()
    return inner if part.rate == 1.0 else PoissonSampled(inner, part.rate)


def headline(setting: Drawn) -> Interval:
    """The smallest bound of all accountants, with the largest certified lower end."""
    from dpcli.analysis.inquiry import tightest

    if setting.replaces:
        raise Unsupported("the mechanisms of a pipeline here are those of add-remove")
    row = tightest(tuple((mechanism(part), part.steps) for part in setting.parts), setting.delta)
    return (None, math.inf) if row is None or row.bound is None else (row.bound.lower, row.bound.upper)


def ours(setting: Drawn) -> Interval:
    """The exact accountant's interval; where it is refused, that of the grid."""
    from dpcli.accountants.exact import ExactProfile
    from dpcli.accountants.pld import PldProfile
    from dpcli.base.errors import NotRepresentable
    from dpcli.mechanisms.neighbours import Adjacency, Neighbours
    from dpcli.mechanisms.noise.gaussian_spec import GaussianSpec
    from dpcli.mechanisms.noise.laplace import Laplace
    from dpcli.numerics.work import limited

    if any(part.kind == "laplace" and (setting.replaces or part.rate < 1.0) for part in setting.parts):
        raise Unsupported("Laplace noise here is unsampled, and under add-remove")
    neighbours = Neighbours(Adjacency.REPLACE_ONE if setting.replaces else Adjacency.ADD_REMOVE)

    def mechanism(part: Part) -> Mechanism:
        if part.kind == "laplace":
            return Laplace(1.0 / part.noise)
        return GaussianSpec(noise_multiplier=part.noise).poisson(part.rate, neighbours)

    @limited
    def answer() -> Interval:
        steps = tuple((mechanism(part), part.steps) for part in setting.parts)
        try:
            bound = ExactProfile(steps).epsilon(setting.delta)
        except NotRepresentable:
            bound = PldProfile(steps).epsilon(setting.delta)
        return bound.lower, bound.upper

    return answer()


def two_answers(epsilon: float) -> tuple[list[float], list[float]]:
    """Return the masses of the answers with a record and without: of a pure guarantee, and so a bound on the exponential mechanism."""
    likely = 1.0 / (1.0 + math.exp(-epsilon))
    return [likely, 1.0 - likely], [1.0 - likely, likely]


def categories(epsilon: float) -> tuple[list[float], list[float]]:
    """Return the masses of a randomised response's categories for two versions of a record."""
    other = 1.0 / (math.exp(epsilon) + CATEGORIES - 1)
    kept, rest = math.exp(epsilon) * other, [other] * (CATEGORIES - 2)
    return [kept, other, *rest], [other, kept, *rest]


ATOMS = {"pure": two_answers, "exponential": two_answers, "randomized-response": categories}


def dotted(p: list[float], q: list[float], spacing: float) -> Any:
    """Return the peer's distribution of the loss log(p / q) of finitely many outcomes, by connected dots, as it has noise."""
    import numpy as np
    from dp_accounting.pld import pld_pmf

    losses = [math.log(a / b) / spacing for a, b in zip(p, q, strict=True)]
    low, high = math.floor(min(losses)), math.ceil(max(losses))
    ratios = np.exp(spacing * np.arange(low, high + 1))
    deltas = sum(np.maximum(a - ratios * b, 0.0) for a, b in zip(p, q, strict=True))
    return pld_pmf.create_pmf_pessimistic_connect_dots_fixed_gap(spacing, low, high, deltas)


def their_pipeline(setting: Drawn, spacing: float) -> Interval:
    """dp-accounting's upper bound, from its privacy-loss distributions."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    if setting.replaces:
        raise Unsupported("its distributions here are those of add-remove")

    def one(part: Part) -> Any:
        if part.kind == "pure" and part.rate == 1.0:
            claim = common.DifferentialPrivacyParameters(1.0 / part.noise, 0.0)
            return pld.from_privacy_parameters(claim, value_discretization_interval=spacing)
        if part.kind in ATOMS:
            present, absent = ATOMS[part.kind](1.0 / part.noise)
            mixed = [q + part.rate * (p - q) for p, q in zip(present, absent, strict=True)]
            return pld.PrivacyLossDistribution(dotted(mixed, absent, spacing), dotted(absent, mixed, spacing))
        keys: dict[str, Any] = {"value_discretization_interval": spacing, "sampling_prob": part.rate}
        if part.kind.startswith("discrete"):
            keys["use_connect_dots"] = True
        make = getattr(pld, f"from_{part.kind.replace('-', '_')}_mechanism")
        return make(1.0 / part.noise if part.kind == "discrete-laplace" else part.noise, **keys)

    total = None
    for part in setting.parts:
        distribution = one(part).self_compose(part.steps)
        total = distribution if total is None else total.compose(distribution)
    assert total is not None
    return None, float(total.get_epsilon_for_delta(setting.delta))


def theirs(setting: Drawn, spacing: float) -> Interval:
    """dp-accounting's upper bound."""
    from dp_accounting import GaussianDpEvent, LaplaceDpEvent, NeighboringRelation, PoissonSampledDpEvent
    from dp_accounting.pld import PLDAccountant

    if setting.replaces and any(part.kind == "laplace" for part in setting.parts):
        raise Unsupported("it has no Laplace noise under replace-one")
    relation = NeighboringRelation.REPLACE_ONE if setting.replaces else NeighboringRelation.ADD_OR_REMOVE_ONE
    accountant = PLDAccountant(relation, value_discretization_interval=spacing)
    for part in setting.parts:
        event: Any = (GaussianDpEvent if part.kind == "gaussian" else LaplaceDpEvent)(part.noise)
        accountant.compose(event if part.rate == 1.0 else PoissonSampledDpEvent(part.rate, event), part.steps)
    return None, float(accountant.get_epsilon(setting.delta))


class Worker:
    """One side's process: `ask` puts one question to a fresh child of it."""

    def __init__(self, python: str, limit: float, memory: float, pipelines: bool = False) -> None:
        command = [python, "-m", "tests.benchmarks.random_settings", "--serve", str(limit), str(memory), str(int(pipelines))]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env={**os.environ, **ONE_THREAD})

    def ask(self, setting: Drawn, spacing: float | None = None) -> Answer:
        """dpcli's answer, or the peer's at a spacing."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([asdict(setting), spacing]) + "\n")
        self.process.stdin.flush()
        return Answer(**json.loads(self.process.stdout.readline()))

    def close(self) -> None:
        """End of input is the end of it."""
        with self.process:
            pass


def serve(limit: float, memory: float, pipelines: bool) -> None:
    """Answer the questions on standard input, one line each; the first of each kind is asked twice, to warm up."""
    out = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    warm: set[bool] = set()
    for line in sys.stdin:
        fields, spacing = json.loads(line)
        setting = Drawn(tuple(Part(**part) for part in fields.pop("parts")), **fields)
        if (spacing is None) not in warm:
            warm.add(spacing is None)
            small = Drawn((Part("gaussian", 0.01, 2.0, 10),), 1e-5, setting.replaces)
            _question(small, spacing, pipelines)()
        forget = forget_dpcli if spacing is None else _nothing
        out.write(json.dumps(asdict(isolated(_question(setting, spacing, pipelines), forget, limit, memory))) + "\n")
        out.flush()


def _question(setting: Drawn, spacing: float | None, pipelines: bool) -> partial[Interval]:
    if pipelines:
        return partial(headline, setting) if spacing is None else partial(their_pipeline, setting, spacing)
    return partial(ours, setting) if spacing is None else partial(theirs, setting, spacing)


def _nothing() -> None:
    """The peer keeps no answers."""


@dataclass(frozen=True, slots=True)
class Row:
    """What was found: our answer, and the peer's at the spacings tried, the last of which came near if `met`."""

    setting: Drawn
    own: Answer
    peer: tuple[tuple[float, Answer], ...]

    @property
    def met(self) -> bool:
        return bool(self.peer) and _near(self.peer[-1][1], self.own)

    @property
    def ratio(self) -> float:
        """Its CPU time over ours, where it came near the truth."""
        return self.peer[-1][1].cpu / self.own.cpu if self.met else math.nan

    @property
    def best(self) -> float | None:
        """The smallest of the peer's answers that are not below our certified lower end; None if there is none."""
        sound = [answer.upper for _, answer in self.peer if answer.finite and answer.upper >= (self.own.lower or 0.0)]
        return min(sound, default=None)

    def standing(self) -> str:
        """Return how our upper bound compares with the peer's best: looser, equal or sharper."""
        if self.best is None or self.best * (1.0 - PIPELINE_LOOSER) > self.own.upper:
            return "sharper"
        return "looser" if self.best < self.own.upper * (1.0 - PIPELINE_LOOSER) else "equal"

    def nearest(self) -> list[Answer]:
        """Return the peer's first answer that came near ours, in a list, which is empty if none did."""
        return [answer for _, answer in self.peer if _near(answer, self.own)][:1]

    def broken(self) -> Iterator[str]:
        """Promises that are not kept here."""
        if not self.own.finite or self.own.lower is None:
            yield "no certified interval"
        if not self.own.cpu <= SLOWEST:
            yield f"{1e3 * self.own.cpu:.0f} ms"
        if self.ratio < LEAST:
            yield f"only {self.ratio:.1f} x as fast"
        for spacing, answer in self.peer:
            if answer.finite and (self.own.lower or 0.0) <= answer.upper < self.own.upper * (1.0 - LOOSER):
                yield f"peer {answer.upper:.9g} at {spacing:g}"

    def false(self) -> Iterator[str]:
        """Upper bounds of the peer below the certified lower bound: it claims too much privacy."""
        for spacing, answer in self.peer:
            if answer.finite and answer.upper < (self.own.lower or 0.0):
                yield f"peer too small: {answer.upper:.9g} at {spacing:g}"

    def __str__(self) -> str:
        low, high = self.own.lower or 0.0, self.own.upper
        width = (high - low) / high if high > 0.0 else 0.0
        shown = f"[{low:.10g}, {high:.10g}] {width:.0e} {1e3 * self.own.cpu:7.1f} ms"
        peers = "  ".join(
            f"{spacing:g}: {answer.upper:.6g} {answer.cpu:.2f} s" if answer.status == "ok" else f"{spacing:g}: {answer.status}"
            for spacing, answer in self.peer
        )
        ratio = f"  {self.ratio:.0f} x" if self.met else ""
        return f"{shown}{ratio}  {self.setting}  {peers}  {'; '.join([*self.broken(), *self.false()]).upper()}".rstrip()


def _near(answer: Answer, own: Answer) -> bool:
    return answer.finite and abs(answer.upper - own.upper) <= NEAR * own.upper


def row(setting: Drawn, own: Worker, peer: Worker | None, spacings: tuple[float, ...] = SPACINGS, every: bool = False) -> Row:
    """Both sides' answers; the peer is not asked for a finer grid where a coarser one took too long or, unless `every`, came near."""
    answer = own.ask(setting)
    tried: list[tuple[float, Answer]] = []
    for spacing in spacings if peer is not None else ():
        assert peer is not None
        tried.append((spacing, peer.ask(setting, spacing)))
        if tried[-1][1].status != "ok" or (_near(tried[-1][1], answer) and not every):
            break
    return Row(setting, answer, tuple(tried))


def compared(source: random.Random, own: Worker, quick: Worker, peer: Worker, every: bool) -> Row:
    """Return the row of the first pipeline drawn for which `quick`, the peer with less time, has a finite answer above 0 at 1e-3."""
    while True:
        setting = drawn_wider(source)
        first = quick.ask(setting, PIPELINE_SPACINGS[0])
        if first.finite and first.upper > 0.0:
            finer = row(setting, own, peer, PIPELINE_SPACINGS[1:], every)
            return replace(finer, peer=((PIPELINE_SPACINGS[0], first), *finer.peer))


def summary(rows: list[Row]) -> tuple[str, bool]:
    """In a few lines, and whether every promise is kept."""
    times, ratios = [r.own.cpu for r in rows if r.own.finite], [r.ratio for r in rows if r.met]
    broken = [f"{line}: {r.setting}" for r in rows for line in r.broken()]
    false = [f"{line}: {r.setting}" for r in rows for line in r.false()]
    text = [f"{len(rows)} settings, {sum(r.own.finite and r.own.lower is not None for r in rows)} with a certified interval"]
    text.append(f"ours: median {1e3 * statistics.median(times):.1f} ms, slowest {1e3 * max(times):.1f} ms")
    if ratios:
        text.append(
            f"the peer came within {NEAR:g} on {len(ratios)}: ours is {statistics.median(ratios):.1f} x as fast at the median, "
            f"{min(ratios):.1f} x at least"
        )
        if statistics.median(ratios) < MEDIAN:
            broken.append("the median ratio")
    return "\n".join([*text, *false, *(f"not kept: {line}" for line in broken)]) + "\n", not broken


def pipeline_summary(rows: list[Row]) -> tuple[str, bool]:
    """Return what is compared in a few lines, and whether every promise is kept."""
    answered = [one for one in rows if one.own.finite]
    widths = [1.0 - one.own.lower / one.own.upper for one in answered if one.own.lower is not None and one.own.upper > 0.0]
    times = [one.own.cpu for one in answered]
    against = Counter(one.standing() for one in answered if one.best is not None)
    below = sum(answer.upper < (one.own.lower or 0.0) for one in answered for _, answer in one.peer if answer.finite)
    looser = [
        f"looser than the peer's {one.best:.9g}: {one.own.upper:.9g}, {one.setting}"
        for one in answered
        if one.standing() == "looser"
    ]
    refused = [f"without a bound: {one.setting}" for one in rows if not one.own.finite]
    wide = sum(width > WIDEST for width in widths)
    text = [
        f"{len(rows)} pipelines, {len(refused)} without a bound, {len(widths)} with an interval: relative width "
        f"{statistics.median(widths):.1e} at the median, {max(widths):.1e} at most, {wide} over {WIDEST:g}",
        f"ours: median {1e3 * statistics.median(times):.0f} ms, slowest {1e3 * max(times):.0f} ms",
        f"beside the smallest of the peer's answers, to {PIPELINE_LOOSER:g}: "
        + ", ".join(f"{name} {against[name]}" for name in ("looser", "equal", "sharper"))
        + f"; {below} of the peer's answers are below our certified lower end",
    ]
    best = [one.best / one.own.upper for one in answered if one.best is not None and one.own.upper > 0.0]
    if best:
        text.append(f"the smallest of its answers over ours: {statistics.median(best):.6g} at the median, {max(best):.4g} at most")
    ratios = [answer.cpu / one.own.cpu for one in answered for answer in one.nearest()]
    if ratios:
        text.append(
            f"the peer came within {NEAR:g} on {len(ratios)}: its CPU time over ours {statistics.median(ratios):.2g} at the median, "
            f"{min(ratios):.2g} at least"
        )
    return "\n".join([*text, *looser, *refused]) + "\n", not looser and not refused and not wide


def kept(rows: list[Row], version: str, limit: float) -> str:
    """JSON of the pipelines that the peer has a finite answer for, and of its answers."""
    pipelines = [
        {
            "parts": [asdict(part) for part in one.setting.parts],
            "delta": one.setting.delta,
            "answers": [{"spacing": spacing, "upper": repr(answer.upper)} for spacing, answer in one.peer if answer.status == "ok"],
        }
        for one in rows
        if any(answer.finite for _, answer in one.peer)
    ]
    source = f"dp-accounting {version}, privacy_loss_distribution, pessimistic, {limit:g} s of CPU for each answer at most"
    lines = ",\n".join(f"  {json.dumps(pipeline)}" for pipeline in pipelines)
    return f'{{\n "source": {json.dumps(source)},\n "pipelines": [\n{lines}\n ]\n}}\n'


def installed_version(python: str) -> str:
    """Return the version of dp-accounting that an interpreter has."""
    program = "from importlib.metadata import version; print(version('dp-accounting'))"
    return subprocess.run([python, "-c", program], capture_output=True, text=True, check=True).stdout.strip()


def main(words: list[str]) -> int:
    """Print each row as it comes, and the summary."""
    if words[:1] == ["--serve"]:
        serve(float(words[1]), float(words[2]), words[3:] == ["1"])
        return 0
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--peer", default=sys.executable, metavar="PATH", help="an interpreter that has dp-accounting")
    parser.add_argument("--own", action="store_true", help="without the peer")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="CPU time of one question")
    parser.add_argument("--pipelines", action="store_true", help="mixed pipelines, by their headlines")
    parser.add_argument("--wider", action="store_true", help="pipelines of all kinds for which the peer has a finite answer")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the pipelines and all of the peer's answers")
    options = parser.parse_args(words)
    source, rows = random.Random(options.seed), []
    version = "" if options.write is None else installed_version(options.peer)
    pipelines, every = options.pipelines or options.wider, options.write is not None
    own = Worker(sys.executable, options.limit, 4.0, pipelines)
    peer = None if options.own else Worker(options.peer, options.limit, 8.0, pipelines)
    quick = Worker(options.peer, QUICK * options.limit, 8.0, pipelines) if options.wider and peer is not None else None
    draw = drawn_wider if options.wider else drawn_pipeline if options.pipelines else drawn
    for _ in range(options.count):
        if quick is not None and peer is not None:
            rows.append(compared(source, own, quick, peer, every))
        else:
            rows.append(row(draw(source), own, peer, PIPELINE_SPACINGS if pipelines else SPACINGS, every))
        sys.stdout.write(f"{rows[-1]}\n")
        sys.stdout.flush()
        if options.write is not None:
            options.write.write_text(kept(rows, version, options.limit))
    for worker in (own, peer, quick):
        if worker is not None:
            worker.close()
    text, ended_well = pipeline_summary(rows) if pipelines else summary(rows)
    sys.stdout.write(text)
    return 0 if ended_well else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
