"""Graph: ops over logical tensors, and the builder over it.

What only some programs use of it (gradients, files, pictures, other number formats) is imported where it is used:
who runs a model has the first result the sooner.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Unpack

from .compile.compiled_graph import CompiledGraph
from .compile.options import CompileKeywords, Policy, parse_options
from .compile.partition import Partition
from .compile.partitioning import Partitioning
from .compile.record import Explanations
from .compile.whole import compile_graph, partitioning_of, partitions_of, tune_graph
from .model.logical_tensor import LogicalTensor
from .rewritable import Rewritable
from .runtime.collecting import at_rest
from .runtime.engine import Engine

if TYPE_CHECKING:
    from .pictures.profile import Profile


class Graph(Rewritable):
    """A directed acyclic graph of ops.

    Two ways to build one, which mix freely: oneDNN Graph's own (`Op`, `add_op`, `finalize`,
    `get_partitions`), or the builder (`input`, `op`, `compile`), which has a method for each op too: `graph.relu(x)`
    is `graph.op("ReLU", x)`.

    Args:
        engine_kind: `cpu`.
        fpmath_mode: see `FpmathMode`.

    Raises:
        ArgumentError, ArgumentTypeError: an unknown mode or kind.
    """

    # --- to run it ---

    def get_partitions(
        self, policy: Policy | str = Policy.fusion, *, backend: str | None = None
    ) -> list[Partition]:
        """The graph's partitions, in an order in which they can run.

        Args:
            policy: `fusion`, or `debug` for one op a partition.
            backend: name of the only backend to use; None lets each part go where it runs best. `native` makes the
                partitions that the library's own partitioner makes.

        Raises:
            GraphError: the graph is not finalized.
            UnsupportedError: the forced backend can't run an op.
        """
        return partitions_of(self, policy, backend=backend)

    def partitioning(
        self, policy: Policy | str = Policy.fusion, *, backend: str | None = None
    ) -> Partitioning:
        """How the graph, as it is now, comes to its partitions: which pattern of which backend was asked for which ops,
        in what order, who took them, and why others did not. Print it.

        Args:
            policy, backend: as for `get_partitions`.

        Returns:
            `steps`, one for each match of a pattern; `about(op)` for those of an op. A partition has it as
            `partitioning`, also one of what was compiled.

        Raises:
            UnsupportedError: the forced backend can't run an op.
            GraphError, ShapeError: see `finalize`.
        """
        return partitioning_of(self, policy, backend=backend)

    def compile(self, engine: Engine | None = None, **options: Unpack[CompileKeywords]) -> CompiledGraph:
        """Partitions and compiles everything that is in the graph now.

        The graph stays as it is, and ops can be added to it, which what was compiled before has not. Parameters are
        shared.

        Args:
            engine: where it will run; the default engine if None.
            options: `policy`, `backend`, `verify`, `tune`, `tune_seconds`, `strategy`, `scratch_limit`, `threads`,
                `choices` and `kept_shapes`; see `CompileOptions`.

        Returns:
            A callable from arrays to arrays. Partitions whose shapes are known only at execution are compiled
            then, once for each shape, and kept.

        Raises:
            UnsupportedError: a part that no backend, or not the forced one, can run.
            ArgumentError, ArgumentTypeError: an unknown option, or a value that is none.
            GraphError, ShapeError: see `finalize`.
        """
        return compile_graph(self, engine, parse_options(options))

    def tune(
        self, budget_seconds: float = 30.0, *, engine: Engine | None = None, backend: str | None = None
    ) -> Explanations:
        """Measures the ways to run what takes most time and remembers the fastest, for `compile(tune="cached")`.

        These are the candidates of each weight gradient, and the implementations of each convolution and matrix
        product, with the layouts that they have in the whole graph. What was measured before, on this machine with as
        many threads, is not measured again. Progress is shown on a terminal.

        Args:
            budget_seconds: for all of them together, about; each way runs three times at least.
            engine, backend: as for `compile`.

        Returns:
            What was found, as `explain()` tells it, by the id of each partition that is compiled as one; None for one
            whose shapes are known only at execution.

        Raises:
            ArgumentError: the budget is no positive number.
            UnsupportedError, GraphError, ShapeError: see `compile`.
        """
        return tune_graph(self, budget_seconds, engine=engine, backend=backend)

    # --- to add to it ---

    def gradients(
        self,
        loss: LogicalTensor | Sequence[LogicalTensor],
        wrt: Sequence[LogicalTensor],
        seed: object = None,
        *,
        recompute: Sequence[LogicalTensor] = (),
        straight_through: bool = False,
    ) -> list[LogicalTensor | None]:
        """Adds the ops of a gradient to the graph: reverse mode, out of ops of the set.

        Only what a tensor of `wrt` needs is added. Gradients of a tensor that is used several times are summed. A
        marked output and the loss stay outputs, and each gradient is one until an op reads it; of a graph without
        marked ones all outputs stay. Another that the gradient reads, statistics of a batch say, is none any more.

        Args:
            loss: tensor of floating-point numbers, or several, whose gradients are added.
            wrt: tensors to differentiate by: inputs, parameters, constants, or inner ones.
            seed: gradient of the loss, of its shape: a tensor of the graph, an array or a number, for several losses
                one each; None for 1, which a loss of one element has.
            recompute: inner tensors that the backward part computes again, so that they need not be kept.
            straight_through: whether Quantize, Dequantize and Round, which have no useful derivative, hand gradients
                on as they are.

        Returns:
            For each tensor of `wrt` its gradient, of its type and shape, or None where the loss does not depend on it.

        Raises:
            ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument that is no tensor of the graph, is
                of integers, or does not fit.
            GraphError: the graph is finalized, or has a cycle.
            UnsupportedError: an op between `wrt` and `loss` that has no gradient, or whose gradient needs sizes that
                are not known. The graph is as it was then.
        """
        from .gradients.reverse import gradients

        self._check_open("gradients")
        trial = copy.copy(self)  # an error half way leaves this graph as it was
        found = gradients(trial, loss, wrt, seed, recompute, straight_through=straight_through)
        self._take_over(trial)
        return found

    def jvp(
        self, outputs: Sequence[LogicalTensor], wrt: Sequence[LogicalTensor], tangents: object
    ) -> list[LogicalTensor | None]:
        """Adds the ops of a directional derivative: how outputs change where inputs change along tangents.

        It is linear in the tangents. `gradients` is its transpose, with cotangents as `seed`.

        Args:
            outputs, wrt: tensors of floating-point numbers; what changes may be inner tensors.
            tangents: for each tensor of `wrt` a tensor of the graph, an array or a number, of its shape.

        Returns:
            For each output its tangent, of its type and shape, or None where it does not depend on `wrt`.

        Raises:
            OneDNNGraphError: see `gradients`.
        """
        from .gradients.forward import jvp

        self._check_open("jvp")
        trial = copy.copy(self)  # as for `gradients`
        found = jvp(trial, outputs, wrt, tangents)
        self._take_over(trial)
        return found

    def hvp(
        self, loss: LogicalTensor, wrt: Sequence[LogicalTensor], vectors: object
    ) -> list[LogicalTensor | None]:
        """Adds the ops of Hessian-vector products: gradients of a gradient along vectors.

        Args:
            loss: one floating-point number.
            wrt: tensors to differentiate by; the Hessian is that by all of them together.
            vectors: see `tangents` of `jvp`.

        Returns:
            For each tensor of `wrt` its part of the product, or None where the gradient does not depend on it.

        Raises:
            OneDNNGraphError: see `gradients`.
        """
        from .gradients.forward import hvp

        self._check_open("hvp")
        trial = copy.copy(self)  # as for `gradients`
        found = hvp(trial, loss, wrt, vectors)
        self._take_over(trial)
        return found

    # --- files ---

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, weights: bool | None = None) -> Graph:
        """A graph from a file in oneDNN Graph's JSON format, not yet finalized.

        Args:
            path: of the JSON file.
            weights: whether to read the file of the same name that ends in .safetensors, which `save` writes; None
                reads it where the graph was saved with one.

        Raises:
            GraphFileError: the file can't be read or is no such graph, or the weights beside it are damaged or were not
                saved with it; the message has the place in the file.
            OneDNNGraphError: what the file describes breaks a rule; likewise.
            WeightsLeftOutWarning: it was saved with weights, which are not there, and `weights` is None.
        """
        from .io.serialization import graph_in_file

        return graph_in_file(Graph, path, weights=weights)

    @staticmethod
    def load_compiled(
        path: str | os.PathLike[str], engine: Engine | None = None, *, recompile: bool = False
    ) -> CompiledGraph:
        """What `CompiledGraph.save_compiled` has written, ready to be called.

        The file is mapped, not read: constants, and what was made of them, are in memory once for all processes that
        load it, as far as somebody touches them. Replace it by another file, as `save_compiled` does, and never write
        into it while it is in use. Kernels are chosen, and trusted, as `compile` does here and now.

        Args:
            path: of the file.
            engine: where it will run; the default engine if None.
            recompile: whether a file that was made elsewhere (by another version of this package or of oneDNN, for
                another instruction set or number of threads) is compiled anew from the graph that it holds, which
                takes the time and the memory that `compile` takes.

        Returns:
            What gives the same results, to the bit, as what was saved. Of a model with open sizes it is for those for
            which it had been compiled.

        Raises:
            GraphFileError: no such file, or a damaged one; made elsewhere, and `recompile` is False. A FileAccessError
                where the system can't read it.
            ArgumentTypeError: no path, no engine, or `recompile` is no bool.
            UnsupportedError: see `Graph.compile`; an op that is not registered here is an UnknownOpError.
        """
        with (
            at_rest()
        ):  # graphs and plans stay, and so do the modules that are imported for the first of them
            from .compile.loading import load_compiled

            return load_compiled(path, engine, recompile=recompile)

    def save(self, path: str | os.PathLike[str], *, weights: bool | None = None) -> None:
        """Writes the graph to a file in oneDNN Graph's JSON format, which benchdnn and Netron read.

        Names of tensors and outputs, and the order of inputs and outputs, stand at its end, where these do not look.
        The format has no place for the content of constants.

        Args:
            path: of the JSON file. Files that are there stay as they are until the new ones are whole and on the disk.
            weights: also write a file of the same name that ends in .safetensors in the place of .json, or behind
                another name, with the constants and parameters; `load` then gives the
                same graph. Needs the package safetensors, the extra `weights`. False leaves them out: constants and
                parameters are inputs of the graph that is loaded. None leaves them out too, and says so where there
                are any.

        Raises:
            FileAccessError: a file can't be written; those of before are as they were.
            GraphFileError: the file of weights that is there belongs to another graph, or was not written by `save`.
            WeightsLeftOutWarning: see above.
            UnsupportedError: the package safetensors is not installed.
        """
        from .io.serialization import save_graph

        save_graph(self, path, weights=weights)

    @classmethod
    def from_json(cls, text: str) -> Graph:
        """A graph from the text of such a file; see `load`."""
        from .io.serialization import graph_in_text

        return graph_in_text(Graph, text)

    def to_json(self) -> str:
        """The text that `save` writes."""
        from .io.serialization import write_graph

        return write_graph(self)

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph as a model of ONNX, opset 20 or 21, which onnxruntime, OpenVINO and `og.from_onnx` read.

        Inputs, outputs, constants and parameters keep their names, types and sizes; those that are not known are left
        open. Data that lies channels last is given ONNX's order by Transpose, which runtimes move out of the way.
        Quantize and Dequantize become the pairs of QuantizeLinear and DequantizeLinear that runtimes make kernels of
        integers from; of numbers half-way between two integers, those with an odd zero point may go to the other one.

        Args:
            path: of the file. A model of more than 2 GiB has its constants in a second one, of that name and .data
                behind it. Files that are there stay as they are until the new ones are whole and on the disk.

        Raises:
            UnsupportedError: ops that ONNX has none for, as those of training, of which `for_inference` makes a graph
                without them; something depends on sizes that are not known; the package onnx is not installed.
            GraphFileError: a file can't be written, or can't hold a name.
            GraphError, ShapeError: see `finalize`.
        """
        from .onnx_export.exporter import to_onnx

        to_onnx(self, {}, path)

    # --- pictures ---

    def to_html(
        self,
        path: str | os.PathLike[str],
        *,
        policy: Policy | str = Policy.fusion,
        backend: str | None = None,
        profile: Profile | None = None,
    ) -> None:
        """Draws the graph into one page of HTML, with its partitions and what runs in them. It stays as it is.

        The page loads nothing from anywhere. Ops can be found, and clicked for attributes, tensors, kernels and
        reasons. Graphs of some thousand ops are placed more simply; the page says so.

        Args:
            path: of the file.
            policy, backend: as for `get_partitions`.
            profile: of executions with the same policy and backend; adds times.

        Raises:
            GraphFileError: the file can't be written.
            GraphError, ShapeError, UnsupportedError: see `finalize` and `get_partitions`.
        """
        from .pictures.drawing import graph_to_html

        graph_to_html(self, path, policy=policy, backend=backend, profile=profile)

    def to_dot(
        self,
        path: str | os.PathLike[str],
        *,
        policy: Policy | str = Policy.fusion,
        backend: str | None = None,
    ) -> None:
        """Writes the graph for Graphviz, with a cluster around each partition. It stays as it is.

        Args:
            path: of the file.
            policy, backend: as for `get_partitions`.

        Raises:
            GraphFileError: the file can't be written.
            GraphError, ShapeError, UnsupportedError: see `finalize` and `get_partitions`.
        """
        from .pictures.drawing import graph_to_dot

        graph_to_dot(self, path, policy=policy, backend=backend)

    def _repr_html_(self) -> str:
        """For notebooks: the page of `to_html` in a frame. The graph stays open, and may be incomplete or wrong."""
        from .pictures.drawing import graph_in_notebook

        return graph_in_notebook(self)
