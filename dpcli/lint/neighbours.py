"""Rules about who is compared with whom: the adjacency, and the unit of privacy."""

from __future__ import annotations

from collections.abc import Iterator

from dpcli.base.errors import InputError
from dpcli.file.pipeline.model import Pipeline
from dpcli.lint.rule import HEAD, RuleFinding, RuleInfo, edited, entries
from dpcli.mechanisms.neighbours import Adjacency


def _mixed_adjacency(pipeline: Pipeline) -> Iterator[RuleFinding]:
    wanted = pipeline.privacy.adjacency
    for path, entry in entries(pipeline):
        if entry.spec.shows_presence and wanted is Adjacency.ADD_REMOVE:
            message = (
                "it hides a record's category and not its presence: expected adjacency = replace-one or zero-out, found add-remove"
            )
            yield RuleFinding((*path, "type"), message)
        stated, key = getattr(entry.spec, "adjacency", None), (*path, "adjacency")
        if stated is None:
            continue
        from dpcli.mechanisms.stated.stated import conversion  # what states an adjacency has loaded it already

        try:
            changes = conversion(stated, wanted)
        except InputError as refusal:
            yield RuleFinding(key, str(refusal))
            continue
        if changes > 1:
            yield RuleFinding(
                key, f"stated under {stated.value}, counted as {changes} such changes for one {wanted.value}", "warning"
            )


def _record_or_unit(pipeline: Pipeline) -> Iterator[RuleFinding]:
    records = pipeline.privacy.max_contributions or 1
    for path, entry in entries(pipeline):
        if records > 1 and getattr(entry.spec, "stated_for", "unit") is None:
            yield RuleFinding(
                (*path, "stated_for"),
                f'expected stated_for = "record" or "unit" where a unit contributes at most {records} records, found nothing',
            )


SURVEY = """
[[mechanism]]
name = "survey"
type = "pure-dp"
epsilon = 0.5
adjacency = "add-remove"
"""

OF_USERS = edited(HEAD, 'unit = "example"', 'unit = "user"\nmax_contributions = 5')

MIXED_ADJACENCY = RuleInfo(
    code="DP103",
    severity="error",
    waivable=False,
    title="adjacencies mixed",
    what="A stated guarantee holds under another adjacency than the file's. Stated under add-remove or zero-out in a "
    "file with replace-one, it is converted as two changes (a warning); any other difference has no conversion "
    "(an error). So is randomized-response under add-remove: a record that is absent gives no answer.",
    why="The same mechanism has about half the epsilon under add-remove that it has under replace-one, so that a sum "
    "over both means nothing; two published accountants disagree about one mechanism for this reason.",
    fix="State the guarantee under the file's adjacency, from its proof; or change the file's.",
    source="Kifer & Machanavajjhala 2011, No Free Lunch in Data Privacy, SIGMOD; Vadhan 2017, The Complexity of "
    "Differential Privacy, lemma 2.2",
    bad=HEAD + edited(SURVEY, "add-remove", "replace-one"),
    good=HEAD + SURVEY,
    check=_mixed_adjacency,
)

RECORD_OR_UNIT = RuleInfo(
    code="DP104",
    severity="error",
    waivable=True,
    title="a record's guarantee taken for a user's",
    what="A unit of privacy may contribute several records (max_contributions), and a mechanism with a stated epsilon does "
    "not say whether that epsilon covers one record or the whole unit.",
    why="An epsilon per record grows with the number of records to an epsilon per user: with five of them, fivefold. "
    "Libraries state it per record unless they say otherwise.",
    fix='Set stated_for = "record", and dpcli applies the group theorem; or stated_for = "unit" where the proof is for the unit.',
    source="Dwork & Roth 2014, The Algorithmic Foundations of Differential Privacy, theorem 2.2; Ponomareva et al. "
    "2023, arXiv:2303.00654",
    bad=OF_USERS + SURVEY,
    good=OF_USERS + SURVEY + 'stated_for = "record"\n',
    check=_record_or_unit,
)
