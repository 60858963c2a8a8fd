"""Arrays of a .npz file are those that numpy reads, mapped from the disk if possible; the digits are read without scikit-learn's code."""

from __future__ import annotations

import io
import itertools
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpcli.train.tasks.array_files import arrays_in
from tests.cases import require_each
from tests.command import ROOT

NUMBERS = np.arange(24).reshape(2, 3, 4)
ARRAYS: dict[str, Any] = {
    **{f"of {kind}": NUMBERS.astype(kind) for kind in ("float32", "float64", ">f4", "uint8", "bool", "int64", "float16")},
    "by columns": np.asfortranarray(NUMBERS[0]),
    "every second": NUMBERS[:, ::2],
    "empty": NUMBERS[:0],
    "a number": np.float64(3.0),
    "texts": np.array(["a", "bc"]),
}


def test_arrays_are_what_numpy_reads(tmp_path: Path) -> None:
    def check(one: tuple[str, Any]) -> None:
        case, save = one
        place = str(tmp_path / "a.npz")
        # The lengths of the names before it move an array to addresses that are no multiples of its numbers' size.
        for first in ("i", "in", "inp"):
            save(place, **{first: np.zeros(3, np.uint8), "inputs": ARRAYS[case]})
            found = arrays_in(place, ["inputs", first])
            with np.load(place) as expected:
                assert found is not None and found[0].dtype == expected["inputs"].dtype and found[0].flags.aligned
                np.testing.assert_array_equal(found[0], expected["inputs"])
                np.testing.assert_array_equal(found[1], expected[first])
        assert arrays_in(place, ["inputs", "labels"]) is None

    require_each(itertools.product(ARRAYS, [np.savez, np.savez_compressed]), check)


def test_what_is_stored_as_it_is_stays_on_the_disk_and_unchanged(tmp_path: Path) -> None:
    place = tmp_path / "a.npz"
    np.savez(place, inputs=NUMBERS.astype(np.float32))
    before, found = place.read_bytes(), arrays_in(str(place), ["inputs"])
    assert found is not None and isinstance(found[0].base, np.memmap)
    found[0][:] = 7  # a model that writes into its inputs
    assert place.read_bytes() == before


def test_a_file_that_is_cut_short_is_none(tmp_path: Path) -> None:
    def check(kept: int) -> None:
        place = tmp_path / "a.npz"
        np.savez(place, inputs=NUMBERS)
        place.write_bytes(place.read_bytes()[:kept])
        with pytest.raises(zipfile.BadZipFile):
            arrays_in(str(place), ["inputs"])

    require_each([*range(0, 120, 10), -1, -30], check)


def test_an_array_that_says_it_is_longer_than_its_member_is_none(tmp_path: Path) -> None:
    """Else what follows it in the file would be its records."""
    place, array = tmp_path / "a.npz", io.BytesIO()
    np.save(array, NUMBERS)
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("inputs.npy", array.getvalue().replace(b"(2, 3, 4)", b"(4, 3, 4)", 1))
        archive.writestr("labels.npy", array.getvalue())
    with pytest.raises(ValueError, match="plain numbers of the stated shape"):
        arrays_in(str(place), ["inputs"])


def test_objects_are_none(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", inputs=np.array([{}, None]))
    with pytest.raises(ValueError, match="plain numbers"):
        arrays_in(str(tmp_path / "a.npz"), ["inputs"])


@pytest.mark.nightly
@pytest.mark.needs("sklearn")
@pytest.mark.long
def test_the_digits_are_those_of_their_library_which_is_not_imported() -> None:
    program = """
import sys
from dpcli.train.tasks.array_files import images_and_labels
images, labels = images_and_labels("here")
assert not {"sklearn", "scipy", "torch"} & sys.modules.keys()
from sklearn.datasets import load_digits
found = load_digits()
assert (images == found.images / 16.0).all() and (labels == found.target).all()
"""
    subprocess.run([sys.executable, "-c", program], check=True, cwd=ROOT)
