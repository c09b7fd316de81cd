# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""The raw contract: steps of the sidecar executor, each row with a fate of its own."""

import numpy as np
import pytest
from raw_client import RawSession, step_row
from refusal import CODE, assert_item_refused, refused
from spin.v1 import policy_pb2, request_pb2, session_pb2, stats_pb2, step_pb2

POSITION = 999  # 1000 slots, 16 blocks


@pytest.fixture
def warm(session):
    """A session with a request that has seen one step; the next is at POSITION + 1, its list in buffer 1."""
    session.handle = session.open_request(b"warm", slots=4096)
    session.slab.staging[:] = np.linspace(-1, 1, session.slab.staging.shape[-1], dtype=np.float32)
    (result,) = session.step(step_row(session.handle, POSITION))
    assert result.observed and not result.HasField("error")
    return session


def assert_others_go_on(session, rows, reason, field, observed=False):
    """The middle one of three rows is refused; its neighbours are served."""
    others = [session.open_request(key, slots=4096) for key in (b"before", b"after")]
    results = session.step(step_row(others[0], 10), *rows, step_row(others[1], 20))
    assert_item_refused(results[1], reason, field)
    assert results[1].observed == observed
    for result, other, position in ((results[0], others[0], 11), (results[2], others[1], 21)):
        assert result.observed and not result.HasField("error")
        assert session.slab.kept(1, other, 0, position) is not None


def test_unknown_request_is_refused(warm):
    assert_others_go_on(warm, [step_row(request_pb2.RequestHandle(index=5, generation=1), 0)], "UNKNOWN_REQUEST",
                        "rows[1].handle")


def test_index_beyond_the_table_is_refused(warm):
    handle = request_pb2.RequestHandle(index=2**32 - 1, generation=2**32 - 1)
    assert_others_go_on(warm, [step_row(handle, 0)], "UNKNOWN_REQUEST", "rows[1].handle")


def test_closed_request_is_refused(warm):
    warm.close_requests(warm.handle)
    assert_others_go_on(warm, [step_row(warm.handle, POSITION + 1)], "UNKNOWN_REQUEST", "rows[1].handle")


def test_request_named_twice_is_refused_the_second_time(warm):
    row = step_row(warm.handle, POSITION + 1)
    first, second = warm.step(row, row)
    assert first.observed and not first.HasField("error")
    assert_item_refused(second, "INVALID_FIELD", "rows[1].handle")


def test_position_that_goes_backward_is_refused_with_resync_too(warm):
    for resync in (False, True):
        (result,) = warm.step(step_row(warm.handle, POSITION, resync=resync))
        assert_item_refused(result, "POSITION", "rows[0].position")
    assert_others_go_on(warm, [step_row(warm.handle, 3)], "POSITION", "rows[1].position")


def test_jump_is_refused_without_resync_and_taken_with_it(warm):
    assert_others_go_on(warm, [step_row(warm.handle, POSITION + 2)], "POSITION", "rows[1].position")
    (result,) = warm.step(step_row(warm.handle, POSITION + 50, resync=True))
    assert result.observed and not result.HasField("error")
    assert warm.slab.kept(1, warm.handle, 0, POSITION + 51) is not None


def test_jump_of_a_row_that_was_not_scored_in_full_is_refused_even_with_resync(warm):
    assert_others_go_on(warm, [step_row(warm.handle, POSITION + 2, "KEPT", buffer=1, resync=True)], "POSITION",
                        "rows[1].position")


def test_list_that_was_not_made_for_the_step_is_stale(warm):
    assert_others_go_on(warm, [step_row(warm.handle, POSITION + 1, "KEPT", buffer=0)], "STALE_LIST", "rows[1].buffer")
    (result,) = warm.step(step_row(warm.handle, POSITION + 1, "KEPT", buffer=1))
    assert result.observed and not result.HasField("error")


def test_kept_scores_of_a_request_without_history_are_stale(warm):
    cold = warm.open_request(b"cold")
    assert_others_go_on(warm, [step_row(cold, 100, "KEPT")], "STALE_LIST", "rows[1].coverage")


