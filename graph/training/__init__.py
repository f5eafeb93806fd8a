"""Training: in one process, and in many that average their gradients."""

from .losses import cross_entropy, mean_squared_error
from .optimizers import SGD, Adam, AdamW, Numbers, Optimizer
from .schedules import Constant, Cosine, Schedule, StepDecay, WarmUp
from .step import Communicator
from .trainer import Epoch, Precision, Trainer

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "Communicator",
    "Constant",
    "Cosine",
    "Epoch",
    "Numbers",
    "Optimizer",
    "Precision",
    "Schedule",
    "StepDecay",
    "Trainer",
    "WarmUp",
    "cross_entropy",
    "mean_squared_error",
]
