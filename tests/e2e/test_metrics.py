# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""/metrics: what exists from the start, what never goes down, and what is never in a label."""

import http.client
import math
import socket
import subprocess
import threading

import numpy as np
import pytest
from eventually import eventually
from metrics import Metrics
from raw_client import RawSession, step_row
from refusal import CODE, refused
from spin.v1 import request_pb2, service_pb2, session_pb2

FALLBACK_REASONS = {name.removeprefix("FALLBACK_REASON_").lower() for name in session_pb2.FallbackReason.keys()[1:]}
END_REASONS = {"closed", "detached", "connection_lost", "peer_exited", "shutdown"}
START_REASONS = {"config", "policy", "socket", "device", "slab"}
SOURCES = {"predicted", "explored", "pinned", "full"}
PER_LAYER = ("spin_blocks_considered_total", "spin_blocks_selected_total", "spin_audit_topk_slots_total",
             "spin_audit_missed_slots_total", "spin_audit_rows_total", "spin_scored_slots_total",
             "spin_scores_nonfinite_total", "spin_audit_blocks_total", "spin_audit_list_blocks_total",
             "spin_audit_miss_ratio_count")
PER_MODEL = ("spin_steps_total", "spin_budget_mode", "spin_budget_changes_total", "spin_target_miss_ratio",
             "spin_expected_miss_ratio", "spin_policy_epoch", "spin_target_sparsity_ratio", "spin_sessions", "spin_predict_duration_seconds_count",
             "spin_observe_duration_seconds_count")


def label_values(metrics: Metrics, name: str, label: str) -> set[str]:
    return {dict(series.labels)[label] for series in metrics.all(name)}


def assert_sound(before: Metrics, after: Metrics):
    """All values are finite, and what may only grow has not shrunk or vanished."""
    for series, value in after.samples.items():
        assert math.isfinite(value), series
    now = after.counters()
    for series, value in before.counters().items():
        assert now[series] >= value, series


def staged(session, handle, position, scores, buffer=0):
    """One fully scored step with these scores in every layer."""
    session.slab.staging[:, 0, 0, : len(scores)] = scores
    (result,) = session.step(step_row(handle, position, buffer=buffer))
    assert result.observed


class TestFromTheStart:
    def test_process_level_series_exist_at_zero(self, spind):
        metrics = spind.metrics()
        for name in ("spin_rows_total", "spin_sessions_opened_total", "spin_requests", "spin_state_bytes", "spin_quarantined_bytes",
                     "spin_connections", "spin_connections_rejected_total", "spin_step_queue_depth",
                     "spin_control_queue_depth"):
            assert metrics.value(name) == 0, name
        assert label_values(metrics, "spin_fallback_rows_total", "reason") == FALLBACK_REASONS
        assert label_values(metrics, "spin_session_ends_total", "reason") == END_REASONS
        assert label_values(metrics, "spin_start_failed", "reason") == START_REASONS
        assert metrics.value("spin_start_failed") == 0
        assert metrics.value("spin_slab_bytes") > 0
        assert metrics.value("spin_build_info") == 1

    def test_every_rpc_has_every_code_at_zero(self, spind):
        metrics = spind.metrics()
        methods = {method.name for method in service_pb2.DESCRIPTOR.services_by_name["SpinService"].methods}
        assert label_values(metrics, "spin_rpcs_total", "method") == methods
        codes = label_values(metrics, "spin_rpcs_total", "code")
        assert {"OK", "INVALID_ARGUMENT", "NOT_FOUND", "RESOURCE_EXHAUSTED", "UNAVAILABLE", "CANCELLED"} <= codes
        assert len(metrics.all("spin_rpcs_total")) == len(methods) * len(codes)
        assert metrics.value("spin_rpcs_total") == 0
        unary = methods - {"Attach", "WatchStats"}
        assert label_values(metrics, "spin_rpc_duration_seconds_count", "method") == unary

    def test_series_of_a_model_exist_at_zero_once_its_session_is_open(self, spind, client):
        RawSession(client, model_name="m", layers=3)
        metrics = spind.metrics()
        for name in PER_LAYER:
            assert label_values(metrics, name, "layer") == {"0", "1", "2"}, name
            assert metrics.value(name, model_name="m") == 0
        assert label_values(metrics, "spin_layer_target_sparsity_ratio", "layer") == {"0", "1", "2"}
        assert label_values(metrics, "spin_blocks_selected_total", "source") == SOURCES
        for name in PER_MODEL:
            assert metrics.all(name, model_name="m"), name

    def test_work_adds_no_series(self, spind, client):
        session = RawSession(client, max_next_n=2, policy=dict(audit_every=1))
        before = spind.metrics()
        handle = session.open_request(b"a", slots=4096)
        for position in range(100, 104):
            staged(session, handle, position, np.ones(position + 1, np.float32))
        session.step(step_row(request_pb2.RequestHandle(), 1))
        session.close()
        assert spind.metrics().series == before.series


