"""The tables of a file that one of their own keys selects: what an entry is, and how its records are chosen."""

from __future__ import annotations

from dpcli.base.fields import Selection
from dpcli.base.registry import MECHANISMS as TYPES
from dpcli.file.keys.annotations import members_of
from dpcli.file.keys.tables import SelectedTable
from dpcli.mechanisms.sampling.schemes import Scheme

SAMPLING = SelectedTable.by(Scheme.selection, members_of, Scheme.__doc__ or "")
MECHANISMS = SelectedTable.by(Selection("type", TYPES), members_of, "")
