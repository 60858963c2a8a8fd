"""Numbers of records on which a program was heard to be the one that was followed."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import nn

from dpcli.train.engine.batches import Batch, form, size
from dpcli.train.engine.method import Loss
from dpcli.train.engine.rule import Strayed
from dpcli.train.isolation.program import Program
from dpcli.train.isolation.state import state


@dataclass(slots=True)
class Sizes:
    """Of batches of one form.

    form: of the records that the program was followed on. heard: how many there were in batches on which it was compared.
    """

    program: Program
    form: object
    heard: set[int] = field(default_factory=set)

    def fits(self, batch: Batch) -> bool:
        """Whether its records are of the form that was followed."""
        return self.form == form(batch)

    def hears(self, model: nn.Module, loss: Loss, batch: Batch) -> bool:
        """Whether the program is the same on them, as far as is known or heard now."""
        try:
            self.require(model, loss, batch)
        except Strayed:
            return False
        return True

    def require(self, model: nn.Module, loss: Loss, batch: Batch) -> None:
        """The first time that there are so many records: one forward more.

        Raises:
            Strayed: the program is another on them.
            InputError: it has changed something.
        """
        if size(batch) in self.heard:
            return
        before = state(model, loss, whole=False)
        other = self.program.other_call(model, loss, batch)
        if other is not None:
            raise Strayed(f"the model calls {other} or not by how many records there are")
        before.require_same(state(model, loss, whole=False))
        self.heard.add(size(batch))