class TestValues:
    # What a score may be that is no score; none of it may reach the state or a sum.
    SPOILT = [np.nan, np.inf, -np.inf, np.float32(3.4e38), np.float32(-3.4e38)]

    def test_scores_that_are_no_numbers_are_counted_and_poison_nothing(self, spind, client):
        session = RawSession(client, policy=dict(audit_every=1))
        handle = session.open_request(b"a", slots=4096)
        before = spind.metrics()
        for step, spoilt in enumerate(self.SPOILT[:3]):
            scores = np.full(1000 + step, -0.5, np.float32)  # negative, as most scores are
            scores[::10] = spoilt
            staged(session, handle, 999 + step, scores, buffer=step % 2)
            after = spind.metrics()
            assert_sound(before, after)
            before = after
        assert before.value("spin_scores_nonfinite_total", layer="0") == 100 + 101 + 101
        assert before.value("spin_scored_slots_total", layer="1") == 1000 + 1001 + 1002
        assert before.value("spin_audit_topk_slots_total", layer="0") == 2 * 64
        for layer in range(2):
            v, d = session.slab.state(handle, layer)
            assert not np.isnan(v).any() and not np.isposinf(v).any()
            assert not np.isnan(d).any() and not np.isposinf(d).any()

    def test_step_of_nothing_but_nan_is_only_counted(self, spind, session):
        handle = session.open_request(b"a", slots=4096)
        staged(session, handle, 99, np.full(100, np.nan, np.float32))
        assert spind.metric("spin_scores_nonfinite_total") == 200
        assert np.isneginf(session.slab.state(handle, 0)[0]).all()
        assert session.slab.kept(1, handle, 0, 100) is not None

    @pytest.mark.parametrize("executor", ["inline", "sidecar"])
    def test_library_counts_them_too(self, spind, start_engine, executor):
        engine = start_engine(spind, executor=executor)
        engine.ready()
        engine.open("a", 1000)
        before = spind.metrics()
        for kind in ("nan", "inf", "huge", "none"):
            engine.do("poison", kind)
            assert engine.steps(3).reason_set <= {"none", "cold"}
            after = spind.metrics()
            assert_sound(before, after)
            before = after
        assert before.value("spin_scores_nonfinite_total") > 0

    def test_report_that_is_absurd_poisons_nothing(self, spind, session):
        before = spind.metrics()
        for seconds in (float("nan"), float("inf"), float("-inf"), -1.0, 1.7e308, 1.7e308):
            other = RawSession(session.client)
            other.attachment.send(report=session_pb2.ClientReport(
                predict_time=session_pb2.TimeHistogram(buckets=[2**64 - 1] * 15, sum_seconds=seconds),
                observe_time=session_pb2.TimeHistogram(buckets=[2**63] * 99, sum_seconds=seconds),
                steps=2**64 - 1, unobserved_full_blocks=2**64 - 1,
                fallback_rows=[dict(reason="FALLBACK_REASON_COLD", rows=2**64 - 1)]))
            other.attachment.send(closing=True)
            other.attachment.end()
            after = spind.metrics()
            assert_sound(before, after)
            before = after

    def test_counters_that_a_client_spoils_in_the_slab_never_go_down(self, spind, session):
        handle = session.open_request(b"a", slots=4096)
        staged(session, handle, 99, np.ones(100, np.float32))
        before = spind.metrics()
        for value in (2**64 - 1, 0, 2**63, 1):
            for other in (session, RawSession(session.client)):
                for field in session.slab.counters.dtype.names:
                    other.slab.counters[field] = value
                for field in session.slab.audits.dtype.names:
                    other.slab.audits[field] = value
            after = spind.metrics()
            assert_sound(before, after)
            before = after

    def test_report_counts_once_however_often_it_comes(self, spind, session):
        report = session_pb2.ClientReport(steps=7, rows=9, fallback_rows=[dict(reason="FALLBACK_REASON_STALE", rows=3)])
        for _ in range(3):
            session.attachment.send(report=report)
        session.attachment.send(report=session_pb2.ClientReport(steps=5))  # older
        session.attachment.send(closing=True)
        session.attachment.end()
        metrics = spind.metrics()
        assert metrics.value("spin_steps_total") == 7
        assert metrics.value("spin_fallback_rows_total", reason="stale") == 3
        assert metrics.value("spin_rows_total") == 9

    def test_rpcs_are_counted_by_method_and_code(self, spind, client):
        client.sessions()
        with refused(CODE.NOT_FOUND, "UNKNOWN_SESSION", "session_id"):
            client.GetSession(session_pb2.GetSessionRequest(session_id=1))
        metrics = spind.metrics()
        assert metrics.value("spin_rpcs_total", method="ListSessions", code="OK") == 1
        assert metrics.value("spin_rpcs_total", method="GetSession", code="NOT_FOUND") == 1
        assert metrics.value("spin_rpcs_total") == 2
        assert metrics.value("spin_rpc_duration_seconds_count", method="GetSession") == 1

    def test_gauges_follow_what_is_open(self, spind, client):
        session = RawSession(client, policy=dict(sparsity=0.3))
        session.open_requests(b"a", b"b")
        metrics = spind.metrics()
        assert metrics.value("spin_sessions") == 1
        assert metrics.value("spin_requests") == 2
        assert metrics.value("spin_state_bytes") == session.info().state_bytes
        assert metrics.value("spin_target_sparsity_ratio") == 0.3
        assert metrics.value("spin_connections") == 1
        session.close()
        metrics = spind.metrics()
        assert metrics.value("spin_sessions") == metrics.value("spin_requests") == 0


