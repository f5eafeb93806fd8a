"""Changes the code in one small place at a time, by cosmic-ray's operators, and says which changes no test notices.

    pip install cosmic-ray
    COVERAGE_FILE=tested pytest -n auto --cov --cov-config=FILE --cov-context=test tests/backends tests/graph
    python tests/tools/mutate.py --trees ../one ../other --tested tested --out mutants.jsonl

FILE has the folders that are changed as `source` under `[run]`. A tree is a work tree of the commit that was tested,
with a `.venv` in which it is installed as editable; each is written to, and comes out as it was. A change is tried by
tests that run its line, those that run little else first, then by random graphs.
"""

import argparse
import ast
import json
import os
import random
import re
import subprocess
import warnings
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from difflib import unified_diff
from itertools import chain, islice
from pathlib import Path

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import mutate_code
from cosmic_ray.plugins import get_operator, operator_names
from coverage import CoverageData

FOLDERS = ["backends/onednn/lowering", "backends/onednn/plan", "graph/compile", "graph/io"]
LEFT_OUT = re.compile("core/(Variable|RemoveDecorator)|.*_(Eq_Is|NotEq_IsNot|Is_Eq|IsNot_NotEq)$")
OPERATORS = [name for name in operator_names() if not LEFT_OUT.match(name)]


def places(path):
    """Where a file can be changed: line → operators, each with how many of its places come before."""
    source, found = path.read_text(encoding="utf-8"), defaultdict(list)
    nodes = ast.walk(ast.parse(source))
    notes = chain(*((getattr(n, "annotation", None), getattr(n, "returns", None)) for n in nodes))
    left_out = [((n.lineno, n.col_offset), (n.end_lineno, n.end_col_offset)) for n in notes if n]
    nodes = list(ast_nodes(get_ast(source)))
    for name in OPERATORS:
        operator = get_operator(name)()
        starts = (start for node in nodes for start, _ in operator.mutation_positions(node))
        for occurrence, start in enumerate(starts):
            if not any(first <= start < end for first, end in left_out):
                found[start[0]].append((name, occurrence))
    return found


def changed(tree, mutant):
    """The source of a mutant's file before and after."""
    source = (tree / mutant["path"]).read_text(encoding="utf-8")
    return source, mutate_code(source, get_operator(mutant["operator"])(), mutant["occurrence"])


def draw(tree, folder, choice):
    """Changes in a folder that Python takes without a warning, none in the same line as another."""
    files = sorted((tree / folder).glob("*.py"))
    there = [(file, line, which) for file in files for line, which in sorted(places(file).items())]
    for file, line, which in choice.sample(there, len(there)):
        operator, occurrence = choice.choice(which)
        path = str(file.relative_to(tree))
        mutant = {"path": path, "line": line, "operator": operator, "occurrence": occurrence}
        try:
            compile(changed(tree, mutant)[1], path, "exec")
        except SyntaxError:
            continue
        yield mutant


class Tested:
    """Which tests run a line."""

    def __init__(self, file):
        data = CoverageData(file)
        data.read()
        self.lines, self.files, self.all = {}, defaultdict(Counter), Counter()
        for name in data.measured_files():
            for line, contexts in data.contexts_by_lineno(name).items():
                self.lines[name, line] = tests = {c.rpartition("|")[0] for c in contexts if c}
                self.files[name].update(tests)
                self.all.update(tests)

    def nearest(self, path, line):
        """Tests that run a line, else all of its file's: two of each function, and first what runs little else."""
        name = next(n for n in self.files if n.endswith(f"/{path}"))
        own, seen, turns = self.files[name], Counter(), {}
        for test in sorted(self.lines.get((name, line)) or own, key=lambda t: (-own[t] / self.all[t], t)):
            function = test.partition("[")[0]
            turns[test] = seen[function] // 2
            seen[function] += 1
        return sorted(turns, key=turns.__getitem__)


def failure(tree, seconds, *command):
    """What a command in a tree fails with, or None."""
    limited = ["timeout", "-s", "KILL", str(seconds), tree / ".venv/bin/python", *command]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    run = subprocess.run(limited, cwd=tree, env=environment, capture_output=True, text=True)
    named = re.search("^(FAILED|ERROR) .*", run.stdout, re.MULTILINE)
    return f"exit {run.returncode}: {named[0] if named else run.stderr[-300:]}" if run.returncode else None


def killer(tree, tests, listed):
    """What notices the change that is in the tree, or None."""
    options = ["-m", "pytest", "-x", "-q", "--no-cov", "-p", "no:cacheprovider", f"@{listed}"]
    for some in filter(None, (tests[:40], tests[40:400])):
        listed.write_text("\n".join(some), encoding="utf-8")
        found = failure(tree, 600, *options)
        if found:
            return found
    return failure(tree, 300, "tests/tools/fuzz_graphs.py", "--graphs", "150", "--seed", "5")


def work(tree, waiting, tested, out):
    """Tries one change after another in a tree."""
    while waiting:
        mutant = waiting.pop(0)
        tests, (source, other) = tested.nearest(mutant["path"], mutant["line"]), changed(tree, mutant)
        try:
            (tree / mutant["path"]).write_text(other, encoding="utf-8")
            found = killer(tree, tests, out.with_suffix(f".{tree.name}"))
        finally:
            (tree / mutant["path"]).write_text(source, encoding="utf-8")
        print(mutant["path"], mutant["line"], "killed" if found else "survived", flush=True)
        difference = list(unified_diff(source.split("\n"), other.split("\n"), lineterm="", n=1))[2:]
        with out.open("a", encoding="utf-8") as rows:
            print(json.dumps({**mutant, "killed": found, "diff": difference}, ensure_ascii=False), file=rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trees", type=Path, nargs="+", required=True)
    for name in ("--tested", "--out"):
        parser.add_argument(name, type=Path, required=True)
    for name, default in (("--mutants", 200), ("--seed", 0)):
        parser.add_argument(name, type=int, default=default)
    args = parser.parse_args()
    trees, out, choice = [tree.resolve() for tree in args.trees], args.out.resolve(), random.Random(args.seed)
    warnings.simplefilter("error", SyntaxWarning)
    each, tested = args.mutants // len(FOLDERS), Tested(args.tested)
    waiting = [mutant for folder in FOLDERS for mutant in islice(draw(trees[0], folder, choice), each)]
    with ThreadPoolExecutor(len(trees)) as pool:
        list(pool.map(lambda tree: work(tree, waiting, tested, out), trees))


if __name__ == "__main__":
    main()
