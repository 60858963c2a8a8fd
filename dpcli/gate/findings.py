"""What the failure catalogue says of a file, and what a policy requires of it, as conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dpcli.file.pipeline.model import Pipeline
from dpcli.file.toml.findings import Diagnostic
from dpcli.file.toml.shown import escaped
from dpcli.gate.policy import Policy, scheme_of
from dpcli.gate.verdicts import Condition, Verdict


def finding_conditions(diagnostics: Sequence[Diagnostic], pipeline: Pipeline) -> Iterator[Condition]:
    """An error of a rule fails the file, a warning is passed on."""
    prefixes = [f'mechanism["{escaped(entry.name)}"]' for entry in pipeline.mechanisms]
    for found in diagnostics:
        about = [
            entry.name
            for entry, prefix in zip(pipeline.mechanisms, prefixes, strict=True)
            if found.key == prefix or found.key.startswith(prefix + ".")
        ]
        # Names are cut in messages: where two look the same, a waiver for one of them must not reach the other.
        mechanism = about[0] if len(about) == 1 else None
        message = f"{found.key}: {found.message}" if found.key else found.message
        verdict: Verdict = "fail" if found.severity == "error" else "warn"
        yield Condition(found.rule, verdict, message, (), (found.line, found.column), mechanism)


def required_conditions(policy: Policy, pipeline: Pipeline) -> Iterator[Condition]:
    """What the policy wants every file to say, and not to do."""
    privacy = pipeline.privacy
    stated = (
        ("unit", privacy.unit, policy.require_unit),
        ("adjacency", privacy.adjacency, policy.require_adjacency),
        ("dataset", privacy.dataset, policy.require_dataset),
    )
    for key, value, allowed in stated:
        if allowed and value not in allowed:
            wanted = " or ".join(str(getattr(item, "value", item)) for item in allowed)
            found = "none" if value is None else getattr(value, "value", value)
            yield Condition("policy", "fail", f"privacy.{key}: the policy expects {wanted}, found {found}", ("privacy", key))
    for index, entry in enumerate(pipeline.mechanisms):
        if not entry.spec.free and scheme_of(entry) in policy.forbid_sampling:
            message = f"{escaped(entry.name)}: the policy forbids sampling scheme {scheme_of(entry)}"
            yield Condition("policy", "fail", message, ("mechanism", index, "sampling"))


def first_of(diagnostics: Sequence[Diagnostic]) -> str:
    """The first thing that is wrong with a file, and how many there are."""
    found = diagnostics[0]
    more = f" (and {len(diagnostics) - 1} more)" if len(diagnostics) > 1 else ""
    place = f"line {found.line}: " if found.line else ""  # a file that is something else has none
    return f"{place}{found.key + ': ' if found.key else ''}{found.message}{more}"
