"""The command line: what each word means, and that every mistake names its cure."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from gputop import config
from gputop.cli import main
from gputop.cli.arguments import parse
from gputop.errors import UsageError


def test_everything_after_the_dashes_belongs_to_the_program() -> None:
    invocation = parse(["--hz", "4", "--", "python", "infer.py", "--pid", "3", "--", "--help"])
    assert invocation.program == ("python", "infer.py", "--pid", "3", "--", "--help")
    assert invocation.flags.pid is None
    assert invocation.settings.hz == 4


def test_commands_take_the_same_settings() -> None:
    invocation = parse(["report", "--pid", "12", "--no-tree", "--budget", "0.5", "--json"])
    assert (invocation.command, invocation.flags.pid, invocation.flags.json) == ("report", 12, True)
    assert (invocation.settings.tree, invocation.settings.budget) == (False, 0.5)


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["1234"], "gputop --pid 1234"),
        (["infer.py", "--fast"], "gputop -- python infer.py --fast"),
        (["reprot"], "gputop report"),
        (["train", "me"], "gputop -- train me"),
        (["--frobnicate"], "--help"),
        (["--pid", "abc"], "--help"),
        (["--pid", "0"], "--help"),
        (["--"], "gputop -- python infer.py"),
        (["report", "--duration", "-3", "--pid", "1"], "--help"),
        (["snapshot", "--pid", "1"], "--help"),
        (["--pid", "²"], "--help"),
        (["--pid", "5", "--hz", "2", "report"], "gputop report --pid 5 --hz 2"),
        (["doctor", "me"], "usage: gputop doctor"),
        (["report", "python", "infer.py"], "gputop report"),
        (["my job.py"], "gputop -- python 'my job.py'"),
        ([""], "gputop -- ''"),
    ],
)
def test_a_mistake_names_its_cure(words: list[str], cure: str) -> None:
    with pytest.raises(UsageError) as raised:
        parse(words)
    assert cure in raised.value.remedy


def test_settings_may_stand_before_the_command() -> None:
    invocation = parse(["--hz", "4", "--no-tree", "report", "--pid", "12", "--json"])
    assert (invocation.command, invocation.flags.pid, invocation.flags.json) == ("report", 12, True)
    assert (invocation.settings.hz, invocation.settings.tree) == (4, False)


@pytest.mark.parametrize("words", ["report {}.gputop", "report {}.json", "diff {0}.gputop {0}.gputop"])
def test_a_pipe_is_no_recording(words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ending in ("gputop", "json"):
        os.mkfifo(tmp_path / f"pipe.{ending}")
    assert main(words.format(tmp_path / "pipe").split()) == 1
    assert "it is no regular file" in capsys.readouterr().err


def test_an_error_obeys_no_escape_sequence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "a\x1b[31mb"]) == 1
    assert "\x1b" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["report", "--pid", "4194399"], 4, "process"),
        (["report"], 2, "gputop report --pid PID"),
        (["report", "--pid", "1", "--", "true"], 2, "both"),
        (["report", "missing.gputop"], 1, "missing.gputop"),
        (["report", "--", "no-such-program-anywhere"], 127, "no-such-program-anywhere"),
        (["report", "--", "/etc/passwd"], 126, "chmod +x /etc/passwd"),
        (["--hz", "99", "--pid", "1"], 2, "hz"),
        ([], 2, "terminal"),
    ],
)
def test_exit_codes(words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == code
    assert says in capsys.readouterr().err


def test_settings_come_from_flag_then_environment_then_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    file.write_text('hz = 1.0\nwindow = 30\ntheme = "light"\n')
    monkeypatch.setenv("GPUTOP_CONFIG", str(file))
    monkeypatch.setenv("GPUTOP_WINDOW", "20")
    settings = parse(["--theme", "ansi", "--pid", "1"]).settings
    assert (settings.hz, settings.window, settings.theme, settings.stack_rate) == (1.0, 20.0, "ansi", 100.0)


@pytest.mark.parametrize("text", ["hz = 'fast'", "hz = 99", "hertz = 2", "hz = [", 'theme = "pink"'])
def test_a_bad_settings_file_is_named(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config.toml"
    file.write_text(text)
    monkeypatch.setenv("GPUTOP_CONFIG", str(file))
    with pytest.raises(UsageError):
        parse(["--pid", "1"])


@pytest.mark.parametrize(
    ("flag", "variables", "line", "says", "cure"),
    [
        ({"hz": "0"}, {}, "", "--hz: 0 is outside 0.5 … 10", "a number from 0.5 to 10 (screen updates"),
        ({"stack_rate": "nan"}, {}, "", "--stack-rate: nan is not a number", "from 1 to 1000"),
        ({}, {"GPUTOP_HZ": "abc"}, "", "the variable GPUTOP_HZ: abc is not a number", "from 0.5 to 10"),
        ({}, {"GPUTOP_TREE": "maybe"}, "", "the variable GPUTOP_TREE: maybe is neither yes nor no", "yes or no"),
        ({}, {}, "window = true", "window in FILE: True is not a number", "from 1 to 3600"),
        ({}, {}, 'theme = "pink"', "theme in FILE: pink is none of dark,", "one of dark, light, ansi (colours)"),
        ({}, {}, "theme = true", "theme in FILE: True is none of dark,", "one of dark, light, ansi (colours)"),
        ({}, {"GPUTOP_HZ": ""}, "", "the variable GPUTOP_HZ: '' is not a number", "from 0.5 to 10"),
        ({}, {"GPUTOP_HZ": "99"}, "hz = 98", "the variable GPUTOP_HZ: 99 is outside", "from 0.5 to 10"),
    ],
)
def test_a_value_that_cannot_be_says_where_it_came_from_and_what_can(
    flag: dict[str, str], variables: dict[str, str], line: str, says: str, cure: str, tmp_path: Path
) -> None:
    file = tmp_path / "config.toml"
    file.write_text(line)
    with pytest.raises(UsageError) as raised:
        config.load(flag, variables, file)
    assert says.replace("FILE", str(file)) in raised.value.what
    assert cure in raised.value.remedy


def test_a_variable_that_nothing_reads_is_told_and_the_rest_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GPUTOP_WINDOWS", "5")
    assert main(["report", "missing.gputop"]) == 1
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert first == "gputop: the variable GPUTOP_WINDOWS changes nothing; did you mean GPUTOP_WINDOW?"
    assert "missing.gputop" in second
    assert list(config.unknown_variables({"GPUTOP_XYLOPHONE": ""})) == [
        "the variable GPUTOP_XYLOPHONE changes nothing; gputop --help lists the settings"
    ]


def test_variables_that_gputop_or_its_tests_read_are_not_told() -> None:
    root = Path(config.__file__).parents[1]
    files = [*(root / "gputop").rglob("*.py"), *(root / "tests").rglob("*.py"), *(root / "tests").rglob("*.h")]
    used = {name for path in files for name in re.findall(r"\bGPUTOP_[A-Z][A-Z_]*\b", path.read_text())}
    used -= {"GPUTOP_NAME", "GPUTOP_WINDOWS", "GPUTOP_XYLOPHONE"}  # said in the help, and meant to be told above
    assert {"GPUTOP_HZ", "GPUTOP_CONFIG", "GPUTOP_AGENT_DIRECTORY", "GPUTOP_PYTHONS", "GPUTOP_NVML_SCRIPT"} <= used
    assert not list(config.unknown_variables(dict.fromkeys([*used, "GPUTOP_hz", "PATH"], "")))


def run_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["report", "--help"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    """The static layer check cannot see an import inside a function; a fresh interpreter can."""
    loaded = run_python(
        f"""
