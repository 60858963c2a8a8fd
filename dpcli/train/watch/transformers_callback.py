"""A watch as a callback of transformers' Trainer. This module alone needs transformers here; it is imported where somebody asks."""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from dpcli.rounding import up
from dpcli.train.watch.watch import Watch


class TrainerWatch(TrainerCallback):
    """Follows a Trainer, logs `epsilon_so_far` where everything was seen, and stops it after the planned steps."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def on_train_begin(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Look at its loader and its optimizer."""
        self.watch.follow(named["optimizer"], named["train_dataloader"], args.gradient_accumulation_steps)

    def on_step_end(self, args: Any, state: Any, control: Any, **named: Any) -> Any:
        """Stop at the plan's end."""
        if self.watch.finished:
            control.should_training_stop = True
        return control

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **named: Any) -> None:
        """Add what the steps so far cost, where that may be said."""
        if logs is not None and self.watch.epsilon is not None:
            logs["epsilon_so_far"] = float(up(self.watch.epsilon, 3))

    def on_train_end(self, args: Any, state: Any, control: Any, **named: Any) -> None:
        """Take the hooks off."""
        self.watch.release()