class TestManyRequests:
    KEY = b"secret-request-key-%d"

    def test_hundred_thousand_requests_add_no_series_and_appear_nowhere(self, start_spind, connect):
        spind = start_spind(slab_bytes="64MiB")
        session = RawSession(connect(spind), layers=1, max_requests=512, max_slots=64, topk=1, executor="INLINE")
        before = spind.metrics()
        for first in range(0, 100_000, 500):
            results = session.open_requests(*[dict(key=self.KEY % i, slots=0) for i in range(first, first + 500)])
            assert session.close_requests(*[result.handle for result in results]) == 500
        after = spind.metrics()
        assert after.series == before.series
        assert "secret" not in after.text
        assert "secret" not in spind.log
        assert after.value("spin_state_bytes") == before.value("spin_state_bytes")

    def test_page_of_many_models_arrives_whole_for_a_slow_reader(self, spind, client):
        for i in range(32):
            RawSession(client, model_name=f"model-{i}", layers=30, max_requests=1, max_slots=64, topk=1).close()
        host, port = spind.admin.split(":")
        with socket.create_connection((host, int(port)), timeout=10) as reader:
            reader.sendall(b"GET /metrics HTTP/1.1\r\nHost: spin\r\n\r\n")
            parts = []
            while part := reader.recv(1000):
                parts.append(part)
        head, _, body = b"".join(parts).partition(b"\r\n\r\n")
        length = next(line for line in head.split(b"\r\n") if line.startswith(b"Content-Length:"))
        assert len(body) == int(length.split(b":")[1]) > 500_000

    def test_many_model_names_end_up_under_other(self, spind, client):
        for i in range(60):
            RawSession(client, model_name=f"model-{i}", layers=1, max_requests=1, max_slots=64, topk=1).close()
        models = label_values(spind.metrics(), "spin_steps_total", "model_name")
        assert "other" in models and "model-0" in models
        assert len(models) == 33
        assert spind.metric("spin_sessions_opened_total") == 60