def test_context_beyond_the_state_is_refused_and_served_after_an_extension(warm):
    handle = warm.open_request(b"long", slots=4096)
    assert_others_go_on(warm, [step_row(handle, 4096)], "CAPACITY", "rows[1].position")
    warm.extend((handle, 4097))
    (result,) = warm.step(step_row(handle, 4096))
    assert result.observed and not result.HasField("error")


def test_scores_are_observed_even_where_the_next_list_does_not_fit(warm):
    handle = warm.open_request(b"full", slots=4096)
    assert_others_go_on(warm, [step_row(handle, 4095)], "CAPACITY", "rows[1].next_position", observed=True)


@pytest.mark.parametrize("field, value", [
    ("buffer", 2), ("buffer", 2**32 - 1), ("coverage", 3), ("next_n", 0), ("next_n", 2), ("next_n", 2**32 - 1),
    ("accepted", 0), ("accepted", 2), ("position", 2**32 - 15), ("position", 2**64 - 1),
    ("next_position", 2**32 - 15), ("next_position", 2**63), ("next_next_n", 0), ("next_next_n", 2)])
def test_field_out_of_range_is_refused_by_its_name(warm, field, value):
    row = step_row(warm.handle, POSITION + 1)
    setattr(row, field, value)
    assert_others_go_on(warm, [row], "INVALID_FIELD", f"rows[1].{field}")


def test_next_position_that_leaves_a_gap_is_refused_and_the_scores_are_kept(warm):
    assert_others_go_on(warm, [step_row(warm.handle, POSITION + 1, next_position=POSITION + 3)], "POSITION",
                        "rows[1].next_position", observed=True)


def test_refused_rows_change_nothing(warm):
    before = [warm.slab.state(warm.handle, layer) for layer in range(2)]
    counters = warm.slab.counters.copy()
    warm.step(step_row(warm.handle, POSITION + 7))
    warm.step(step_row(warm.handle, POSITION))
    warm.step(step_row(warm.handle, POSITION + 1, "KEPT", buffer=0))
    assert np.array_equal(counters, warm.slab.counters)
    for layer, (v, d) in enumerate(before):
        now_v, now_d = warm.slab.state(warm.handle, layer)
        assert np.array_equal(v, now_v) and np.array_equal(d, now_d)


def test_row_that_is_only_to_be_predicted_needs_no_scores(session):
    handle = session.open_request(b"a", slots=4096)
    (result,) = session.step(step_row(handle, 0, "UNSPECIFIED", next_position=POSITION))
    assert not result.HasField("error") and not result.observed
    assert session.slab.kept(1, handle, 0, POSITION) is not None


@pytest.mark.parametrize("count", [0, 9, 513])
def test_step_has_1_to_max_requests_rows(warm, count):
    with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", "rows"):
        warm.step(*[step_row(warm.handle, POSITION + 1)] * count)
    with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", "rows"):
        warm.client.CommitDrafts(step_pb2.CommitDraftsRequest(
            session_id=warm.id, rows=[step_pb2.CommitRow(handle=warm.handle)] * count))


def test_done_timeline_is_in_the_slab_when_the_answer_comes(warm):
    warm.step(step_row(warm.handle, POSITION + 1), done=7)
    assert warm.slab.spin_done == 7


def test_step_waits_for_the_engines_word(warm):
    call = warm.client.stub.Step.future(warm.step_request(step_row(warm.handle, POSITION + 1), wait=3, done=3))
    assert warm.slab.spin_done == 0
    warm.slab.engine_done(3)
    assert not call.result(timeout=10).results[0].HasField("error")
    assert warm.slab.spin_done == 3


def test_step_whose_word_never_comes_did_not_happen(start_spind, connect):
    session = RawSession(connect(start_spind("--wait-limit-ms", "20")))
    handle = session.open_request(b"a")
    with refused(CODE.DEADLINE_EXCEEDED, "INTERNAL"):
        session.step(step_row(handle, 100), wait=1, done=1)
    assert session.slab.spin_done == 0
    (result,) = session.step(step_row(handle, 100))  # not a position that went backward
    assert result.observed


