"""The Trainer of transformers with private steps. This module needs transformers, so it is imported on demand."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from dpcli.base.displayed import Displayed
from dpcli.base.errors import InputError
from dpcli.base.extras import require
from dpcli.base.rounding import up
from dpcli.train.loop.private import Private, PrivateBatch

if TYPE_CHECKING:
    import torch
if TYPE_CHECKING or find_spec("transformers") is not None:
    from transformers import Trainer
else:
    Trainer = object  # so that help(dpcli) shows the class, and making one says what to install


# Arguments that a Trainer may not have around private steps: the value that is right, and why.
REFUSED: dict[str, tuple[Any, str]] = {
    "gradient_accumulation_steps": (1, "memory is saved by physical_batch_size in the file"),
    "fp16": (False, "a scaled gradient is another one; put torch.autocast inside the loss, around the call of the model"),
    "bf16": (False, "norms and sums are taken in full precision; put torch.autocast inside the loss, around the call of the model"),
    "gradient_checkpointing": (False, "memory is saved by physical_batch_size in the file"),
    "torch_compile": (
        False,
        "records are seen to stay apart in the model as it was written, and the compiled one is another: leave it out",
    ),
    "neftune_noise_alpha": (
        None,
        "it hooks the embeddings while it trains: add the noise in the model or the loss, by torch.rand_like",
    ),
    "use_liger_kernel": (False, "it exchanges parts of the model while it trains: do that before dpcli.private is made"),
    "label_smoothing_factor": (
        0.0,
        "the loss is that of dpcli.private: smooth there, as cross_entropy(..., label_smoothing=) does",
    ),
    "include_num_input_tokens_seen": ("no", "the number of tokens in a sample is private"),
    "debug": ([], "it hooks every module and shows what records make of it: debug on public data, without dpcli.private"),
    "load_best_model_at_end": (
        False,
        "the weights of an earlier step would take the place of the last ones, which finish() leaves: call finish() first, then load them",
    ),
}


class PrivateTrainer(Displayed, Trainer):
    """A Trainer whose steps are those of `dpcli.private`: its callbacks, schedules, logs and checkpoints stay.

    In place of a training loss, which would show private records, the logs have `epsilon_so_far`: `private.epsilon`, rounded up.
    `private.finish()` after `train()` leaves the statement. Dropout is as in `model.training` when `private` was made.

    Args:
        private: Private of the same model. It has the optimizer and the data.
        model, args and what else a Trainer takes, by name, but `train_dataset`, `optimizers`, and what computes a loss: All of these are in
            `private`. Of `args`, `max_steps` becomes the steps that are left, and `max_grad_norm` zero, since records were clipped one by
            one.

    Raises:
        InputError: `args` asks for something that a private step cannot do (accumulated gradients, fp16, bf16, checkpointed gradients, a
            compiled model, NEFTune, liger kernels, label smoothing, a count of tokens, the best model at the end), or something is given
            that `private` has.
        Unavailable: Transformers is not installed.
    """

    def __init__(self, private: Private, **named: Any) -> None:
        require("transformers", "torch")
        given = [
            name for name in ("train_dataset", "optimizers", "compute_loss_func", "optimizer_cls_and_kwargs") if named.get(name)
        ]
        if given:
            raise InputError(f"PrivateTrainer: {given[0]}: expected none, as dpcli.private has it, found one")
        for name, (right, why) in REFUSED.items():
            value = getattr(named.get("args"), name, right)
            if value and value != right:
                raise InputError(f"PrivateTrainer: args.{name}: expected {right}, found {value}: {why}")
        super().__init__(optimizers=(private.optimizer, None), **named)
        if self.model is not private.model:
            raise InputError("PrivateTrainer: model: not the model that dpcli.private was given")
        self.private = private
        self.args.max_steps, self.args.max_grad_norm = private.planned - private.taken, 0.0

    def _line(self) -> str:
        return self.private._line()

    def get_train_dataloader(self) -> Any:
        """Return the batches that the file declares."""
        return self.private

    def get_batch_samples(self, epoch_iterator: Iterator[PrivateBatch], num_batches: int, device: Any) -> tuple[list[Any], None]:
        """Return one sample, because each step uses one."""
        return [batch for batch in (next(epoch_iterator, None),) if batch is not None], None

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Compute the noisy gradient, which the Trainer's optimizer then uses. No loss is shown."""
        import torch

        self.private.backward(inputs)
        return torch.zeros((), device=self.args.device)

    def floating_point_ops(self, inputs: Any) -> int:
        """Return 0, because a count would reveal the number of records in a sample."""
        return 0

    def log(self, logs: dict[str, float], *given: Any, **named: Any) -> None:
        """Write the log without the loss, which was not computed."""
        shown = {name: value for name, value in logs.items() if name not in ("loss", "train_loss")}
        super().log({**shown, "epsilon_so_far": float(up(self.private.epsilon, 3))}, *given, **named)
