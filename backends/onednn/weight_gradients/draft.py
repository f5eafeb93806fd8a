"""A draft: what a lowering strategy writes its steps into.

A strategy speaks of buffers and of what happens to them; the draft finds the library's primitive for each, keeps the
user's arrays and the temporaries apart, and says with `Unfit` what can't be done. The finished draft is a `Plan`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from itertools import islice

import numpy as np
from attrs import evolve

from ....graph.runtime.arrays import Array
from ....ops.convolution_geometry import ConvolutionGeometry
from ....ops.data_types import DataType
from ....ops.errors import LibraryError
from ..library.descriptors import ConvolutionBackwardWeights
from ..library.enumerators import Algorithm, Arg, Query
from ..library.memory import MemoryDesc, OpaqueLayout
from ..library.primitive import NativeEngine, PrimitiveAttributes, PrimitiveDesc, implementations
from ..plan.chooser import Chooser
from ..plan.emitter import Emitter
from ..plan.layouts import Layouts
from ..plan.plan import Plan
from ..plan.steps import Buffer, HostArray, HostStep, Step, instead
from ..plan.unfit import Unfit
from ..plan.work import convolution_work, matmul_work, sum_work
from ..rules.features import Features
from .problem import DIFF_BIAS, DIFF_DST, DIFF_WEIGHTS, SRC, Problem, View

MOST_TERMS = 16
"""Of a sum that the library has a kernel for."""
Admits = Callable[[Features], str | None]
"""From a weight gradient on an implementation to why that must not run, or None."""


class Exhausted(Unfit):
    """The library has no further implementation for this draft."""


class Draft:
    """The steps of one way to compute a problem.

    Args:
        engine: the library's engine.
        problem: what is computed.
        pick: which of the convolution's fitting implementations to take, in the library's order.
        admits: keeps implementations out.

    Attributes:
        layouts: makes descriptors, and buffers that lie so.
        emitter: what runs.
        convolution: name of the convolution's implementation, or of the matmul's, once it is chosen.
        compute: data type that it works in.
        passed_over: reasons for implementations that were kept out.
        opaque: the layout in which dW was left, where the user allowed that.
        picks: whether `pick` decided anything, so that another pick is another draft.
        bias: the gradient of the bias, once a primitive has made it beside dW.
        target: where dW goes, as the problem's weights lie: the user's array, or within `part` a temporary.
        made: within `part`, dW as it came out, in any layout.
    """

    def __init__(self, engine: NativeEngine, problem: Problem, pick: int, admits: Admits) -> None:
        self.engine = engine
        self.layouts = Layouts(engine.lib, canonical=False)
        self._chooser = Chooser(engine)
        self.emitter = Emitter(self.layouts, self._chooser, inputs=frozenset((SRC, DIFF_DST)))
        self.problem = problem
        self.convolution = ""
        self.compute = problem.data_type
        self.passed_over: list[str] = []
        self.opaque: OpaqueLayout | None = None
        self.picks = False
        self.bias: Buffer | None = None
        self.target: Buffer | None = None
        self.made: Buffer | None = None
        self._pick = pick
        self._admits = admits

    # --- buffers ---

    def _user(self, view: View, argument: int) -> Buffer:
        return Buffer(self.layouts.desc(view.shape, view.strides, self.problem.data_type), argument)

    def src(self) -> Buffer:
        """The array that plays src, (N, G·I, X)."""
        return self._user(self.problem.src, DIFF_DST if self.problem.gradient.exchanged else SRC)

    def dst(self) -> Buffer:
        """The array that plays diff_dst, (N, G·O, P)."""
        return self._user(self.problem.dst, SRC if self.problem.gradient.exchanged else DIFF_DST)

    def result_array(self) -> Buffer:
        """The user's dW, (G, O, I, K) without G for one group."""
        return self.target or self._user(self.problem.weights, DIFF_WEIGHTS)

    def weights(self, shape: Sequence[int], strides: Sequence[int], offset: int = 0) -> Buffer:
        """The user's dW under another shape; strides and offset in elements."""
        return self.look(self.result_array(), shape, strides, offset, self.result_type)

    def look(
        self, buffer: Buffer, shape: Sequence[int], strides: Sequence[int], offset: int, data_type: DataType
    ) -> Buffer:
        """The same memory under another shape; strides and offset in elements of `data_type`."""
        size = 4 if data_type is DataType.f32 else 2
        return Buffer(
            self.layouts.desc(shape, strides, data_type),
            buffer.root.argument,
            base=buffer,
            offset=offset * size,
        )

    @property
    def result_type(self) -> DataType:
        """The type of dW where it goes."""
        return self.problem.data_type if self.target is None else self.target.desc.data_type

    def gathered(self, compute: DataType) -> DataType:
        """The type in which dW comes out: f32 where it goes to f32, whatever the tensors are multiplied as."""
        return DataType.f32 if self.result_type is DataType.f32 else compute

    @contextmanager
    def part(self, problem: Problem, target: Buffer) -> Generator[None]:
        """In the block, what is written is another problem on the same arrays, a part of this one.

        Args:
            target: where its dW goes, unless that may stay as it comes out: see `made`.
        """
        whole = self.problem, self.target
        self.problem, self.target, self.made = problem, target, target
        try:
            yield
        finally:
            self.problem, self.target = whole

    # --- steps ---

    def convolve(
        self,
        gradient: ConvolutionGeometry,
        src: Buffer,
        dst: Buffer,
        layouts: tuple[MemoryDesc, MemoryDesc],
        compute: DataType,
        takes: Callable[[str], bool] = lambda implementation: True,
        *,
        again: bool = False,
    ) -> Buffer:
        """DW of a convolution, (G, O, I, K) without G for one group, in the layout of the implementation.

        Args:
            gradient: the problem of this primitive, of which formats and axes are not looked at.
            src, dst: where the data are now.
            layouts: descriptors of src and dst for the primitive, `any` allowed.
            compute: the primitive's data type.
            takes: whether an implementation of that name goes with the strategy.
            again: a further convolution of the draft, which takes the first implementation that fits.
        """
        self.picks = True
        bias = None if again else self._bias_beside(gradient, compute)
        desc = self._implementation(gradient, layouts, compute, takes, 0 if again else self._pick, bias)
        exchanged = self.problem.gradient.exchanged
        names = ("diff_dst", "src") if exchanged else ("src", "diff_dst")
        operands = (
            (Arg.SRC, self.emitter.bring(names[0], src, desc.memory_desc(Query.src_md))),
            (Arg.DIFF_DST, self.emitter.bring(names[1], dst, desc.memory_desc(Query.diff_dst_md))),
        )
        produced = Buffer(desc.memory_desc(Query.diff_weights_md))
        data = [buffer.desc for _, buffer in operands]
        work = convolution_work(
            desc.implementation, compute, data[0].describe(), gradient, sum(d.nbytes for d in data)
        )
        outputs = [(Arg.DIFF_WEIGHTS, produced)]
        if bias is not None:
            self.bias = Buffer(bias)
            outputs.append((Arg.DIFF_BIAS, self.bias))
        self.emitter.steps.append(Step("convolution", desc, (*operands, *outputs), work))
        self.convolution, self.compute = desc.implementation, compute
        return produced

    def _implementation(
        self,
        gradient: ConvolutionGeometry,
        layouts: tuple[MemoryDesc, MemoryDesc],
        compute: DataType,
        takes: Callable[[str], bool],
        pick: int,
        bias: MemoryDesc | None,
    ) -> PrimitiveDesc:
        size = (gradient.rows, gradient.columns, *gradient.kernel)
        shape = size if gradient.groups == 1 else (gradient.groups, *size)
        try:
            descriptor = ConvolutionBackwardWeights(
                algorithm=Algorithm.convolution_direct,
                src=layouts[0],
                diff_weights=self.layouts.any(shape, self.gathered(compute)),
                diff_bias=bias,
                diff_dst=layouts[1],
                strides=gradient.strides,
                dilates=tuple(d - 1 for d in gradient.dilations),
                pads_begin=gradient.pads_begin,
                pads_end=gradient.pads_end,
                hint=None,
                attributes=PrimitiveAttributes(self.engine.lib, self.problem.fpmath),
            )
            first = descriptor.described(self.engine)
        except LibraryError as error:
            raise Unfit(str(error)) from error
        if first is None:
            raise Unfit("the library has no such primitive")

        def fitting(desc: PrimitiveDesc) -> bool:
            if not takes(desc.implementation):
                return False
            reason = self._admits(Features(descriptor, desc))
            if reason is not None:
                self.passed_over.append(reason)
            return reason is None

        found = next(islice(filter(fitting, implementations(first)), pick, None), None)
        if found is None:
            raise Exhausted("; ".join(dict.fromkeys(self.passed_over)) or "no implementation goes with it")
        return found

    def multiply(self, a: Buffer, b: Buffer, c: Buffer, compute: DataType) -> None:
        """Multiplies a and b, which are of type `compute`, over their last two axes into c."""
        desc = self._chooser.matmul(a.desc, b.desc, c.desc, self.problem.fpmath)
        if desc is None:
            raise Unfit("the library has no such matmul, or a reference loop only")
        work = matmul_work(desc.implementation, compute, a.desc, b.desc, c.desc)
        self.emitter.steps.append(Step("matmul", desc, ((Arg.SRC, a), (Arg.WEIGHTS, b), (Arg.DST, c)), work))
        self.convolution, self.compute = desc.implementation, compute

    def total(self, what: str, terms: Sequence[Buffer], target: Buffer) -> None:
        """The sum of buffers of one shape."""
        if len(terms) > MOST_TERMS:
            heads = [Buffer(target.desc) for _ in range(0, len(terms), MOST_TERMS)]
            for number, head in enumerate(heads):
                self.total(what, terms[number * MOST_TERMS : (number + 1) * MOST_TERMS], head)
            terms = heads
        desc = self._chooser.add([term.desc for term in terms], target.desc)
        if desc is None:
            raise Unfit("the library has no such sum")
        arguments = [(Arg.MULTIPLE_SRC + i, term) for i, term in enumerate(terms)]
        nbytes = sum(term.desc.nbytes for term in terms) + target.desc.nbytes
        work = sum_work(desc.implementation, nbytes)
        self.emitter.steps.append(Step(f"sum {what}", desc, (*arguments, (Arg.DST, target)), work))

    def result(self, dw: Buffer) -> None:
        """The last step: dW, (G, O, I, K) in any layout, into the user's array."""
        if self.target is not None:
            self.made = dw
            return
        target = self.result_array()
        if (
            self.problem.free_weights
            and dw.desc.data_type == self.problem.data_type
            and dw.desc != target.desc
        ):
            self.opaque = OpaqueLayout(dw.desc, target.desc)
            target = Buffer(dw.desc, DIFF_WEIGHTS)
        if dw.desc != target.desc:
            self.emitter.copy("diff_weights", dw, target)
            return
        last = self.emitter.steps[-1]
        if not isinstance(last, Step):
            raise Unfit("dW comes from a step on the host")
        arguments = tuple((arg, instead(buffer, {dw: target})) for arg, buffer in last.arguments)
        self.emitter.steps[-1] = evolve(last, arguments=arguments)

    def _bias_beside(self, gradient: ConvolutionGeometry, compute: DataType) -> MemoryDesc | None:
        """The gradient of the bias that a convolution makes beside dW; None where it does not see all of diff_dst."""
        whole = self.problem.gradient
        sees = (gradient.batch, gradient.groups * gradient.rows, gradient.dst_spatial)
        if self.problem.bias is None or whole.exchanged:
            return None
        if sees != (whole.batch, whole.groups * whole.rows, whole.dst_spatial):
            return None
        return self.layouts.desc((whole.groups * whole.rows,), (1,), self.gathered(compute))

    def _finish_bias(self, view: View) -> None:
        """Brings the gradient of the bias to the user's array; sums diff_dst where no primitive has made it."""
        target = Buffer(self.layouts.desc(view.shape, view.strides, self.problem.data_type), DIFF_BIAS)
        made = self.bias
        if made is None:
            diff_dst = self.src() if self.problem.gradient.exchanged else self.dst()
            arrays = (HostArray.of(diff_dst), HostArray.of(target))
            seen = tuple(array for array in arrays if array is not None)
            self.emitter.steps.append(
                HostStep("sum of diff_dst", _sum_per_channel, ((0, diff_dst), (1, target)), seen, 1)
            )
            return
        if made.base is None and made.desc == target.desc:
            self.emitter.steps.assign(
                evolve(step, arguments=tuple((a, target if b is made else b) for a, b in step.arguments))
                for step in self.emitter.steps
            )
        else:
            self.emitter.copy("diff_bias", made, target)

    def plan(self) -> Plan:
        """The finished plan."""
        if self.problem.bias is not None:
            self._finish_bias(self.problem.bias)
        return Plan(self.engine, self.emitter.steps)


def _sum_per_channel(inputs: Sequence[Array], outputs: Sequence[Array]) -> None:
    """The sum over all axes but the second, in f32; the library has a reference loop only."""
    axes = tuple(axis for axis in range(inputs[0].ndim) if axis != 1)
    outputs[0][...] = np.sum(inputs[0], axis=axes, dtype=np.float32)
