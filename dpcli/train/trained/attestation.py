"""What may be attested of a run: an in-toto statement about its model's file, made of nothing but what the folder proves.

Unsigned: its bytes are what a tool such as cosign signs, as the payload of a DSSE envelope. Nothing here needs torch.
Source: in-toto Attestation Framework, Statement v1; DSSE v1.0.
"""

from __future__ import annotations

import json
from typing import Any

from dpcli.base.errors import InputError
from dpcli.base.rounding import up
from dpcli.train.plan.plan import TrainingPlan, plan_of
from dpcli.train.run.description import LEFT, Description, description_in, digest_of
from dpcli.train.run.guarantee import guarantee
from dpcli.train.run.outcome import DESCRIPTION, MODEL, PIPELINE, STATEMENT
from dpcli.train.trained.stamp import require_stamp

STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:dpcli:private-training:v1"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
# What the same file may cost less on another machine: the last digits of its sums.
ROUNDING = 1e-9


def attestation(folder: str) -> dict[str, Any]:
    """The statement: the model's digest, and the guarantee with everything that it rests on.

    The guarantee is priced anew from the run's own copy of its file, and attested only where it says no less.

    Raises:
        InputError: the folder holds no run that describes itself, or one that is NOT PRIVATE; a file has changed since the run; two places
            disagree about its privacy; its file costs more than it claims. CannotCertify: nobody can say what the file costs.
    """
    found = description_in(folder)
    require_private(found, found.guarantee["private"] is True)
    changed = found.changed()
    if changed:
        raise InputError(f"{found.path(changed[0])}: expected the file that the run left, found another, or none")
    with open(found.path(STATEMENT), "rb") as file:
        said = file.readline()
    require_private(found, b"NOT PRIVATE" not in said)  # where a description was changed by hand
    require_stamp(found)
    plan = plan_of(found.path(PIPELINE))
    require_claim(found, plan)
    verdict = f": epsilon <= {up(found.guarantee['epsilon'])} at delta = {found.guarantee['delta']!r}."
    if verdict.encode() not in said:
        raise InputError(f"{found.path(STATEMENT)}: expected the statement of this run, with{verdict[1:-1]}, found another run's")
    return {
        "_type": STATEMENT_TYPE,
        "subject": [_resource(name, found.files[name]) for name in (MODEL, *_adapter(found))],
        "predicateType": PREDICATE_TYPE,
        "predicate": {
            "run": found.run,
            "dpcli": found.version,
            "guarantee": dict(found.guarantee),
            "repeated": [list(portion) for portion in found.repeated],
            "statement": _resource(STATEMENT, found.files[STATEMENT]),
            "pipeline": _resource(PIPELINE, found.files[PIPELINE]),
            "description": _resource(DESCRIPTION, digest_of(found.path(DESCRIPTION))),
            "ledger": found.ledger,
        },
    }


def text_of(statement: dict[str, Any]) -> bytes:
    """As it is written: the same bytes for the same run."""
    return (json.dumps(statement, indent=1, sort_keys=True) + "\n").encode()


def _adapter(found: Description) -> list[str]:
    """The same weights, as PEFT reads them."""
    return sorted(found.files.keys() - {*LEFT})


def require_private(found: Description, private: bool) -> None:
    """Nobody may attest what a seed can undo. Raises InputError."""
    if not private:
        raise InputError(
            f"{found.folder}: expected a private run, found one that is NOT PRIVATE (seeded noise, or laid open to an audit): nothing is "
            "attested"
        )


def require_claim(found: Description, plan: TrainingPlan) -> None:
    """Raise InputError where the file, as this version prices it, does not give what the run claims."""
    if any(not 0 <= start < stop <= plan.steps for start, stop in found.repeated):
        raise InputError(f"{found.path(DESCRIPTION)}: expected portions of {plan.steps} steps, found others")
    claimed = dict(found.guarantee)
    priced = guarantee(_on_its_blocks(found, plan).on_rows(found.rows), found.repeated, True)
    least, stated = priced["epsilon"] * (1.0 - ROUNDING), claimed["epsilon"]
    if not stated >= least:
        raise InputError(
            f"{found.path(DESCRIPTION)}: expected epsilon {priced['epsilon']!r} or more, as its file costs, found {stated!r}"
        )
    free = {"epsilon", "accountant"}  # of the version that trained
    for name in sorted(priced.keys() | claimed.keys()):
        if name not in free and priced.get(name) != claimed.get(name):
            raise InputError(
                f"{found.path(DESCRIPTION)}: guarantee.{name}: expected {priced.get(name)!r}, found {claimed.get(name)!r}"
            )


def _on_its_blocks(found: Description, plan: TrainingPlan) -> TrainingPlan:
    """The plan with the window of the run where its file leaves that to a flag: what it costs does not depend on it."""
    charged, said = (found.ledger or {}).get("window"), found.guarantee.get("window")
    if plan.pipeline.privacy.window is not None or (charged is None and "window" not in found.guarantee):
        return plan
    if not charged or said != charged:
        raise InputError(f"{found.path(DESCRIPTION)}: guarantee.window: expected the blocks that its ledger charged, found others")
    return plan.over(tuple(charged))


def _resource(name: str, digest: str) -> dict[str, Any]:
    return {"name": name, "digest": {"sha256": digest}}
