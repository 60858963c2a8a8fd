"""Learners: the functions that fit a classifier to the records of a teacher, or of the student.

A *teacher* is fitted to a shard of the private data (teachers.py), the *student* to public inputs with released labels (student.py). A
learner is a classifier of scikit-learn (`SKLEARN`), or a function written by the user. It gets inputs (n, width) and labels (n,), and
returns a model that predicts probabilities of labels, or only labels. Its settings affect accuracy and time alone: the guarantee holds for
any votes. A teacher's records are private: no message quotes an error of a learner or of its model, which may quote a record.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.numerics.arrays import Array, np
from dpcli.predict.models.model_answers import on_private
from dpcli.predict.pate.pate_plan import LEARNERS
from dpcli.predict.pate.records import Records
from dpcli.train.tasks.user_code import own_function

MOST_ITERATIONS = 200  # largest number of iterations of scikit-learn's solvers, which is its own default for a network


class Learnt(Protocol):
    """A fitted classifier: a teacher, or the student."""

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
    """A fitted model with predict(inputs), which returns labels. If it has classes_ and predict_proba, they are used instead.

    Args:
        target: Name of the learner, for messages.
    """

    def __init__(self, model: Any, classes: int, target: str) -> None:
        self.model, self.classes, self.target = model, classes, target

    def probabilities(self, inputs: Array) -> Array:
        return np.asarray(on_private(self.target, self._probabilities, inputs))

    def _probabilities(self, inputs: Array) -> Array:
        classes = getattr(self.model, "classes_", None)
        if classes is not None and hasattr(self.model, "predict_proba"):
            by_label = np.zeros((len(inputs), self.classes))  # 0 for a label that no training record has
            by_label[:, np.asarray(classes, dtype=int)] = self.model.predict_proba(inputs)
            return by_label
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
    """Return (n, classes), with 1 at the label of each row and 0 elsewhere. `labels` are whole numbers, (n,)."""
    rows = np.zeros((len(labels), classes))
    rows[np.arange(len(labels)), labels] = 1.0
    return rows


def require_learner(name: str) -> None:
    """Raise Unavailable if a package that the learner needs is not installed."""
    if name in LEARNERS:
        require("sklearn")


def learner_of(name: str, classes: int, hidden: int, path: str) -> Callable[[Records], Learnt]:
    """Return the function that fits a classifier to records. The user's module, if any, is imported by this call.

    The classifier is constant if the records have a single label; it predicts label 0 if there are no records.

    Args:
        name: Key of SKLEARN, or module:function.
        path: Path of the dpcli file, near which the user's module is searched.
    """
    function = None if name in LEARNERS else own_function(name, path)

    def learner(records: Records) -> Learnt:
        labels = np.unique(records.labels)
        if len(labels) < 2:
            return Constant(int(labels[0]) if len(labels) else 0, classes)
        if function is not None:
            return Fitted(on_private(name, _user_model, name, function, records), classes, name)
        model = SKLEARN[name](hidden, len(records))
        # scikit-learn warns if a model did not converge. Such a model is used nevertheless.
        return Fitted(on_private(name, model.fit, records.inputs, records.labels), classes, name)

    return learner


def _user_model(name: str, function: Callable[..., Any], records: Records) -> Any:
    """Return the model that the user's function fits. Raises InputError if it has no function `predict`."""
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

    # A batch has at most 64 records, or all records of a smaller shard. The seed is fixed, so that a second fit gives the same votes.
    network = MLPClassifier((hidden,), max_iter=MOST_ITERATIONS, batch_size=min(64, count), random_state=0)
    return make_pipeline(StandardScaler(), network)


def _svm(hidden: int, count: int) -> Any:
    """Return a support vector machine with Gaussian kernels scaled to the variance of the inputs. It predicts labels only."""
    from sklearn.svm import SVC

    return SVC(C=10.0)  # less regularisation than by scikit-learn's default of 1


# Functions (hidden, number of records) -> a classifier that is not fitted, by the name of the learner. Not all of them use both numbers.
SKLEARN: dict[str, Callable[[int, int], Any]] = {"logistic": _logistic, "mlp": _mlp, "svm": _svm}
