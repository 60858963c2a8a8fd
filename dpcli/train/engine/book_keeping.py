"""Per-example gradients by book-keeping, the fast method (engine/method.py has the interface, engine/vectorised.py the slow ones).

A forward pass is followed by a backward pass that computes no weight gradients. Norms and clipped sums are then computed layer by layer. A
module with trained parameters is a *layer* that has a rule, which is a formula for its gradients (layers.py), a *compound* of several
layers (compound.py), or neither. In the last case, its parameters are *operands*, which are followed through the operators that use them
(operands.py). capture.py records the calls of the layers. The result for a parameter is a *piece* (pieces.py): the gradients of all
examples, in full or in factors.

choice.py builds the method by `BookKeeping.after_probe`. The *probe* is a pass of one example and a pass of several. It finds the dimension
of each layer's input that counts the examples. A model to which the method does not apply raises `Unsuitable`.

A layer may run once for all examples, and its output be repeated for each, as for soft prompts. Gradients are taken at the repetition.

Source: Bu et al. 2023, arXiv:2210.00038, Algorithm 1; Li et al. 2021, arXiv:2110.05679, Section 4 (ghost norms).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge

from dpcli.train.engine.batches import Batch, size, take
from dpcli.train.engine.capture import (
    ExampleDim,
    LayerCall,
    Recorder,
    Use,
    gradients,
    graph_steps,
    growing_dim,
    recording,
    refuse_hooks,
)
from dpcli.train.engine.compound import Compound, Forward, attention, layer_by_layer
from dpcli.train.engine.layers import Layer, rule_of, trainable
from dpcli.train.engine.method import (
    BatchPart,
    Loss,
    Unsuitable,
    full_precision,
    per_example_losses,
    refuse_caught_errors,
    trained_parameters,
)
from dpcli.train.engine.operands import ForwardPass, Leaves, Operand, OperandUse
from dpcli.train.engine.pieces import Piece, PlainRows, merge
from dpcli.train.engine.recurrent import (
    activation_of,
    gru_direction,
    gru_update,
    lstm_direction,
    lstm_update,
    recurrent,
    recurrent_cell,
    rnn_direction,
    rnn_update,
)

# Functions that build the pieces of each parameter, one for each of its uses, by its name in the model.
Builders = dict[str, list[Callable[[], Piece]]]
# Names of the autograd nodes that repeat a tensor for each example.
REPEATING = ("RepeatBackward0", "ExpandBackward0")
# Modules that consist of several layers. Each has a function that returns a forward which calls the layers one by one.
COMPOUNDS: dict[type[nn.Module], Callable[[nn.Module], Forward | None]] = {
    nn.MultiheadAttention: attention,
    nn.LSTM: lambda module: recurrent(module, lstm_direction, state_count=2),
    nn.GRU: lambda module: recurrent(module, gru_direction, state_count=1),
    nn.RNN: lambda module: recurrent(module, rnn_direction, state_count=1),
    nn.LSTMCell: lambda module: recurrent_cell(module, lstm_update, state_count=2),
    nn.GRUCell: lambda module: recurrent_cell(module, gru_update, state_count=1),
    nn.RNNCell: lambda module: recurrent_cell(module, partial(rnn_update, activation_of(module)), state_count=1),
}


@dataclass(frozen=True, slots=True)
class Division:
    """The trainable parameters of a model, divided by the way in which their gradients are computed.

    Attributes:
        layers: Modules that have a rule.
        compounds: Modules whose forward is replaced by one that calls its layers one by one.
        operands: Parameters of all other modules.
    """

    layers: list[Layer]
    compounds: list[Compound]
    operands: list[Operand]


def divide_parameters(model: nn.Module) -> Division:
    """Divide a model's trainable parameters by the way in which their gradients are computed."""
    name_of = {id(parameter): name for name, parameter in model.named_parameters()}
    division, inside = Division([], [], []), set[int]()
    for name, module in model.named_modules():
        forward = compound_forward(module)
        if forward is not None and any(p.requires_grad for p in module.parameters()):
            trained = {local: name_of[id(p)] for local, p in module.named_parameters(remove_duplicate=False) if p.requires_grad}
            division.compounds.append(Compound(name, module, trained, forward))
            inside.update(map(id, module.modules()))
        elif id(module) not in inside:
            add_parameters(division, name, module, name_of)
    return division


def add_parameters(division: Division, name: str, module: nn.Module, name_of: dict[int, str]) -> None:
    """Add a module's own parameters to the division: as a layer if the module has a rule, otherwise as operands.

    Args:
        name: Name of the module in the model.
        name_of: Names of the parameters in the model, by `id`. A parameter that several modules share has one name.
    """
    trained, rule = {local: name_of[id(p)] for local, p in trainable(module)}, rule_of(module)
    if trained and rule is not None:
        division.layers.append(Layer(name, module, rule, trained))
    else:
        division.operands.extend(Operand(module, local, name_in_model) for local, name_in_model in trained.items())


