"""Findings about a training program, collected while its operators run on tensors without numbers."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import torch

from dpcli.audit.own_code import own_line
from dpcli.base.errors import InputError

TORCH_FOLDER = os.path.dirname(torch.__file__) + os.sep


class Unfollowed(Exception):
    """The program depends on values or on the number of records, which fake tensors do not have: it cannot be followed further."""


@dataclass(slots=True)
class IsolationFindings:
    """Findings about a program, collected while it is followed.

    Attributes:
        refusal: Error for the first place where records meet.
        unknown: Operators without a rule whose results may enter the losses.
        doubts: Reasons why the program is not proven to keep records apart.
        coarsest: Machine epsilon of its least precise floating-point type.
        random: It draws random numbers.
        own_rules: It calls an operator that is not torch's, whose behaviour under vmap is defined elsewhere.
    """

    refusal: InputError | None = None
    unknown: list[str] = field(default_factory=list)
    doubts: list[str] = field(default_factory=list)
    coarsest: float = 0.0
    random: bool = False
    own_rules: bool = False

    def doubt(self, why: str) -> None:
        """Add a reason for doubt, with the line of the user's code that is running."""
        line = own_line()
        self.doubts.append(f"{why} at {line}" if line else why)