class TestDrafts:
    """max_next_n = 4: the verdict on drafts may come later."""

    @pytest.fixture
    def drafts(self, client):
        session = RawSession(client, max_next_n=4)
        session.handle = session.open_request(b"a", slots=4096)
        session.slab.staging[:] = 0.5
        return session

    @staticmethod
    def commit(session, position, accepted, next_next_n=4, next_position=None):
        next_position = position + accepted if next_position is None else next_position
        return session.client.CommitDrafts(step_pb2.CommitDraftsRequest(session_id=session.id, rows=[
            step_pb2.CommitRow(handle=session.handle, position=position, accepted=accepted,
                               next_position=next_position, next_next_n=next_next_n)])).results[0]

    def test_wait_for_the_verdict_before_anything_enters_the_state(self, drafts):
        (result,) = drafts.step(step_row(drafts.handle, POSITION, next_n=4, accepted=None))
        assert result.observed and not result.HasField("error")
        assert np.all(np.isneginf(drafts.slab.state(drafts.handle, 0)[0]))
        assert drafts.slab.kept(1, drafts.handle, 0, POSITION + 4, 4) is None
        committed = self.commit(drafts, POSITION, 2)
        assert committed.observed and not committed.HasField("error")
        v, _ = drafts.slab.state(drafts.handle, 0)
        assert np.isfinite(v[: POSITION + 2]).all() and np.isneginf(v[POSITION + 2:]).all()
        assert drafts.slab.kept(1, drafts.handle, 0, POSITION + 2, 4) is not None

    def test_verdict_for_a_position_where_nothing_waits_is_refused(self, drafts):
        assert_item_refused(self.commit(drafts, POSITION, 1), "POSITION", "rows[0].position")
        drafts.step(step_row(drafts.handle, POSITION, next_n=4, accepted=None))
        assert_item_refused(self.commit(drafts, POSITION + 1, 1), "POSITION", "rows[0].position")
        self.commit(drafts, POSITION, 1)
        assert_item_refused(self.commit(drafts, POSITION, 1), "POSITION", "rows[0].position")

    @pytest.mark.parametrize("field, value", [("accepted", 0), ("accepted", 5), ("next_next_n", 0), ("next_next_n", 5)])
    def test_verdict_out_of_range_is_refused_by_its_name(self, drafts, field, value):
        drafts.step(step_row(drafts.handle, POSITION, next_n=4, accepted=None))
        fields = dict(accepted=2, next_position=POSITION + 2)
        assert_item_refused(self.commit(drafts, POSITION, **{**fields, field: value}), "INVALID_FIELD",
                            f"rows[0].{field}")
        assert self.commit(drafts, POSITION, 2).observed  # it still waits

    def test_single_row_needs_no_verdict(self, drafts):
        (result,) = drafts.step(step_row(drafts.handle, POSITION, accepted=None, next_position=POSITION + 1))
        assert result.observed
        assert drafts.slab.kept(1, drafts.handle, 0, POSITION + 1) is not None

    def test_verdict_for_an_unknown_request_is_refused(self, drafts):
        drafts.close_requests(drafts.handle)
        assert_item_refused(self.commit(drafts, POSITION, 1), "UNKNOWN_REQUEST", "rows[0].handle")


