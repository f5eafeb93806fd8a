"""Takes the facts of oneDNN Graph's op set out of a reference: kinds, ports, attributes, types.

    python tests/tools/opset_facts.py CORPUS/reference/opset.json

writes `tests/ops/opset_facts.json`, to which `tests/ops/test_opset.py` holds every schema. What the reference has
beside them, enumerators and remarks, stays there.
"""

import json
import sys
from pathlib import Path

FACTS = Path(__file__).parents[1] / "ops" / "opset_facts.json"
PORT = ("index", "name", "type", "required")
ATTRIBUTE = ("name", "type", "required", "has_default", "default", "candidates")


def chosen(record, keys):
    """The entries of a record that are facts, in this order."""
    return {key: record[key] for key in keys if key in record}


def attribute(record):
    """An attribute; a default that is copies of one number is that number and how many."""
    found = chosen(record, ATTRIBUTE)
    if isinstance(found.get("default"), dict):
        found["default"] = chosen(found["default"], ("repeat", "count"))
    return found


def facts(reference):
    """Op kind → its definition, from the text of a reference."""
    return {
        kind: {
            "inputs": [chosen(port, PORT) for port in op["inputs"]],
            "outputs": [chosen(port, PORT) for port in op["outputs"]],
            "num_inputs": op["num_inputs"],
            "num_outputs": op["num_outputs"],
            "attrs": [attribute(record) for record in op["attrs"]],
            "type_constraints": op["type_constraints"],
            "commutative": op["commutative"],
        }
        for kind, op in sorted(json.loads(reference)["ops"].items())
    }


def text_of(ops):
    """The facts as the file has them: a line for each port, attribute and constraint."""
    lines = []
    for kind, op in ops.items():
        fields = []
        for name, value in op.items():
            rows = value.items() if isinstance(value, dict) else value if isinstance(value, list) else ()
            if not any(isinstance(row, dict | tuple) for row in rows):
                fields.append(f'  "{name}": {json.dumps(value)}')
            elif isinstance(value, dict):
                inner = ",\n".join(f'   "{key}": {json.dumps(row)}' for key, row in rows)
                fields.append(f'  "{name}": {{\n{inner}\n  }}')
            else:
                inner = ",\n".join(f"   {json.dumps(row)}" for row in rows)
                fields.append(f'  "{name}": [\n{inner}\n  ]')
        lines.append(f' "{kind}": {{\n' + ",\n".join(fields) + "\n }")
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    FACTS.write_text(text_of(facts(Path(sys.argv[1]).read_text(encoding="utf-8"))), encoding="utf-8")
