"""Noisy answers to queries about a table. The package can be called: `dpcli.release(table, pipeline)` answers the queries of a pipeline.

>>> import dpcli
>>> dpcli.plan_release("visits.toml").expected_errors                     # doctest: +SKIP
>>> answers = dpcli.release(table, "visits.toml", ledger="ledger.db")     # doctest: +SKIP
>>> answers.frame()                                                       # doctest: +SKIP

The arguments are described by `help(dpcli.release.table_release.release)`.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # type checkers take it as True; importing `typing` here would slow down the start of every command
if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from dpcli.file.pipeline.model import Pipeline
    from dpcli.release.table_release import ReleasedAnswers


class CallablePackage(type(sys)):  # type: ignore[misc]  # type(sys) is the type of all modules
    """The type of this package. Python binds the name `dpcli.release` to the package, so the package itself is what programs call."""

    def __call__(
        self,
        table: object,
        pipeline: str | os.PathLike[str] | Pipeline,
        *,
        ledger: str | os.PathLike[str] | None = None,
        dataset: str | None = None,
        window: str | Sequence[str] = (),
        key: str | None = None,
        out: str | os.PathLike[str] | None = None,
    ) -> ReleasedAnswers:
        """Answer the queries of a pipeline about a table, with noise, as `dpcli.release.table_release.release` does."""
        from dpcli.release.table_release import release

        return release(table, pipeline, ledger=ledger, dataset=dataset, window=window, key=key, out=out)


PACKAGE = sys.modules[__name__]
# Python looks for `__call__` in the type of an object, so a function of this name in the package would not do.
PACKAGE.__class__ = CallablePackage
