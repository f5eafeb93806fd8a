"""ONNX models from Python expressions: `model_of_formula(lambda x: x * sigmoid(x), X)` is Sigmoid and Mul."""

from functools import partialmethod

import numpy as np
from onnx_oracle import helper, model_of


class Written:
    """A tensor of the model under construction."""

    def __init__(self, model, name):
        self.model = model
        self.name = name

    def made(self, kind, *operands, **attributes):
        """What an op makes of this and further tensors, numbers and arrays."""
        return self.model.node(kind, (self, *operands), attributes)

    def turned(self, kind, first):
        """An op whose second operand this is."""
        return self.model.node(kind, (first, self), {})

    __add__, __radd__ = partialmethod(made, "Add"), partialmethod(turned, "Add")
    __sub__, __rsub__ = partialmethod(made, "Sub"), partialmethod(turned, "Sub")
    __mul__, __rmul__ = partialmethod(made, "Mul"), partialmethod(turned, "Mul")
    __truediv__, __rtruediv__ = partialmethod(made, "Div"), partialmethod(turned, "Div")
    __pow__, __rpow__ = partialmethod(made, "Pow"), partialmethod(turned, "Pow")
    __neg__ = partialmethod(made, "Neg")
    __array_ufunc__ = None  # an array on the left leaves the operator to this class


class Model:
    """Nodes and constants so far."""

    def __init__(self, dtype):
        self.dtype = dtype
        self.nodes, self.constants = [], {}

    def node(self, kind, operands, attributes):
        names = [o.name if isinstance(o, Written) else self.constant(o) for o in operands]
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, names, [name], **attributes))
        return Written(self, name)

    def constant(self, value):
        array = np.asarray(value)
        array = array if array.dtype.kind == "i" and array.ndim else array.astype(self.dtype)
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return name


def model_of_formula(formula, *arrays, dtype=np.float32, shapes=None):
    """A model of the inputs x, y, …, whose results are those of the formula: one, or several."""
    model = Model(dtype)
    inputs = dict(zip("xyz", arrays, strict=False))
    made = formula(*(Written(model, name) for name in inputs))
    results = made if isinstance(made, tuple) else (made,)
    return model_of(model.nodes, inputs, [r.name for r in results], model.constants, shapes=shapes)


def function(kind):
    """An op of ONNX as a function of what is written."""
    return lambda x, *more, **attributes: x.made(kind, *more, **attributes)


def over_last(kind):
    """A reduction over the last axis, which stays."""
    return lambda x, axes=(-1,): x.made(kind, np.array(axes), keepdims=1)
