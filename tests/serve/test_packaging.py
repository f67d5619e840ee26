"""The systemd unit and the Containerfile, as far as they can be looked at without root and without a network."""

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from bayou.cli import app
from tests.serve.serving import running

FOLDER = Path(__file__).parents[2] / "packaging"
COMMANDS = typer.main.get_command(app).commands


def check_options(words: list[str]) -> None:
    """A `bayou` command line has a command that there is, and options that it has."""
    known = {option for parameter in COMMANDS[words[0]].params for option in parameter.opts}
    assert {word for word in words if word.startswith("--")} <= known


def test_the_unit_starts_a_command_that_there_is():
    text = (FOLDER / "bayou.service").read_text()
    words = shlex.split(re.search(r"^ExecStart=(.*)$", text, re.MULTILINE)[1])
    assert words[0].endswith("/bayou")
    check_options(words[1:])


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_takes_the_unit(tmp_path):
    text = (FOLDER / "bayou.service").read_text().replace("/usr/local/bin/bayou", sys.executable)
    (tmp_path / "bayou.service").write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / "bayou.service")], capture_output=True, text=True, check=False
    )
    assert "bayou.service" not in done.stderr, done.stderr


def test_the_unit_restarts_what_is_out_of_order_and_reloads_tokens():
    lines = (FOLDER / "bayou.service").read_text().splitlines()
    assert {
        "Type=notify", "WatchdogSec=30", "WatchdogSignal=SIGTERM", "Restart=on-failure",
        "ExecReload=/bin/kill -HUP $MAINPID", "StateDirectoryMode=0700",
    } <= set(lines)  # fmt: skip


def test_the_container_is_healthy_as_long_as_the_server_is(tmp_path):
    text = (FOLDER / "Containerfile").read_text().replace("\\\n", " ")
    command = json.loads(re.search(r"^HEALTHCHECK .*CMD (\[.*\])$", text, re.MULTILINE)[1])
    assert command[:2] == ["python", "-c"]
    with running(tmp_path / "state") as server:
        code = command[2].replace("8642", str(server.server.port))

        def check():
            return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode

        assert check() == 0
        server.served.owner.log_writer.broken = "the log is out of order"
        assert check() == 1
    assert check() == 1


def test_the_container_starts_a_command_that_there_is():
    lines = (FOLDER / "Containerfile").read_text().replace("\\\n", " ").splitlines()
    parts = {line.split()[0]: line.split(maxsplit=1)[1] for line in lines if line and not line.startswith("#")}
    assert set(parts) <= {
        "FROM",
        "COPY",
        "RUN",
        "ENV",
        "USER",
        "VOLUME",
        "EXPOSE",
        "STOPSIGNAL",
        "HEALTHCHECK",
        "ENTRYPOINT",
        "CMD",
    }
    entry, more = (re.findall(r'"([^"]*)"', parts[name]) for name in ("ENTRYPOINT", "CMD"))
    assert entry[0] == "bayou"
    check_options([*entry[1:], *more])
    assert parts["RUN"] == "bayou warm"