def compound_forward(module: nn.Module) -> Forward | None:
    """Return a forward that calls the layers of a compound one by one.

    Returns None if the module is not a compound, if its forward is not the one that torch defines, or if its settings are not supported.
    """
    build = COMPOUNDS.get(type(module))
    untouched = "forward" not in vars(module) and module._compiled_call_impl is None
    return build(module) if build is not None and untouched else None


@dataclass(slots=True)
class BookKeeping:
    """The book-keeping method for one model.

    The method is sound only if row i of the input of each layer belongs to example i.

    Attributes:
        division: Trainable parameters of the model.
        leaves: Tensors that replace the parameters without a layer.
        example_dims: Dimension of the input that counts the examples, for each call that the probe recorded. It is None if all examples
            share the input, such as position ids. Any other call is refused, because a dimension as long as the batch may have another
            meaning.
        keeps_shared: Whether the model itself repeats outputs that all examples share, so that the recorder must not repeat them.
    """

    model: nn.Module
    loss: Loss
    division: Division
    leaves: Leaves
    example_dims: dict[LayerCall, ExampleDim] = field(default_factory=dict)
    keeps_shared: bool = False
    name: str = "book-keeping"
    isolates: ClassVar[bool] = False  # examples are not differentiated separately: one backward pass is for all of them

    @classmethod
    def after_probe(cls, model: nn.Module, loss: Loss, batch: Batch) -> BookKeeping:
        """Return the method for a model, after a probe with the first example of the batch alone and with the whole batch.

        Raises Unsuitable if a parameter has no rule, or the input of a layer has no dimension that counts the examples.
        """
        division = divide_parameters(model)
        method = cls(model, loss, division, Leaves(division.operands))
        try:
            return method.probe(batch)
        except (RuntimeError, Unsuitable):
            has_shared_inputs = None in method.example_dims.values()
            if not has_shared_inputs:
                raise
        # A model that repeats shared outputs itself may fail on outputs that the recorder has repeated. So try again without this.
        method.keeps_shared = True
        return method.probe(batch)

    def for_model(self, model: nn.Module) -> BookKeeping:
        division = divide_parameters(model)
        return replace(self, model=model, division=division, leaves=Leaves(division.operands, self.leaves.recorded))

    def probe(self, batch: Batch) -> BookKeeping:
        """Find the example dimensions by a forward pass of the first example and another of all examples. Return the method itself.

        Raises Unsuitable if the two passes differ in more than the number of examples, or use a parameter in a way that has no rule.
        """
        shapes_of_one: dict[LayerCall, torch.Size] = {}

        def record_shape(call: LayerCall, inputs: Tensor) -> ExampleDim:
            shapes_of_one[call] = inputs.shape
            return next((dim for dim, length in enumerate(inputs.shape) if length == 1), None)

        def compare(call: LayerCall, inputs: Tensor) -> ExampleDim:
            self.example_dims[call] = example_dim(call, shapes_of_one.get(call), inputs.shape, size(batch))
            return self.example_dims[call]

        one = self.forward(take(batch, [0]), Recorder(record_shape, 1))
        # With a list as `call_nodes`, the recorder collects the graph nodes of each call, which `require_no_other_use` checks.
        recorder = Recorder(compare, size(batch), keeps_shared=self.keeps_shared, call_nodes=[])
        with refuse_hooks():
            several = self.forward(batch, recorder)
        recorder.require_no_other_use(several.losses)
        self.leaves.record(one, several, recorder.size)  # which operators use the operands
        return self

    def parts(self, batch: Batch) -> Iterator[BatchPart]:
        builders = self.builders(batch)
        with full_precision(next(self.model.parameters()).device):
            # The builders alone hold what the two passes left. What a piece does not keep is thus freed when its layer is done.
            merged = {name: merge([build() for build in builders.pop(name)]) for name in list(builders)}
        yield BatchPart(merged, size(batch))

    def builders(self, batch: Batch) -> Builders:
        """Return the builders of all pieces, after a forward and a backward pass."""
        recorder = Recorder(self.example_dim, size(batch), keeps_shared=self.keeps_shared)
        forward_pass = self.forward(batch, recorder)
        losses = forward_pass.losses
        uses = [*recorder.uses, *(repetitions(losses, recorder.shared_uses) if recorder.shared_uses else ())]
        operand_uses = self.leaves.uses(forward_pass, recorder.size) if forward_pass.leaves else []
        gradients_at = self.gradients(losses, [use.edge for use in (*uses, *operand_uses)])
        with full_precision(losses.device):
            builders = layer_builders(uses, gradients_at[: len(uses)])
        for use, gradient in zip(operand_uses, gradients_at[len(uses) :], strict=True):
            if gradient is not None:
                builders.setdefault(use.name, []).append(partial(operand_piece, use, gradient))
        return builders

    def example_dim(self, call: LayerCall, inputs: Tensor) -> ExampleDim:
        """Return the example dimension of a call. Raises Unsuitable if the probe did not record the call."""
        if call not in self.example_dims:
            raise Unsuitable(f"{call.layer} runs more often than in the probe")
        return self.example_dims[call]

    def forward(self, batch: Batch, recorder: Recorder) -> ForwardPass:
        """Run a forward pass, which the recorder records.

        Raises Unsuitable if the recorder refuses a call, or the program catches an error of a layer or of torch.
        """
        with (
            recording(self.division.layers, recorder),
            layer_by_layer(self.division.compounds, recorder),
            self.leaves.in_place() as leaves,
            refuse_caught_errors(),
        ):
            losses = per_example_losses(self.model, self.loss, batch, recorder.size)
        if recorder.unfinished is not None:
            raise Unsuitable(f"{recorder.unfinished} raises an error that the model catches")
        return ForwardPass(losses, leaves)

    def gradients(self, losses: Tensor, edges: Sequence[GradientEdge]) -> list[Tensor | None]:
        """Return the gradient at every edge.

        Raises Unsuitable if a gradient reaches a parameter itself, which shows that the parameter is used outside of its layer.
        """
        if not losses.requires_grad:
            return [None] * len(edges)
        parameters = trained_parameters(self.model)
        inputs: list[Any] = [*edges, *parameters.values()]
        with refuse_caught_errors():
            gradients_at = gradients(losses, torch.ones_like(losses), inputs)
        for name, gradient in zip(parameters, gradients_at[len(edges) :], strict=True):
            if gradient is not None:
                raise Unsuitable(f"{name} is used outside the forward of its own module")
        return list(gradients_at[: len(edges)])


