"""The verdicts of the gate on conditions, files and sums.

The verdict on a file is the worst verdict of its conditions. The verdict "unknown" never passes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dpcli.base.values import dataclass
from dpcli.file.toml.findings import Path

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.analysis.difference import Priced
    from dpcli.file.pipeline.gate_keys import Waiver
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.file.toml.findings import Diagnostic

Standing = tuple[str, int]  # the type of an entry, and the evidence of its charge
Verdict = Literal["pass", "warn", "waived", "fail", "unknown", "invalid", "error"]
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "warn": 0, "waived": 0, "fail": 1, "unknown": 3, "invalid": 2, "error": 4}
PRECEDENCE: tuple[Verdict, ...] = ("error", "invalid", "unknown", "fail", "waived", "pass")

# By the name of a condition, its title and its requirement. For a condition that only lists a change, the second text describes the change.
CONDITIONS: dict[str, tuple[str, str]] = {
    "budget": ("cap on epsilon", "Epsilon, an upper bound, is at most the cap of flag, policy or file at the budget's delta."),
    "rho": ("cap on rho", "Rho of zero-concentrated differential privacy is at most its cap, which holds with that on epsilon."),
    "delta": ("delta of the budget", "A file holds its epsilon to no larger delta than the one that it promises."),
    "increase": ("rise of epsilon", "Epsilon rises over the base by no more than is allowed, at the base's delta."),
    "statement": ("changed statement", "The number means what it meant at the base, and the file holds itself to no less."),
    "terms": ("changed terms", "The file changed other words of its statement, none of which weakens a cap that holds."),
    "claim": ("cheaper by a claim", "Noise lowers epsilon, and no claim about data or program that nobody can check."),
    "data": ("other data", "The file's commands read the data of the base: other data may be other people's."),
    "restatement": ("noise replaced by a stated cost", "A mechanism that was priced by its noise does not now state its own cost."),
    "mechanism": ("removed mechanism", "A mechanism of the base is gone: what it has released stays released."),
    "deleted": ("removed pipeline", "A pipeline of the base is gone: what it released stays released, and nothing counts it."),
    "moved": ("pipeline moved out of view", "A pipeline of the base was moved to a file that was not given to the gate."),
    "missed": ("pipeline not given to the gate", "A pipeline that the change touches was not given to the gate."),
    "workflow": ("changed workflow", "No workflow that calls dpcli differs from the base: it decides whether the gate runs."),
    "horizon": ("cap on planned runs", "All runs of a schedule that was fixed in advance stay within their cap together."),
    "together": ("sum over a dataset", "The pipelines of a dataset, all fixed before the first ran, stay within its cap together."),
    "joined": ("file added to a sum", "No file came to a sum after the base: what outputs of others chose goes to a ledger."),
    "ledger": ("room in the ledger", "The runs of all files would still fit into what is left of the dataset's budget."),
    "proof": ("proof of epsilon", "The epsilon of the file, as it is printed, has a proof in ball arithmetic (dpcli certify)."),
    "policy": ("policy", "The file keeps to what the policy requires and forbids; its rules and waivers match something."),
    "policy-change": ("changed policy", "The policy changed. The base's version applies; a new policy applies as written."),
    "waiver": (
        "waiver",
        "A waiver lets a condition fail until a day. A waiver that ends soon, is not needed or is void is listed.",
    ),
    "link": ("link out of the repository", "A file lies in the repository itself, where the change that is reviewed holds it."),
    "file": ("unreadable file", "A file can be read, and has a number and a cap to judge it by."),
    "files": ("nothing to judge", "There is something to judge."),
}

# Titles of failed conditions whose general title does not say that something is wrong.
FAILURES = {
    "budget": "epsilon above its cap",
    "rho": "rho above its cap",
    "increase": "epsilon rose more than allowed",
    "horizon": "planned runs above their cap",
    "together": "sum over a dataset above its cap",
}


@dataclass(frozen=True, slots=True)
class Target:
    """The goal of a remedy: the largest epsilon that `runs` runs together may have at `delta`."""

    epsilon: float
    delta: float | None
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Pardon:
    """A waiver that turned a failure into "waived".

    Attributes:
        days: Number of days until the waiver expires.
        new: Whether the change under review adds the waiver.
        external: Whether the waiver is in the policy, and not in the file.
    """

    waiver: Waiver
    days: int
    new: bool
    external: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A requirement of a file, and its verdict.

    Attributes:
        name: A key of `CONDITIONS`, or the code of a lint rule.
        key, place: The key that the condition is about, as a path into the file, and its line and column.
        mechanism: The name of the mechanism that the condition is about, if there is exactly one.
        measured, target: The epsilon that was judged, and the goal that would pass.
        pardon: The waiver that covers a failure.
        shares, delta: The share of a ledger's cap that the runs take, the share that was left before, and the delta of that cap.
    """

    name: str
    verdict: Verdict
    message: str
    key: Path = ("budget",)
    place: tuple[int, int] = (1, 1)
    mechanism: str | None = None
    measured: float | None = None
    target: Target | None = None
    pardon: Pardon | None = None
    shares: tuple[float, float] | None = None
    delta: float | None = None


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst verdict, which determines the exit code. A warning counts as a pass."""
    present = set(verdicts)
    return next((verdict for verdict in PRECEDENCE if verdict in present), "pass")


@dataclass(frozen=True, slots=True)
class Base:
    """The earlier version of a file.

    Attributes:
        epsilon, delta: The guarantee.
        statement: The keys, such as the unit, that determine what the guarantee means.
        terms, standings, waivers: As `bases.terms_of`, `claims.standings_of` and `bases.waiver_data` return them.
        horizon: The number of planned runs, and the cap on their epsilon.
        account, data: The account and the content of the file; None if the base is from the JSON of an earlier gate.
        renamed: The earlier path in the repository, if the file was renamed; else "".
    """

    epsilon: float
    delta: float | None
    statement: Mapping[str, Any]
    terms: Mapping[str, Any]
    standings: Mapping[str, Standing]
    horizon: tuple[int, float] | None = None
    waivers: tuple[Mapping[str, Any], ...] = ()
    account: Account | None = None
    data: bytes | None = None
    renamed: str = ""

    @property
    def max_increase(self) -> float | None:
        """The limit in nats that the earlier version states on the rise of its epsilon."""
        limit: float | None = self.terms.get("gate.max_increase")
        return limit


@dataclass(frozen=True, slots=True)
class Judged:
    """A judged file.

    Attributes:
        account: The account under the caps in force; None if the file cannot be read.
        conditions, diagnostics: The verdicts on the file, and its lint findings.
        base, now: The earlier version, and the current epsilon at that version's delta.
        changes: The cost of each change, if it alone were made to the base.
        granting: The positions of the policy's waivers that are for one of the conditions.
        own: The pipeline with its own caps; None if the file cannot be read.
        sources: The places of the private data that commands read for the file.
    """

    path: str
    account: Account | None
    conditions: tuple[Condition, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    base: Base | None = None
    now: float | None = None
    changes: tuple[Priced, ...] = ()
    granting: frozenset[int] = frozenset()
    own: Pipeline | None = None
    sources: frozenset[str] = frozenset()

    @property
    def verdict(self) -> Verdict:
        """The worst verdict of the conditions."""
        return worst_verdict(condition.verdict for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class JudgedSum(Judged):
    """The sum over all files of some datasets.

    Attributes:
        path: The name of the sum in tables.
        base, now: As for a file; None if the sum at the revision cannot be computed.
        at: The file at which reports show the sum.
        datasets: The names of the datasets.
        members: The paths of all files in the sum.
        uncapped: The account of a sum without a cap, which can only give a warning.
    """

    at: str = ""
    datasets: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    uncapped: Account | None = None


@dataclass(frozen=True, slots=True)
class Gated:
    """The verdicts on all files and sums over files, and warnings about the policy itself."""

    files: tuple[Judged, ...]
    policy: str | None = None
    notices: tuple[Condition, ...] = ()
    together: tuple[JudgedSum, ...] = ()

    @property
    def judged(self) -> tuple[Judged, ...]:
        """Everything that has a verdict."""
        return (*self.files, *self.together)

    @property
    def verdict(self) -> Verdict:
        return worst_verdict(file.verdict for file in self.judged)


def first_finding(diagnostics: Sequence[Diagnostic]) -> str:
    """Return the first finding in words, and the number of further findings."""
    first = diagnostics[0]
    further = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
    place = f"line {first.line}: " if first.line else ""  # a finding about the whole file has no line
    return f"{place}{first.key + ': ' if first.key else ''}{first.message}{further}"
