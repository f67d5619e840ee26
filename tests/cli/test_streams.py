"""Readers that go away: `| head`, `2>&-`, `>&-`, a terminal that is closed. What was learned is kept."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import bayou
from bayou.kernels.compiling import COMPILING

NOISE = ("Traceback", "Exception ignored", "Error", "Errno", "lost sys.std")
TRAIN = f"{sys.executable} -m bayou train {{data}} --learner marginal --bits 4 --model {{model}}"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "x.svm"
    path.write_text("".join(f"{k % 2} {k % 7}:1 {7 + k % 5}:1\n" for k in range(5000)))
    return path


def shell(command: str) -> subprocess.CompletedProcess:
    done = subprocess.run(["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, timeout=120)
    assert not any(word in done.stderr + done.stdout for word in NOISE), done.stderr + done.stdout
    return done


@pytest.mark.parametrize(
    ("redirection", "codes"),
    [
        ("2>&1 | true", (0, 141)),  # both; whether the last words found their reader is a matter of time
        ("2>&-", (0,)),  # only progress is lost
        (">&-", (1,)),  # the results are
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in [
                ("2> >(true) | cat", (0,)),
                ("<&- >&- 2>&-", (1,)),
                ("| true", (0, 141)),
                ("2> /dev/full", (0,)),
                ("> /dev/full", (1,)),
            ]
        ),
    ],
)
def test_what_was_learned_is_saved_whoever_listens(data, tmp_path, redirection, codes) -> None:
    model, report = tmp_path / "m.bayou", tmp_path / "r.html"
    command = TRAIN.format(data=data, model=model) + (f" --report {report}" if redirection == ">&-" else "")
    done = shell(f"{command} {redirection}")
    assert done.returncode in codes, done.stderr
    assert bayou.load(model).examples == 5000
    assert report.exists() == (redirection == ">&-")
    if redirection == ">&-":
        assert done.stderr.endswith("standard output could not be written (Bad file descriptor).\n")


def test_a_reader_that_had_enough_is_told_by_the_exit_code(data, tmp_path) -> None:
    shell(TRAIN.format(data=data, model=tmp_path / "m.bayou"))
    (tmp_path / "many.svm").write_bytes(data.read_bytes() * 40)
    command = f"{sys.executable} -m bayou predict {tmp_path / 'many.svm'} --model {tmp_path / 'm.bayou'}"
    done = shell(f"{command} | head -n 2; echo ${{PIPESTATUS[0]}}")
    assert done.stdout.splitlines()[2:] == ["141"]
    assert done.stderr.replace(COMPILING, "").strip() == ""  # a slow machine may say that it compiles


@pytest.mark.long
def test_a_slow_reader_gets_everything(data, tmp_path) -> None:
    """Also through a pipe that refuses to wait, as another process may have left it."""
    shell(TRAIN.format(data=data, model=tmp_path / "m.bayou"))
    command = f"{sys.executable} -m bayou predict {data} --model {tmp_path / 'm.bayou'}"
    read, write = os.pipe()
    os.set_blocking(write, False)
    process = subprocess.Popen(command, shell=True, stdout=write, stderr=subprocess.PIPE)
    os.close(write)
    got = b""
    while part := os.read(read, 1 << 14):
        got += part
        time.sleep(0.002)
    os.close(read)
    assert process.wait(60) == 0, process.stderr.read()
    assert len(got) > 1 << 17  # more than a pipe holds
    assert len(got.splitlines()) == 5001


def test_a_closed_number_is_not_given_to_a_file(data, tmp_path) -> None:
    """Words for standard error must not end up in the file that is opened next."""
    done = shell(f"{TRAIN.format(data=data, model=tmp_path / 'm.bayou')} --json 2>&- | cat")
    assert json.loads(done.stdout)["examples"] == 5000
    assert bayou.load(tmp_path / "m.bayou").examples == 5000


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
@pytest.mark.parametrize("ignored", [False, True], ids=["hangup", "nohup"])
def test_a_terminal_that_is_closed_does_not_lose_what_was_learned(data, tmp_path, ignored) -> None:
    fifo, model = tmp_path / "x.svm", tmp_path / "m.bayou"
    os.mkfifo(fifo)
    text = data.read_bytes()
    command = [*TRAIN.format(data=fifo, model=model).split(), "--task", "binary"]

    def start() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else signal.SIG_DFL)

    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, preexec_fn=start)
    with open(fifo, "wb", buffering=0) as pipe:
        pipe.write(text[: len(text) // 2])
        shown = b""
        while b"\n         1," not in shown and b"\n         2," not in shown:  # a row of the running table
            shown += os.read(process.stderr.fileno(), 1 << 16)
        process.stderr.close()  # the terminal is gone
        process.send_signal(signal.SIGHUP)
        if ignored:
            pipe.write(text[len(text) // 2 :])
        else:
            process.wait(60)
    assert process.wait(60) == (0 if ignored else 129)
    learned = bayou.load(model)
    assert learned.examples == 5000 if ignored else 1000 < learned.examples < 5000
    assert (learned.extras.unfinished is None) == ignored
