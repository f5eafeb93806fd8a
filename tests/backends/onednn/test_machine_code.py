"""Machine code of our own: how it is assembled, that it can be switched off, and that nothing depends on it."""

import ctypes
import os

import numpy as np
import onednn_graph as og
import processes
import pytest
from onednn_graph.backends.onednn.library import batch, f16c, half
from onednn_graph.backends.onednn.library.engines import native_engine
from onednn_graph.graph.runtime import machine_code, words
from onednn_graph.graph.runtime.engine import MACHINE_CODE

SAME = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
F16C_PROGRAMS = {
    "widen": f16c._program(f16c._WIDEN_FROM, f16c._WIDEN),
    "narrow": f16c._program(f16c._NARROW_FROM, f16c._NARROW),
}
# Counted by hand, jumps and all, behind the first four bytes.
WRITTEN_BY_HAND = {
    "loop": "53 55 4154 4155 4883ec08 4889fb 48833b00 740b ff13 4189c5 8b7b10 ff5308 4c8b6318 488b6b20 488b7d08 "
    "488b7510 488b36 48037518 488b5520 488b4d28 ff5500 234530 7509 4883c538 49ffcc 75d8 48833b00 740a 89c5 4489ef "
    "ff5308 89e8 4883c408 415d 415c 5d 5b c3",
    "same": "488b07 8b00 3b4708 750c 4883c710 48ffce 75ed 31c0 c3 b801000000 c3",
    "widen": "b800010000 f0480fc107 488b4f08 4829c1 7e42 ba00010000 4839d1 480f4fca 48c1e005 488b7710 4801c6 488b5718 "
    "488d1442 c4e27d1306 c4e27d134e10 c5fc1102 c5fc114a20 4883c620 4883c240 48ffc9 75df ebab c5f877 c3",
    "narrow": "b800010000 f0480fc107 488b4f08 4829c1 7e44 ba00010000 4839d1 480f4fca 48c1e005 488b7710 488d3446 "
    "488b5718 4801c2 c5fc1006 c5fc104e20 c4e37d1d0200 c4e37d1d4a1000 4883c640 4883c220 48ffc9 75dd eba9 c5f877 c3",
}


def test_places_and_jumps():
    assembled = machine_code.assembled
    assert assembled(["90", "again:", "90 90", "75 @again"]) == bytes.fromhex("909090 75fc")
    assert assembled(["eb @end", "90 90 90", "end:", "c3"]) == bytes.fromhex("eb03 909090 c3")
    assert assembled(["here:", "eb @here"]) == bytes.fromhex("ebfe")
    assert assembled(["eb @next", "next:"]) == bytes.fromhex("eb00")
    assert assembled(["eb @end", *["90"] * 127, "end:"])[:2] == bytes.fromhex("eb7f")
    assert assembled(["begin:", *["90"] * 126, "eb @begin"])[-2:] == bytes.fromhex("eb80")
    assert assembled([]) == b""


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (["eb @end", *["90"] * 128, "end:"], "128 bytes away"),
        (["begin:", *["90"] * 127, "eb @begin"], "-129 bytes away"),
        (["eb @nowhere"], "no place 'nowhere'"),
        (["a:", "90", "a:"], "'a' is there twice"),
        (["5x"], "hexadecimal"),
    ],
)
def test_what_is_no_program(lines, says):
    with pytest.raises(ValueError, match=says):
        machine_code.assembled(lines)


@pytest.mark.parametrize("name", WRITTEN_BY_HAND)
def test_programs_are_what_was_counted_by_hand_behind_their_entry(name):
    loops = {"loop": batch._LOOP, "same": words._SAME}
    program = machine_code.assembled(loops[name]) if name in loops else F16C_PROGRAMS[name]
    assert program[:4] == bytes.fromhex("f30f1efa")  # endbr64
    assert program[4:] == bytes.fromhex(WRITTEN_BY_HAND[name])


def test_what_is_entered_begins_with_endbr64(onednn):
    entries = [batch._loop()] if batch._loop() else []
    addresses = [ctypes.cast(one, ctypes.c_void_p).value for one in entries]
    loops = f16c.load()
    addresses += [loops.widen_at, loops.narrow_at] if loops else []
    for address in addresses:
        assert ctypes.string_at(address, 4) == bytes.fromhex("f30f1efa")


# --- the switch -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "allowed"),
    [("", True), ("1", True), ("on", True), ("True", True), ("0", False), ("off", False), ("FALSE", False)],
)
def test_the_environment_allows_or_forbids(monkeypatch, text, allowed):
    monkeypatch.setenv(MACHINE_CODE, text)
    assert og.Engine().machine_code is allowed
    assert og.Engine(machine_code=False).machine_code is False
    assert og.Engine(machine_code=True).machine_code is allowed


