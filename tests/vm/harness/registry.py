# SPDX-License-Identifier: BSD-3-Clause
"""The list of all cases: a name, and a function that takes a rig and raises if something is off."""
from dataclasses import dataclass
from typing import Callable


@dataclass(frozen=True)
class Case:
    name: str
    run: Callable
    quick: bool = False     # part of "tests/run quick"


CASES = []


def add(name, run, quick=False):
    assert all(c.name != name for c in CASES), name
    CASES.append(Case(name, run, quick))


def case(name, quick=False):
    """Decorator of a case's function."""
    def register(run):
        add(name, run, quick)
        return run
    return register