def repetitions(losses: Tensor, shared_uses: Sequence[Use]) -> list[Use]:
    """Return the uses of layers that run once for all examples, one for each repetition of their outputs.

    Raises:
        Unsuitable: An output enters an operator other than a repetition. The gradients of several examples would be added there.
    """
    uses = []
    sources = {use.edge.node: use for use in shared_uses}
    for step in graph_steps(losses):
        use = sources.get(step.source)
        if use is None:
            continue
        if step.node.name() not in REPEATING:
            raise Unsuitable(f"{use.layer.name} runs once for all examples, and {step.node.name()} is no repetition of its output")
        uses.append(replace(use, edge=GradientEdge(step.node, 0)))
    return uses


def example_dim(call: LayerCall, one: torch.Size | None, several: torch.Size, count: int) -> ExampleDim:
    """Return the dimension of a call's input that counts the examples; None if the shape does not depend on their number.

    Args:
        one: Shape of the input for one example; None if the layer was not called for one example.
        several: Shape of the input for `count` examples.

    Raises:
        Unsuitable: The shapes differ in another way than one dimension of lengths 1 and `count`.
    """
    if one == several:
        return None
    dim = None if one is None else growing_dim(one, several, count)
    if dim is None:
        raise Unsuitable(f"{call.layer}: expected a dimension that counts {count} examples, found {tuple(several)}")
    return dim


def layer_builders(uses: Sequence[Use], gradients: Sequence[Tensor | None]) -> Builders:
    """Return the builders of the pieces of all layers, one for each use that the losses depend on.

    Args:
        gradients: Gradient of the output of each call; None if the losses do not depend on it.

    Raises:
        Unsuitable: A gradient does not have one row per example, or the input of a call was overwritten after the call.
    """
    builders: Builders = {}
    for use, gradient in zip(uses, gradients, strict=True):
        if gradient is None:
            continue
        if gradient.numel() != use.output_shape.numel():
            raise Unsuitable(f"{use.layer.name} has a gradient of shape {tuple(gradient.shape)}, not one row per example")
        use.require_unchanged()
        rows = gradient if gradient.shape == use.output_shape else gradient.reshape(use.output_shape)
        inputs = use.inputs
        if use.dim:  # 0 needs no move
            rows, inputs = rows.movedim(use.dim, 0), inputs.movedim(use.dim, 0)
        of_use = use.layer.rule(use.layer.module, inputs, rows)
        for local, name in use.layer.parameters.items():
            builders.setdefault(name, []).append(of_use[local])
    return builders


def operand_piece(use: OperandUse, gradient: Tensor) -> PlainRows:
    """Return the gradients of a parameter that is an operand, given the gradient of the operator's output."""
    return PlainRows(use.rows(gradient))
