"""Losses between distributions."""

from __future__ import annotations

from ...graph import Graph
from ...model.logical_tensor import LogicalTensor
from .checks import axis_of, check_alike, checked, flag_of
from .reducing import Reduction, finished


def kl_divergence(
    graph: Graph,
    log_probabilities: LogicalTensor,
    targets: LogicalTensor,
    *,
    axis: int = -1,
    log_targets: bool = False,
    weights: LogicalTensor | None = None,
    reduction: Reduction | str = Reduction.mean,
) -> LogicalTensor:
    """Adds the mean Kullback-Leibler divergence of predicted distributions from targets, each Σ t · (log t − q).

    What a target gives no share counts 0, also where q is −∞. Of logits, q is `graph.logsoftmax(logits, axis=…)`. With
    one axis of examples beside that of the classes this is torch's `kl_div(reduction="batchmean")`.

    Args:
        graph: that the tensors belong to.
        log_probabilities: q, (…, C, …) of floating-point numbers, with the classes along `axis`.
        targets: t, of the same type and shape.
        axis: of the classes, counted from the end where negative.
        log_targets: whether targets are log t.
        weights: factors of the divergences, of the shape of log_probabilities without `axis`, or its first axes; the
            mean is over the number of distributions all the same. Of the same type.
        reduction: mean, sum, or none for each divergence by itself.

    Returns:
        One number, of shape [], or one for each distribution.

    Raises:
        ArgumentError, ArgumentTypeError, DataTypeError, ShapeError: an argument does not fit.
    """
    what = "kl_divergence"
    make = checked(what, graph, log_probabilities=log_probabilities, targets=targets)
    along = axis_of(what, "log_probabilities", log_probabilities, axis)
    check_alike(what, ("log_probabilities", log_probabilities), targets=targets)
    shares = make.op("Exp", targets) if flag_of(what, "log_targets", log_targets) else targets
    zero, one = make.number(0, targets), make.number(1, targets)
    none = make.op("HostEqual", shares, zero)
    # 0 · −∞ is not 0, so what counts 0 is another number before it is multiplied.
    predicted = make.choose(none, zero, log_probabilities)
    logs = (
        make.choose(none, zero, targets) if log_targets else make.op("Log", make.choose(none, one, targets))
    )
    terms = make.op("Multiply", shares, make.op("Subtract", logs, predicted), auto_broadcast="none")
    divergences = make.op("ReduceSum", terms, axes=[along])
    return finished(make, what, divergences, reduction, weights)
