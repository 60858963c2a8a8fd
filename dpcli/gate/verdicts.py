"""The vocabulary of the gate, as immutable records: what it compares with (`Base`), what it checks (`Condition`), and its verdicts.

A *condition* is one thing that the gate checks of a file, such as "epsilon stays below its cap"; CONDITIONS explains each, and a lint rule
is one too, under its code. The verdict on a file is the worst of its conditions (PRECEDENCE), and the worst of all files and sums gives the
exit code. "unknown" means that the gate cannot decide, for example because no finite epsilon is certified, "invalid" that something cannot
be read or judged at all, and "error" that the ledger cannot be used: none of them passes. A *sum* is the total cost of all files that name
one dataset (totals.py). A *waiver* pardons the failures of one condition or lint rule until a day (waivers.py). An *entry* is one
[[mechanism]] table of a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from dpcli.base.values import dataclass
from dpcli.file.toml.findings import Path
from dpcli.mechanisms.spec import CostEvidence

if TYPE_CHECKING:
    from dpcli.analysis.account import Account
    from dpcli.analysis.difference import Priced
    from dpcli.file.pipeline.gate_keys import Waiver
    from dpcli.file.pipeline.model import Pipeline
    from dpcli.file.toml.findings import Diagnostic


Verdict = Literal["pass", "warn", "waived", "fail", "unknown", "invalid", "error"]
EXIT_CODES: dict[Verdict, int] = {"pass": 0, "warn": 0, "waived": 0, "fail": 1, "unknown": 3, "invalid": 2, "error": 4}
# From the worst to the best verdict. A warning counts as a pass.
PRECEDENCE: tuple[Verdict, ...] = ("error", "invalid", "unknown", "fail", "waived", "pass")


class Standing(NamedTuple):
    """The type of an entry, and the evidence for its cost. In JSON, it is a list of the two."""

    type: str
    evidence: CostEvidence


class PlannedRuns(NamedTuple):
    """The number of runs of a horizon, and the cap on their epsilon together. In JSON, it is a list of the two."""

    runs: int
    epsilon: float


class LedgerShares(NamedTuple):
    """The cost of all runs of a file, and what was left in the ledger before them, as shares of the ledger's cap."""

    cost: float
    left: float


@dataclass(frozen=True, slots=True)
class Target:
    """The goal of a remedy, which is the largest epsilon that `runs` runs together may have at `delta`."""

    epsilon: float
    delta: float | None
    runs: int = 1


@dataclass(frozen=True, slots=True)
class Pardon:
    """A waiver that turned a failure into "waived".

    Attributes:
        days_left: Number of days until the waiver expires.
        is_new: Whether the change under review adds the waiver.
        in_policy: Whether the waiver is in the policy, and not in the file.
    """

    waiver: Waiver
    days_left: int
    is_new: bool
    in_policy: bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A requirement of a file, and its verdict.

    Attributes:
        name: A key of `CONDITIONS`, or the code of a lint rule.
        key, place: The key that the condition is about, as a path into the file ([budget] if not stated), and its line and column. An empty
            path is the whole file. The place is (1, 1) if nobody has looked it up.
        mechanism: The name of the mechanism that the condition is about, if there is exactly one.
        measured, target: The epsilon that was judged, and the goal with which the condition would pass; None if it judges no epsilon.
        pardon: The waiver that covers a failure.
        shares, delta: For the condition "ledger", the shares of the ledger's cap, and the delta of the cap.
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
    shares: LedgerShares | None = None
    delta: float | None = None


