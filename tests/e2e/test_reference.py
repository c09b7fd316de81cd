# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""Block lists and state in the slab against a reference written down independently (reference.py)."""

import numpy as np
import pytest
import reference
from raw_client import RawSession, step_row
from slab import bf16_to_f32, f32_to_bf16
from spin.v1 import session_pb2, step_pb2

SLOTS = 1500  # longest context of these tests


class RawEngine:
    """An engine without the library: stages scores, steps, reads its lists from the slab; the reference beside it."""

    def __init__(self, client, setting: reference.Setting, next_n=1, max_slots=8192):
        self.setting, self.next_n = setting, next_n
        self.random = np.random.default_rng(1)
        self.session = RawSession(
            client, layers=setting.layers, block_slots=setting.block, topk=setting.topk, max_next_n=next_n,
            tokens_per_slot=setting.tokens_per_slot, max_slots=max_slots,
            state_dtype=session_pb2.DTYPE_BF16 if setting.bf16 else session_pb2.DTYPE_F32,
            policy=dict(sparsity=setting.sparsity, exploration=setting.exploration, decay=setting.decay,
                        seed=setting.seed, audit_every=setting.audit_every,
                        pin_first_block=setting.pin_first_block, layer_sparsity=setting.layer_sparsity))
        self.requests = {}

    def open(self, key: bytes, position: int, slots=SLOTS, parent: bytes | None = None):
        fork = {} if parent is None else dict(fork=dict(parent=self.requests[parent]["handle"]))
        request = reference.Request(self.setting, key, slots) if parent is None else \
            self.requests[parent]["model"].fork(key)
        self.requests[key] = dict(handle=self.session.open_request(key, slots, **fork), model=request,
                                  position=position, buffer=0, listed=False)

    def scores(self, position: int) -> np.ndarray:
        """Of every slot that the query sees: noise around what changes little, now and then nothing usable."""
        slots = np.arange((position + 1) // self.setting.tokens_per_slot)
        scores = (np.sin(slots * 0.37) + self.random.normal(0, 0.3, len(slots)) - 1).astype(np.float32)
        spoilt = self.random.random(len(slots)) < 0.01
        return np.where(spoilt, np.float32(self.random.choice([np.nan, np.inf, -np.inf, 3e38])), scores)

    def _row(self, row: int, request: dict):
        """Stages one row; the scores that are to be observed are remembered until the verdict."""
        position, model, handle = request["position"], request["model"], request["handle"]
        audit = request["listed"] and model.audit_due(position)
        sparse = request["listed"] and not audit
        request["staged"] = []
        for draft in range(self.next_n):
            full = self.scores(position + draft)
            for layer in range(self.setting.layers):
                kept = np.arange(-(-model.visible(position + self.next_n - 1) // self.setting.block))
                if request["listed"]:
                    kept_now = self.session.slab.kept(request["buffer"], handle, layer, position, self.next_n)
                    np.testing.assert_array_equal(kept_now, model.kept(layer, position, self.next_n))
                    kept = kept_now if sparse else kept
                slots = model.slots_of(kept, position + draft)
                scores = full[slots] + np.float32(layer)
                self.session.slab.stage(layer, row, draft, scores)
                request["staged"].append((draft, layer, slots, scores))
        return step_row(handle, position, "KEPT" if sparse else "ALL", self.next_n, buffer=request["buffer"],
                        accepted=None if self.next_n > 1 else 1, next_position=position + 1, next_next_n=self.next_n)

    def _observe(self, request: dict, accepted: int):
        for draft, layer, slots, scores in request["staged"]:
            if draft < accepted:
                request["model"].observe(layer, request["position"] + draft, slots, scores)
        request["position"] += accepted
        request["buffer"], request["listed"] = 1 - request["buffer"], True

    def step(self):
        requests = list(self.requests.values())
        self.random.shuffle(requests)  # rows are in another order every time
        results = self.session.step(*[self._row(row, request) for row, request in enumerate(requests)])
        accepted = [1 + int(self.random.integers(self.next_n)) for _ in requests]
        if self.next_n > 1:
            results = self._commit(requests, accepted)
        for request, result, count in zip(requests, results, accepted):
            assert result.observed and not result.HasField("error"), result
            self._observe(request, count)
            assert result.audit == request["model"].audit_due(request["position"])

    def _commit(self, requests, accepted):
        rows = [step_pb2.CommitRow(handle=request["handle"], position=request["position"], accepted=count,
                                   next_position=request["position"] + count, next_next_n=self.next_n)
                for request, count in zip(requests, accepted)]
        return self.session.client.CommitDrafts(
            step_pb2.CommitDraftsRequest(session_id=self.session.id, rows=rows)).results

    def check_state(self):
        for request in self.requests.values():
            for layer in range(self.setting.layers):
                v, d = self.session.slab.state(request["handle"], layer)
                model = request["model"]
                np.testing.assert_array_equal(v[: model.v.shape[1]], model.v[layer])
                np.testing.assert_array_equal(d[: model.d.shape[1]], model.d[layer])


SETTINGS = {
    "plain": dict(),
    "explored": dict(exploration=0.3, seed=12345678901234567890),
    "audited": dict(exploration=0.05, audit_every=3),
    "small blocks": dict(block=16, topk=200, sparsity=0.8, exploration=0.1),
    "large blocks and sink": dict(block=128, sparsity=0.7, pin_first_block=True),
    "four tokens a slot": dict(tokens_per_slot=4, exploration=0.1),
    "per layer": dict(layer_sparsity=(0.2, 0.9), decay=0.9),
    "no memory": dict(decay=0.0),
    "all kept": dict(sparsity=0.0),
    "bf16 state": dict(bf16=True, exploration=0.1),
}


@pytest.mark.parametrize("next_n", [1, 3])
@pytest.mark.parametrize("name", SETTINGS)
def test_lists_and_state_equal_the_reference(client, name, next_n):
    engine = RawEngine(client, reference.Setting(layers=2, **{"block": 64, "topk": 64, **SETTINGS[name]}), next_n)
    per_slot = engine.setting.tokens_per_slot
    engine.open(b"long", 1100 * per_slot)
    engine.open(b"short", 63)
    engine.open("grows from nothing: \u03c1".encode(), 0)
    for step in range(12):
        if step == 5:
            engine.open(b"branch", engine.requests[b"long"]["position"], parent=b"long")
        engine.step()
    engine.check_state()


def test_draws_equal_the_reference_where_keys_tie(client):
    # 512 blocks share 2048 keys, so that the last one drawn often ties with one that is not.
    setting = reference.Setting(layers=16, block=16, topk=1, sparsity=0.5, exploration=1.0, seed=3)
    session = RawSession(client, layers=16, block_slots=16, topk=1, policy=dict(
        sparsity=setting.sparsity, exploration=setting.exploration, seed=setting.seed))
    for number in range(8):
        key = b"request %d" % number
        handle = session.open_request(key, slots=8192)
        position = 8191 - number
        (result,) = session.step(step_row(handle, 0, "UNSPECIFIED", next_position=position))
        assert not result.HasField("error")
        model = reference.Request(setting, key, 8192)
        for layer in range(16):
            np.testing.assert_array_equal(session.slab.kept(1, handle, layer, position), model.kept(layer, position))


def test_state_continues_over_page_borders(client):
    engine = RawEngine(client, reference.Setting(layers=1, block=64, topk=64, exploration=0.1))
    engine.open(b"a", 4090, slots=4104)
    for _ in range(12):
        engine.step()
    engine.check_state()


def test_staged_bf16_scores_are_taken_as_rounded(client):
    session = RawSession(client, layers=1, score_dtype=session_pb2.DTYPE_BF16)
    handle = session.open_request(b"a")
    scores = np.random.default_rng(1).normal(size=100).astype(np.float32)
    session.slab.stage(0, 0, 0, scores)
    session.step(step_row(handle, 99))
    np.testing.assert_array_equal(session.slab.state(handle, 0)[0][:100], bf16_to_f32(f32_to_bf16(scores)))


def test_audit_counts_the_true_top_k_that_the_prediction_missed(client):
    engine = RawEngine(client, reference.Setting(layers=1, block=16, topk=100, sparsity=0.7, audit_every=1))
    engine.open(b"a", 1000)
    missed = 0
    for _ in range(5):
        request = engine.requests[b"a"]
        kept = set(request["model"].kept(0, request["position"])) if request["listed"] else None
        engine.step()
        (_, _, _, scores), = request["staged"]
        ranked = np.argsort(-np.where(np.isnan(scores), -np.inf, scores), kind="stable")[:100]
        if kept is not None:
            missed += sum(slot // 16 not in kept for slot in ranked)
    counters = engine.session.slab.counters[0]
    assert counters["audited_rows"] == 4  # the first step had no prediction
    assert counters["audit_topk_slots"] == 400
    assert counters["audit_missed_slots"] == missed > 0


def test_zero_init_ranks_unseen_slots_at_zero(client):
    session = RawSession(client, zero_init=True)
    handle = session.open_request(b"a")
    v, d = session.slab.state(handle, 0)
    assert not v.any() and not d.any()
    session.slab.stage(0, 0, 0, np.full(10, -1, np.float32))
    session.step(step_row(handle, 9))
    np.testing.assert_array_equal(session.slab.state(handle, 0)[0][:11], [-0.5] * 10 + [0])
