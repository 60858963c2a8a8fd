"""Learners of teachers and of the student, and the training of the student.

A learner is a classifier of scikit-learn, or a function written by the user. It gets inputs (n, width) and labels (n,), and returns a model
that predicts probabilities of labels, or only labels. The student learns from released labels and public inputs, which costs no further
privacy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import on_private
from dpcli.predict.pate.pate_plan import LEARNERS
from dpcli.predict.pate.records import Records, queries_digest, query_inputs, test_records
from dpcli.predict.pate.transcript import Transcript, read_transcript
from dpcli.sessions.folder import replace_file
from dpcli.train.tasks.user_code import user

if TYPE_CHECKING:
    from dpcli.predict.pate.pate_plan import VotingPlan

MOST_ITERATIONS = 200  # largest number of iterations of scikit-learn's solvers


class Learnt(Protocol):
    """A fitted classifier."""

    def probabilities(self, inputs: Array) -> Array:
        """Return the probability of each label, (n, classes); 1 for the predicted label if the learner only predicts labels."""
        ...


class Constant:
    """A classifier that always predicts one label. It is used for records that all have one label, or for no records."""

    def __init__(self, label: int, classes: int) -> None:
        self.label, self.classes = label, classes

    def probabilities(self, inputs: Array) -> Array:
        return one_hot(np.full(len(inputs), self.label), self.classes)


class Fitted:
    """A fitted model with predict(inputs), which returns labels. predict_proba and classes_ are used if the model has them."""

    def __init__(self, model: Any, classes: int, target: str) -> None:
        self.model, self.classes, self.target = model, classes, target

    def probabilities(self, inputs: Array) -> Array:
        return np.asarray(on_private(self.target, self._probabilities, inputs))

    def _probabilities(self, inputs: Array) -> Array:
        classes = getattr(self.model, "classes_", None)
        if classes is not None and hasattr(self.model, "predict_proba"):
            chances = np.zeros((len(inputs), self.classes))
            chances[:, np.asarray(classes, dtype=int)] = self.model.predict_proba(inputs)
            return chances
        return one_hot(self._labels(inputs), self.classes)

    def _labels(self, inputs: Array) -> Any:
        """Return the predicted labels, (n,). Raises InputError if they are not whole numbers from 0 to classes - 1."""
        predicted = self.model.predict(inputs)
        if hasattr(predicted, "detach"):  # a tensor
            predicted = predicted.detach().cpu().numpy()
        labels = np.asarray(predicted)
        are_numbers = labels.dtype.kind in "iuf" and labels.shape == (len(inputs),) and np.isfinite(labels).all()
        if not are_numbers or not ((labels == np.floor(labels)) & (labels >= 0) & (labels < self.classes)).all():
            raise InputError(f"{self.target}: predict: expected a label from 0 to {self.classes - 1} for each input")
        return labels.astype(int)


def one_hot(labels: Any, classes: int) -> Array:
    """Return (n, classes) with 1 at each label."""
    rows = np.zeros((len(labels), classes))
    rows[np.arange(len(labels)), labels] = 1.0
    return rows


def require_learner(name: str) -> None:
    """Raise Unavailable if a package that the learner needs is not installed."""
    if name in LEARNERS:
        require("sklearn")


def train_learner(name: str, records: Records, classes: int, hidden: int, path: str) -> Learnt:
    """Return a classifier fitted to these records. It is constant if the records have a single label, or if there are none."""
    return learner_of(name, classes, hidden, path)(records)


def learner_of(name: str, classes: int, hidden: int, path: str) -> Callable[[Records], Learnt]:
    """Return the function that fits a classifier to records. The user's module, if any, is imported by this call."""
    function = None if name in LEARNERS else user(name, path)

    def learner(records: Records) -> Learnt:
        labels = np.unique(records.labels)
        if len(labels) < 2:
            return Constant(int(labels[0]) if len(labels) else 0, classes)
        if function is not None:
            return Fitted(on_private(name, _user_model, name, function, records), classes, name)
        model = SKLEARN[name](hidden, len(records))
        # scikit-learn warns if a model has not converged. Such a model is used nevertheless.
        return Fitted(on_private(name, model.fit, records.inputs, records.labels), classes, name)

    return learner


def _user_model(name: str, function: Callable[..., Any], records: Records) -> Any:
    model = function(records.inputs, records.labels)
    if not callable(getattr(model, "predict", None)):
        raise InputError(f"{name}: expected a model with predict(inputs), found {type(model).__name__}")
    return model


def _logistic(hidden: int, count: int) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=MOST_ITERATIONS))


def _mlp(hidden: int, count: int) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = MLPClassifier((hidden,), max_iter=MOST_ITERATIONS, batch_size=min(64, count), random_state=0)
    return make_pipeline(StandardScaler(), network)


