"""Which tests were skipped, in a file: `.ci/run` runs them where what they want has been installed since."""

import os

PLACE = os.environ.get("TESTS_LEFT_OUT")
"""The file that their ids are added to, a line each; None for nowhere. A module that is skipped as a whole is one."""


def note(report, *, inside):
    """Adds what a report is of, where it was skipped.

    Args:
        inside: whether this is the process that ran it, and not the one that several others tell.
    """
    if PLACE and inside and report.skipped and not hasattr(report, "wasxfail"):
        with open(PLACE, "a", encoding="utf-8") as file:
            file.write(f"{report.nodeid}\n")
