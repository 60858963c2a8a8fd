"""Array types, and numpy. numpy is imported only when it is first used, so that commands that compute nothing start fast."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dpcli.base.lazy import lazy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    ComplexArray = NDArray[np.complex128]
    IndexArray = NDArray[np.int64]
    BoolArray = NDArray[np.bool_]
else:
    np = lazy("numpy")
    Array = BoolArray = ComplexArray = IndexArray = Any

__all__ = ["Array", "BoolArray", "ComplexArray", "IndexArray", "np"]
