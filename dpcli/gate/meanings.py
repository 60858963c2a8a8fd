"""What each condition of the gate asks, for whoever meets its name in a report."""

from __future__ import annotations

MEANINGS: dict[str, str] = {
    "budget": "Epsilon, as an upper bound at the budget's delta, is at most the cap of flag, policy or file.",
    "rho": "Rho of zero-concentrated differential privacy is at most its cap, which holds beside that on epsilon.",
    "delta": "A file holds its epsilon to no larger delta than the one that it promises.",
    "increase": "Epsilon rises over the base by no more than is allowed, at the base's delta.",
    "statement": "The number still means what it meant at the base, and the file holds itself to no less than before.",
    "terms": "The file changed other words of its statement, none of which weakens what holds here.",
    "claim": "A change lowers epsilon by what the file says of its data or program, and not by noise: read whether that is so.",
    "data": "The file has a command read the data that it read at the base: other data may be other people's.",
    "restatement": "A mechanism that was priced by its noise does not come to state its own cost, which nobody can check.",
    "mechanism": "A mechanism of the base is gone: what it has released stays released.",
    "deleted": "A pipeline of the base is gone: what it has released stays released, and nothing counts it here.",
    "moved": "A pipeline of the base was moved to a file that nobody gave to the gate.",
    "missed": "A pipeline that the change touches was not given to the gate.",
    "workflow": "No workflow file that calls dpcli differs from the base: it decides whether the gate runs and whether a no counts.",
    "horizon": "All runs of a schedule that was fixed in advance stay within their cap together.",
    "together": "What the pipelines of the repository say of one dataset stays within the policy's cap, added up. Premise: all files were "
    "fixed before the first of them ran.",
    "joined": "No file came to a sum after the base: what was chosen from outputs of the others is charged to a ledger, not added here.",
    "ledger": "The runs of all files would still fit into what is left of the dataset's budget.",
    "policy": "The file keeps to what the policy requires and forbids; a policy's own rules and waivers match something.",
    "policy-change": "The policy itself is another than at the base, or is new: the base's binds, and a new one as it stands.",
    "waiver": "A waiver lets one condition fail until a day: one that ends soon, is not needed or does not count is told.",
    "link": "A file lies in the repository itself, where the change that is reviewed holds it.",
    "file": "A file can be read, and has a number and a cap to judge it by.",
    "files": "There is something to judge.",
}


def meaning(name: str) -> str:
    """What a condition asks, for the names of `Condition`. Raises KeyError for any other: whoever adds one says what it is."""
    return f"{MEANINGS[name]} All conditions are in dpcli-gate(7)."