import sys
from gputop.cli import main
try:
    main({words!r})
except SystemExit:
    pass
packages = {{name.partition(".")[0] for name in sys.modules}}
print("LOADED", sorted(packages & {{"textual", "rich", "pynvml", "asyncio", "psutil"}}))
"""
    )
    assert "LOADED []" in loaded


def test_help_names_every_command() -> None:
    from gputop.cli.commands import COMMANDS

    text = run_python("import sys; from gputop.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit: pass")
    assert all(f"gputop {name}" in text for name in COMMANDS if name)


def test_a_terminal_that_cannot_move_its_cursor_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from gputop.cli import screen

    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys, "stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(UsageError, match="cursor") as raised:
        screen.run(parse(["--pid", str(os.getpid())]))
    assert f"gputop --plain --pid {os.getpid()}" in raised.value.remedy


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["replay", "missing.gputop"], 1, "cannot read missing.gputop"),
        (["replay", __file__], 1, "is not a gputop recording"),
        (["--pid", "4194399"], 4, "there is no process 4194399"),
        (["--pid", "1", "--", "ls"], 2, "give one of them"),
        (["--", "no-such-program-anywhere"], 127, "command not found"),
        (["--", "/etc/passwd"], 126, "chmod +x /etc/passwd"),
    ],
)
def test_what_is_wrong_with_the_target_is_said_first_without_a_terminal(
    words: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words) == code
    complaint = capsys.readouterr().err
    assert says in complaint
    assert "terminal" not in complaint


def test_without_a_terminal_the_remedy_is_for_the_same_target(capsys: pytest.CaptureFixture[str]) -> None:
    own = os.getpid()
    recording = Path(__file__).parents[1] / "data" / "recordings" / "loader.gputop"
    cures = {
        ("--pid", str(own)): f"gputop report --pid {own}, or block by block: gputop --plain --pid {own}",
        ("--", "ls", "a b"): "gputop report -- ls 'a b', or block by block: gputop --plain -- ls 'a b'",
        (): "gputop report --pid PID, or block by block: gputop --plain --pid PID",
        ("replay", str(recording)): f"without one: gputop report {recording}\n",
    }
    for words, cure in cures.items():
        assert main(words) == 2
        complaint = capsys.readouterr().err
        assert "the screen needs a terminal" in complaint
        assert cure in complaint
