"""`dpcli.PrivateTrainer`, transformers' Trainer with private steps.

The Trainer asks for a batch and gets a `PrivateBatch` from `Private` (loop/private.py). It calls `training_step`, which sets the noisy
gradients, and then the optimizer and its own callbacks. Settings of a Trainer that would change the gradients or the model, or show what is
private, are refused (REQUIRED). The guard of the loop (loop/guard.py) detects other changes of the model between two steps.
"""

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
    Trainer = object  # help(dpcli) then still shows the class, and its constructor says what to install


# Arguments of a Trainer that are refused, because `Private` supplies what they state.
SUPPLIED = ("train_dataset", "optimizers", "compute_loss_func", "optimizer_cls_and_kwargs")
# Fields of a Trainer's `args` that may contradict private steps: the value that each must have, and the reason.
REQUIRED: dict[str, tuple[Any, str]] = {
    "gradient_accumulation_steps": (1, "to save memory, set physical_batch_size in the file"),
    "fp16": (False, "a loss scale changes the gradients; put torch.autocast inside the loss, around the call of the model"),
    "bf16": (False, "norms and sums need full precision; put torch.autocast inside the loss, around the call of the model"),
    "gradient_checkpointing": (False, "to save memory, set physical_batch_size in the file"),
    "torch_compile": (
        False,
        "the check that the model does not combine records covers the model as written, not the compiled one: leave it out",
    ),
    "neftune_noise_alpha": (
        None,
        "it hooks the embeddings during training: add the noise in the model or the loss, by torch.rand_like",
    ),
    "use_liger_kernel": (False, "it replaces parts of the model during training: apply it before the call of dpcli.private"),
    "label_smoothing_factor": (
        0.0,
        "dpcli.private computes the loss: smooth labels in that loss, for example by cross_entropy(..., label_smoothing=)",
    ),
    "include_num_input_tokens_seen": ("no", "the number of tokens in a sample is private"),
    "debug": ([], "it hooks every module and shows values that depend on records: debug on public data, without dpcli.private"),
    "load_best_model_at_end": (
        False,
        "it would replace the last weights, which finish() writes, by earlier ones: call finish() first, then load the earlier ones",
    ),
}


class PrivateTrainer(Displayed, Trainer):
    """A Trainer of transformers that takes the steps of `dpcli.private`. Callbacks, schedules, logs and checkpoints work as usual.

    The logs contain no training loss, because it would reveal private records. They contain `epsilon_so_far`, which is `private.epsilon`
    rounded up. Call `private.finish()` after `train()` to write the statement. Dropout is on if `model.training` was true when
    `dpcli.private` was called.

    Args:
        private: `Private` of the same model. It has the optimizer and the data.
        named: `model`, `args` and other arguments of Trainer. `train_dataset`, `optimizers` and functions that compute a loss are refused,
            because `private` has them. In `args`, `max_steps` is set to the number of remaining steps. `max_grad_norm` is set to zero,
            because each record's gradient is already clipped.

    Raises:
        InputError: `private` already has the argument, or `args` asks for something that a private step cannot do, such as
            accumulated gradients, fp16, gradient checkpointing, a compiled model, or the best model at the end.
        Unavailable: transformers is not installed.
    """

    def __init__(self, private: Private, **named: Any) -> None:
        require("transformers", "torch")
        for name in SUPPLIED:
            if named.get(name):
                raise InputError(f"PrivateTrainer: {name}: expected none, because dpcli.private has it, found one")
        for name, (required, reason) in REQUIRED.items():
            value = getattr(named.get("args"), name, required)
            if value and value != required:  # an empty value, such as None, turns the setting off
                raise InputError(f"PrivateTrainer: args.{name}: expected {required}, found {value}: {reason}")
        super().__init__(optimizers=(private.optimizer, None), **named)
        if self.model is not private.model:
            raise InputError("PrivateTrainer: model: not the model that dpcli.private was given")
        self.private = private
        self.args.max_steps, self.args.max_grad_norm = private.planned - private.taken, 0.0

    def _line(self) -> str:  # the text that `repr` shows (base/displayed.py)
        return self.private._line()

    def get_train_dataloader(self) -> Any:
        """Return `private`, which draws the batches that the file declares."""
        return self.private

    def get_batch_samples(self, epoch_iterator: Iterator[PrivateBatch], num_batches: int, device: Any) -> tuple[list[Any], None]:
        """Return one sample, because each private step uses one."""
        batch = next(epoch_iterator, None)
        return [] if batch is None else [batch], None

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> torch.Tensor:
        """Compute the noisy gradient, which the Trainer's optimizer then uses. Return zero in place of the private loss."""
        import torch

        self.private.backward(inputs)
        return torch.zeros((), device=self.args.device)

    def floating_point_ops(self, inputs: Any) -> int:
        """Return 0, because a count would reveal the number of records in a sample."""
        return 0

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Write the log with `epsilon_so_far` in place of the training loss."""
        shown = {name: value for name, value in logs.items() if name not in ("loss", "train_loss")}
        super().log({**shown, "epsilon_so_far": float(up(self.private.epsilon, 3))}, *args, **kwargs)
