"""Runs ONNX's own test cases of nodes through `from_onnx` and says which are right, refused or wrong.

python tests/tools/onnx_cases.py [--way inputs] [--only softmax] [--show wrong,refused]
"""

import argparse
import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "support"))
from onnx_cases import WAYS, Outcome, cases, given, outcome
from time_limit import TooLong, time_limit


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--way", choices=WAYS, action="append")
    parser.add_argument("--only", default="")
    parser.add_argument("--show", default="wrong,foreign,endless")
    options = parser.parse_args()
    chosen = [case for case in cases() if options.only in case.name]
    for way in options.way or WAYS:
        counts = Counter()
        for case in chosen:
            made = given(case, way)
            if made is None:
                continue
            try:
                with time_limit(20):
                    result = outcome(*made, case.data_sets[0][1], case.rtol, case.atol)
            except TooLong:
                result = Outcome("endless", "20 s")
            counts[result.verdict] += 1
            if result.verdict in options.show.split(","):
                print(f"{way} {result.verdict} {case.name}: {result.detail[:300]}", flush=True)
        print(way, dict(counts), flush=True)


if __name__ == "__main__":
    main()
