"""Disjoint shards of private data, by unit of privacy.

The shard of a unit depends on that unit alone. If a unit is added, removed or changed, all others stay in their shards, so that one change
affects one model. Shards of equal sizes would all change when one record is added or removed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from dpcli.base.errors import InputError
from dpcli.base.premise import Premise, Premises
from dpcli.file.pipeline.model import Pipeline
from dpcli.mechanisms.neighbours import Adjacency

KEY = b"dpcli shard 1"  # key of the hash; another one would move units to other shards

# The premises of the numbers of every session of private prediction.
SESSIONS: Premises = (
    Premise(
        "No answer is drawn twice for one charge.",
        "pate, pmixed, prompt and generate with a ledger; of a folder without one, who keeps it",
        "tests/predict/test_one_session.py::test_nothing_that_is_put_back_has_an_answer_drawn_twice",
    ),
    Premise(
        "A session goes on with the content that it began with.",
        "pate, pmixed, prompt and generate",
        "tests/predict/test_one_session.py::test_a_session_goes_on_with_the_inputs_that_it_began_with",
    ),
    Premise(
        "What is said of a private record tells neither where it stands nor what it is.",
        "pate, pmixed, prompt and generate",
        "tests/predict/test_votes.py::test_what_is_said_of_a_record_tells_neither_where_it_stands_nor_what_it_is",
    ),
)

# The premises of the numbers of pate, pmixed and prompt, in addition to those of the mechanism.
PREMISES: Premises = (
    *SESSIONS,
    Premise(
        "One change of a unit changes the model or the prompt of one shard, and nothing else that answers.",
        "pate, pmixed and prompt; of files and services outside of the process, the author of the model",
        "tests/predict/test_one_change.py::test_one_change_of_the_data_changes_one_model",
    ),
    Premise(
        "Each shard draws random numbers of its own, whatever seed the author's code sets.",
        "pate, pmixed and prompt",
        "tests/predict/test_one_change.py::test_no_two_shards_begin_with_the_same_entropy",
    ),
    Premise(
        "The public model is the same one each time that it is made, or its content is kept.",
        "pate, pmixed and prompt",
        "tests/predict/test_one_change.py::test_a_public_model_that_is_another_one_each_time_is_refused_before_the_charge",
    ),
    Premise(
        "What one fitted model has learnt is in the answers of no other.",
        "pmixed: a model of the author's own answers from a process of its own",
        "tests/predict/test_one_change.py::test_one_change_of_the_data_changes_what_one_fitted_model_answers",
    ),
    Premise(
        "What a learner starts, keeps or prints ends with it and is seen by nobody.",
        "pate, pmixed and prompt, but for what begins a session of its own",
        "tests/predict/test_one_change.py::test_nothing_is_left_of_a_learner_and_nothing_is_shown",
    ),
    Premise(
        "What a model remembers of one shard reaches no other.",
        "prompt; elsewhere a process of its own",
        "tests/predict/test_prompt.py::test_what_a_model_remembers_of_one_teacher_reaches_no_other",
    ),
)


def shard_of(unit: str | int, shards: int, salt: str = "") -> int:
    """Return the shard of a unit, from 0 to shards - 1, by a hash of its name.

    Args:
        salt: Public text. Another salt gives other shards.
    """
    kind = "number" if isinstance(unit, int) else "text"
    name = hashlib.blake2b(f"{len(salt)} {salt} {kind} {unit}".encode("utf-8", "surrogatepass"), key=KEY).digest()
    return int.from_bytes(name[:16], "big") % shards


def shards_of(units: Iterable[str | int], shards: int, salt: str = "") -> list[list[int]]:
    """Return, for each shard, the indices in `units` of its records, in order. A shard may be empty."""
    places: list[list[int]] = [[] for _ in range(shards)]
    for place, unit in enumerate(units):
        places[shard_of(unit, shards, salt)].append(place)
    return places


def spread_names(units: Sequence[str | int], names_owners: bool, adjacency: Adjacency) -> Sequence[str | int]:
    """Return the names by which texts are spread over shards.

    If the file names owners (`names_owners`), these are the owners. If not, each text is a unit. Under replace-one it is then named by its
    index, as a text that changes keeps its place. Under the other adjacencies it is named by its content, which is then in `units`, since
    places change when other texts are added, removed or blanked. The caller has to leave out blank texts.
    """
    return range(len(units)) if adjacency is Adjacency.REPLACE_ONE and not names_owners else units


def refuse_replaced_units(key: str, adjacency: Adjacency, path: str) -> None:
    """Raise InputError under replace-one, as the shards of both units would change, and only one change is priced.

    Args:
        key: Key of the file that names the owner, or the shard, of each record.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        raise InputError(
            f'{path}: privacy.adjacency: expected "add-remove" or "zero-out" with {key}, found "replace-one": where one unit takes the '
            "place of another, the shards of both change"
        )


def require_units(pipeline: Pipeline, units: str | None, path: str, table: str) -> None:
    """Raise InputError if a unit may own several records and no key names owners, or if owners are named under replace-one."""
    privacy = pipeline.privacy
    if units is None and ((privacy.max_contributions or 1) > 1 or privacy.unit not in (None, "example")):
        raise InputError(
            f'{path}: {table}.units: set it to the column that names each record\'s owner, as the unit of privacy is "{privacy.unit}"'
        )
    if units is not None:
        refuse_replaced_units(f"{table}.units", privacy.adjacency, path)
