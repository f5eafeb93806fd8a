"""What a model that was compiled says to those who take it for its graph."""

from __future__ import annotations

from typing import NoReturn

PARAMETERS = ("parameters", "set_parameters", "state_parameters")
"""What graphs have for their parameters."""


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
            raise AttributeError(told)
        raise AttributeError(
            f"{told}, which graphs have: it is compiled, and stays as it is; call graph.{name}(…) of the graph, and "
            "compile what that gives"
        )


def _class(value: object) -> type[object]:
    return type(value)
