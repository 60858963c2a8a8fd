"""The callback by which `dpcli.watch` observes Lightning's Trainer.

Only `Watch.lightning_callback` in watch/watch.py imports this module, because it needs lightning. Lightning calls the methods at the times
that their names say.
"""

from __future__ import annotations

from typing import Any

from lightning.pytorch.callbacks import Callback

from dpcli.base.errors import InputError
from dpcli.train.watch.watch import Watch


class LightningWatch(Callback):
    """A callback that observes a Trainer and stops it after the planned steps."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        """Follow the loader of the Trainer, and start its fetcher again, so that the watch observes every batch."""
        self.watch.release()
        trainer.fit_loop.setup_data()
        self.watch.follow_loader(trainer.train_dataloader, trainer.accumulate_grad_batches)
        # The fetcher has begun to draw from the loader already, unobserved. `iter` makes it begin again.
        iter(getattr(trainer.fit_loop, "_data_fetcher", ()))

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        """Follow the optimizer of the Trainer."""
        if len(trainer.optimizers) != 1:
            raise InputError(f"watch: expected one optimizer, found {len(trainer.optimizers)}")
        self.watch.follow_optimizer(trainer.optimizers[0], trainer.global_step)

    def on_train_batch_end(self, trainer: Any, pl_module: Any, *args: Any) -> None:
        """Stop the Trainer after the planned steps."""
        if self.watch.finished:
            trainer.should_stop = True

    def on_train_end(self, trainer: Any, pl_module: Any) -> None:
        """Remove the hooks."""
        self.watch.release()
