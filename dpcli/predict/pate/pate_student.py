"""The student: it learns from the labels that were released and from public inputs, so that whatever it does costs nothing more."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.pate.learners import Constant, Learnt, learnt, require_learner
from dpcli.predict.pate.records import Records, queries_digest, query_inputs, test_records
from dpcli.predict.pate.transcript import read_transcript
from dpcli.sessions.folder import replaced

if TYPE_CHECKING:
    from dpcli.predict.pate.pate_plan import VotingPlan
    from dpcli.predict.pate.transcript import Transcript

STUDENT = "student.pickle"


@dataclass(frozen=True, slots=True)
class StudentOutcome:
    """The outcome of teaching the student. labelled: by teachers; pseudo: by itself. accuracy: on the public test, None without one."""

    plan: VotingPlan
    transcript: Transcript
    labelled: int
    pseudo: int
    accuracy: float | None
    tested: int


def predictor(plan: VotingPlan) -> Callable[[Transcript, int, int], Array]:
    """Return what predicts labels of queries from those that were released before; all labels alike where there is none yet."""
    require_learner(plan.pate.student)
    inputs, pate = query_inputs(plan.pate, plan.path), plan.pate

    def predict(transcript: Transcript, first: int, stop: int) -> Array:
        known = _known(transcript, inputs)
        if len(np.unique(known.labels)) < 2:
            return np.full((stop - first, pate.labels), 1.0 / pate.labels)
        return learnt(pate.student, known, pate.labels, pate.hidden, plan.path).probabilities(inputs[first:stop])

    return predict


def teach(plan: VotingPlan) -> StudentOutcome:
    """Learn from the labels of a session that has been held, then from these and its own of all other queries.

    Raises InputError where there is no session, or no inputs that were asked about.
    """
    pate = plan.pate
    require_learner(pate.student)
    transcript = read_transcript(plan)
    if transcript is None or not transcript.labels:
        raise InputError(f"{plan.folder}: no labels of a session: dpcli pate label {plan.path} makes them")
    inputs, test = query_inputs(pate, plan.path), test_records(pate, plan.path)
    transcript.session.require_same({"queries": queries_digest(inputs)})
    if test is not None and test.inputs.shape[1] != inputs.shape[1]:
        width = inputs.shape[1]
        raise InputError(f"{plan.path}: pate.test: expected inputs of the queries' width, {width}, found {test.inputs.shape[1]}")
    known = _known(transcript, inputs)
    student = learnt(pate.student, known, pate.labels, pate.hidden, plan.path)
    pseudo = _rest(student, known, transcript, inputs) if pate.pseudo_labels else known.at(slice(0, 0))
    if len(pseudo):
        both = Records(np.concatenate((known.inputs, pseudo.inputs)), np.concatenate((known.labels, pseudo.labels)))
        student = learnt(pate.student, both, pate.labels, pate.hidden, plan.path)
    _leave(plan, student)
    accuracy = None if test is None else float((student.probabilities(test.inputs).argmax(axis=1) == test.labels).mean())
    return StudentOutcome(plan, transcript, len(transcript.labels), len(pseudo), accuracy, 0 if test is None else len(test))


def _known(transcript: Transcript, inputs: Array) -> Records:
    """Return the queries with released labels, in their order."""
    labels = {**transcript.reinforced, **transcript.labels}
    at = np.array(sorted(labels), dtype=int)
    return Records(inputs[at], np.array([labels[query] for query in at.tolist()], dtype=int))


def _rest(student: Learnt, known: Records, transcript: Transcript, inputs: Array) -> Records:
    """Return the other queries with the student's own labels."""
    others = np.ones(len(inputs), dtype=bool)
    others[np.array(sorted({**transcript.reinforced, **transcript.labels}), dtype=int)] = False
    rest = inputs[others]
    if isinstance(student, Constant) or not len(rest):
        return known.at(slice(0, 0))
    return Records(rest, np.asarray(student.probabilities(rest).argmax(axis=1)))


def _leave(plan: VotingPlan, student: Learnt) -> None:
    """Write the student, for whoever trusts this folder: it is read by unpickling. What cannot be pickled is not left."""
    import pickle

    try:
        content = pickle.dumps(getattr(student, "model", student))
    except Exception:  # of the user's own class
        return
    replaced(os.path.join(plan.folder, STUDENT), content)