def test_what_the_switch_does_not_take(monkeypatch):
    monkeypatch.setenv(MACHINE_CODE, "perhaps")
    with pytest.raises(og.ArgumentError, match="ONEDNN_GRAPH_MACHINE_CODE must be 0 or 1, got 'perhaps'"):
        og.Engine()
    monkeypatch.delenv(MACHINE_CODE)
    assert og.Engine().machine_code is True
    for value in (0, None, "no"):
        with pytest.raises(og.ArgumentTypeError, match="machine_code must be True or False"):
            og.Engine(machine_code=value)


def f16_gradient(engine, backend=None):
    """A weight gradient in f16, which is computed in f32."""
    random = np.random.default_rng(0)
    x, dy = (random.integers(-2, 3, (2, 16, 40, 40)).astype(np.float16) for _ in range(2))
    return og.convolution_backward_weights(
        x,
        dy,
        data_format="NCX",
        weights_format="OIX",
        weights_shape=[16, 16, 3, 3],
        engine=engine,
        backend=backend,
        **SAME,
    )


def f32_gradient(engine, backend=None):
    tensors = [og.LogicalTensor(i, "f32", [2, 16, 9, 9]) for i in range(2)]
    graph = og.Graph()
    graph.add_op(
        og.Op(
            0,
            "ConvolutionBackwardWeights",
            tensors,
            [og.LogicalTensor(2, "f32")],
            data_format="NCX",
            weights_format="OIX",
            weights_shape=[16, 16, 3, 3],
            **SAME,
        )
    )
    graph.finalize()
    (partition,) = graph.get_partitions(backend=backend)
    compiled = partition.compile(engine=engine)
    for one in compiled.explanation.considered:  # several primitives, on any instruction set
        compiled = partition.compile(engine=engine, strategy=one.strategy)
        if len(compiled.explanation.implementations) > 2:
            break
    random = np.random.default_rng(0)
    arrays = [random.integers(-3, 4, (2, 16, 9, 9)).astype(np.float32) for _ in range(2)]
    (result,) = compiled.execute(None, arrays)
    bound = np.empty_like(result)
    compiled.bind(arrays, [bound])()
    np.testing.assert_array_equal(bound, result)
    return result, compiled


def test_an_engine_without_machine_code_computes_the_same(onednn, monkeypatch):
    expected = f32_gradient(og.Engine(), "numpy")[0], f16_gradient(og.Engine(), "numpy")

    def refuse(*args, **kwargs):
        raise AssertionError("machine code was used")

    with_code, compiled = f32_gradient(og.Engine(), "onednn")
    assert len(compiled.explanation.implementations) > 2
    np.testing.assert_array_equal(with_code, expected[0])
    np.testing.assert_array_equal(f16_gradient(og.Engine(), "onednn"), expected[1])
    monkeypatch.setattr(batch, "_loop", refuse)
    monkeypatch.setattr(f16c, "load", refuse)
    hardened = og.Engine(machine_code=False)
    assert native_engine(hardened).machine_code is False
    without, compiled = f32_gradient(hardened, "onednn")
    np.testing.assert_array_equal(without, expected[0])
    np.testing.assert_array_equal(f16_gradient(hardened, "onednn"), expected[1])
    with pytest.raises(AssertionError, match="machine code was used"):
        f32_gradient(og.Engine(), "onednn")
    with pytest.raises(AssertionError, match="machine code was used"):
        f16_gradient(og.Engine(), "onednn")


CHILD = """
import json, sys
sys.path.insert(0, {tests!r})
import onednn_graph as og
from onednn_graph.graph.runtime import machine_code
from test_machine_code import f16_gradient, f32_gradient
dw, compiled = f32_gradient(og.default_engine(), "onednn")
half = f16_gradient(None, "onednn")
print(json.dumps({{
    "pages": len(machine_code._pages), "dw": float(abs(dw).sum()), "half": float(abs(half.astype("f8")).sum()),
    "kernels": list(compiled.explanation.implementations),
}}))
"""


def test_the_environment_keeps_every_page_away(onednn):
    told = {}
    for text in ("0", "1"):
        code = CHILD.format(tests=os.path.dirname(__file__))
        told[text] = processes.printed(code, env={**os.environ, MACHINE_CODE: text})
    assert told["0"].pop("pages") == 0
    assert told["1"].pop("pages") > 0 or machine_code.place(b"\xc3") is None
    assert told["0"] == told["1"]


def test_explanations_say_who_converts(onednn):
    assert half.name(machine_code=False) == "numpy"
    assert half.name(machine_code=True) == ("numpy" if f16c.load() is None else "f16c")
