"""Training: in one process, and in many that average their gradients."""

from .adaptive import LAMB, Adagrad, Lion, RMSprop
from .callbacks import Callback, EarlyStopping, Epoch, EverySteps, Listener, StepDone
from .checkpoint_folder import Checkpoints
from .communication import MpiCommunicator, mpi
from .data import FromTorch, Loader, Prefetch, Transform
from .ema import EMA
from .gloo import GlooCommunicator, gloo
from .heads import replace_head
from .logs import CsvLog, TensorBoardLog
from .losses import (
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
from .metrics import Accuracy, Metric, Ratios
from .optimizers import SGD, Adam, AdamW, Numbers, Optimizer
from .plateau import Plateau
from .schedules import (
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
from .scores import F1Score, MeanAbsoluteError, MeanIoU, PrecisionScore, RecallScore
from .settings import Precision
from .step import Communicator
from .trainer import Trainer

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
