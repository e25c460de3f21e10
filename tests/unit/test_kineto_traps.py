"""Every trap of Kineto's on-demand interface that was found has a test; this is where which one is."""

from __future__ import annotations

from pathlib import Path

import pytest

#: What goes wrong, and the tests that show that here it does not.
TRAPS = {
    "an answer that comes late is taken for the answer to the next question, and shifts all later ones": (
        "daemon.test_silent_without_a_request_then_one_answer",
        "daemon.test_question_that_waited_too_long_is_not_answered",
    ),
    "torch crashes in a program that ends while it is recorded": (
        "torch.test_launched_program_that_ends_while_it_is_recorded",
        "target.test_exit_waits_until_the_trace_is_whole",
        "target.test_exit_waits_for_the_trace_alone_when_gputop_is_gone",
        "target.test_exit_waits_no_longer_than_the_flag_says",
    ),
    "a socket that nobody reads, or a stale one, keeps programs from ending for ten seconds": (
        "torch.test_program_prepared_for_traces_ends_as_usual",
        "daemon.test_stale_socket_is_replaced_and_goes_at_the_end",
        "target.test_sweep_takes_the_abandoned_and_leaves_what_is_used",
    ),
    "a second request while one is pending is lost": (
        "daemon.test_busy_target_gets_its_request_when_it_is_free",
        "merge.test_second_press_is_refused_while_one_runs",
    ),
    "the program's own torch.profiler cancels a recording without a word, or is spoilt by it": (
        "record.test_the_programs_own_profiler_is_left_alone",
        "merge.test_a_program_that_profiles_itself_is_recorded_only_with_consent",
        "record.test_recording_that_the_programs_own_profiler_cancels_is_asked_for_again",
        "daemon.test_request_that_is_taken_back_is_not_given",
    ),
    "a request can be dropped": (
        "record.test_dropped_request_is_sent_once_more",
        "record.test_request_dropped_twice_is_given_up",
    ),
    "another daemon owns the name": (
        "daemon.test_another_daemon_is_not_disturbed",
        "daemon.test_abstract_name_of_another_daemon_is_not_disturbed",
    ),
    "the daemon, or all of gputop, dies in the middle": (
        "torch.test_program_goes_on_when_gputop_is_killed_in_the_middle",
        "daemon.test_ends_and_cleans_up_when_gputop_is_killed",
        "daemon.test_helper_that_dies_is_an_error_not_a_wait",
    ),
    "launchers poll and do nothing": (
        "shoot.test_launcher_that_does_nothing_with_torch_is_left_out",
        "merge.test_a_launcher_gets_time_to_start_its_ranks",
    ),
    "containers have names and numbers of their own": (
        "shoot.test_in_another_network_namespace",
        "shoot.test_in_another_file_system",
        "merge.test_tracks_carry_the_number_that_the_process_gives_itself",
    ),
    "an answer from another name ends the program": ("shoot.test_in_a_directory_of_ours",),
    "PROFILE_MEMORY keeps a core busy for good; an absolute start is dropped": (
        "daemon.test_request_never_asks_for_what_harms_the_target",
    ),
    "a second init replaces the registered profiler under the program's feet": (
        "torch.test_script_for_newer_pythons_switches_polling_on_once",
        "target.test_gdb_script_does_nothing_at_any_other_stop",
    ),
    "old versions crash as they start": ("target.test_torch_polls_where_it_is_sound",),
    "other users ask, or put files where ours are expected": (
        "daemon.test_other_users_are_not_served",
        "target.test_what_the_target_wrote_is_opened_only_when_it_is_a_file",
        "target.test_directory_that_others_may_write_to_is_not_used",
    ),
}


@pytest.mark.parametrize("trap", TRAPS)
def test_every_trap_has_its_tests(trap: str) -> None:
    for name in TRAPS[trap]:
        file, _, test = name.partition(".")
        assert f"def {test}(" in (Path(__file__).parent / f"test_kineto_{file}.py").read_text(encoding="utf-8")
