"""What makes another graph of one: other number formats, other weights, the model without its training."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Literal, Self

from ..ops.data_types import DataType
from .core.building import GraphCore
from .model.logical_tensor import LogicalTensor

if TYPE_CHECKING:
    from .precision.ranges import Method


class Rewritable(GraphCore):
    """A graph of which others are made, that are not finalized, while it stays as it is."""

    def to(self, data_type: DataType | str, *, keep: Collection[str] = (), ports: bool = True) -> Self:
        """The same graph in another number format; this one stays as it is.

        What is f32 becomes bf16, with f32 where it matters: parameters and statistics of normalisations, constants
        that broadcast, losses, what the graph assigns to its parameters, what is computed from integers (positions,
        masks), what reads a Dequantize, and all that an op's schema has in no other type. Kernels accumulate in f32.
        Constants become constants of bf16.

        Args:
            data_type: `bf16`. f16 has neither the range of f32 nor, on most CPUs, kernels.
            keep: what stays f32: names of ops, kinds, and names of tensors, or patterns of these as `fnmatch` has
                them; one, or a list. A tensor's name keeps the op that makes it; an input's or a constant's the ops
                that read it.
            ports: whether inputs and outputs keep their types, with a TypeCast behind or before them. Otherwise they
                become bf16 too.

        Returns:
            A graph of the same names that is not finalized.

        Raises:
            ArgumentError, ArgumentTypeError: another type; something in `keep` that there is not.
            GraphError: a cycle.
        """
        from .precision.bfloat16 import to_data_type

        return to_data_type(self, data_type, keep=keep, ports=ports)

    def for_inference(
        self, outputs: Sequence[str | LogicalTensor] | None = None, *, fold_batch_norm: bool = False
    ) -> Self:
        """The model that a graph for training has in it; this graph stays as it is.

        BatchNorm goes by its moving statistics, as torch's `eval()` has it, but for one that has none; Dropout hands
        its input on; nothing is assigned. Parameters become constants of the values that they have now. What only
        loss, gradients and updates need is left out, inputs as labels and seeds among it.

        Args:
            outputs: names, patterns of names, or tensors that the graph is to give out; one, or a list. None for those
                that were marked with a name, and for all others where none was: without gradients, updates, and a
                single number that needs inputs, as labels are, which no other output does. Names stay.
            fold_batch_norm: whether weights take in the BatchNorm behind their convolution or matmul. It stays where
                something else reads that one's result, and behind weights of 16 bits.

        Returns:
            A graph that is not finalized.

        Raises:
            ArgumentError, ArgumentTypeError: none is left; a name that is none of the graph's.
            UnsupportedError: what is left needs something that there is in training alone, as a mask is.
            GraphError: a cycle.
        """
        from .precision.inference import for_inference

        return for_inference(self, outputs, folded=fold_batch_norm)

    def quantize_static(
        self,
        calibration_feeds: Iterable[object],
        *,
        method: Method | Literal["minmax", "percentile", "mse"] = "minmax",
        keep: Collection[str] = (),
        reduce_range: bool = False,
    ) -> Self:
        """The same f32 graph whose convolutions and matmuls run on 8-bit integers; this one stays as it is.

        The inputs of convolutions and matmuls, and what lies between them (sums of residuals, poolings, joins), are
        stored as integers: `Quantize` and `Dequantize` stand around them, of which kernels of integers are made.
        Constant weights become constants of s8, symmetric, with a scale for each output channel; activations u8 with
        one scale and a zero point, from the range that they have when the graph runs on the feeds, and s8 where they
        are the second factor of a matmul. Ranges hold zero; those of softmax and sigmoid are known. Biases, and all
        else, stay f32. Parameters become constants of the values that they have now, but for those that the graph
        assigns, which stay with their updates, in memory of their own. (`graph.quantize` adds an op, as each op's
        method does.)

        Args:
            calibration_feeds: some typical inputs: mappings from input names to arrays, tuples of arrays in the inputs'
                order, or the array itself where there is one input.
            method: `minmax`; `percentile` and `mse` leave out what lies far outside, and run each feed twice.
            keep: what stays f32: names of ops, kinds, and names of tensors, or patterns of these; see `to`.
            reduce_range: whether weights take 7 bits, -64 to 64: steps are twice as coarse, and CPUs with SSE4.1
                or AVX2 alone, whose sums of two products saturate at 16 bits, multiply such integers by u8, where they
                would compute in f32. (ONNX Runtime's word for the same.)

        Returns:
            A graph with the same inputs and outputs that is not finalized.

        Raises:
            ArgumentError, ArgumentTypeError: the graph is bf16 or quantised; no feeds, or one that does not fit; NaN or
                an infinity in a tensor to be quantised; an unknown method, or name in `keep`.
            GraphError, ShapeError: see `finalize`.
        """
        from .precision.quantization import quantize

        return quantize(self, calibration_feeds, method=method, keep=keep, reduce_range=reduce_range)

    def quantize_weights(
        self,
        data_type: DataType | Literal["s8", "u8", "s4", "u4"] = "s8",
        *,
        group: int | None = None,
        keep: Collection[str] = (),
    ) -> Self:
        """The same graph with the constant weights of its matmuls in 8 or 4 bits; this one stays as it is.

        Activations keep their type, so that no feeds are needed: each product is with w ≈ (q − zp) · scale, which a
        `DynamicDequantize` behind the integers says. They become floating-point numbers once, when the graph is
        compiled, unless a newer oneDNN than the wheel's has products that take them as they are. Weights that are held
        transposed or in another type are taken as the matmul sees them; what else reads them, as an embedding does,
        reads them as before. Parameters become constants of the values that they have
        now, but for those that the graph assigns, as a cache: these are state that both graphs share, as those for
        other sizes do, and no weights. (`graph.quantize` adds an op, as each op's method does;
        `quantize_static` has integers for activations too.)

        Args:
            data_type: `s8` and `s4` are symmetric, scale = largest / 127 or 7; `u8` and `u4` have zero points.
            group: how many elements of a column share a scale, along the axis that is summed; all of them if None.
                Where it does not divide that axis the largest divisor below it is taken, down to a quarter of it;
                weights with none stay as they are.
            keep: what stays as it is: names of ops, kinds, and names of tensors, or patterns of these; see `to`.

        Returns:
            A graph with the same inputs and outputs that is not finalized.

        Raises:
            ArgumentError, ArgumentTypeError: another type; no size of groups; an unknown name in `keep`; no matmul with
                constant weights; NaN or an infinity in weights.
            GraphError: a cycle.
        """
        from .precision.weights import quantize_weights

        return quantize_weights(self, data_type, group=group, keep=keep)

    def quantize_dynamic(self, *, keep: Collection[str] = ()) -> Self:
        """The same graph with its matmuls by constant weights on 8-bit integers; this one stays as it is.

        Weights become s8 with one scale for each column, activations s8 with one for each row, the largest of it ÷ 127,
        which is found at each run, so that no feeds are needed: what onnxruntime and torch call dynamic quantization.
        Sums of integers are exact. A row with NaN or an infinity makes NaN or infinities. Where the CPU has no
        instructions for it (VNNI) products are in f32, of the same numbers, and no faster than before. Products whose
        weights are no matrices, or whose activations are transposed, stay as they are. Parameters become constants, see
        `quantize_weights`.

        Args:
            keep: what stays as it is: names of ops, kinds, and names of tensors, or patterns of these; see `to`.

        Returns:
            A graph with the same inputs and outputs that is not finalized.

        Raises:
            ArgumentError, ArgumentTypeError: an unknown name in `keep`; no such matmul; NaN or an infinity in weights.
            GraphError: a cycle.
        """
        from .precision.dynamic import quantize_dynamic

        return quantize_dynamic(self, keep=keep)

    def adapters(
        self,
        rank: int,
        pattern: str | Sequence[str],
        *,
        alpha: float | None = None,
        trained: str | Sequence[str] = (),
        seed: int = 0,
    ) -> Self:
        """The same graph with low-rank adapters (LoRA) beside weights that stay as they are; this one stays as it is.

        Beside each MatMul and Convolution whose weights are named, alpha / rank times the product by A and B is added.
        A is drawn, B is zero, so that results are the same at first. Parameters become constants, but for A, B, moving
        statistics and those of `trained`, so that a Trainer makes no gradients by them and keeps no state for them.

        Args:
            rank: rows of A, columns of B.
            pattern: of names of weights, or several, as `*.query.weight`. What else they fit stays as it is.
            alpha: scales what is added; `rank` if None.
            trained: patterns of names of other parameters that are to be trained, as those of a new head.
            seed: of A: uniform numbers up to 1 / √(elements that a row is multiplied by).

        Returns:
            A graph that is not finalized, with `layer.lora_A.weight` (rank, inputs) and `layer.lora_B.weight` (outputs,
            rank) beside `layer.weight`, as PEFT names them. Its other tensors have the ids that they had: a Trainer
            takes the loss of this graph for it.

        Raises:
            ArgumentError, ArgumentTypeError: no rank; a pattern that fits nothing, or no weights; there are adapters.
            UnsupportedError: weights of a convolution with groups.
        """
        from .precision.adapters import adapters

        return adapters(self, rank, pattern, alpha=alpha, trained=trained, seed=seed)

    def merge_adapters(self) -> Self:
        """The graph of `adapters` with each adapter added to its weights, and no adapters; this one stays as it is.

        Raises:
            ArgumentError: there are no adapters.
        """
        from .precision.merging import merged

        return merged(self)
