"""A language model that can be fine-tuned: what is learnt is bytes that can be kept, and together with the model they are another one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from dpcli.predict.models.port import LanguageModel, Tokens


class Tunable(LanguageModel, Protocol):
    """A model that learns from records without noise."""

    def tune(self, records: Sequence[Tokens]) -> bytes:
        """What is learnt from these records alone, none of them longer than the context. There may be none."""
        ...

    def tuned(self, learnt: bytes) -> LanguageModel:
        """The model with what `tune` returned, over the same vocabulary. Raises InputError where the bytes are something else."""
        ...
