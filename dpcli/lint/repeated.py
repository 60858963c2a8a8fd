"""Rules about the same question, asked again."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from dpcli.file.pipeline.model import Entry, Pipeline
from dpcli.lint.rule import HEAD, RuleFinding, RuleInfo, entries

AGAIN = re.compile(r"[-_ .]+\(?(?:again|retry|retried|repeat|repeated|rerun|copy|bis|[2-9])\)?$", re.IGNORECASE)


def _asked_again(pipeline: Pipeline) -> Iterator[RuleFinding]:
    if pipeline.privacy.releases != "outputs":
        return
    asked = [(path, entry, _question(entry)) for path, entry in entries(pipeline) if not entry.spec.free]
    named = {(question, entry.name) for _, entry, question in asked}
    described: dict[tuple[Entry, str], str] = {}
    for path, entry, question in asked:
        first = AGAIN.sub("", entry.name)
        if first == entry.name or (question, first) not in named:
            first = described.setdefault((question, entry.description), entry.name) if entry.description else entry.name
        if first != entry.name:
            message = f'the same as mechanism["{first}"] with fresh noise, which averages out: publish the first answer again'
            yield RuleFinding((*path, "name"), message)


def _question(entry: Entry) -> Entry:
    """What is asked, and how, without what it is called."""
    return replace(entry, name="", description=None)


COUNTS = """
[[mechanism]]
name = "sign-ups"
type = "discrete-laplace"
scale = 20.0
sensitivity = 1
"""

OUTPUTS = HEAD.replace("final-model", "outputs")

ASKED_AGAIN = RuleInfo(
    code="DP213",
    severity="warning",
    waivable=True,
    title="the same question answered again with fresh noise",
    what='Under releases = "outputs", two mechanisms agree in every key but their names, and have the same description, or '
    'names that differ by a trailing "again", "retry", "copy" or number. A warning, as dpcli charges both; not to charge the '
    "second would be the error.",
    why="Answers to one question average out: after k of them the noise is smaller by the square root of k, and every "
    "answer is paid for. Jobs that failed after the noise was drawn, and were started again, are how this happens.",
    fix="Keep the first answer and publish it again (an idempotency key in the ledger does that); or say in the "
    "descriptions how the questions differ.",
    source="Dinur & Nissim 2003, Revealing Information while Preserving Privacy, PODS; Dwork & Roth 2014, section 8",
    bad=OUTPUTS + COUNTS + COUNTS.replace("sign-ups", "sign-ups-retry"),
    good=OUTPUTS + COUNTS + COUNTS.replace("sign-ups", "log-ins"),
    check=_asked_again,
)