def _svm(hidden: int, count: int) -> Any:
    """Return a support vector machine with Gaussian kernels scaled to the variance of the inputs. It predicts labels only."""
    from sklearn.svm import SVC

    return SVC(C=10.0)


SKLEARN: dict[str, Callable[[int, int], Any]] = {"logistic": _logistic, "mlp": _mlp, "svm": _svm}


STUDENT = "student.pickle"  # name of the student's file in the folder of the session


@dataclass(frozen=True, slots=True)
class StudentOutcome:
    """The outcome of teaching the student.

    Attributes:
        labelled: Number of training inputs labelled by the teachers.
        pseudo: Number of training inputs labelled by the student itself.
        accuracy: Accuracy on the public test records; None if there are none.
        tested: Number of test records.
    """

    plan: VotingPlan
    transcript: Transcript
    labelled: int
    pseudo: int
    accuracy: float | None
    tested: int


def predictor(plan: VotingPlan) -> Callable[[Transcript, int, int], Array]:
    """Return a function that predicts the labels of queries from the labels released so far.

    It returns probabilities. They are equal for all labels until two different labels have been released.
    """
    require_learner(plan.pate.student)
    inputs, pate = query_inputs(plan.pate, plan.path), plan.pate

    def predict(transcript: Transcript, first: int, stop: int) -> Array:
        labelled = _released_records(transcript, inputs)
        if len(np.unique(labelled.labels)) < 2:
            return np.full((stop - first, pate.labels), 1.0 / pate.labels)
        return train_learner(pate.student, labelled, pate.labels, pate.hidden, plan.path).probabilities(inputs[first:stop])

    return predict


def teach_student(plan: VotingPlan) -> StudentOutcome:
    """Train the student on the released labels of a session, and then also on its own labels of the other queries.

    Raises:
        InputError: If the session has no labels, or the file does not name the inputs of its queries.
    """
    pate = plan.pate
    require_learner(pate.student)
    transcript = read_transcript(plan)
    if transcript is None or not transcript.labels:
        raise InputError(f"{plan.folder}: no labels of a session; run dpcli pate label {plan.path} first")
    inputs, test = query_inputs(pate, plan.path), test_records(pate, plan.path)
    transcript.session.require_same({"queries": queries_digest(inputs)})
    if test is not None and test.inputs.shape[1] != inputs.shape[1]:
        width = inputs.shape[1]
        raise InputError(f"{plan.path}: pate.test: expected inputs of the queries' width, {width}, found {test.inputs.shape[1]}")
    labelled = _released_records(transcript, inputs)
    student = train_learner(pate.student, labelled, pate.labels, pate.hidden, plan.path)
    pseudo = _pseudo_labels(student, labelled, transcript, inputs) if pate.pseudo_labels else labelled.at(slice(0, 0))
    if len(pseudo):
        both = Records(np.concatenate((labelled.inputs, pseudo.inputs)), np.concatenate((labelled.labels, pseudo.labels)))
        student = train_learner(pate.student, both, pate.labels, pate.hidden, plan.path)
    _write_student(plan, student)
    accuracy, tested = None, 0
    if test is not None:
        predicted = student.probabilities(test.inputs).argmax(axis=1)
        accuracy, tested = float((predicted == test.labels).mean()), len(test)
    return StudentOutcome(plan, transcript, len(transcript.labels), len(pseudo), accuracy, tested)


def _released_records(transcript: Transcript, inputs: Array) -> Records:
    """Return the queries with a label, in their order. A label was released, or predicted by the student during the session."""
    labels = {**transcript.reinforced, **transcript.labels}
    queries = np.array(sorted(labels), dtype=int)
    return Records(inputs[queries], np.array([labels[query] for query in queries.tolist()], dtype=int))


def _pseudo_labels(student: Learnt, labelled: Records, transcript: Transcript, inputs: Array) -> Records:
    """Return the queries without a label, with labels that the student predicts."""
    others = np.ones(len(inputs), dtype=bool)
    others[np.array(sorted({**transcript.reinforced, **transcript.labels}), dtype=int)] = False
    rest = inputs[others]
    if isinstance(student, Constant) or not len(rest):
        return labelled.at(slice(0, 0))
    return Records(rest, np.asarray(student.probabilities(rest).argmax(axis=1)))


def _write_student(plan: VotingPlan, student: Learnt) -> None:
    """Write the student as a pickle, unless it cannot be pickled. Only read a pickle from a trusted folder."""
    import pickle

    try:
        content = pickle.dumps(getattr(student, "model", student))
    except Exception:  # An object from the user's code may raise anything.
        return
    replace_file(os.path.join(plan.folder, STUDENT), content)
