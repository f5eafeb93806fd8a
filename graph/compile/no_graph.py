"""What a model that was compiled says to those who take it for its graph."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NoReturn

from ...ops.errors import nearest

PARAMETERS = ("parameters", "set_parameters", "state_parameters")
"""What graphs have for their parameters."""

_CALL = "call it with arrays, model({'x': array}), which returns the outputs by name"
ELSEWHERE = {
    "create_infer_request": _CALL,
    "eval": "a compiled model is one for inference, as trainer.model() and graph.for_inference() make it",
    "forward": _CALL,
    "get_inputs": "model.inputs are its inputs, and model.input_names their names",
    "get_outputs": "model.output_names are the names of its outputs",
    "infer": _CALL,
    "infer_new_request": _CALL,
    "predict": _CALL,
    "run": _CALL,
}
"""What onnxruntime, OpenVINO and others call what is here under another name."""


class NoGraph:
    """Has none of a graph's methods, and says where they are."""

    def __getattr__(self, name: str) -> NoReturn:
        told = f"'{type(self).__name__}' has no attribute '{name}'"
        if name in PARAMETERS:
            raise AttributeError(
                f"{told}, which graphs have: model.state has the parameters by name, to be read and to be set, "
                "model.state[name] = array"
            )
        # Libraries ask for private names in passing, also of what is not yet made.
        if name.startswith("_") or not hasattr(_class(self.__dict__.get("_graph")), name):
            raise AttributeError(told if name.startswith("_") else told + _hint(name, dir(type(self))))
        raise AttributeError(
            f"{told}, which graphs have: it is compiled, and stays as it is; call graph.{name}(…) of the graph, and "
            "compile what that gives"
        )


def _hint(name: str, known: Iterable[str]) -> str:
    if name in ELSEWHERE:
        return f"; {ELSEWHERE[name]}"
    return nearest(name, [one for one in known if not one.startswith("_")])


def _class(value: object) -> type[object]:
    return type(value)
