"""Runs ONNX's own test runner on `onednn_graph.onnx_backend` and says how many cases of each category are right.

python tests/tools/onnx_backend.py [--only softmax] [--show]
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from onnx_backend_cases import NOT_RIGHT, items
from time_limit import TooLong, time_limit


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--show", action="store_true", help="also those that are listed with a reason")
    options = parser.parse_args()
    for category, cases in items().items():
        counts = Counter()
        for name, run in cases.items():
            if options.only not in name:
                continue
            told = ""
            try:
                with time_limit(120):
                    run()
            except AssertionError as error:
                told = "wrong: " + " ".join(str(error).split())[:200]
            except (Exception, TooLong) as error:
                told = f"refused: {type(error).__name__}: {error}"[:250]
            known = next((reason for start, reason in NOT_RIGHT.items() if name.startswith(start)), "")
            counts[f"{told.partition(':')[0] or 'right'}{' as listed' if told and known else ''}"] += 1
            if told and (options.show or not known):
                print(category, name, told, flush=True)
        print(category, dict(counts), flush=True)


if __name__ == "__main__":
    main()
