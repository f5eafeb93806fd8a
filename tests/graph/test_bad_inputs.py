"""Bad inputs: each is refused by the right exception, in one sentence that says what to fix, and nothing crashes."""

import os
import subprocess
import sys

import numpy as np
import onednn_graph as og
import pytest
from bad_inputs import (
    CONV,
    KINDS,
    arrays,
    attribute_values,
    attributes,
    bad_style,
    calls,
    check,
    compilation,
    descriptions,
    eagerly,
    execution,
    graphs,
    registration,
    result_array,
    run_time_shapes,
    shapes,
    spell,
)
from bad_inputs.execution import BAD_INPUTS, BAD_OUTPUTS
from bad_inputs.run_time_shapes import BAD_SHAPES
from bad_inputs.things import BACKENDS, DY, X, compiled
from onednn_graph.ops.errors import nearest
from onednn_graph.ops.values import format_value, integer, listed
from rows import each

TABLES = (
    attribute_values,
    calls,
    compilation,
    descriptions,
    eagerly,
    execution,
    graphs,
    registration,
    run_time_shapes,
    shapes,
)
ROWS = [row for table in TABLES for row in table.ROWS]


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__.split(".")[-1])
def test_is_refused_in_one_sentence(table):
    @each("row", table.ROWS, ids=lambda row: row.what)
    def is_refused(row):
        check(row)

    is_refused()


@pytest.mark.long
def test_no_row_crashes_a_process():
    """All rows in one child, whose exit code tells of a native abort that pytest would not survive."""
    child = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", __file__],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert child.returncode == 0, child.stderr[-4000:]
    assert child.stdout.split() == [str(len(ROWS)), "rows,", "0", "wrong"], child.stdout + child.stderr


def test_the_table_is_as_large_and_as_wide_as_promised():
    assert len(ROWS) >= 150
    assert len({row.what for row in ROWS}) == len(ROWS), "two rows have one name"
    assert {row.error for row in ROWS} == {
        error
        for error in vars(og.errors).values()
        if isinstance(error, type) and issubclass(error, og.OneDNNGraphError)
    } - {
        og.OneDNNGraphError,
        og.errors.LibraryError,
        og.GraphFileError,
        og.errors.FileAccessError,
        og.errors.MissingFileError,
    }, "an error class without a row"
    family = [schema for schema in og.list_ops() if schema.kind.endswith("BackwardWeights")]
    written = {schema.kind for schema in family} | {
        alias.kind for schema in family for alias in schema.aliases
    }
    assert written == set(KINDS), "a kind without rows; add it to KINDS"
    for kind in KINDS:
        schema = og.op_schema(kind)
        assert {spell(kind, spec.name) for spec in schema.attributes} == set(attributes(kind))
        for spec in schema.attributes:
            named = [row for row in ROWS if f"{kind}: {spell(kind, spec.name)} is" in row.what]
            assert len(named) >= 8, f"{kind} has {len(named)} rows for {spec.name}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_refused_execution_writes_nothing(backend):
    for what, inputs, _, _ in BAD_INPUTS:
        out = np.full_like(result_array(), 7)
        with pytest.raises(og.OneDNNGraphError):
            compiled(CONV, backend).execute(None, inputs, [out])
        assert (out == 7).all(), what
    for what, value, _, _ in BAD_SHAPES:
        out = np.full_like(result_array(), 7)
        with pytest.raises(og.OneDNNGraphError):
            compiled(CONV, backend, operand=True).execute(None, [X, DY, value], [out])
        assert (out == 7).all(), what


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_partition_still_works_after_every_refusal(backend):
    made = compiled(CONV, backend)
    (expected,) = made.execute(None, arrays())
    for _, inputs, _, _ in BAD_INPUTS:
        with pytest.raises(og.OneDNNGraphError):
            made.execute(None, inputs)
    for _, outputs, _, _ in BAD_OUTPUTS:
        with pytest.raises(og.OneDNNGraphError):
            made.execute(None, arrays(), outputs)
    (again,) = made.execute(None, arrays())
    assert expected.min() > 0
    np.testing.assert_array_equal(again, expected)


@pytest.mark.parametrize("backend", [None, "numpy"])
def test_huge_values_that_are_legal_give_the_right_numbers(backend):
    """Strides and pads beyond 32 bits, with one window that meets src; oneDNN leaves them to NumPy."""
    far = [2**62, 2**62]
    x = np.arange(18, dtype=np.float32).reshape(1, 2, 3, 3)
    for changes, size in (({"strides": far}, 1), ({"strides": far, "pads_begin": far}, 2)):
        dy = np.arange(1, 1 + 2 * size * size, dtype=np.float32).reshape(1, 2, size, size)
        values = attributes(**changes, weights_shape=[2, 2, 3, 3])
        result = og.run_op(CONV, (x, dy), values, backend=backend)
        np.testing.assert_array_equal(result, dy[0, :, -1, -1, None, None, None] * x)


def test_values_of_all_libraries_are_read_alike():
    for value in ([1, 2], (1, 2), range(1, 3), np.array([1, 2]), np.array([1, 2], "u1")):
        assert [integer(item) for item in listed(value)] == [1, 2]
    for value in (
        "12",
        b"12",
        bytearray(2),
        memoryview(b"12"),
        {1, 2},
        {1: 2},
        iter([1]),
        5,
        None,
        list,
        np.array(1),
    ):
        assert listed(value) is None
    for value in (True, np.True_, 1.0, "1", None, int, np.array([1, 2]), np.array(True), [1]):
        assert integer(value) is None
    assert integer(np.array(3)) == integer(np.uint8(3)) == 3


def test_values_are_shown_on_one_line():
    class Hostile:
        def __repr__(self):
            raise RuntimeError

    assert format_value(np.eye(2)) == "array([[1., 0.], [0., 1.]])"
    assert format_value(np.zeros((9, 9), "f4")) == "an array of float32 with shape [9, 9]"
    assert format_value("a\nb") == r"'a\nb'"
    assert format_value(Hostile()) == "a value of type Hostile"
    assert len(format_value("x" * 10000)) == 160
    assert format_value(10**5000) == "a value of type int"


def test_the_judge_of_messages_can_say_no():
    assert bad_style("a message that is fine, got 5") == []
    for message in (
        "short",
        "x" * 601,
        "a line\nbreak in the message",
        "no end, got 5, ",
        "it (has no end, got 5",
    ):
        assert bad_style(message), message
    good = descriptions.ROWS[0]
    for spoiled in (
        {"says": ("nonsense",)},
        {"error": og.GraphError},
        {"run": lambda: 5},
        {"run": lambda: 1 / 0},
    ):
        with pytest.raises(AssertionError):
            check(type(good)(**{**vars(good), **spoiled}))
    assert nearest(5, ["five"]) == ""


if __name__ == "__main__":
    wrong = 0
    for each in ROWS:
        try:
            check(each)
        except AssertionError as failure:
            wrong += 1
            print(failure, file=sys.stderr)
    print(f"{len(ROWS)} rows, {wrong} wrong")
