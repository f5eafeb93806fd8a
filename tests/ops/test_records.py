"""Classes of named values behave as those of attrs do, and share what attrs makes for each."""

import attrs
import pytest
from attrs import field
from onednn_graph.ops.records import define, frozen


def classes(made_by):
    """The same classes, by one or the other."""
    frozen, define = made_by

    @frozen
    class Pair:
        a: int
        b: object = ()
        _c: str = field(default="c", repr=False)
        d: int = field(default=0, eq=False)

    @frozen(kw_only=True)
    class Deep(Pair):
        e: float = 0.0

    @frozen(eq=False)
    class Thing:
        a: int

    @define
    class Changing:
        a: int
        held: list = attrs.Factory(list)

    @frozen
    class Nothing:
        pass

    @frozen
    class Own:
        a: int

        def __repr__(self):
            return "own"

        def __eq__(self, other):
            return True

        def __hash__(self):
            return 1

    return Pair, Deep, Thing, Changing, Nothing, Own


OURS, THEIRS = classes((frozen, define)), classes((attrs.frozen, attrs.define))
CALLS = [(0, 1), (0, 1, 2), (0, 2, 2), (1, 1), (1, 1, 2), (2, 1), (3, 1), (3, 2), (4,), (5, 1), (5, 2)]
"""Number of a class, and its values."""


def test_they_are_equal_as_those_of_attrs():
    ours = [OURS[kind](*values) for kind, *values in CALLS for _ in range(2)]
    theirs = [THEIRS[kind](*values) for kind, *values in CALLS for _ in range(2)]
    assert [[a == b for b in ours] for a in ours] == [[a == b for b in theirs] for a in theirs]
    assert [[a != b for b in ours] for a in ours] == [[a != b for b in theirs] for a in theirs]
    assert ours[0] != theirs[0]
    assert OURS[0](1, d=4) == OURS[0](1, d=5)
    assert OURS[0](1, c="x") != OURS[0](1, c="y")


def test_equal_ones_have_one_hash_and_those_that_change_have_none():
    for kind, *values in CALLS:
        if kind == 3:
            with pytest.raises(TypeError, match="unhashable"):
                hash(OURS[kind](*values))
        elif kind != 2:
            assert hash(OURS[kind](*values)) == hash(OURS[kind](*values))
    assert hash(OURS[0](1)) != hash(OURS[1](1))
    thing = OURS[2](1)
    assert {thing: 1}[thing] == 1
    assert thing != OURS[2](1)


def test_they_are_told_as_those_of_attrs():
    assert [repr(OURS[kind](*values)) for kind, *values in CALLS] == [
        repr(THEIRS[kind](*values)) for kind, *values in CALLS
    ]
    for made in (OURS, THEIRS):
        around = made[3](1)
        around.held.append(around)
        assert repr(around) == "Changing(a=1, held=[...])"


def test_values_stay():
    pair = OURS[0](1)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        pair.a = 2
    assert attrs.evolve(pair, a=2) == OURS[0](2)
    assert not hasattr(pair, "__dict__")


def test_what_attrs_would_make_for_each_class_is_shared():
    """`__init__` is the only method that is compiled when a module is imported."""
    for made in OURS[:5]:
        code = {
            name: one.__code__.co_filename for name, one in vars(made).items() if hasattr(one, "__code__")
        }
        compiled = {name for name, file in code.items() if file.startswith("<attrs generated")}
        assert compiled <= {"__init__", "__getstate__", "__setstate__"}
