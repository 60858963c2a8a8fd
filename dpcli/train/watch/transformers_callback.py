"""The callback by which `dpcli.watch` observes transformers' Trainer.

Only `Watch.trainer_callback` in watch/watch.py imports this module, because it needs transformers. transformers calls the methods at the
times that their names say.
"""

from __future__ import annotations

from typing import Any

from transformers import TrainerCallback

from dpcli.train.watch.watch import Watch


class TrainerWatch(TrainerCallback):
    """A callback that observes a Trainer and stops it after the planned steps."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Follow the loader and the optimizer of the Trainer."""
        self.watch.follow(kwargs["optimizer"], kwargs["train_dataloader"], args.gradient_accumulation_steps, state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> Any:
        """Stop the Trainer after the planned steps."""
        if self.watch.finished:
            control.should_training_stop = True
        return control

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Remove the hooks."""
        self.watch.release()
