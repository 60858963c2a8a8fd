"""The student of `dpcli pate student`, which learns from released labels and public inputs. This costs no further privacy.

A *query* is a public input that teachers, fitted to private data, labelled by a noisy vote (pate_session.py). Only labels that this vote
released, and public inputs, may enter: the student is published. Its own predictions may label the remaining queries (*pseudo-labels*).

With `check = "student"`, a student is also trained during the session of `dpcli pate label`, on the labels released so far. It predicts the
label of each query (`predictor`). A query is then answered only if the votes differ enough from the prediction, by a threshold. If a query
is not answered, a confident prediction becomes its label (`Transcript.student_labels`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dpcli.base.errors import InputError
from dpcli.numerics.arrays import Array, np
from dpcli.predict.pate.learners import Constant, Learnt, learner_of, require_learner
from dpcli.predict.pate.records import Records, public_test_records, queries_digest, query_inputs
from dpcli.predict.pate.transcript import Transcript, read_transcript
from dpcli.sessions.folder import replace_file

if TYPE_CHECKING:
    from dpcli.predict.pate.pate_plan import VotingPlan

STUDENT = "student.pickle"  # name of the student's file in the folder of the session


@dataclass(frozen=True, slots=True)
class StudentOutcome:
    """The outcome of teaching the student.

    Attributes:
        labelled: Number of training inputs labelled by the teachers.
        pseudo: Number of training inputs labelled by the student itself.
        accuracy: Accuracy on the public test records; None if there are none.
        tested: Number of public test records.
        is_written: Whether the student was written to the session's folder.
    """

    plan: VotingPlan
    transcript: Transcript
    labelled: int
    pseudo: int
    accuracy: float | None
    tested: int
    is_written: bool


def predictor(plan: VotingPlan) -> Callable[[Transcript, int, int], Array]:
    """Return a function that predicts the labels of queries from the labels released so far, as `Predict` in pate_session.py.

    It returns probabilities, which are equal for all labels until two different labels have been released. It raises InputError if a
    student from the user's code predicts NaN or inf.
    """
    require_learner(plan.pate.student)
    inputs, classes = query_inputs(plan.pate, plan.path), plan.pate.labels

    def predict(transcript: Transcript, first: int, stop: int) -> Array:
        released = _released_records(transcript, inputs)
        if len(np.unique(released.labels)) < 2:
            return np.full((stop - first, classes), 1.0 / classes)
        student = _fit_student(plan, released)
        predictions = student.probabilities(inputs[first:stop])
        if not np.isfinite(predictions).all():  # Their cost given the votes would not be defined.
            raise InputError(f"{plan.path}: pate.student: expected a probability of each label, found NaN or inf")
        return predictions

    return predict


def teach_student(plan: VotingPlan) -> StudentOutcome:
    """Train the student on the released labels of a session, and then also on its own labels of the other queries.

    Raises InputError if the session has no labels, or the file does not name the inputs of its queries.
    """
    pate = plan.pate
    require_learner(pate.student)
    transcript = read_transcript(plan)
    if transcript is None or not transcript.labels:
        raise InputError(f"{plan.folder}: no labels of a session; run dpcli pate label {plan.path} first")
    inputs, test = query_inputs(pate, plan.path), public_test_records(pate, plan.path)
    transcript.session.require_same({"queries": queries_digest(inputs)})
    if test is not None and test.inputs.shape[1] != inputs.shape[1]:
        width = inputs.shape[1]
        raise InputError(f"{plan.path}: pate.test: expected inputs of the queries' width, {width}, found {test.inputs.shape[1]}")
    released = _released_records(transcript, inputs)
    student = _fit_student(plan, released)
    no_records = released.at(slice(0, 0))
    pseudo = _pseudo_labels(student, released, transcript, inputs) if pate.pseudo_labels else no_records
    if len(pseudo):
        both = Records(np.concatenate((released.inputs, pseudo.inputs)), np.concatenate((released.labels, pseudo.labels)))
        student = _fit_student(plan, both)
    is_written = _write_student(plan, student)
    accuracy, tested = None, 0
    if test is not None:
        predicted = student.probabilities(test.inputs).argmax(axis=1)
        accuracy, tested = float((predicted == test.labels).mean()), len(test)
    return StudentOutcome(
        plan,
        transcript,
        labelled=len(transcript.labels),
        pseudo=len(pseudo),
        accuracy=accuracy,
        tested=tested,
        is_written=is_written,
    )


def _fit_student(plan: VotingPlan, records: Records) -> Learnt:
    return learner_of(plan.pate.student, plan.pate.labels, plan.pate.hidden, plan.path)(records)


def _released_records(transcript: Transcript, inputs: Array) -> Records:
    """Return the queries with a label, in their order. A label was released, or predicted by the student during the session."""
    labels = {**transcript.student_labels, **transcript.labels}
    queries = np.array(sorted(labels), dtype=int)
    return Records(inputs[queries], np.array([labels[query] for query in queries.tolist()], dtype=int))


def _pseudo_labels(student: Learnt, released: Records, transcript: Transcript, inputs: Array) -> Records:
    """Return the queries without a label, with labels that the student predicts."""
    is_unlabelled = np.ones(len(inputs), dtype=bool)
    is_unlabelled[np.array(sorted({**transcript.student_labels, **transcript.labels}), dtype=int)] = False
    unlabelled = inputs[is_unlabelled]
    if isinstance(student, Constant) or not len(unlabelled):  # a constant student would learn nothing from its own labels
        return released.at(slice(0, 0))
    return Records(unlabelled, np.asarray(student.probabilities(unlabelled).argmax(axis=1)))


def _write_student(plan: VotingPlan, student: Learnt) -> bool:
    """Write the student as a pickle, and return whether it could be pickled. Only read a pickle from a trusted folder.

    A student that cannot be pickled is not written, and its accuracy is reported all the same.
    """
    import pickle

    try:
        content = pickle.dumps(getattr(student, "model", student))  # `Fitted` wraps a model; `Constant` is one
    except Exception:  # An object from the user's code may raise anything.
        return False
    replace_file(os.path.join(plan.folder, STUDENT), content)
    return True
