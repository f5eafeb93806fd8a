"""What is said of a name that a public module has not: where it is, or what it may be."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

from onednn_graph.graph.functions.misnamed import hint
from onednn_graph.ops.errors import nearest

NAMES = {
    "errors": """
        ArgumentError ArgumentTypeError AttributeTypeError AttributeValueError BackendUnavailableWarning
        BusyMachineWarning CheckpointWarning CompiledAgainWarning DataTypeError FileAccessError GraphError
        GraphFileError LayoutError LibraryError LostRankWarning MissingFileError OneDNNGraphError
        OutOfMemoryError PortError ResourceError SchemaError ShapeError SkippedStepWarning SlowTypeWarning
        TuningCacheWarning UnknownAttributeError UnknownOpError UnsupportedError VerdictStoreWarning
        WeightsLeftOutWarning
    """,
    "extend": """
        NON_NEGATIVE POSITIVE UNKNOWN_DIM AtLeast AttributeSpec AttributeType Attributes GradientContext
        GradientRule InferenceContext Kernel OneOf OpNames OpSchema Port Shape register_gradient register_op
        shape_of_first_input unregister_op
    """,
    "profiling": """
        Considered Event EventKind ExplainedStep Explanation Explanations HeldMemory Line MemoryPeak MemoryStep
        MemoryTimeline OnlineChoice Partitioning PartitioningStep Profile Report StageMemory Temporary Tried
        profile
    """,
    "training": """
        EMA LAMB SGD Accuracy Adagrad Adam AdamW Callback Checkpoints Communicator Constant Cosine
        CosineRestarts CsvLog EarlyStopping Epoch EverySteps Exponential F1Score FromTorch GlooCommunicator
        InverseSqrt Linear Lion Listener Loader MeanAbsoluteError MeanIoU Metric MpiCommunicator Numbers
        OneCycle Optimizer Plateau Polynomial Precision PrecisionScore Prefetch RMSprop Ratios RecallScore
        Reduction Schedule StepDecay StepDone TensorBoardLog Trainer Transform WarmUp binary_cross_entropy
        binary_cross_entropy_with_logits cosine_embedding cross_entropy ctc gloo hinge huber kl_divergence
        mean_absolute_error mean_squared_error mpi negative_log_likelihood replace_head smooth_l1
        triplet_margin
    """,
}
"""Module → its names. They stand here once more since asking for a name that is nowhere, as `hasattr` does, must not
import them all."""


def unknown(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """The error for it.

    Args:
        module: as it is imported.
        name: that was asked of it.
        known: names that it has.
    """
    told = (
        "" if name.startswith("_") else _hint(module, name, known)
    )  # libraries ask for private names in passing
    return AttributeError(f"module '{module}' has no attribute '{name}'{told}", name=name)


def refusing(module: str, known: Iterable[str]) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module that has these names and no others."""

    def missing(name: str) -> NoReturn:
        raise unknown(module, name, known)

    return missing


def _hint(module: str, name: str, known: Iterable[str]) -> str:
    elsewhere = {
        one.casefold(): f"onednn_graph.{other}.{one}"
        for other, names in NAMES.items()
        if module != f"onednn_graph.{other}"
        for one in names.split()
    }
    if module == "onednn_graph":
        return hint(name, known, elsewhere)
    its = elsewhere.get(name.casefold())
    return nearest(name, known) if its is None else f" (did you mean '{its}'?)"
