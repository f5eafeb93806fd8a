"""Training: in one process, and in many that average their gradients."""

from .adaptive import LAMB, Adagrad, Lion, RMSprop
from .callbacks import Callback, EarlyStopping, Epoch, EverySteps, Listener, StepDone
from .communication import MpiCommunicator, mpi
from .data import FromTorch, Loader, Prefetch, Transform
from .gloo import GlooCommunicator, gloo
from .losses import cross_entropy, mean_squared_error
from .metrics import Accuracy, Metric
from .optimizers import SGD, Adam, AdamW, Numbers, Optimizer
from .schedules import Constant, Cosine, Schedule, StepDecay, WarmUp
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
    "EarlyStopping",
    "Epoch",
    "EverySteps",
    "FromTorch",
    "GlooCommunicator",
    "Lion",
    "Listener",
    "Loader",
    "Metric",
    "MpiCommunicator",
    "Numbers",
    "Optimizer",
    "Precision",
    "Prefetch",
    "RMSprop",
    "Schedule",
    "StepDecay",
    "StepDone",
    "Trainer",
    "Transform",
    "WarmUp",
    "cross_entropy",
    "gloo",
    "mean_squared_error",
    "mpi",
]
