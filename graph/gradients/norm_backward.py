"""Gradients by statistics, and second derivatives, of the normalisations that have a gradient op."""

from __future__ import annotations

from collections.abc import Iterator

from ...ops.data_types import DataType
from ...ops.formats import axis_positions
from ...ops.schema import UNKNOWN_DIM
from ..model.logical_tensor import LogicalTensor
from ..runtime.cached import cached
from .arithmetic import count, dims_of
from .backward_ops import by_backward_ops
from .context import GradientContext
from .rules import STOPPED_PORTS, Made, rule

STOPPED_PORTS["BatchNormForwardTraining"] = frozenset(
    # What the running statistics were is for another time, and what they become as well.
    ("mean", "variance", "running_mean", "running_variance")
)


class _Parts:
    """How a normalisation sees its data: as parts, each with a mean and a variance, along axes of their own.

    Attributes:
        shape: of the data, with the groups of channels on an axis where there are groups.
        axes: those along which a part lies.
        affine: shape of gamma beside the data.
        outer: axes along which all elements have the same gamma.
    """

    def __init__(self, ctx: GradientContext) -> None:
        self._make = ctx.make
        self._src = ctx.shape_of("src")
        self.shape = dims_of(self._src)
        rank = len(self.shape)
        if ctx.op.kind.startswith("LayerNorm"):
            first = ctx.op.attributes.integer("begin_norm_axis") % rank
            self.axes = tuple(range(first, rank))
            self.outer = tuple(range(first))
        else:
            channel = axis_positions(ctx.op.attributes.string("data_format"), rank - 2)["C"][0]
            self.axes = self.outer = tuple(axis for axis in range(rank) if axis != channel)
            if ctx.op.kind.startswith("GroupNorm"):
                groups, size = ctx.op.attributes.integer("groups"), self.shape[channel]
                each = UNKNOWN_DIM if size == UNKNOWN_DIM else size // groups
                self.shape = (*self.shape[:channel], groups, each, *self.shape[channel + 1 :])
                self.axes = tuple(axis for axis in range(1, rank + 1) if axis != channel)
                self.outer = tuple(axis for axis in range(rank + 1) if axis not in (channel, channel + 1))
        self.affine = tuple(1 if axis in self.outer else size for axis, size in enumerate(self.shape))

    def split(self, data: LogicalTensor, data_type: DataType) -> LogicalTensor:
        """Data, in the type in which statistics are."""
        return self._make.reshape(self._make.cast(data, data_type), self.shape, self._src)

    def whole(self, data: LogicalTensor) -> LogicalTensor:
        """The data's own shape again."""
        return self._make.reshape_like(data, self._src)

    def beside(self, statistics: LogicalTensor) -> LogicalTensor:
        """A value of each part, beside the data."""
        shape = [1 if axis in self.axes else size for axis, size in enumerate(self.shape)]
        return self._make.reshape(statistics, shape, self._src)

    def mean(self, data: LogicalTensor) -> LogicalTensor:
        """Of each part, beside the data."""
        return self._make.op("ReduceMean", data, axes=list(self.axes), keep_dims=True)

    def total(self, data: LogicalTensor) -> LogicalTensor:
        """Of each part, beside the data."""
        return self._make.total(data, self.axes)

    def spread(self, values: LogicalTensor, ctx: GradientContext) -> LogicalTensor:
        """Values beside the data as many as there are data."""
        if UNKNOWN_DIM not in self.shape:
            return self._make.op("HostExpand", values, shape=list(self.shape))
        return self._make.expand(values, self.split(ctx.input("src"), values.data_type))

    def shared_out(self, sums: LogicalTensor, like: LogicalTensor) -> LogicalTensor:
        """Divided by how many elements a part has."""
        if all(self.shape[axis] != UNKNOWN_DIM for axis in self.axes):
            return self._make.scale(sums, 1 / max(1, count(self.shape, self.axes)))
        ones = self._make.expand(self._make.number(1, like), like)
        return self._make.divide(sums, self.total(ones))


