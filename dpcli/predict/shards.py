"""Disjoint shards of private data, by unit of privacy, and the premises of sessions that use them.

A *shard* is the part of the private data from which one model, one teacher or one batch of texts is made. The commands pate, pmixed, prompt
and generate deal units out to shards here. The shard of a unit depends on that unit alone: if a unit is added, removed or changed, all
other units stay in their shards, and one change affects one shard. Shards of equal sizes would break this: adding or removing one record
would change all of them. A *premise* is a condition of the guarantee, with who ensures it and the test that breaks it on purpose
(base/premise.py).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from dpcli.base.errors import InputError
from dpcli.base.premise import Premise, Premises
from dpcli.file.pipeline.model import Pipeline
from dpcli.mechanisms.neighbours import Adjacency

KEY = b"dpcli shard 1"  # key of the hash; a new key would move units to other shards

# The premises of every guarantee that a session of private prediction states.
SESSION_PREMISES: Premises = (
    Premise(
        "No answer is drawn twice for one charge.",
        "pate, pmixed, prompt and generate with a ledger; without a ledger, the keeper of the folder",
        "tests/predict/test_one_session.py::test_nothing_that_is_put_back_has_an_answer_drawn_twice",
    ),
    Premise(
        "A session continues with the inputs with which it began.",
        "pate, pmixed, prompt and generate",
        "tests/predict/test_one_session.py::test_a_session_goes_on_with_the_inputs_that_it_began_with",
    ),
    Premise(
        "No message about a private record reveals its position or its content.",
        "pate, pmixed, prompt and generate",
        "tests/predict/votes/test_votes.py::test_what_is_said_of_a_record_tells_neither_where_it_stands_nor_what_it_is",
    ),
)

# The premises of the guarantees of pate, pmixed and prompt, in addition to the premises of the mechanism.
SHARD_PREMISES: Premises = (
    *SESSION_PREMISES,
    Premise(
        "One change of a unit changes the model or the prompt of one shard, and nothing else that answers.",
        "pate, pmixed and prompt; for files and services outside of the process, the author of the model",
        "tests/predict/test_one_change.py::test_one_change_of_the_data_changes_one_model",
    ),
    Premise(
        "Each shard draws its own random numbers, whatever seed the author's code sets.",
        "pate, pmixed and prompt",
        "tests/predict/test_one_change.py::test_no_two_shards_begin_with_the_same_entropy",
    ),
    Premise(
        "The public model has the same content whenever it is built, or the command is refused.",
        "pate, pmixed and prompt",
        "tests/predict/test_one_change.py::test_a_public_model_that_is_another_one_each_time_is_refused_before_the_charge",
    ),
    Premise(
        "The answers of a fitted model depend on no other fitted model.",
        "pmixed, which runs a model of the author's code in a separate process",
        "tests/predict/test_one_change.py::test_one_change_of_the_data_changes_what_one_fitted_model_answers",
    ),
    Premise(
        "Processes and files of a learner end with it, and its output is discarded.",
        "pate, pmixed and prompt; for a process that starts its own session, the author of the learner",
        "tests/predict/test_one_change.py::test_nothing_is_left_of_a_learner_and_nothing_is_shown",
    ),
    Premise(
        "The memory of a model about one shard reaches no other shard.",
        "prompt; elsewhere the separate process of each shard",
        "tests/predict/test_prompt.py::test_what_a_model_remembers_of_one_teacher_reaches_no_other",
    ),
)


def shard_of(unit: str | int, shards: int, salt: str = "") -> int:
    """Return the shard of a unit, from 0 to shards - 1, by a hash of its name. Another salt, a public text, gives other shards."""
    # The unit's type and the salt's length are hashed too, so that 1 and "1" are different units, and no salt runs into a unit. A text may
    # have a lone surrogate, which UTF-8 refuses without "surrogatepass".
    type_name = "number" if isinstance(unit, int) else "text"
    digest = hashlib.blake2b(f"{len(salt)} {salt} {type_name} {unit}".encode("utf-8", "surrogatepass"), key=KEY).digest()
    return int.from_bytes(digest[:16], "big") % shards  # 128 bits, so that all shards are practically equally likely


def shards_of(units: Iterable[str | int], shards: int, salt: str = "") -> list[list[int]]:
    """Return, for each shard, the indices in `units` of its records, in order. A shard may be empty."""
    indices: list[list[int]] = [[] for _ in range(shards)]
    for index, unit in enumerate(units):
        indices[shard_of(unit, shards, salt)].append(index)
    return indices


def shards_of_texts(
    texts: Sequence[str], units: Sequence[str | int], names_owners: bool, adjacency: Adjacency, shards: int, salt: str = ""
) -> list[list[int]]:
    """Return, for each shard, the indices of its texts, in order. Blank texts are left out.

    Args:
        units: The owner of each text if the file names owners, and the texts themselves otherwise.
        names_owners: Whether the file names owners. Otherwise each text is a unit. Under replace-one it is named by its index, because a
            text that changes keeps its index. Under the other adjacencies it is named by its content, because indices change if other texts
            are added, removed or blanked.
    """
    is_named_by_index = adjacency is Adjacency.REPLACE_ONE and not names_owners
    names = range(len(units)) if is_named_by_index else units
    return [[index for index in indices if texts[index].strip()] for indices in shards_of(names, shards, salt)]


def refuse_replaced_units(key: str, adjacency: Adjacency, path: str) -> None:
    """Raise InputError under replace-one if the file names owners or shards, by `key`.

    A replaced unit would leave its shard, and the new one may enter another: two shards would change, while the cost covers one.
    """
    if adjacency is Adjacency.REPLACE_ONE:
        raise InputError(
            f'{path}: privacy.adjacency: expected "add-remove" or "zero-out" with {key}, found "replace-one": if one unit replaces '
            "another, the shards of both change"
        )


def require_units(pipeline: Pipeline, units: str | None, path: str, table: str) -> None:
    """Raise InputError if a unit may own several records but no key names owners, or if owners are named under replace-one."""
    privacy = pipeline.privacy
    reason = None
    if privacy.unit not in (None, "example"):  # None and "example" are a single record
        reason = f'the unit of privacy is "{privacy.unit}"'
    elif (privacy.max_contributions or 1) > 1:
        reason = f"max_contributions = {privacy.max_contributions}"
    if units is None and reason is not None:
        raise InputError(f"{path}: {table}.units: set it to the column that names each record's owner, as {reason}")
    if units is not None:
        refuse_replaced_units(f"{table}.units", privacy.adjacency, path)
