"""A table's rows as one test, where a row takes a millisecond and pytest several to set it up."""

import functools
import inspect
import os
import traceback
from itertools import product

import pytest

SHOWN = 5
"""So many failures are shown whole; the others are named."""


ONLY = os.environ.get("ROWS", "")
"""Of all tables only the rows whose names have this are tried: ROWS=Tanh pytest … A test without any is skipped."""


class NotHere(pytest.skip.Exception):
    """No row of the table is one of `ONLY`."""


def each(names, rows, *, ids=None):
    """Like `pytest.mark.parametrize`, but one test, which tries all rows and then fails with the names of the bad ones.

    Where rows skip, and none is bad, the test is skipped once all others have passed, and says which and why.
    Rows share the test's fixtures, so that it must leave those of a function's scope as it found them. It stands
    directly above the function, or above another `each`; marks of single rows are refused.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    table = [(_named(row, n, names, ids), _values(row, names)) for n, row in enumerate(rows)]
    assert table, "a table without rows checks nothing"
    if len({name for name, _ in table}) < len(table):
        table = [(f"{name} ({n})", values) for n, (name, values) in enumerate(table)]

    def decorate(test):
        @functools.wraps(test, updated=())
        def of_all_rows(**fixtures):
            failures, skips, tried = [], [], 0
            innermost = not hasattr(test, "rows")
            for name, values in table:
                if innermost and ONLY not in "-".join([*_outer, name]):
                    continue
                _outer.append(name)
                tried += 1
                try:
                    test(**fixtures, **dict(zip(names, values, strict=True)))
                except NotHere:
                    tried -= 1
                except pytest.skip.Exception as skip:
                    skips.append(f"{name}: {skip}")
                except (Exception, pytest.fail.Exception) as error:
                    failures.append((name, error))
                finally:
                    _outer.pop()
            if failures:
                pytest.fail(_told(failures, len(table)), pytrace=False)
            if not tried:
                raise NotHere(f"no row's name has {ONLY}")
            if skips:
                pytest.skip(f"{len(skips)} of {len(table)} rows: " + "; ".join(skips))

        of_all_rows.rows = table
        signature = inspect.signature(test)
        assert set(names) <= set(signature.parameters), f"{test.__name__} does not take {names}"
        kept = [p for name, p in signature.parameters.items() if name not in names]
        of_all_rows.__signature__ = signature.replace(parameters=kept)
        if hasattr(test, "pytestmark"):
            of_all_rows.pytestmark = test.pytestmark
        return of_all_rows

    return decorate


_outer: list[str] = []
"""Names of the rows of tables that are being tried around this one."""


def _values(row, names):
    if hasattr(row, "marks"):  # what pytest.param makes
        assert not row.marks, "a mark belongs to a test; leave this one to pytest.mark.parametrize"
        return row.values
    return (row,) if len(names) == 1 else tuple(row)


def _named(row, n, names, ids):
    if getattr(row, "id", None) and hasattr(row, "marks"):
        return row.id
    values = _values(row, names)
    if callable(ids):
        return "-".join(str(ids(value)) for value in values)
    if ids is not None:
        return ids[n]
    plain = (str, int, float, type(None))
    return "-".join(
        str(value) if isinstance(value, plain) else getattr(value, "__name__", f"{name}{n}")
        for name, value in zip(names, values, strict=True)
    )


def _told(failures, count):
    lines = [f"{len(failures)} of {count} rows fail: " + "; ".join(name for name, _ in failures)]
    for name, error in failures[:SHOWN]:
        lines += [f"--- {name}", "".join(traceback.format_exception(error)).rstrip()]
    return "\n".join(lines)


def pairwise(**choices):
    """Few combinations in which any two values of two different names occur together, as dicts; always the same ones.

    A fault of one value shows in each of its combinations, one of two that meet in at least one; what takes three to
    show is left to the full product, `every`.
    """
    places = list(choices)
    every_one = list(product(*choices.values()))
    wanted = {pair for one in every_one for pair in _pairs(one)}
    chosen = []
    while wanted:
        best = max(every_one, key=lambda one: len(wanted & _pairs(one)))
        wanted -= _pairs(best)
        chosen.append(dict(zip(places, best, strict=True)))
    return chosen


def every(**choices):
    """All combinations, as dicts."""
    return [dict(zip(choices, one, strict=True)) for one in product(*choices.values())]


def _pairs(one):
    return {((a, one[a]), (b, one[b])) for b in range(len(one)) for a in range(b)}