@rule("BatchNormForwardTraining", "GroupNorm", "LayerNorm", every_output=True)
def normalisation(ctx: GradientContext) -> Iterator[Made]:
    """The gradient op; with a and b the gradients of mean and variance, (a + 2 · b · (src − mean)) / count besides.

    Only second derivatives, and losses that read statistics, have gradients of these.
    """
    if ctx.gradients[0] is not None:
        yield from by_backward_ops(ctx)
    else:
        yield from ((port, None) for port in ("gamma", "beta") if ctx.has_input(port))
    of_mean, of_variance = ctx.gradients[-2:] if len(ctx.gradients) > 1 else (None, None)
    if not ctx.wants("src"):
        return
    if of_mean is None and of_variance is None:
        yield "src", None
        return
    make, parts = ctx.make, _Parts(ctx)
    own = ctx.op.outputs[-1].data_type
    src = parts.split(ctx.input("src"), own)
    sums: LogicalTensor | None = None
    if of_variance is not None:
        batch = "batch_" if ctx.op.kind.startswith("BatchNorm") else ""
        away = make.subtract(src, parts.beside(ctx.output(f"{batch}mean")))
        sums = make.multiply(away, make.scale(parts.beside(of_variance), 2))
    if of_mean is not None:
        along = parts.beside(of_mean)
        sums = along if sums is None else make.add(sums, along)
    if sums is not None:
        found = parts.shared_out(sums, src)
        yield "src", parts.whole(found if of_variance is not None else parts.spread(found, ctx))


class _Second:
    """What gradients by the inputs of a gradient op are made of, each made where it is first read.

    With r = 1 / √(variance + epsilon), x̂ = (src − mean) · r, h = gamma · diff_dst and means over parts, the op makes
    diff_src = r · P(h), where P(v) = v − mean(v) − x̂ · mean(v · x̂), diff_gamma = Σ diff_dst · x̂ and
    diff_beta = Σ diff_dst.

    Attributes:
        u, u_gamma, u_beta: the gradients of these three, beside the data; None where there is none.
    """

    def __init__(self, ctx: GradientContext) -> None:
        self.ctx, self.make, self.parts = ctx, ctx.make, _Parts(ctx)
        self.own = ctx.shape_of("variance").data_type
        u, u_gamma, u_beta = (*ctx.gradients, None, None)[:3]
        self.u = None if u is None else self.parts.split(u, self.own)
        self.u_gamma, self.u_beta = (
            None if of is None else self.make.reshape(of, self.parts.affine, of) for of in (u_gamma, u_beta)
        )

    @cached
    def inverse(self) -> LogicalTensor:
        """R."""
        variance = self.ctx.input("variance")
        epsilon = self.make.number(self.ctx.op.attributes.real("epsilon"), variance)
        return self.parts.beside(self.make.op("Pow", self.make.add(variance, epsilon), beta=-0.5))

    @cached
    def normalised(self) -> LogicalTensor:
        """X̂."""
        src = self.parts.split(self.ctx.input("src"), self.own)
        away = self.make.subtract(src, self.parts.beside(self.ctx.input("mean")))
        return self.make.multiply(away, self.inverse)

    @property
    def affine(self) -> bool:
        """Whether there is a gamma, and it is used."""
        return self.ctx.has_input("gamma") and bool(self.ctx.op.attributes.get("use_affine", True))

    @cached
    def gamma(self) -> LogicalTensor:
        """Gamma beside the data."""
        return self.make.reshape(self.ctx.input("gamma"), self.parts.affine, self.ctx.shape_of("gamma"))

    def scaled(self, values: LogicalTensor) -> LogicalTensor:
        """Values times gamma."""
        return self.make.multiply(values, self.gamma) if self.affine else values

    @cached
    def diff(self) -> LogicalTensor:
        """diff_dst."""
        return self.parts.split(self.ctx.input("diff_dst"), self.own)

    @cached
    def h(self) -> LogicalTensor:
        """H."""
        return self.scaled(self.diff)

    def along(self, values: LogicalTensor) -> LogicalTensor:
        """mean(v · x̂)."""
        return self.parts.mean(self.make.multiply(values, self.normalised))

    def projected(self, values: LogicalTensor) -> LogicalTensor:
        """P(v)."""
        make = self.make
        away = make.subtract(values, self.parts.mean(values))
        return make.subtract(away, make.multiply(self.normalised, self.along(values)))

    @cached
    def through(self) -> LogicalTensor | None:
        """The gradient of h, r · P(u)."""
        return None if self.u is None else self.make.multiply(self.projected(self.u), self.inverse)

    @cached
    def of_normalised(self) -> LogicalTensor | None:
        """The gradient of x̂: u_gamma · diff_dst − r · (u · mean(h · x̂) + h · mean(u · x̂))."""
        make, found = self.make, None
        if self.u_gamma is not None:
            found = make.multiply(self.diff, self.u_gamma)
        if self.u is not None:
            first = make.multiply(self.u, self.along(self.h))
            both = make.add(first, make.multiply(self.h, self.along(self.u)))
            product = make.multiply(both, self.inverse)
            found = make.negative(product) if found is None else make.subtract(found, product)
        return found

    @cached
    def of_src(self) -> LogicalTensor | None:
        """The gradient of src, and with the other sign, summed, that of the mean."""
        found = self.of_normalised
        return None if found is None else self.make.multiply(found, self.inverse)

    @cached
    def of_variance(self) -> LogicalTensor | None:
        """−½ · r² · (Σ u · r · P(h) + Σ x̂ · the gradient of x̂), summed over each part."""
        make = self.make
        products: list[LogicalTensor] = []
        if self.of_normalised is not None:
            products.append(make.multiply(self.of_normalised, self.normalised))
        if self.through is not None:  # P is symmetric
            products.append(make.multiply(self.through, self.h))
        if not products:
            return None
        total = self.parts.total(products[0] if len(products) == 1 else make.add(*products))
        return make.scale(make.multiply(total, make.op("Square", self.inverse)), -0.5)


