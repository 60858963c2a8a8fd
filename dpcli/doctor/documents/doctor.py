"""A diagnosis as a document."""

from __future__ import annotations

from dpcli.doctor.examine import healthy
from dpcli.doctor.fact import Fact
from dpcli.document.document import Check, Document, Table


def document(facts: tuple[Fact, ...]) -> Document:
    """Everything that `dpcli doctor` says; exit code 1 where something that dpcli needs is broken."""
    well = healthy(facts)
    warned = [fact for fact in facts if fact.verdict == "warn"]
    advised = [fact for fact in facts if fact.advice and fact.verdict in ("warn", "fail")]
    rows = tuple((fact.name, fact.verdict, fact.value) for fact in facts)
    return Document(
        headline=_headline(facts, len(warned)),
        data={"schema": "dpcli/doctor/v1", "facts": [_record(fact) for fact in facts], "exit_code": int(not well)},
        verdict="fail" if not well else "warn" if warned else "pass",
        tables=(
            Table(
                "what dpcli needs and finds",
                ("what", "verdict", "found"),
                rows,
                flagged=frozenset(i for i, fact in enumerate(facts) if fact.verdict in ("warn", "fail")),
            ),
        ),
        notes=tuple(f"{fact.name}: {fact.advice}" for fact in advised),
        checks=tuple(Check(fact.name, fact.verdict != "fail", fact.advice) for fact in facts),
        exit_code=int(not well),
        log=tuple(map(_line, facts)),
        records=[_record(fact) for fact in facts],
    )


def _headline(facts: tuple[Fact, ...], warned: int) -> str:
    broken = [fact.name for fact in facts if fact.verdict == "fail"]
    if broken:
        return f"broken: {', '.join(broken)}"
    return f"nothing is broken; {warned} warning{'' if warned == 1 else 's'}"


def _line(fact: Fact) -> str:
    return f"{fact.verdict:<6}  {fact.name}: {fact.value}" + (f" ({fact.advice})" if fact.advice else "")


def _record(fact: Fact) -> dict[str, str]:
    return {"name": fact.name, "value": fact.value, "verdict": fact.verdict, "advice": fact.advice}
