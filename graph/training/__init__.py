"""Training: in one process, and in many that average their gradients."""

from .adaptive import LAMB, Adagrad, Lion, RMSprop
from .callbacks import Callback, EarlyStopping, Epoch, EverySteps, Listener, StepDone
from .communication import MpiCommunicator, mpi
from .data import FromTorch, Loader, Prefetch, Transform
from .gloo import GlooCommunicator, gloo
from .losses import (
    Reduction,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    huber,
    kl_divergence,
    mean_absolute_error,
    mean_squared_error,
    negative_log_likelihood,
    smooth_l1,
)
from .metrics import Accuracy, Metric
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
from .settings import Precision
from .step import Communicator
from .trainer import Trainer

__all__ = [
    "LAMB",
    "SGD",
    "Accuracy",
    "Adagrad",
    "Adam",
    "AdamW",
    "Callback",
    "Communicator",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "EarlyStopping",
    "Epoch",
    "EverySteps",
    "Exponential",
    "FromTorch",
    "GlooCommunicator",
    "InverseSqrt",
    "Linear",
    "Lion",
    "Listener",
    "Loader",
    "Metric",
    "MpiCommunicator",
    "Numbers",
    "OneCycle",
    "Optimizer",
    "Plateau",
    "Polynomial",
    "Precision",
    "Prefetch",
    "RMSprop",
    "Reduction",
    "Schedule",
    "StepDecay",
    "StepDone",
    "Trainer",
    "Transform",
    "WarmUp",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cross_entropy",
    "gloo",
    "huber",
    "kl_divergence",
    "mean_absolute_error",
    "mean_squared_error",
    "mpi",
    "negative_log_likelihood",
    "smooth_l1",
]
