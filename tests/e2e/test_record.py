# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""spinctl record: an engine's trace of a live session, its bounds, and who says no."""

import json
import pathlib
import signal
import subprocess

import pytest
import safetensors
from eventually import eventually
from raw_client import RawSession
from refusal import CODE, refused
from spin.v1 import recording_pb2

CONTEXT = 500
OPTIONS = dict(path="/tmp/x.safetensors", max_steps=8, max_bytes=1 << 20, max_time=dict(seconds=60))


@pytest.fixture
def engine(spind, start_engine):
    engine = start_engine(spind, allow_recording="true")
    engine.ready()
    engine.open("chat", CONTEXT)
    return engine


def recording_of(client):
    return client.sessions()[0].recording


def record(spinctl, spind, client, out, *words):
    """Starts spinctl record on the only session."""
    return spinctl.start("record", "--socket", spind.socket, "--session", f"{client.sessions()[0].session_id:016x}",
                         "--out", out, "--json", *words)


def decode_until_it_ends(engine, process):
    eventually(lambda: engine.steps(1) and process.poll() is not None, within=30)
    out, err = process.communicate()
    return process.returncode, out, err


def test_recorded_file_is_a_trace_of_the_steps_asked_for(spinctl, spind, client, engine, tmp_path):
    out = tmp_path / "chat.safetensors"
    code, text, err = decode_until_it_ends(engine, record(spinctl, spind, client, out, "--steps", 12))
    assert code == 0, err
    assert json.loads(text) == {"files": [str(out)], "steps": 12, "bytes": out.stat().st_size}
    trace = spinctl.json("eval", out, "--topk", 64, "--study", "none")["traces"]["chat"]
    assert (trace["steps"], trace["layers"]) == (12, 2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["chat.safetensors"]


def test_what_is_there_is_refused_before_a_request_comes(spinctl, spind, client, engine, tmp_path):
    (tmp_path / "chat-2.safetensors").write_text("mine")
    process = record(spinctl, spind, client, tmp_path / "chat.safetensors", "--requests", 2, "--sample", 1000000)
    code, text, err = decode_until_it_ends(engine, process)
    assert (code, text) == (1, "") and "chat-2.safetensors: is there already" in err
    assert [path.read_text() for path in tmp_path.iterdir()] == ["mine"]


def test_names_the_flag_that_spind_refuses(spinctl, spind, client, engine, tmp_path):
    (session,) = client.sessions()
    said = spinctl.refusal("record", "--session", f"{session.session_id:x}", "--out", tmp_path / "noext", "--socket", spind.socket)
    assert said.startswith("spinctl record: --out: must be absolute, end in .safetensors")


@pytest.mark.parametrize("words, says", [
    (("--out", b"/tmp/\xff.safetensors"), "--out: /tmp/\\xff.safetensors is not UTF-8"),
    (("--out", "/tmp/x.safetensors", "--seed", -1), "--seed: -1 is not a whole number"),
], ids=str)
def test_refuses_what_the_wire_cannot_carry(spinctl, words, says):
    done = subprocess.run([*spinctl.command("record", "--session", "3f9a"), *[w if isinstance(w, bytes) else str(w) for w in words]],
                          capture_output=True, text=True, env=spinctl.environment)
    assert done.returncode == 2 and says in done.stderr


def test_several_requests_have_a_file_each(spinctl, spind, client, engine, tmp_path):
    engine.open("other", CONTEXT)
    process = record(spinctl, spind, client, tmp_path / "chat.safetensors", "--steps", 6, "--requests", 2)
    code, text, err = decode_until_it_ends(engine, process)
    assert code == 0, err
    files = [tmp_path / "chat-1.safetensors", tmp_path / "chat-2.safetensors"]
    assert json.loads(text) == {"files": [str(f) for f in files], "steps": 12, "bytes": sum(f.stat().st_size for f in files)}
    assert recording_of(client).requests == 2
    for file in files:
        assert spinctl.json("eval", file, "--topk", 64, "--study", "none")["traces"][file.stem]["steps"] == 6


def test_sample_is_drawn_from_keys_and_not_what_came_first(spinctl, spind, client, start_engine, tmp_path):
    """Of 24 requests that are there from the start, about one in four, and not the first of them."""
    engine = start_engine(spind, allow_recording="true", max_requests=24)
    engine.ready()
    for i in range(24):
        engine.open(f"r{i}", 64 * (i + 1))  # the context says which one it is
    words = ("--steps", 2, "--requests", 24, "--sample", 4, "--seed", 1, "--max-time", "2s")
    code, text, err = decode_until_it_ends(engine, record(spinctl, spind, client, tmp_path / "chat.safetensors", *words))
    assert code == 0, err
    files = json.loads(text)["files"]
    assert 1 < len(files) < 15
    headers = [safetensors.split(pathlib.Path(file).read_bytes())[0] for file in files]
    taken = [int(header["__metadata__"]["first_query"]) // 64 for header in headers]
    assert taken != list(range(len(files)))


def test_request_that_ends_early_makes_room_for_the_next(spinctl, spind, client, engine, tmp_path):
    out = tmp_path / "chat.safetensors"
    process = record(spinctl, spind, client, out, "--steps", 7000, "--requests", 2, "--max-time", "4s")
    eventually(lambda: engine.steps(1) and recording_of(client).steps > 2)
    engine.open("next", CONTEXT)
    engine.close("chat")
    code, text, err = decode_until_it_ends(engine, process)
    assert code == 0, err
    traces = spinctl.json("eval", *json.loads(text)["files"], "--topk", 64, "--study", "none", "--steps", 2)["traces"]
    assert set(traces) == {"chat-1", "chat-2"}


def test_fewer_requests_than_asked_for_says_why(spinctl, spind, client, engine, tmp_path):
    process = spinctl.start("record", "--socket", spind.socket, "--session", f"{client.sessions()[0].session_id:016x}",
                            "--out", tmp_path / "chat.safetensors", "--steps", 6, "--requests", 4, "--max-time", "1s")
    code, text, err = decode_until_it_ends(engine, process)
    assert code == 0, err
    assert "recorded 6 steps of 1 of 4 requests" in text and "ended by --max-time" in text


def test_nothing_in_the_sample_says_so(spinctl, spind, client, engine, tmp_path):
    process = record(spinctl, spind, client, tmp_path / "chat.safetensors", "--sample", 1000000, "--max-time", "1s")
    code, text, err = decode_until_it_ends(engine, process)
    assert (code, text) == (1, "") and "no request of the sample came in time" in err


def test_example_engine_is_recorded_and_its_traces_evaluated(spinctl, spind, client, example_engine_binary, tmp_path):
    engine = subprocess.Popen([example_engine_binary, spind.socket, "0", "--allow-recording"], stdout=subprocess.DEVNULL)
    try:
        eventually(lambda: len(client.sessions()) == 1)
        process = record(spinctl, spind, client, tmp_path / "example.safetensors", "--steps", 6, "--requests", 2)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        files = json.loads(out)["files"]
        traces = spinctl.json("eval", *files, "--topk", 256, "--sparsity", "0.5", "--study", "none")["traces"]
        assert {(name, trace["steps"], trace["layers"]) for name, trace in traces.items()} == {("example-1", 6, 2), ("example-2", 6, 2)}
        for trace in traces.values():
            assert trace["miss"]["0.5"]["spin"]["mean"] < 0.5 * trace["miss"]["0.5"]["random"]["mean"]
    finally:
        engine.kill()
        engine.wait()


def test_file_stays_below_max_bytes_with_fewer_steps(spinctl, spind, client, engine, tmp_path):
    out = tmp_path / "chat.safetensors"
    code, text, err = decode_until_it_ends(engine, record(spinctl, spind, client, out, "--max-bytes", "32KiB"))
    assert code == 0, err
    assert out.stat().st_size <= 32 << 10
    assert 2 <= json.loads(text)["steps"] < 256


def test_max_time_ends_it_with_what_is_whole(spinctl, spind, client, engine, tmp_path):
    out = tmp_path / "chat.safetensors"
    words = ("--max-time", "1s", "--steps", 7000)
    code, text, err = decode_until_it_ends(engine, record(spinctl, spind, client, out, *words))
    assert code == 0, err
    assert json.loads(text)["steps"] < 7000 and out.exists()


def test_interrupt_keeps_what_is_whole(spinctl, spind, client, engine, tmp_path):
    out = tmp_path / "chat.safetensors"
    process = record(spinctl, spind, client, out, "--steps", 7000)
    eventually(lambda: engine.steps(1) and recording_of(client).steps > 2)
    process.send_signal(signal.SIGINT)
    code, text, err = decode_until_it_ends(engine, process)
    assert code == 130, err
    assert out.stat().st_size == json.loads(text)["bytes"]


def test_folder_that_is_not_there_is_named(spinctl, spind, client, engine, tmp_path):
    process = record(spinctl, spind, client, tmp_path / "none" / "chat.safetensors")
    code, text, err = decode_until_it_ends(engine, process)
    assert (code, text) == (1, "") and f"{tmp_path}/none/chat.safetensors" in err and err.count("\n") == 1


def test_context_that_does_not_fit_is_refused_with_its_size(spinctl, spind, client, engine, tmp_path):
    process = record(spinctl, spind, client, tmp_path / "chat.safetensors", "--max-bytes", "10KiB")
    code, text, err = decode_until_it_ends(engine, process)
    assert (code, text) == (1, "") and "max_bytes" in err
    assert not list(tmp_path.iterdir())


def test_end_of_the_session_ends_it(spinctl, spind, client, engine, tmp_path):
    process = record(spinctl, spind, client, tmp_path / "chat.safetensors", "--steps", 7000)
    eventually(lambda: engine.steps(1) and recording_of(client).steps > 0)
    engine.kill()
    _, err = process.communicate(timeout=30)
    assert process.returncode == 1 and "the session has ended" in err


def test_engine_that_never_looks_is_said_not_to_answer(spinctl, spind, client, start_engine, tmp_path):
    engine = start_engine(spind, allow_recording="true", recorder="false")
    engine.ready()
    engine.open("chat", CONTEXT)
    process = record(spinctl, spind, client, tmp_path / "chat.safetensors")
    code, _, err = decode_until_it_ends(engine, process)
    assert code == 1 and "did not answer within 5s" in err


def test_engine_that_does_not_allow_it_is_not_asked(spinctl, spind, client, start_engine, tmp_path):
    engine = start_engine(spind)
    engine.ready()
    session = f"{client.sessions()[0].session_id:016x}"
    words = ("record", "--socket", spind.socket, "--session", session, "--out", tmp_path / "chat.safetensors")
    assert "allow_recording" in spinctl.refusal(*words, code=1)


def start_recording(client, session, **options):
    return client.StartRecording(recording_pb2.StartRecordingRequest(
        session_id=session.id, options=recording_pb2.RecordingOptions(**{**OPTIONS, **options})))


def test_order_goes_down_the_stream_and_reports_come_up(client):
    session = RawSession(client, allow_recording=True)
    recording = start_recording(client, session).recording_id
    order = session.attachment.next().recording
    assert (order.recording_id, order.options.path, order.stop) == (recording, OPTIONS["path"], False)
    with refused(CODE.ALREADY_EXISTS, "RECORDING_BUSY", "session_id"):
        start_recording(client, session)

    def report(**fields):
        status = recording_pb2.RecordingStatus(**{**dict(recording_id=recording), **fields})
        session.attachment.send(report=dict(recording=status))

    report(state="RECORDING_STATE_RUNNING", steps=3, bytes=99)
    eventually(lambda: session.info().recording.steps == 3)
    report(recording_id=recording ^ 1, state="RECORDING_STATE_FAILED", steps=4)
    client.StopRecording(recording_pb2.StopRecordingRequest(session_id=session.id, recording_id=recording))
    assert session.attachment.next().recording.stop
    assert session.info().recording.state == recording_pb2.RECORDING_STATE_RUNNING
    report(state="RECORDING_STATE_COMPLETE", steps=5)
    eventually(lambda: session.info().recording.state == recording_pb2.RECORDING_STATE_COMPLETE)
    assert start_recording(client, session).recording_id != recording


@pytest.mark.parametrize("field, value", [
    ("path", "relative.safetensors"), ("path", "/etc/passwd"), ("path", "/" + 1024 * "a" + ".safetensors"),
    ("max_steps", 1), ("max_steps", 65537), ("max_bytes", 0), ("max_bytes", (1 << 40) + 1),
    ("sample_every", 1000001), ("max_requests", 65), ("max_time", dict(seconds=0)), ("max_time", dict(seconds=3601)), ("max_time", dict(seconds=-5))])
def test_options_out_of_range_are_refused_by_name(client, field, value):
    session = RawSession(client, allow_recording=True)
    with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", f"options.{field}"):
        start_recording(client, session, **{field: value})


def test_recording_of_another_id_cannot_be_stopped(client):
    session = RawSession(client, allow_recording=True)
    start_recording(client, session)
    with refused(CODE.NOT_FOUND, "UNKNOWN_RECORDING", "recording_id"):
        client.StopRecording(recording_pb2.StopRecordingRequest(session_id=session.id, recording_id=1))
