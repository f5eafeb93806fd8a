"""Training: in one process, and in many that average their gradients."""

from .communication import MpiCommunicator, mpi
from .fitting import Epoch
from .losses import cross_entropy, mean_squared_error
from .metrics import Accuracy, Metric
from .optimizers import SGD, Adam, AdamW, Numbers, Optimizer
from .schedules import Constant, Cosine, Schedule, StepDecay, WarmUp
from .settings import Precision
from .step import Communicator
from .trainer import Trainer

__all__ = [
    "SGD",
    "Accuracy",
    "Adam",
    "AdamW",
    "Communicator",
    "Constant",
    "Cosine",
    "Epoch",
    "Metric",
    "MpiCommunicator",
    "Numbers",
    "Optimizer",
    "Precision",
    "Schedule",
    "StepDecay",
    "Trainer",
    "WarmUp",
    "cross_entropy",
    "mean_squared_error",
    "mpi",
]
