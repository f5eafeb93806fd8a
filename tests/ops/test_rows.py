"""What puts a table's rows into one test fails when a row does, says which, and leaves none out."""

import pytest
import rows
from rows import SHOWN, each, every, pairwise


def test_bad_rows_are_named_and_the_others_are_tried_all_the_same():
    tried = []

    @each("name, value", [pytest.param("a", 1, id="good"), pytest.param("b", 0, id="bad"), ("c", 2)])
    @each("by", [1, 2])
    def divides(name, value, by):
        tried.append((name, by))
        if value == 2:
            pytest.fail("two is not wanted")
        assert 1 // value > 0

    with pytest.raises(pytest.fail.Exception, match=r"^2 of 3 rows fail: bad; c-2\n") as caught:
        divides()
    assert tried == [(name, by) for name in "abc" for by in (1, 2)]
    assert "ZeroDivisionError" in str(caught.value)
    assert "two is not wanted" in str(caught.value)


def test_only_some_failures_are_shown_but_all_are_named():
    @each("n", range(100))
    def fails(n):
        assert n < 0, f"told of {n}"

    with pytest.raises(pytest.fail.Exception) as caught:
        fails()
    text = str(caught.value)
    assert "; ".join(map(str, range(100))) in text
    assert text.count("\n--- ") == SHOWN


def test_a_skip_is_no_failure():
    tried = []

    @each("n", [1, 2, 3])
    def skips(n):
        tried.append(n)
        if n == 2:
            pytest.skip(f"not for {n}")

    with pytest.raises(pytest.skip.Exception, match=r"^1 of 3 rows: 2: not for 2$"):
        skips()
    assert tried == [1, 2, 3]


def test_a_skip_hides_no_failure():
    @each("n", [1, 2])
    def skips_and_fails(n):
        assert n > 1
        pytest.skip("not here")

    with pytest.raises(pytest.fail.Exception, match="^1 of 2 rows fail: 1\n"):
        skips_and_fails()


def test_rows_are_picked_by_name(monkeypatch):
    tried = []

    @each("dtype", ["f32", "f16"])
    @each("kind", ["Tanh", "ReLU"])
    def takes(dtype, kind):
        tried.append((dtype, kind))

    monkeypatch.setattr(rows, "ONLY", "Tanh")
    takes()
    monkeypatch.setattr(rows, "ONLY", "f16-ReLU")
    takes()
    assert tried == [("f32", "Tanh"), ("f16", "Tanh"), ("f16", "ReLU")]
    monkeypatch.setattr(rows, "ONLY", "Softsign")
    with pytest.raises(pytest.skip.Exception, match="no row's name has Softsign"):
        takes()


@each("n", [1, 2])
def test_fixtures_are_pytests(n, tmp_path, request):
    assert tmp_path.is_dir()
    assert request.node.name == "test_fixtures_are_pytests"
    assert n in (1, 2)


def test_pairs_are_all_there_and_few():
    choices = {"a": "xyz", "b": "xy", "c": [0, 1, 2, 3], "d": [True, False]}
    some, full = pairwise(**choices), every(**choices)
    assert len(full) == 48
    assert len(some) <= 14
    assert all(one in full for one in some)
    for one in choices:
        for other in choices:
            if one != other:
                met = {(way[one], way[other]) for way in some}
                assert len(met) == len(choices[one]) * len(choices[other])
    assert pairwise(**choices) == some
