"""Where gradients end in a torch module, and what of its gradients an export does not tell.

`torch.export` keeps `detach()` as an op and a `torch.no_grad()` block as a subgraph, and both are gone once a program
is decomposed: before that each becomes an op that stays. Hooks and `autograd.Function` it does not keep at all.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from ...ops.errors import UnsupportedError

WAY_OUT = 'train the module by torch.compile(module, backend="onednn_graph"), where autograd stays torch\'s'
HOOKS = {
    "_backward_hooks": "backward hook",
    "_backward_pre_hooks": "backward hook",
    "_post_accumulate_grad_hooks": "hook after its gradient",
}
"""Attributes of modules and parameters, and what is in them."""
HARMLESS = frozenset(("torch.utils.checkpoint._NoopSaveInputs",))
"""Subclasses of autograd.Function that hand on what they get."""


def refused(reason: str, way_out: str = WAY_OUT) -> UnsupportedError:
    """The error of what a graph for training would do without."""
    return UnsupportedError(
        f"from_torch: {reason}, which torch.export does not keep, so that gradients would be wrong; {way_out}"
    )


# --- what an export does not keep ------------------------------------------------------------------------


def check_hooks(module: Any) -> None:
    """Whether gradients of the module are as its ops say.

    Raises:
        UnsupportedError: a hook of a part or a parameter changes or reads them.
    """
    parts = [(f"its part {name!r}" if name else "it", part) for name, part in module.named_modules()]
    parts += [(f"its parameter {name!r}", parameter) for name, parameter in module.named_parameters()]
    for what, part in parts:
        for attribute, kind in HOOKS.items():
            if getattr(part, attribute, None):
                raise refused(
                    f"{what} of the {type(module).__name__} has a {kind}", f"remove it, or {WAY_OUT}"
                )


@contextmanager
def watched(torch: Any) -> Generator[None]:
    """Runs a module's Python once, and looks out for what has a say in gradients without being an op.

    Raises:
        UnsupportedError: there is some; at the end, whatever became of the run.
    """
    found: list[UnsupportedError] = []
    thread = threading.get_ident()  # others go on as they do

    def seen(*reason: str) -> None:
        if threading.get_ident() == thread and torch.is_grad_enabled():
            found.append(refused(*reason))

    try:
        with ExitStack() as stack:
            for patch in (*_casting_patches(torch, seen), *_patches(torch, seen)):
                stack.enter_context(patch)
            yield
    finally:
        if found:
            raise found[0] from None


def _patches(torch: Any, seen: Callable[..., None]) -> Iterator[Any]:
    """Puts functions of torch that tell of it in the place of its own."""
    function = torch.autograd.Function
    apply = function.__dict__["apply"]  # a method of the class in Python, and since torch 2.15 one in C
    grad, enter = torch.autograd.grad, torch.inference_mode.__enter__

    def applied(cls: Any, *args: Any, **named: Any) -> Any:
        name = f"{cls.__module__}.{cls.__qualname__}"
        if name == "torch.utils.checkpoint.CheckpointFunction":
            seen(
                "the module calls torch.utils.checkpoint with use_reentrant=True", "pass use_reentrant=False"
            )
        elif name not in HARMLESS:
            seen(
                f"the module calls the autograd.Function {cls.__name__} with a backward of its own",
                f"write it with detach(), as in x + (f(x) - x).detach(), or {WAY_OUT}",
            )
        return apply.__get__(None, cls)(*args, **named)

    def differentiated(*args: Any, **named: Any) -> Any:
        if not (named.get("create_graph") or args[4:5] == (True,)):
            seen(
                "the module calls torch.autograd.grad without create_graph=True",
                "pass create_graph=True, and detach() the result where gradients are not to flow through it",
            )
        return grad(*args, **named)

    def entered(mode: Any) -> Any:
        if mode.mode:
            seen("the module enters torch.inference_mode()", "use torch.no_grad() instead")
        return enter(mode)

    def telling(what: str, original: Any) -> Any:
        def call(*args: Any, **named: Any) -> Any:
            seen(f"the module calls {what}", f"leave it out of forward, or {WAY_OUT}")
            return original(*args, **named)

        return call

    yield mock.patch.object(function, "apply", classmethod(applied))
    yield mock.patch.object(torch.autograd, "grad", differentiated)
    yield mock.patch.object(torch.inference_mode, "__enter__", entered)
    for name in ("register_hook", "register_post_accumulate_grad_hook", "backward"):
        original = getattr(torch.Tensor, name)
        yield mock.patch.object(torch.Tensor, name, telling(f"{name} of a tensor", original))


def _casting_patches(torch: Any, seen: Callable[..., None]) -> Iterator[Any]:
    """The same for what switches gradients off inside a block of torch.autocast."""
    turn = torch.set_grad_enabled
    begin, end = torch.autocast.__enter__, torch.autocast.__exit__
    off, initialise = torch.no_grad.__enter__, turn.__init__
    casting: list[Any] = []

    def began(mode: Any) -> Any:
        casting.append(mode)
        return begin(mode)

    def ended(mode: Any, *raised: Any) -> Any:
        casting.pop()
        return end(mode, *raised)

    def inside() -> None:
        if casting:
            seen(
                "the module switches gradients off inside a torch.autocast block",
                "write torch.no_grad() around the latter, or detach() what is computed",
            )

    def switched_off(mode: Any) -> Any:
        inside()
        return off(mode)

    def set_to(mode: Any, on: bool) -> None:
        inside()
        initialise(mode, on)

    yield mock.patch.object(torch.autocast, "__enter__", began)
    yield mock.patch.object(torch.autocast, "__exit__", ended)
    yield mock.patch.object(torch.no_grad, "__enter__", switched_off)
    yield mock.patch.object(turn, "__init__", set_to)


# --- where gradients end ---------------------------------------------------------------------------------


def with_stops(torch: Any, program: Any) -> Any:
    """A program in which an op stands wherever gradients end; the given one stays as it is.

    Args:
        program: exported, and not decomposed.

    Raises:
        UnsupportedError: it was decomposed; it changes a tensor in place so that its gradient is that of other numbers.
    """
    if program.dialect != "TRAINING":
        raise UnsupportedError(
            "from_torch: a decomposed program does not tell any more where detach() and torch.no_grad() end gradients; "
            "with training=True give the module, or what torch.export.export of torch 2.6 or later returns as it is"
        )
    signature = program.graph_signature
    held = {*signature.inputs_to_buffers, *signature.inputs_to_parameters}
    marked = copy.copy(program)
    marked._graph_module = _marked(torch, program.graph_module, held)
    return marked


def _marked(torch: Any, module: Any, held: set[str]) -> Any:
    """A copy of a graph module, with the ops in it."""
    graph = torch.fx.Graph()
    returned = graph.graph_copy(module.graph, {})
    output = graph.output(returned)
    output.meta = dict(next(node for node in reversed(module.graph.nodes) if node.op == "output").meta)
    graph.set_codegen(copy.copy(module.graph._codegen))
    made = torch.fx.GraphModule(module, graph)
    made.meta = dict(module.meta)
    _Marking(torch, made, held).run()
    made.recompile()
    return made


class _Marking:
    """Where gradients end in one graph.

    Args:
        module: whose graph is changed.
        held: names of its inputs that are parameters or buffers.
    """

    def __init__(self, torch: Any, module: Any, held: set[str]) -> None:
        self._torch = torch
        self._aten = torch.ops.aten
        self._module = module
        self._graph = module.graph
        self._held = held
        self._nodes = list(module.graph.nodes)
        self._roots: dict[Any, Any] = {}
        self._changes: list[tuple[int, Any]] = []
        for place, node in enumerate(self._nodes):
            self._roots[node] = node
            for source, changes in self._aliased(node):
                self._roots[node] = self._roots[source]
                if changes:
                    self._changes.append((place, self._roots[source]))

    def run(self) -> None:
        """Puts the ops in.

        Raises:
            UnsupportedError: see `with_stops`.
        """
        for place, node in enumerate(self._nodes):
            if node.target is self._aten.embedding_renorm_.default:
                raise refused(
                    "an embedding with max_norm changes its weights in forward",
                    f"leave max_norm out and scale the rows in forward, or {WAY_OUT}",
                )
            if node.target is self._aten.detach.default:
                self._detach(place, node)
            elif node.target is self._aten.detach_.default:
                self._detach_in_place(place, node)
            elif (inner := self._subgraph(node)) is not None:
                if self._without_gradients(node):
                    self._block(node, inner)
                else:
                    places = {one.name for one, outer in self._passed(node, inner) if self._is_held(outer)}
                    setattr(self._module, node.args[inner[0]].target, _marked(self._torch, inner[1], places))

    # --- what shares memory --------------------------------------------------------------------------

    def _aliased(self, node: Any) -> Iterator[tuple[Any, bool]]:
        """The arguments that share memory with what a node makes, or that it changes, and whether it does."""
        if node.op != "call_function":
            return
        inner = self._subgraph(node)
        if inner is not None:
            changed = _Marking(self._torch, inner[1], set()).changed_inputs()
            yield from ((outer, True) for one, outer in self._passed(node, inner) if one in changed)
            return
        schema = getattr(node.target, "_schema", None)
        for place, argument in enumerate(schema.arguments if schema is not None else ()):
            alias = argument.alias_info
            value = node.args[place] if place < len(node.args) else node.kwargs.get(argument.name)
            if alias is not None and isinstance(value, self._torch.fx.Node):
                yield value, alias.is_write and node.target is not self._aten.detach_.default

    def changed_inputs(self) -> set[Any]:
        """The inputs of the graph that it changes in place."""
        return {root for _, root in self._changes if root.op == "placeholder"}

    def _is_held(self, node: Any) -> bool:
        return self._roots[node].name in self._held

    def _subgraph(self, node: Any) -> tuple[int, Any] | None:
        """The graph that a node calls, and which of its arguments says so; None where it calls none."""
        if node.op != "call_function":
            return None
        for place, argument in enumerate(node.args):
            if isinstance(argument, self._torch.fx.Node) and argument.op == "get_attr":
                found = getattr(self._module, argument.target, None)
                if isinstance(found, self._torch.fx.GraphModule):
                    return place, found
        return None

    def _passed(self, node: Any, inner: tuple[int, Any]) -> list[tuple[Any, Any]]:
        """The inputs of a graph that a node calls, each with what it is given."""
        inputs = [one for one in inner[1].graph.nodes if one.op == "placeholder"]
        given = zip(inputs, node.args[inner[0] + 1 :], strict=False)
        return [(one, outer) for one, outer in given if isinstance(outer, self._torch.fx.Node)]

    # --- the ops -------------------------------------------------------------------------------------

    def _stop(self, source: Any) -> Any:
        """The op behind a node, at the place where the graph is added to."""
        stop = self._graph.call_function(self._aten.detach_copy.default, (source,))
        stop.meta = dict(source.meta)
        return stop

    def _detach(self, place: int, node: Any) -> None:
        """The op in the place of a view; what is held stays one where it is changed later, and has no gradient."""
        root = self._roots[node]
        if not any(later > place and changed is root for later, changed in self._changes):
            node.target = self._aten.detach_copy.default
        elif not self._is_held(node):
            raise refused(
                f"a tensor of which detach() is taken, {node.args[0].name!r}, is changed in place later",
                "write detach().clone(), or the change as a new tensor",
            )

    def _detach_in_place(self, place: int, node: Any) -> None:
        """From here on everybody reads what has no gradient."""
        source, later = node.args[0], set(self._nodes[place + 1 :])
        with self._graph.inserting_after(node):
            stop = self._stop(source)
        for old in (node, source):
            old.replace_all_uses_with(stop, delete_user_cb=later.__contains__)
        self._graph.erase_node(node)

    def _without_gradients(self, node: Any) -> bool:
        return str(node.target) == "wrap_with_set_grad_enabled" and not node.args[0]

    def _block(self, node: Any, inner: tuple[int, Any]) -> None:
        """Has nothing that a block reads get a gradient from it, and so nothing that it makes or changes."""
        passed = self._passed(node, inner)
        changed = {self._roots[outer] for outer, changes in self._aliased(node) if changes}
        stopped: dict[Any, Any] = {}
        for _, outer in passed:
            root = self._roots[outer]
            if root in changed and not self._is_held(outer):
                raise refused(
                    f"a torch.no_grad() block changes {outer.name!r} in place",
                    "make a new tensor, and put both together with detach(), as in x + (f(x) - x).detach()",
                )
            if root not in changed and isinstance(outer.meta.get("val"), self._torch.Tensor):
                with self._graph.inserting_before(node):
                    stopped.setdefault(outer, self._stop(outer))
        first = inner[0] + 1
        node.args = (
            *node.args[:first],
            *[
                stopped.get(one, one) if isinstance(one, self._torch.fx.Node) else one
                for one in node.args[first:]
            ],
        )