@rule("BatchNormTrainingBackward", "GroupNormBackward", "LayerNormBackward", every_output=True)
def second(ctx: GradientContext) -> Iterator[Made]:
    """Of each input by itself, statistics among them: see `_Second`."""
    found = _Second(ctx)
    make, parts = ctx.make, found.parts
    if ctx.wants("src"):
        yield "src", None if found.of_src is None else parts.whole(found.of_src)
    if ctx.wants("diff_dst"):
        terms = [] if found.through is None else [found.scaled(found.through)]
        if found.u_gamma is not None:
            terms.append(make.multiply(found.normalised, found.u_gamma))
        if found.u_beta is not None:
            terms.append(parts.spread(found.u_beta, ctx))
        yield from (("diff_dst", parts.whole(term)) for term in terms)
        if not terms:
            yield "diff_dst", None
    if ctx.wants("mean"):
        total = None if found.of_src is None else make.negative(parts.total(found.of_src))
        yield "mean", None if total is None else make.reshape_like(total, ctx.shape_of("mean"))
    if ctx.wants("variance"):
        total = found.of_variance
        yield "variance", None if total is None else make.reshape_like(total, ctx.shape_of("variance"))
    if ctx.has_input("gamma") and ctx.wants("gamma"):
        by_gamma = None
        if found.through is not None and found.affine:
            product = make.multiply(found.through, found.diff)
            by_gamma = make.reshape_like(make.total(product, parts.outer), ctx.shape_of("gamma"))
        yield "gamma", by_gamma
    if ctx.op.kind == "LayerNormBackward" and ctx.has_input("beta"):
        yield "beta", None
