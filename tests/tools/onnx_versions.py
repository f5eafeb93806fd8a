"""Runs ONNX's test cases of nodes in every older version of their ops, and holds the results against onnxruntime's.

python tests/tools/onnx_versions.py [--way weights] [--only resize]
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
import onnxruntime
from onnx_cases import WAYS, cases, given, onnx, outcome, plain

OLDEST = 11


def opsets_of(kind):
    """An opset for each definition that the op has had since opset 11."""
    newest = onnx.defs.onnx_opset_version()
    found = {}
    for opset in range(OLDEST, newest + 1):
        try:
            schema = onnx.defs.get_schema(kind, opset, "")
        except onnx.defs.SchemaError:
            continue
        if not schema.deprecated:
            found.setdefault(schema.since_version, opset)
    return list(found.values())


def expected_of(model, feeds):
    """What onnxruntime makes of it, or None where it takes it not."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return session.run(None, feeds)
    except Exception:
        return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=WAYS, action="append")
    parser.add_argument("--only", default="")
    parser.add_argument("--show", default="wrong,foreign")
    options = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    counts = Counter()
    for case in cases():
        nodes = case.model.graph.node
        values = [*case.data_sets[0][0], *case.data_sets[0][1]]
        if (
            options.only not in case.name
            or len(nodes) != 1
            or any(isinstance(v, list) or v is None for v in values)
        ):
            continue
        for opset in opsets_of(nodes[0].op_type):
            model = onnx.ModelProto()
            model.CopyFrom(case.model)
            model.ir_version = min(model.ir_version, 10)
            for imported in model.opset_import:
                imported.version = imported.version if imported.domain else opset
            feeds = {i.name: plain(v) for i, v in zip(model.graph.input, case.data_sets[0][0], strict=True)}
            expected = expected_of(model, feeds)
            if expected is None:
                continue
            for way in options.way or WAYS:
                made = given(case, way, model)
                if made is None:
                    continue
                result = outcome(*made, expected, case.rtol, max(case.atol, 1e-6))
                counts[way, result.verdict] += 1
                if result.verdict in options.show.split(","):
                    print(f"{way} {result.verdict} {case.name} at {opset}: {result.detail[:200]}", flush=True)
    for (way, verdict), count in sorted(counts.items()):
        print(way, verdict, count)


if __name__ == "__main__":
    main()