def worst_verdict(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the worst verdict, which determines the exit code."""
    present = set(verdicts)
    return next((verdict for verdict in PRECEDENCE if verdict in present), "pass")


@dataclass(frozen=True, slots=True)
class Base:
    """The earlier version of a file, or the earlier value of a sum (which has no text, terms or mechanisms).

    Attributes:
        epsilon, delta: The guarantee.
        statement: The keys that define the guarantee, such as unit, adjacency and delta (`difference.statement_of`).
        terms: Every key of [privacy], [budget] and [gate], such as `budget.epsilon` (`term_changes.terms_of`).
        standings: The type of each mechanism and the evidence for its cost, by its name (`claims.standings_of`).
        waivers: The waivers of the file (`bases.waiver_data`).
        horizon: The planned runs and their cap; None without a horizon.
        account, data: The account and the content of the file; None if the base is from the JSON of an earlier gate.
        earlier_path: The earlier path in the repository, if the file was renamed; else "".
    """

    epsilon: float
    delta: float | None
    statement: Mapping[str, Any]
    terms: Mapping[str, Any]
    standings: Mapping[str, Standing]
    horizon: PlannedRuns | None = None
    waivers: tuple[Mapping[str, Any], ...] = ()
    account: Account | None = None
    data: bytes | None = None
    earlier_path: str = ""

    @property
    def max_increase(self) -> float | None:
        """The limit in nats that the earlier version states on the rise of its epsilon."""
        limit: float | None = self.terms.get("gate.max_increase")
        return limit


@dataclass(frozen=True, slots=True)
class Judged:
    """A judged file.

    Attributes:
        account: The account under the caps in force; None if the file cannot be read, has no cap, or gets no account.
        conditions, diagnostics: The verdicts on the file, and its lint findings.
        epsilon_at_base_delta: The current epsilon at the delta of the earlier version.
        changes: The cost of each change, if it alone were made to the base.
        needed_waivers: The indices of the policy's waivers that concern one of the conditions. Waivers that cover judged files and are
            needed by none of them are reported (`waivers.unused_waivers`).
        written: The pipeline as the file states it, with its own caps; None if there is no account.
        sources: The paths and addresses of the private data that commands read for the file.
    """

    path: str
    account: Account | None
    conditions: tuple[Condition, ...]
    diagnostics: tuple[Diagnostic, ...] = ()
    base: Base | None = None
    epsilon_at_base_delta: float | None = None
    changes: tuple[Priced, ...] = ()
    needed_waivers: frozenset[int] = frozenset()
    written: Pipeline | None = None
    sources: frozenset[str] = frozenset()

    @property
    def verdict(self) -> Verdict:
        return worst_verdict(condition.verdict for condition in self.conditions)


@dataclass(frozen=True, slots=True)
class JudgedSum(Judged):
    """The verdict on the sum over all files of some datasets.

    Attributes:
        path: The name of the sum in tables.
        base, epsilon_at_base_delta: As for a file. They are None if the sum at the base cannot be computed.
        reported_at: The file at which reports show the sum.
        members: The paths of all files in the sum.
        uncapped: The account of a sum without a cap. Such a sum can only lead to a warning.
    """

    reported_at: str = ""
    datasets: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    uncapped: Account | None = None


@dataclass(frozen=True, slots=True)
class Gated:
    """The result of the gate.

    Attributes:
        policy: The path of the policy; None if there is none.
        notices: Warnings about the policy itself.
        together: The verdicts on sums over files.
    """

    files: tuple[Judged, ...]
    policy: str | None = None
    notices: tuple[Condition, ...] = ()
    together: tuple[JudgedSum, ...] = ()

    @property
    def judged(self) -> tuple[Judged, ...]:
        return (*self.files, *self.together)

    @property
    def verdict(self) -> Verdict:
        return worst_verdict(file.verdict for file in self.judged)


def first_finding(diagnostics: Sequence[Diagnostic]) -> str:
    """Return the first finding in words, and the number of the others: `line 3: budget.epsilon: expected ... (and 2 more)`."""
    first = diagnostics[0]
    further = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
    place = f"line {first.line}: " if first.line else ""  # a finding about all of the file has no line
    return f"{place}{first.key + ': ' if first.key else ''}{first.message}{further}"


# For each condition, its title and an explanation, which reports and dpcli-gate(7) print. The explanation of a condition that can fail
# states the requirement. The explanation of a condition that only reports a change states the change.
CONDITIONS: dict[str, tuple[str, str]] = {
    "budget": (
        "cap on epsilon",
        "The upper bound on epsilon must not exceed the cap of flag, policy or file, at the budget's delta.",
    ),
    "rho": ("cap on rho", "Rho of zero-concentrated DP must not exceed its cap, which applies in addition to a cap on epsilon."),
    "delta": ("delta of the budget", "The delta in [budget] must not be larger than the delta in [privacy]."),
    "increase": ("rise of epsilon", "The rise of epsilon over the base, at the base's delta, must not exceed the limit."),
    "statement": ("changed statement", "The privacy statement must be as at the base, and the file must not loosen its own caps."),
    "terms": ("changed terms", "Other terms of the file changed. None of these changes weakens a cap in force."),
    "claim": ("cheaper by a claim", "Epsilon must fall through noise, and not through claims that nobody can check."),
    "data": ("other data", "The file must use the data of the base, as other data may be about other people."),
    "restatement": (
        "noise replaced by a stated cost",
        "A mechanism whose cost followed from its noise must not state its own cost now.",
    ),
    "mechanism": ("removed mechanism", "A mechanism of the base was removed. Its earlier outputs remain released."),
    "deleted": (
        "removed pipeline",
        "A pipeline of the base was removed. Its earlier outputs remain released, and are not counted here.",
    ),
    "moved": ("pipeline moved out of view", "A pipeline of the base was moved to a file that was not given to the gate."),
    "missed": ("pipeline not given to the gate", "A pipeline that the change touches was not given to the gate."),
    "workflow": (
        "changed workflow",
        "A workflow that calls dpcli differs from the base. Such a workflow decides whether the gate runs.",
    ),
    "horizon": ("cap on planned runs", "All runs of a schedule that was fixed in advance must together stay within their cap."),
    "together": (
        "sum over a dataset",
        "All pipelines of a dataset, fixed before the first run, must together stay within its cap.",
    ),
    "joined": ("file added to a sum", "A file joined a sum after the base. If it depends on outputs, charge it to a ledger."),
    "ledger": ("room in the ledger", "The runs of all files must fit in the remaining budget of the dataset."),
    "proof": (
        "proof of epsilon",
        "The epsilon of the file, as it is printed, has a proof in ball arithmetic (dpcli certify), which is named by its SHA-256.",
    ),
    "policy": ("policy", "The file must follow the policy. Rules and waivers that match nothing are reported."),
    "policy-change": ("changed policy", "The policy changed. The base's version applies; a new policy applies as written."),
    "waiver": (
        "waiver",
        "A waiver lets a condition fail until a day. Waivers that end soon, are not needed or are invalid are reported.",
    ),
    "link": (
        "link out of the repository",
        "The file must lie in the repository itself, so that the reviewed change contains its content.",
    ),
    "file": ("unreadable file", "The file must be readable, and have an epsilon or rho and a cap."),
    "files": ("nothing to judge", "There must be a file to judge."),
}

# The titles of failed conditions whose general title does not state the failure.
FAILURES = {
    "budget": "epsilon above its cap",
    "rho": "rho above its cap",
    "increase": "epsilon rose more than allowed",
    "horizon": "planned runs above their cap",
    "together": "sum over a dataset above its cap",
}