class TestPolicy:
    def update(self, session, session_id=None, **policy):
        session_id = session.id if session_id is None else session_id
        return session.client.UpdatePolicy(session_pb2.UpdatePolicyRequest(
            session_id=session_id, policy=policy_pb2.Policy(**policy)))

    def count(self, session, position):
        return len(session.slab.kept((position - POSITION) % 2, session.handle, 0, position))

    def test_takes_effect_with_the_next_prediction(self, warm):
        changed = self.update(warm, sparsity=0.75, exploration=0.0)
        assert (changed.policy_epoch, changed.sessions_changed, changed.policy.sparsity) == (2, 1, 0.75)
        response = warm.client.Step(warm.step_request(step_row(warm.handle, POSITION + 1, "KEPT", buffer=1)))
        assert response.policy_epoch == 2
        assert self.count(warm, POSITION + 2) == 4
        assert warm.attachment.next().policy_epoch == 2

    def test_off_switch_keeps_all_blocks(self, warm):
        self.update(warm, enabled=False)
        warm.step(step_row(warm.handle, POSITION + 1, "KEPT", buffer=1))
        assert self.count(warm, POSITION + 2) == 16

    def test_sparsity_alone_drops_values_per_layer(self, warm):
        assert list(self.update(warm, layer_sparsity=[0.1, 0.9]).policy.layer_sparsity) == [0.1, 0.9]
        assert not self.update(warm, sparsity=0.5).policy.layer_sparsity

    def test_change_of_all_reaches_open_sessions_and_later_ones(self, warm):
        changed = self.update(warm, session_id=0, sparsity=0.125)
        assert changed.sessions_changed == 1
        assert warm.info().policy.sparsity == 0.125
        later = RawSession(warm.client)
        assert later.opened.policy.sparsity == 0.125

    def test_budgets_for_all_reach_the_sessions_that_they_fit_and_their_mean_the_others(self, warm):
        assert self.update(warm, session_id=0, layer_sparsity=[0.25, 0.75]).sessions_changed == 1
        assert list(warm.info().policy.layer_sparsity) == [0.25, 0.75]
        self.update(warm, session_id=0, layer_sparsity=[0.25, 0.5, 0.75])
        assert (list(warm.info().policy.layer_sparsity), warm.info().policy.sparsity) == ([], 0.5)
        assert "mean of budgets for 3 layers" in warm.info().policy_reason

    def test_what_does_not_go_together_across_calls_is_refused(self, warm):
        self.update(warm, min_sparsity=0.9)
        with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", "policy.min_sparsity"):
            self.update(warm, max_sparsity=0.1)
        with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", "policy.audit_every"):
            self.update(warm, session_id=0, audit_every=0, budget_mode="BUDGET_MODE_CALIBRATED")
        assert self.update(warm, enabled=False).policy.enabled is False

    def test_changes_come_down_the_stream_in_order(self, warm):
        for step in range(1, 20):
            self.update(warm, sparsity=step / 20)
        epochs = []
        while not epochs or epochs[-1] < 20:
            epochs.append(warm.attachment.next().policy_epoch)
        assert epochs == sorted(set(epochs))

    @pytest.mark.parametrize("policy, field", [
        (dict(sparsity=1.0), "sparsity"), (dict(sparsity=-0.1), "sparsity"), (dict(sparsity=float("nan")), "sparsity"),
        (dict(sparsity=float("inf")), "sparsity"), (dict(exploration=1.5), "exploration"),
        (dict(exploration=float("nan")), "exploration"), (dict(decay=1.0), "decay"), (dict(decay=-1e-9), "decay"),
        (dict(layer_sparsity=[0.1]), "layer_sparsity"), (dict(layer_sparsity=[0.1] * 3), "layer_sparsity"),
        (dict(layer_sparsity=[0.1, float("nan")]), "layer_sparsity[1]")])
    def test_bad_value_is_refused_whole(self, warm, policy, field):
        before = warm.info()
        with refused(CODE.INVALID_ARGUMENT, "INVALID_FIELD", f"policy.{field}"):
            self.update(warm, **{"audit_every": 5, **policy})
        assert warm.info() == before


class TestStatistics:
    @staticmethod
    def watch(client, session_id=0):
        request = stats_pb2.WatchStatsRequest(session_id=session_id)
        request.interval.FromMilliseconds(100)
        return client.stub.WatchStats(request, timeout=10)

    @staticmethod
    def first(watch, condition):
        """The first message for which the condition holds; the stream's deadline bounds the wait."""
        return next(message for message in watch if condition(message))

    def test_stream_until_they_are_cancelled(self, warm):
        watch = self.watch(warm.client, warm.id)
        assert next(watch).sessions[0].steps == 1
        warm.step(step_row(warm.handle, POSITION + 1, "KEPT", buffer=1))
        later = self.first(watch, lambda message: message.sessions[0].steps == 2)
        watch.cancel()
        layer = later.sessions[0].layers[1]
        assert (layer.full_blocks, layer.considered_blocks, layer.pinned_blocks) == (16, 16 + 16, 1)
        assert layer.predicted_blocks + layer.explored_blocks + layer.pinned_blocks < 16
        assert later.server.process_id > 0

    def test_of_all_sessions_follow_their_coming_and_going(self, session, client):
        def ids(message):
            return [stats.session_id for stats in message.sessions]

        watch = self.watch(client)
        assert ids(next(watch)) == [session.id]
        other = RawSession(client)
        self.first(watch, lambda message: ids(message) == [session.id, other.id])
        session.close()
        self.first(watch, lambda message: ids(message) == [other.id])
        watch.cancel()
