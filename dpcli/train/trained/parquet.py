"""Predictions as a parquet file."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from dpcli.base.errors import Unavailable

if TYPE_CHECKING:
    from dpcli.train.trained.answers import Predictions


def parquet_of(answers: Predictions) -> bytes:
    """Every row and column. Raises Unavailable where pyarrow is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise Unavailable("--parquet: expected pyarrow, found none: pip install pyarrow") from None
    columns = zip(*answers.rows, strict=True) if answers.rows else ([] for _ in answers.columns)
    out = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(dict(zip(answers.columns, map(list, columns), strict=True))), out)
    return out.getvalue()