class TestSharedLabels:
    def test_series_lives_on_when_one_of_two_sessions_closes(self, spind, connect):
        first = RawSession(connect(spind), model_name="shared", layers=2)
        second = RawSession(connect(spind), model_name="shared", layers=3)
        for session in (first, second):
            staged(session, session.open_request(b"a", slots=4096), 99, np.ones(100, np.float32))
        both = spind.metrics()
        assert both.value("spin_scored_slots_total", model_name="shared", layer="0") == 200
        assert both.value("spin_scored_slots_total", model_name="shared", layer="2") == 100
        first.close()
        one = spind.metrics()
        assert_sound(both, one)
        assert one.series == both.series
        assert one.value("spin_sessions", model_name="shared") == 1
        assert one.value("spin_scored_slots_total", model_name="shared", layer="0") == 200
        staged(second, second.open_request(b"b", slots=4096), 99, np.ones(100, np.float32))
        second.close()
        none = spind.metrics()
        assert_sound(one, none)
        assert none.value("spin_scored_slots_total", model_name="shared", layer="0") == 300
        assert none.value("spin_sessions", model_name="shared") == 0

    def test_client_that_dies_takes_no_counts_along(self, spind, start_engine):
        engine = start_engine(spind, model_name="mortal")
        engine.ready()
        engine.open("a", 1000)
        engine.steps(5)
        before = spind.metrics()
        assert before.value("spin_scored_slots_total", model_name="mortal") > 0
        engine.kill()
        eventually(lambda: spind.metric("spin_sessions", model_name="mortal") == 0, within=1)
        assert_sound(before, spind.metrics())


class TestScrapers:
    def test_four_at_once_see_sound_values_while_sessions_come_and_go(self, spind, connect):
        stop, problems, scrapes = threading.Event(), [], [0] * 4

        def scrape(number):
            before = spind.metrics()
            while not stop.is_set():
                after = spind.metrics()
                try:
                    assert_sound(before, after)
                except (AssertionError, KeyError) as problem:
                    problems.append(problem)
                before = after
                scrapes[number] += 1

        threads = [threading.Thread(target=scrape, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        stayer = RawSession(connect(spind), model_name="m")
        handle, position = stayer.open_request(b"a", slots=8192), 100
        while min(scrapes) < 20:
            session = RawSession(connect(spind), model_name="m")
            staged(session, session.open_request(b"a", slots=4096), 99, np.ones(100, np.float32))
            (session.close, session.attachment.cancel, session.client.close)[position % 3]()
            staged(stayer, handle, position, np.ones(position + 1, np.float32))
            position += 1
        stop.set()
        for thread in threads:
            thread.join()
        assert not problems

    def test_promtool_finds_nothing_to_complain_about(self, spind, session, promtool):
        staged(session, session.open_request(b"a", slots=4096), 99, np.ones(100, np.float32))
        checked = subprocess.run([promtool, "check", "metrics"], input=spind.metrics().text, capture_output=True,
                                 text=True)
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")

    def test_page_says_its_content_type_and_takes_only_reading_methods(self, spind):
        host, port = spind.admin.split(":")
        for method, status in (("GET", 200), ("HEAD", 200), ("POST", 405), ("DELETE", 405)):
            connection = http.client.HTTPConnection(host, int(port), timeout=10)
            connection.request(method, "/metrics")
            reply = connection.getresponse()
            assert reply.status == status
            body = reply.read()
            assert (len(body) > 0) == (method != "HEAD")
            if status == 200:
                assert reply.headers["Content-Type"].startswith("text/plain; version=0.0.4")
            connection.close()
