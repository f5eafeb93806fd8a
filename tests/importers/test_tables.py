"""Tables of translations: an op is entered once, and what replaces another entry says so."""

import onednn_graph as og
import pytest
from onednn_graph.graph.importing.tables import Entries, merged, replaced


def first(*given):
    return given


def second(*given):
    return given


def test_names_have_the_prefix_of_their_vocabulary():
    entries = Entries("aten.")
    assert entries.enter("relu", "mean.dim")(first) is first
    entries.add({"add": second})
    assert entries == {"aten.relu": first, "aten.mean.dim": first, "aten.add": second}


def test_an_op_that_is_entered_twice_is_an_error():
    entries = Entries("aten.")
    entries.enter("relu")(first)
    with pytest.raises(og.errors.SchemaError, match=r"aten\.relu: translated twice"):
        entries.enter("relu")(second)
    with pytest.raises(og.errors.SchemaError, match=r"aten\.relu: translated twice"):
        entries.add({"relu": second})
    assert entries == {"aten.relu": first}


def test_an_op_of_two_tables_is_an_error():
    assert merged({"a": first}, {"b": second}) == {"a": first, "b": second}
    with pytest.raises(og.errors.SchemaError, match="a, b: translated twice"):
        merged({"a": first, "b": first}, {"c": first}, {"b": second, "a": second})


def test_what_is_replaced_must_be_there():
    table = {"a": first, "b": first}
    assert replaced(table, {"b": second}) == {"a": first, "b": second}
    assert table["b"] is first
    with pytest.raises(og.errors.SchemaError, match="c: nothing to replace"):
        replaced(table, {"b": second, "c": second})
