"""Training: in one process, and in many that average their gradients."""

from onednn_graph.graph.training.adaptive import LAMB, Adagrad, Lion, RMSprop
from onednn_graph.graph.training.callbacks import (
    Callback,
    EarlyStopping,
    Epoch,
    EverySteps,
    Listener,
    StepDone,
)
from onednn_graph.graph.training.communication import MpiCommunicator, mpi
from onednn_graph.graph.training.data import FromTorch, Loader, Prefetch, Transform
from onednn_graph.graph.training.gloo import GlooCommunicator, gloo
from onednn_graph.graph.training.losses import cross_entropy, mean_squared_error
from onednn_graph.graph.training.metrics import Accuracy, Metric
from onednn_graph.graph.training.optimizers import SGD, Adam, AdamW, Numbers, Optimizer
from onednn_graph.graph.training.schedules import Constant, Cosine, Schedule, StepDecay, WarmUp
from onednn_graph.graph.training.settings import Precision
from onednn_graph.graph.training.step import Communicator
from onednn_graph.graph.training.trainer import Trainer

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
