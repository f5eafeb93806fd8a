"""Rules about wrong kernels against the kernels: each has a problem that shows what it bars, on the library itself."""

import json
import random
from collections import Counter

import pytest
from fuzz_primitives import attempt
from onednn_graph.backends.onednn.library.loading import load
from onednn_graph.backends.onednn.library.primitive import NativeEngine, implementations
from onednn_graph.backends.onednn.plan.arena import GUARDS
from onednn_graph.backends.onednn.proven import SHIPPED, Swept, extrapolated
from onednn_graph.backends.onednn.proven import swept as how_swept
from onednn_graph.backends.onednn.quarantine import IMPRECISE, WRONG, refused, unaskable
from onednn_graph.backends.onednn.rules.features import Features
from primitive_problems import PrimitiveProblem, told_of
from primitive_trials import FAMILIES, Maker, Undrawn
from replay import WRONG as WRONG_ENDS
from replay import replayed, reproducers
from strategies import has_isa
from sweep import PROVEN as FILES
from sweep import contradictions, name_of, proven_of, records

RULES = {
    f"{f}/{rule.name}": rule for table in (WRONG, IMPRECISE) for f, rules in table.items() for rule in rules
}
TOLD = reproducers()
REAL = {name: told for name, told in TOLD.items() if "unreproduced" not in told}
ANYWHERE = [name for name, told in REAL.items() if "isa" not in told and name != "reorder/elements-apart"]
"""Those of kernels that every CPU has, and that crash nowhere."""


def in_halves(told):
    """Whether it has tensors of a type that the library has on some CPUs alone."""
    return any(tensor["type"] in ("bf16", "f16") for tensor in told["tensors"].values())


def test_each_rule_has_a_reproducer_or_a_reason_why_there_is_none():
    assert set(TOLD) == set(RULES)
    assert all(told.get("unreproduced", "there is one") for told in TOLD.values())
    assert len(REAL) > 9 * (len(TOLD) - len(REAL))


def checked(outcomes):
    """That each problem is barred by its rule and went wrong nevertheless, where the rule holds; how many those are."""
    version = load().version[:2]
    known = next((one["rules"] for one in records().values() if tuple(one["version"][:2]) == version), {})
    ran = 0
    for name, outcome in outcomes.items():
        wanted = REAL[name].get("isa", outcome.isa).lower()
        lacks = outcome.isa != wanted or (in_halves(REAL[name]) and not has_isa("avx512_core"))
        if outcome.end == "not offered" and (lacks or known.get(name) == "not offered"):
            continue
        if not RULES[name].holds(version):
            assert outcome.end == "right", (name, outcome)
            continue
        assert name.split("/")[1] in outcome.barred, (name, outcome)
        assert outcome.refused, (name, outcome)
        if (outcome.isa != wanted or "cpu" in REAL[name]) and outcome.end == "right":
            continue  # made for another CPU's kernel, here it reads what happens to lie there
        if known.get(name) != "right":
            assert outcome.end in WRONG_ENDS, (name, outcome)
            ran += 1
    return ran


def test_what_rules_bar_is_wrong_on_every_cpu(onednn):
    assert checked(replayed({name: REAL[name] for name in ANYWHERE})) >= 3


@pytest.mark.long
def test_what_rules_bar_is_wrong(onednn):
    outcomes = replayed(REAL)
    assert set(outcomes) == set(REAL)
    assert checked(outcomes) >= len(ANYWHERE)


def test_a_problem_of_a_trial_is_that_primitive_and_its_formula_is_right(onednn, swept):
    engine, seen, number = NativeEngine(), Counter(), 0
    with GUARDS.on():
        while number < 500:
            number += 1
            maker = Maker(engine, random.Random(f"formulas {number}"), share=0)
            try:
                trial = FAMILIES[maker.rng.choice(list(FAMILIES))](maker)
            except Undrawn:
                continue
            told = told_of(trial)
            if told is None or unaskable(trial.descriptor) or seen[told["function"]] > 5:
                continue
            problem = PrimitiveProblem(engine, json.loads(json.dumps(told)))
            for name, desc in problem.tensors.items():
                assert desc == getattr(trial.descriptor, name), (name, told)
            first = problem.descriptor.described(engine)
            for desc in () if first is None else implementations(first):
                if refused(Features(problem.descriptor, desc)) is None:
                    assert attempt(engine, desc, problem.trial) in ([], None), (
                        number,
                        desc.implementation,
                        told,
                    )
                    seen[told["function"]] += 1
    assert len(seen) > 8


def test_records_of_sweeps_tell_what_the_rules_say():
    known = records()
    assert {"3.2-gomp", "3.6-gomp"} <= set(known)
    assert all(
        set(record["rules"]) <= set(REAL) for record in known.values()
    )  # others than 3.2's may be older
    assert set(known["3.2-gomp"]["rules"]) == set(REAL)
    assert contradictions(known) == []
    for name, end in known["3.2-gomp"]["rules"].items():
        assert (end in WRONG_ENDS) is RULES[name].holds((3, 2)), (name, end)


def test_every_rule_is_wrong_in_some_record():
    ends = [record["rules"] for record in records().values()]
    assert not [name for name in REAL if not any(one.get(name) in WRONG_ENDS for one in ends)]


@pytest.mark.parametrize("name", sorted(records()))
def test_what_is_shipped_as_proven_is_what_the_sweep_found(name):
    record = records()[name]
    assert name_of(record) == name
    found, file = proven_of(record), FILES / f"{name}.json"
    listed = SHIPPED[record["runtime"]].get(tuple(record["version"][:2]), {})
    assert {function: sorted(names) for function, names in listed.items()} == found["implementations"]
    assert not file.exists() or json.loads(file.read_text()) == found


def test_what_is_extrapolated_says_so(onednn):
    class Machine:
        """A library of a version on a CPU."""

        runtime = load().runtime

        def __init__(self, version, isa):
            self.version, self.effective_isa = version, isa

    assert extrapolated(Machine((3, 2, 0), "avx2")) is None
    assert extrapolated(Machine((3, 2, 1), "avx2")) == "3.2.1 for 3.2.0"
    assert extrapolated(Machine((3, 6, 2), "avx512_core_fp16")).startswith("avx512_core_fp16 for avx")
    assert how_swept(Machine((3, 2, 1), "avx512_core_fp16")) is Swept.full
    assert extrapolated(Machine((3, 5, 0), "avx2")) is None
    assert how_swept(Machine((3, 5, 0), "avx2")) is Swept.none
    assert all(
        "instruction sets" in SHIPPED["gomp"].proofs(version).extrapolated for version in SHIPPED["gomp"]
    )


def test_all_that_is_shipped_comes_of_a_sweep():
    """Which reproducers alone are not."""
    swept = {name for name, record in records().items() if proven_of(record)["implementations"]}
    versions = {f"{major}.{minor}-{runtime}" for runtime, known in SHIPPED.items() for major, minor in known}
    assert {file.stem for file in FILES.glob("*.json")} == versions == swept
