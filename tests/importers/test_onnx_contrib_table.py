"""`from_onnx`: nodes of onnxruntime's own domain, over their attributes, types and op sets, against onnxruntime."""

import numpy as np
import onednn_graph as og
import pytest
from contrib_rows import TABLES

runtime = pytest.importorskip("onnxruntime", reason="results are held against onnxruntime's")


def difference(row):
    """What is wrong with a row's results; empty where nothing is."""
    model, feeds = row.model()
    options = runtime.SessionOptions()
    options.log_severity_level = 4
    options.add_session_config_entry("session.x64quantprecision", "1")  # no sums that saturate at 16 bits
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    wanted = session.run(None, feeds)
    made = og.from_onnx(model).compile()(feeds)
    for output, want in zip(session.get_outputs(), wanted, strict=True):
        have = made[output.name]
        if (have.shape, have.dtype) != (want.shape, want.dtype):
            return f"{output.name}: {have.dtype} {have.shape} for {want.dtype} {want.shape}"
        wide, true = have.astype("f8"), want.astype("f8")
        if row.valid is not None:
            wide, true = row.valid(output.name, wide), row.valid(output.name, true)
        apart = np.abs(wide - true).max(initial=0) / max(1e-3, np.abs(true).max(initial=0))
        if not apart <= row.close:
            return f"{output.name}: {apart:.2g} of the largest element apart"
    return ""


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.__name__)
def test_nodes_of_onnxruntimes_own_domain(table):
    bad = {str(row): wrong for row in table() if (wrong := difference(row))}
    assert not bad
