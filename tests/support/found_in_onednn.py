"""The documentation's page of what we found in oneDNN: rules, what became of them, and what shows them.

`tests/tools/write_found_in_onednn.py` writes it, with the programs beside it.
"""

from __future__ import annotations

import functools
from pathlib import Path

from benchdnn_lines import UnsaidError, line_of
from c_programs import program_of
from onednn_graph.backends.onednn.quarantine import IMPRECISE, SLOW, WRONG
from replay import reproducers
from sweep import records

PAGE = Path(__file__).parents[2] / "docs" / "pages" / "help" / "found-in-onednn.md"
PROGRAMS = PAGE.with_suffix("")
ISSUES = "https://github.com/uxlfoundation/oneDNN/issues"
UPSTREAM = {"convolution_backward_weights/strided-1x1": 6035}
"""Rule → number of an issue of oneDNN's that is about it."""
INTRODUCTION = """# What we found in oneDNN

These kernels of oneDNN give wrong numbers, write where they must not, crash, or lose more digits than their types do,
each under a condition. Random problems found them, compared exactly on integers, with guards around each buffer. Here
they [don't run](../concepts.md#quarantine-and-verify) under their condition; the page is for those who mend oneDNN, or
use it by another way.

Each has the smallest problem that shows it, and what came of that on the versions below:

* *wrong*, *crashed*, *no end*, *failed* (it has promised the primitive, and says then that it can't): it stands;
* *right*: this one problem is. *Holds for* has an end where the library's source shows why no other one is wrong;
* *not offered*: the version has no such kernel for the problem.

A line is for [benchdnn](https://github.com/uxlfoundation/oneDNN/tree/main/tests/benchdnn), in the words of oneDNN 3.13.
It draws data of its own, in which an error may hide. What it has no words for is a C program, with its data and what
must come out of them: it ends with 0 where all is right, with 1 where something is wrong, and with 2 where the library
has no such kernel.

"""


def rules():
    """Name, as function/rule → what its table says of it, and the rule, of those that can be shown."""
    return {
        f"{function}/{rule.name}": (what, rule)
        for what, table in (("wrong", WRONG), ("imprecise", IMPRECISE))
        for function, found in sorted(table.items())
        for rule in found
    }


@functools.cache
def unsaid():
    """Name of a rule → why benchdnn has no words for its problem."""
    found = {}
    for name, told in reproducers().items():
        if "unreproduced" in told:
            continue
        try:
            line_of(told)
        except UnsaidError as reason:
            found[name] = str(reason)
    return found


def programs(engine):
    """File → text of each program that is beside the page."""
    from primitive_problems import PrimitiveProblem

    told = reproducers()
    return {
        PROGRAMS / _file(name): program_of(name, PrimitiveProblem(engine, told[name])) for name in unsaid()
    }


def page():
    """The whole page."""
    return INTRODUCTION + "\n".join((*_table(), "", *_sections(), "", *_slow())) + "\n"


def _file(name):
    return f"{name.replace('/', '-')}.c"


def _anchor(name):
    return name.replace("/", "-").replace("_", "-")


@functools.cache
def _swept():
    """Version → the ends of the problems, from the oldest on."""
    found = sorted(records().values(), key=lambda one: one["version"])
    return {".".join(map(str, one["version"])): one["rules"] for one in found}


def _holds_for(rule):
    since, fixed = (".".join(map(str, version or ())) for version in (rule.since, rule.fixed))
    return f"{since} up to {fixed}" if fixed else f"{since} on"


def _cells(*texts):
    return f"| {' | '.join(text.replace('|', '/') for text in texts)} |"


def _kernels(rule):
    return f"`{rule.implementation}…`" if rule.implementation else "all"


def _table():
    yield _cells("primitive", "problem", "kernels", "when", *_swept(), "holds for")
    yield "|" + "---|" * (5 + len(_swept()))
    last = None
    for name, (_, rule) in rules().items():
        function, short = name.split("/")
        ends = [ends.get(name, "") for ends in _swept().values()]
        first = f"`{function}`" if function != last else ""
        yield _cells(
            first, f"[{short}](#{_anchor(name)})", _kernels(rule), rule.condition, *ends, _holds_for(rule)
        )
        last = function


def _sections():
    told = reproducers()
    for name, (what, rule) in rules().items():
        function, short = name.split("/")
        yield from (f'<span id="{_anchor(name)}"></span>', "", f"### {short} ({function})", "")
        yield f"{_kernels(rule)}, when {rule.condition}. {what.capitalize()}: {rule.seen}."
        issue = UPSTREAM.get(name)
        if issue:
            yield f"oneDNN knows of it: [issue {issue}]({ISSUES}/{issue})."
        yield from ("", *_shown(name, told[name]), "")


def _shown(name, told):
    """What shows a rule."""
    if "unreproduced" in told:
        yield f"Nothing shows it here: {told['unreproduced']}."
        return
    if name in unsaid():
        yield f"As a program, for {unsaid()[name]}: [{_file(name)}]({PROGRAMS.name}/{_file(name)})."
    else:
        yield f"`{line_of(told)}`"
    if "note" in told:
        yield from ("", f"{told['note'][0].upper()}{told['note'][1:]}.")


def _slow():
    yield from (
        "## Slow",
        "",
        "These are right, and slower than another way; nothing shows that but a clock.",
        "",
    )
    yield from (_cells("primitive", "kernels", "when", "what was seen", "holds for"), "|" + "---|" * 5)
    for function, found in sorted(SLOW.items()):
        for rule in found:
            yield _cells(f"`{function}`", _kernels(rule), rule.condition, rule.seen, _holds_for(rule))
