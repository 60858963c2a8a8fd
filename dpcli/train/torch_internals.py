"""The private names of torch that the package imports. No other file imports any of them, so a new version of torch changes only this one.

The comment on a name gives the first version of torch that has it, and its purpose here. isolation/traced_program.py *follows* a program
without records, on tensors that have shapes but no numbers. An audit *replays* steps, in which replay/record_draws.py gives each record its
own random numbers. Private attributes, such as `_version`, `_parameters` and `_saved_self`, are read where they are needed.
"""

from __future__ import annotations

from typing import Any

import torch

# 2.0. The state of vmap: which tensors it wraps, and along which dimension. To draw the numbers of a record under vmap.
from torch._C import _functorch as functorch

# 2.0. The key of torch's Python dispatcher, which fake tensors of a symbolic size need. To follow a program without records.
from torch._dispatch.python import enable_python_dispatcher

# 2.3. Operators outside of vmap while it runs. To draw the numbers of a record under vmap.
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack

# 2.0. Tensors without numbers, and the errors that they raise if a program reads a number. To follow a program without records.
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensor, FakeTensorMode

# 1.0. The module that holds the hooks of all modules. They are compared between steps.
from torch.nn.modules import module as module_of_hooks

# 1.0. The common classes of layers. To refuse statistics over records, and to read the settings of convolutions.
from torch.nn.modules.batchnorm import _BatchNorm as BatchNorm
from torch.nn.modules.conv import _ConvNd as Convolution
from torch.nn.modules.instancenorm import _InstanceNorm as InstanceNorm

# 2.0. The modes that intercept functions. To refuse a step within one.
from torch.overrides import _get_current_function_mode_stack as function_modes

# 2.0. The mode of a default device, which combines no records and is allowed around a step.
from torch.utils._device import DeviceContext

# 2.0. A mode that intercepts operators, the modes in use, and a block without them. To follow, record and replay a program.
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._python_dispatch import _disable_current_modes as without_dispatch_modes
from torch.utils._python_dispatch import _get_current_dispatch_mode_stack as dispatch_modes

# 2.2. Tuples, lists and dicts of tensors as trees. They are used as batches.
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

__all__ = [
    "BatchNorm",
    "Convolution",
    "DataDependentOutputException",
    "DeviceContext",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorMode",
    "InstanceNorm",
    "TorchDispatchMode",
    "backward_engine",
    "dispatch_modes",
    "distributions_validate",
    "enable_python_dispatcher",
    "foreach_divide",
    "function_modes",
    "functorch",
    "global_module_hooks",
    "saved_tensors_hooks",
    "source_of_symbol",
    "temporarily_clear_interpreter_stack",
    "tree_flatten",
    "tree_leaves",
    "tree_map",
    "tree_unflatten",
    "without_dispatch_modes",
    "without_function_modes",
    "without_subclass_functions",
]

# 1.13. A block in which no mode and no subclass intercepts functions of tensors. The recorder works in it while a model runs.
without_function_modes: Any = torch._C.DisableTorchFunction

# 2.0. A block in which no subclass intercepts functions of tensors. To read the numbers of any tensor.
without_subclass_functions: Any = torch._C.DisableTorchFunctionSubclass

# 2.1. Divides a list of tensors in place by one call, as torch's optimizers do. It is faster for many small parameters.
foreach_divide: Any = torch._foreach_div_

# 1.0. The engine of the backward pass. `torch.autograd.grad` would switch the dispatch modes off while it runs.
backward_engine: Any = torch.autograd.Variable._execution_engine


def saved_tensors_hooks() -> object:
    """Return the innermost hooks on saved tensors; None if there are none. Torch has the function since 2.2."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True)


def source_of_symbol(name: str) -> Any:
    """Return the name of a symbolic size in torch's form. Torch has the class since 2.1; its module takes a second to import."""
    from torch._dynamo.source import ConstantSource

    return ConstantSource(name)


def distributions_validate() -> bool:
    """Return whether torch's distributions validate their arguments by default. Torch has the attribute since 1.8."""
    return bool(torch.distributions.Distribution._validate_args)


def global_module_hooks() -> dict[str, Any]:
    """Return torch's tables of the hooks of all modules, by name."""
    return {key: value for key, value in vars(module_of_hooks).items() if key.startswith("_global")}
