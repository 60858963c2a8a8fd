"""What [train] may state where records are images: several views of each, of which the mean gradient counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from dpcli.base.fields import COUNT, Constraint, Key, Reader
from dpcli.file.toml.findings import Problem
from dpcli.train.plan.settings import Train

AUGMENTED = Reader("augmentations", lambda train: train.augmentations is not None)
PIXELS = Constraint("a whole number from 1 to 1,000", lambda x: 1 <= x <= 1_000, (("minimum", 1), ("maximum", 1_000)))


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """How a view differs from its image; what is drawn for it is drawn for it alone, whatever the other records are."""

    flip: Annotated[bool, Key("left and right are exchanged, by the toss of a fair coin")] = False
    crop: Annotated[
        int | None,
        Key("cut out of the image with so many more pixels on each side, which repeat its edge, at a place that is drawn", PIXELS),
    ] = None

    def __str__(self) -> str:
        crop = () if self.crop is None else (f"moved by up to {self.crop} pixels",)
        return " and ".join((*crop, *(("mirrored by a fair coin",) if self.flip else ())))


@dataclass(frozen=True, slots=True, kw_only=True)
class Images(Train):
    """Augmentation multiplicity (De et al. 2022, arXiv:2204.13650, Section 3.3): a record's loss is the mean over its views."""

    augmentations: Annotated[
        int | None,
        Key(
            "views of each image, in each step: the mean of their gradients is one record's, and is clipped as one",
            COUNT,
            varies=True,
        ),
    ] = None
    augment: Annotated[View | None, Key("how each view differs from its image", reader=AUGMENTED, varies=True)] = None

    @property
    def seen_as(self) -> str | None:
        if self.augmentations is None:
            return None
        return f"the mean over {self.augmentations} views of it ({self.augment}), drawn for it alone"

    def problems(self) -> Iterator[Problem]:
        yield from Train.problems(self)
        if self.augmentations is None:
            return
        if not str(self.augment or ""):
            yield ("augment",), "flip or crop, as augmentations needs views that differ", "neither"
        if self.engine != "dpcli":
            yield (
                ("engine",),
                'no other than "dpcli" with augmentations, which clips a record and not its views',
                f'"{self.engine}"',
            )
