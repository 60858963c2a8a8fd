"""The tables of a file that one of their own keys selects: what an entry is, and how its records are chosen."""

from __future__ import annotations

from dpcli.fields import Selection
from dpcli.keys.annotations import members_of
from dpcli.keys.tables import SelectedTable
from dpcli.mechanisms.sampling.schemes import Scheme
from dpcli.registry import MECHANISMS as TYPES

SAMPLING = SelectedTable.by(Scheme.selection, members_of, Scheme.__doc__ or "")
MECHANISMS = SelectedTable.by(Selection("type", TYPES), members_of, "")
