"""Verdicts that look beyond the headline thread: children, namesakes, other programs on the machine."""

from __future__ import annotations

from dataclasses import replace

from gputop.analysis.diagnose import verdict
from gputop.analysis.facts import CpuFacts
from tests.unit.test_diagnose import facts, thread


def test_the_child_that_is_waited_for_is_told() -> None:
    child = replace(thread("sleep", 7, {"idle.sleep": 1.0}), pid=7, main=True)
    short = replace(thread("gone", 8, {"python": 1.0}), pid=8, main=True, samples=3)
    told = verdict(facts({"child": 0.9}, others=(short, child)))
    assert told.id == "child-bound"
    assert "its child sleep (7): idle 100 % (sleep)" in told.evidence
    assert not any("its child" in line for line in verdict(facts({"python": 0.9}, others=(child,))).evidence)


def test_threads_of_one_name_in_several_processes_are_told_apart() -> None:
    """A pool's workers all call their main thread MainThread."""
    twin = replace(thread("MainThread", 7, {"python": 1.0}), pid=7)
    assert verdict(facts({"python": 0.9}, others=(twin,))).sentence.startswith("MainThread (1) computes 90 %")
    assert verdict(facts({"python": 0.9})).sentence.startswith("MainThread computes 90 %")


def test_a_machine_that_others_fill_is_not_too_small_for_the_program() -> None:
    """A pool of three on two cores would nearly fit, were it not for the others."""
    crowd = tuple(thread(f"w{at}", 10 + at, {"starved": 0.3, "python": 0.4}) for at in range(2))
    shortage = {"starved": 0.5, "python": 0.3}
    assert verdict(facts(shortage, cpus=CpuFacts(2, 2, 0.5, 1.5), others=crowd)).title == "CPUs taken by others"
    assert verdict(facts(shortage, cpus=CpuFacts(2, 2, 1.9, 0.1), others=crowd)).title == "Too few CPUs"
