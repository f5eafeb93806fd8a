"""Training: in one process, and in many that average their gradients."""

import typing as _typing

from onednn_graph._near import refusing as _refusing
from onednn_graph.graph.functions.keywords import tell_of as _tell_of
from onednn_graph.graph.training.adaptive import LAMB, Adagrad, Lion, RMSprop
from onednn_graph.graph.training.callbacks import (
    Callback,
    EarlyStopping,
    Epoch,
    EverySteps,
    Listener,
    StepDone,
)
from onednn_graph.graph.training.checkpoint_folder import Checkpoints
from onednn_graph.graph.training.communication import MpiCommunicator, mpi
from onednn_graph.graph.training.data import FromTorch, Loader, Prefetch, Transform
from onednn_graph.graph.training.ema import EMA
from onednn_graph.graph.training.gloo import GlooCommunicator, gloo
from onednn_graph.graph.training.heads import replace_head
from onednn_graph.graph.training.logs import CsvLog, TensorBoardLog
from onednn_graph.graph.training.losses import (
    Reduction,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cosine_embedding,
    cross_entropy,
    ctc,
    hinge,
    huber,
    kl_divergence,
    mean_absolute_error,
    mean_squared_error,
    negative_log_likelihood,
    smooth_l1,
    triplet_margin,
)
from onednn_graph.graph.training.metrics import Accuracy, Metric, Ratios
from onednn_graph.graph.training.optimizers import SGD, Adam, AdamW, Numbers, Optimizer
from onednn_graph.graph.training.plateau import Plateau
from onednn_graph.graph.training.schedules import (
    Constant,
    Cosine,
    CosineRestarts,
    Exponential,
    InverseSqrt,
    Linear,
    OneCycle,
    Polynomial,
    Schedule,
    StepDecay,
    WarmUp,
)
from onednn_graph.graph.training.scores import (
    F1Score,
    MeanAbsoluteError,
    MeanIoU,
    PrecisionScore,
    RecallScore,
)
from onednn_graph.graph.training.settings import Precision
from onednn_graph.graph.training.step import Communicator
from onednn_graph.graph.training.trainer import Trainer

__all__ = [
    "EMA",
    "LAMB",
    "SGD",
    "Accuracy",
    "Adagrad",
    "Adam",
    "AdamW",
    "Callback",
    "Checkpoints",
    "Communicator",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "CsvLog",
    "EarlyStopping",
    "Epoch",
    "EverySteps",
    "Exponential",
    "F1Score",
    "FromTorch",
    "GlooCommunicator",
    "InverseSqrt",
    "Linear",
    "Lion",
    "Listener",
    "Loader",
    "MeanAbsoluteError",
    "MeanIoU",
    "Metric",
    "MpiCommunicator",
    "Numbers",
    "OneCycle",
    "Optimizer",
    "Plateau",
    "Polynomial",
    "Precision",
    "PrecisionScore",
    "Prefetch",
    "RMSprop",
    "Ratios",
    "RecallScore",
    "Reduction",
    "Schedule",
    "StepDecay",
    "StepDone",
    "TensorBoardLog",
    "Trainer",
    "Transform",
    "WarmUp",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding",
    "cross_entropy",
    "ctc",
    "gloo",
    "hinge",
    "huber",
    "kl_divergence",
    "mean_absolute_error",
    "mean_squared_error",
    "mpi",
    "negative_log_likelihood",
    "replace_head",
    "smooth_l1",
    "triplet_margin",
]

_tell_of(globals(), __all__)
if not _typing.TYPE_CHECKING:
    __getattr__ = _refusing(__name__, __all__)
