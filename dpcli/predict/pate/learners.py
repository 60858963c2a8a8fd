"""Learners: of teachers and the student, classifiers of scikit-learn or what a user's own function returns; and the student's lesson.

A learner is given inputs (n, width) and labels (n,), and its result says probabilities, or labels alone, of inputs. The student learns from
the labels that were released and from public inputs, so that whatever it does costs nothing more.
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

ROUNDS = 200  # passes of an mlp, as scikit-learn counts them


class Learnt(Protocol):
    """A classifier that has learnt."""

    def probabilities(self, inputs: Array) -> Array:
        """Return probabilities, (n, classes); of a learner that says labels alone, 1 for the label."""
        ...


class Constant:
    """A classifier that has seen one label, or none: it says that label, or the first."""

    def __init__(self, label: int, classes: int) -> None:
        self.label, self.classes = label, classes

    def probabilities(self, inputs: Array) -> Array:
        return one_hot(np.full(len(inputs), self.label), self.classes)


class Fitted:
    """A model with predict(inputs), of labels, and predict_proba and classes_ if it has them."""

    def __init__(self, model: Any, classes: int, target: str) -> None:
        self.model, self.classes, self.target = model, classes, target

    def probabilities(self, inputs: Array) -> Array:
        return np.asarray(on_private(self.target, self._probabilities, inputs))

    def _probabilities(self, inputs: Array) -> Array:
        known = getattr(self.model, "classes_", None)
        if known is not None and hasattr(self.model, "predict_proba"):
            chances = np.zeros((len(inputs), self.classes))
            chances[:, np.asarray(known, dtype=int)] = self.model.predict_proba(inputs)
            return chances
        return one_hot(self._labels(inputs), self.classes)

    def _labels(self, inputs: Array) -> Any:
        """Return labels, (n,) whole numbers from 0 to classes - 1. Raises InputError for anything else."""
        predicted = self.model.predict(inputs)
        if hasattr(predicted, "detach"):  # a tensor
            predicted = predicted.detach().cpu().numpy()
        labels = np.asarray(predicted)
        numbers = labels.dtype.kind in "iuf" and labels.shape == (len(inputs),) and np.isfinite(labels).all()
        if not numbers or not ((labels == np.floor(labels)) & (labels >= 0) & (labels < self.classes)).all():
            raise InputError(f"{self.target}: predict: expected a label from 0 to {self.classes - 1} for each input")
        return labels.astype(int)


def one_hot(labels: Any, classes: int) -> Array:
    """Return (n, classes) with 1 at each label."""
    rows = np.zeros((len(labels), classes))
    rows[np.arange(len(labels)), labels] = 1.0
    return rows


def require_learner(name: str) -> None:
    """Raise Unavailable if what a learner needs is not installed."""
    if name in LEARNERS:
        require("sklearn")


def train_learner(name: str, records: Records, classes: int, hidden: int, path: str) -> Learnt:
    """Return the classifier that has learnt from these records; from a single label, or from none, there is nothing to learn."""
    return learner_of(name, classes, hidden, path)(records)


def learner_of(name: str, classes: int, hidden: int, path: str) -> Callable[[Records], Learnt]:
    """Return what learns from records, with what it needs imported."""
    function = None if name in LEARNERS else user(name, path)

    def learner(records: Records) -> Learnt:
        seen = np.unique(records.labels)
        if len(seen) < 2:
            return Constant(int(seen[0]) if len(seen) else 0, classes)
        if function is not None:
            return Fitted(on_private(name, _user_model, name, function, records), classes, name)
        model = SKLEARN[name](hidden, len(records))
        # One that has not converged, which is warned of, votes all the same.
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

    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=ROUNDS))


def _mlp(hidden: int, count: int) -> Any:
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    network = MLPClassifier((hidden,), max_iter=ROUNDS, batch_size=min(64, count), random_state=0)
    return make_pipeline(StandardScaler(), network)


def _svm(hidden: int, count: int) -> Any:
    """Return a machine with Gaussian kernels, which are as wide as the inputs vary; it says labels alone."""
    from sklearn.svm import SVC

    return SVC(C=10.0)


SKLEARN: dict[str, Callable[[int, int], Any]] = {"logistic": _logistic, "mlp": _mlp, "svm": _svm}


STUDENT = "student.pickle"


@dataclass(frozen=True, slots=True)
class StudentOutcome:
    """The outcome of teaching the student.

    Attributes:
        labelled: Number of inputs labelled by teachers.
        pseudo: Number of inputs labelled by the student itself.
        accuracy: Accuracy on the public test; None without one.
    """

    plan: VotingPlan
    transcript: Transcript
    labelled: int
    pseudo: int
    accuracy: float | None
    tested: int


def predictor(plan: VotingPlan) -> Callable[[Transcript, int, int], Array]:
    """Return what predicts labels of queries from those that were released before; all labels alike if there is none yet."""
    require_learner(plan.pate.student)
    inputs, pate = query_inputs(plan.pate, plan.path), plan.pate

    def predict(transcript: Transcript, first: int, stop: int) -> Array:
        known = _released_records(transcript, inputs)
        if len(np.unique(known.labels)) < 2:
            return np.full((stop - first, pate.labels), 1.0 / pate.labels)
        return train_learner(pate.student, known, pate.labels, pate.hidden, plan.path).probabilities(inputs[first:stop])

    return predict


def teach_student(plan: VotingPlan) -> StudentOutcome:
    """Learn from the labels of a session that has been held, then from these and its own of all other queries.

    Raises:
        InputError: If there is no session, or no inputs that were asked about.
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
    known = _released_records(transcript, inputs)
    student = train_learner(pate.student, known, pate.labels, pate.hidden, plan.path)
    pseudo = _pseudo_labelled(student, known, transcript, inputs) if pate.pseudo_labels else known.at(slice(0, 0))
    if len(pseudo):
        both = Records(np.concatenate((known.inputs, pseudo.inputs)), np.concatenate((known.labels, pseudo.labels)))
        student = train_learner(pate.student, both, pate.labels, pate.hidden, plan.path)
    _write_student(plan, student)
    accuracy = None if test is None else float((student.probabilities(test.inputs).argmax(axis=1) == test.labels).mean())
    return StudentOutcome(plan, transcript, len(transcript.labels), len(pseudo), accuracy, 0 if test is None else len(test))


def _released_records(transcript: Transcript, inputs: Array) -> Records:
    """Return the queries with released labels, in their order."""
    labels = {**transcript.reinforced, **transcript.labels}
    at = np.array(sorted(labels), dtype=int)
    return Records(inputs[at], np.array([labels[query] for query in at.tolist()], dtype=int))


def _pseudo_labelled(student: Learnt, known: Records, transcript: Transcript, inputs: Array) -> Records:
    """Return the other queries with the student's own labels."""
    others = np.ones(len(inputs), dtype=bool)
    others[np.array(sorted({**transcript.reinforced, **transcript.labels}), dtype=int)] = False
    rest = inputs[others]
    if isinstance(student, Constant) or not len(rest):
        return known.at(slice(0, 0))
    return Records(rest, np.asarray(student.probabilities(rest).argmax(axis=1)))


def _write_student(plan: VotingPlan, student: Learnt) -> None:
    """Write the student, for whoever trusts this folder: it is read by unpickling. What cannot be pickled is not left."""
    import pickle

    try:
        content = pickle.dumps(getattr(student, "model", student))
    except Exception:  # of the user's own class
        return
    replace_file(os.path.join(plan.folder, STUDENT), content)
