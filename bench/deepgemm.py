#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""How much of the scoring time that Spin saves is left after Spin's own work, with the real scoring kernel of engines:
DeepGEMM's paged MQA logits, on V4-Flash geometry (21 layers, 64 heads x 128, fp8 keys in pages of 64 slots).

    retained = 1 - own / (scan_all - scan_kept)

for a whole decode step, all layers and requests: own is observe, and select with compact in one launch; the scans are of
all blocks and of the kept ones, through the compacted table. `obs+sel` is observe and select alone, `compact` what is
left of own. Medians of CUDA graphs; requests decode on, and everything is rotated past the L2 cache as in
gpu_step_bench, `cold` flushes it besides. `floor` is that of gpu_step_bench, for observe and select, over the copy
bandwidth of the same run (bf16 state, fp32 scores). With --next-n 2 each request has a draft, which is accepted.

Before it times anything it checks, with next_n 1 and 2: kept scores and top-K are those of the full scan bit by bit,
lists that keep all blocks change nothing, and one launch makes the lists and tables of two. Needs a GPU, PyTorch,
DeepGEMM (`deep_gemm`, also as bundled in vLLM) and libspin_kernels.so (SPIN_KERNELS_LIBRARY); where one is missing it
says so and ends well: nothing was measured.

Exit codes: 0 measured, or skipped; 1 a check failed.
"""

import argparse
import json
import pathlib
import sys

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent),
                str(pathlib.Path(__file__).resolve().parents[1] / "client" / "c" / "python")]

STEPS = 12                # of each session in a replay: of several slots, so that the query moves as often as it does
L2_REACH = 320 << 20      # bytes of state and scores that steps go through, over several sessions
WEIGHT_BYTES = 32 << 20   # that the emulated attention reads, in each layer
SCORE_BUFFERS = 2         # of the engine, used in turn from layer to layer
SIZES = ((131072, 1), (131072, 8), (131072, 32), (524288, 1), (524288, 8))
SPARSITIES = (0.3, 0.4, 0.5)
LAYERED = ((131072, 1), (131072, 8))  # sizes at which the per-layer form is measured
TARGETS = {(131072, 8, 0.4): 0.79, (131072, 8, 0.5): 0.84, (131072, 32, 0.4): 0.82, (524288, 8, 0.4): 0.82,
              (131072, 1, 0.4): 0.50}


class Skipped(Exception):
    """What is missing."""


class DeepGemm:
    """The scoring kernel as vLLM calls it."""

    def __init__(self):
        try:
            import deep_gemm
        except Exception as error:  # what it can't find of its tools at import is no ImportError
            raise Skipped(f"DeepGEMM is not installed ({error})") from error
        self._module = deep_gemm
        if hasattr(deep_gemm, "set_pdl"):
            deep_gemm.set_pdl(True)  # as vLLM does
        self._sms = torch.cuda.get_device_properties(0).multi_processor_count

    def plan(self, lengths):
        """How the work is laid over the GPU; lengths int32 [requests, next_n]."""
        return self._module.get_paged_mqa_logits_metadata(lengths, engine_step.BLOCK, self._sms)

    def score(self, queries, keys, weights, lengths, table, plan, slots):
        if hasattr(self._module, "fp8_fp4_paged_mqa_logits"):
            return self._module.fp8_fp4_paged_mqa_logits((queries, None), keys, weights, lengths, table, plan, slots,
                                                         clean_logits=False)
        return self._module.fp8_paged_mqa_logits(queries, keys, weights, lengths, table, plan, slots,
                                                 clean_logits=False)


def same_bits(a, b) -> bool:
    return torch.equal(a.contiguous().view(torch.int32), b.contiguous().view(torch.int32))


def check_kept(session) -> dict:
    """Kept scores and top-K against the full scan. Returns what was compared."""
    engine, shape, kept = session.engine, session.shape, session.kept
    shape_of = (shape.requests, shape.next_n)
    compared, found, wanted = 0, 0, 0
    for layer in range(shape.layers):
        full = engine.score(layer).view(*shape_of, -1).clone()
        short = session.score(layer).view(*shape_of, -1)[..., :kept * 64].clone()
        blocks = session.kept_blocks[layer, :, None, :kept].expand(*shape_of, kept).long()
        slots = (blocks[..., None] * 64 + torch.arange(64, device=full.device)).flatten(2)
        scored = torch.arange(kept * 64, device=full.device) < session.lengths[..., None]
        expected = full.gather(-1, slots)
        nothing = torch.tensor(-torch.inf, device=full.device)
        if not same_bits(torch.where(scored, short, nothing), torch.where(scored, expected, nothing)):
            raise AssertionError(f"layer {layer}: kept scores differ from the full scan's")
        best = torch.where(scored, short, nothing).topk(shape.topk)
        picked = best.indices.int().contiguous()
        session.remap(layer, picked)
        if not same_bits(full.gather(-1, picked.long()), best.values):
            raise AssertionError(f"layer {layer}: a remapped top-K index leads to another score")
        visible = torch.arange(shape.slots, device=full.device) < engine.lengths[..., None]
        kept_only = torch.full_like(full, -torch.inf).scatter(-1, slots, torch.where(scored, expected, nothing))
        if not same_bits(kept_only.topk(shape.topk).values, best.values):
            raise AssertionError(f"layer {layer}: top-K of the kept blocks differs from the full scan's")
        true = torch.where(visible, full, nothing).topk(shape.topk).values[..., -1:]
        compared += int(scored.sum())
        found += int((best.values >= true).sum())
        wanted += best.values.numel()
    return {"scores": compared, "topk_recall": found / wanted}


def check_all_kept(session) -> int:
    """Lists that keep all blocks: table, lengths, scores and top-K are those without Spin. Returns the scores compared."""
    engine, shape = session.engine, session.shape
    compared = 0
    blocks = -(-shape.visible(shape.position + shape.next_n - 1) // engine_step.BLOCK)
    for layer in range(shape.layers):
        if not (torch.equal(session.kept_table[layer, :, :blocks], engine.table[:, :blocks]) and
                torch.equal(session.lengths, engine.lengths)):
            raise AssertionError(f"layer {layer}: table or lengths of lists that keep all blocks differ from the engine's")
        scored = (torch.arange(shape.slots, device=engine.lengths.device) < engine.lengths[..., None]).flatten(0, 1)
        nothing = torch.tensor(-torch.inf, device=scored.device)
        plain, through = (torch.where(scored, scores, nothing) for scores in (engine.score(layer), session.score(layer)))
        best, other = plain.topk(shape.topk), through.topk(shape.topk)
        picked = other.indices.int().view(shape.requests, shape.next_n, -1).contiguous()
        session.remap(layer, picked)
        if not (same_bits(plain, through) and same_bits(best.values, other.values) and
                torch.equal(best.indices, picked.view_as(best.indices).long())):
            raise AssertionError(f"layer {layer}: scores or top-K of lists that keep all blocks differ")
        compared += int(scored.sum())
    return compared


def check_one_launch(session):
    """select_and_compact of the next step against select and compact."""
    def written():
        listed = session.lists.view(torch.int32).view(2, session.shape.requests, session.shape.layers, -1)
        return [of.clone() for of in (session.headers, session.masks, listed[1, ..., :session.kept], session.kept_slots,
                                      session.kept_table[..., :session.kept], session.kept_blocks[..., :session.kept])]

    session.observe()
    session.select_and_compact()
    together = written()
    if not torch.equal(together[2].transpose(0, 1), together[-1]):
        raise AssertionError("what was compacted is not what was selected")
    if not all(torch.equal(session.lengths, of_layer) for of_layer in session.kept_slots):
        raise AssertionError("the lists of the next step keep another number of blocks")
    session.kept_table.zero_()
    session.kept_blocks.zero_()
    session.select()
    session.compact()
    if not all(map(torch.equal, together, written())):
        raise AssertionError("select and compact in one launch differ from two launches")
    if int(session.unserved) != 0:
        raise AssertionError("a list did not serve")


def check(device, scorer, on: str, slots: int = 32768, requests: int = 4) -> list:
    rows = []
    for next_n in (1, 2):
        shape = engine_step.Shape(slots, requests, 0.4, next_n)
        engine = engine_step.Engine(shape, scorer, on)
        full = engine.score_all()
        session = engine_step.Session(device, engine, full)
        kept = check_kept(session)
        check_one_launch(session)
        engine.shape = engine_step.Shape(slots, requests, 0.0, next_n)
        all_kept = check_all_kept(engine_step.Session(device, engine, full))
        rows.append({"next_n": next_n, "kept_scores": kept["scores"], "topk_recall": kept["topk_recall"],
                     "all_keep_scores": all_kept})
    return rows


def floor_bytes(shape, keep: float) -> float:
    """That observe and select have to move; as in gpu_step_bench."""
    moves = min(1, shape.next_n / shape.tokens_per_slot)
    return ((8 + 4 * shape.next_n) * keep + 2 * (1 - keep) * moves) * shape.slots * shape.requests * shape.layers


def measure(device, engine, full_scores, bandwidth: float, flush) -> dict:
    """One size at engine.shape.sparsity."""
    shape = engine.shape
    sessions = [engine_step.Session(device, engine, full_scores, STEPS)]
    while len(sessions) * sessions[0].bytes_per_step < L2_REACH:
        sessions.append(engine_step.Session(device, engine, full_scores, STEPS))
    session = sessions[0]

    def go_on():
        for one in sessions:
            one.advance(STEPS)

    def every(work):
        graph = gpu_clock.capture(lambda: [work(one, step) for step in range(STEPS) for one in sessions])
        time = gpu_clock.time_of(graph, STEPS * len(sessions), go_on)
        go_on()
        return time

    def observe_select(one, step):
        one.observe(step)
        one.select(step)

    def own(one, step):
        one.observe(step)
        one.select_and_compact(step)

    def scan(score):
        for layer in range(shape.layers):
            score(layer)

    all_graph, kept_graph = (gpu_clock.capture(lambda: scan(score)) for score in (engine.score, session.score))
    own_graph = gpu_clock.capture(lambda: own(session, 0))
    keep = session.kept / shape.blocks
    out = {"slots": shape.slots, "requests": shape.requests, "sparsity": shape.sparsity, "kept": keep,
           "scan_all_us": gpu_clock.time_of(all_graph), "scan_kept_us": gpu_clock.time_of(kept_graph),
           "observe_select_us": every(observe_select), "own_us": every(own),
           "next_n": shape.next_n, "floor_us": floor_bytes(shape, keep) / bandwidth * 1e6}
    for name, graph in {"scan_all": all_graph, "scan_kept": kept_graph}.items():
        out[f"cold_{name}_us"] = gpu_clock.time_of(graph, before=flush)
    out["cold_own_us"] = gpu_clock.time_of(own_graph, before=lambda: (session.advance(1), flush()),
                                           cycle=shape.tokens_per_slot)
    saved = out["scan_all_us"] - out["scan_kept_us"]
    out["saved_us"] = saved
    out["compact_us"] = out["own_us"] - out["observe_select_us"]
    out["retained"] = 1 - out["own_us"] / saved
    out["retained_without_compact"] = 1 - out["observe_select_us"] / saved
    out["retained_cold"] = 1 - out["cold_own_us"] / (out["cold_scan_all_us"] - out["cold_scan_kept_us"])
    out["target"] = TARGETS.get((shape.slots, shape.requests, shape.sparsity)) if shape.next_n == 1 else None
    out["unserved"] = sum(int(one.unserved) for one in sessions)
    if (shape.slots, shape.requests) in LAYERED and shape.sparsity == 0.4 and shape.next_n == 1:
        out["layered"] = measure_layered(session)
    return out


def measure_layered(session) -> dict:
    """The step of an engine that reuses its score buffers: observe of a layer is on a branch of the graph
    beside the attention that follows its scoring, and has ended before its buffer is written again; select and
    compact come at the end, as at the beginning of the next step. Against the form that keeps all scores and does all
    of it at the end."""
    shape, engine = session.shape, session.engine
    # Stands in for attention and the rest of a layer: reads weights as fast as the memory allows, and takes the shared
    # memory of all multiprocessors, as attention kernels of Hopper do; so nothing fits beside it there.
    width = 4096
    weights = torch.randn(8, width, WEIGHT_BYTES // 2 // width, device="cuda").bfloat16()
    inputs = torch.randn(max(shape.requests, 1), width, device="cuda").bfloat16()
    outputs = torch.empty(inputs.shape[0], weights.shape[2], device="cuda", dtype=torch.bfloat16)
    branch = torch.cuda.Stream()
    buffers = [None] * SCORE_BUFFERS

    def attention(layer):
        torch.mm(inputs, weights[layer % 8], out=outputs)

    def plain(score):
        for layer in range(shape.layers):
            score(layer)
            attention(layer)

    def batched():
        plain(session.score)
        session.observe()
        session.select_and_compact()

    def per_layer():
        main, observed = torch.cuda.current_stream(), [None] * SCORE_BUFFERS
        for layer in range(shape.layers):
            turn = layer % SCORE_BUFFERS
            if observed[turn] is not None:
                main.wait_event(observed[turn])
            buffers[turn] = None
            buffers[turn] = session.score(layer)
            branch.wait_event(main.record_event())
            with torch.cuda.stream(branch):
                session.observe_layer(layer, buffers[turn])
                observed[turn] = branch.record_event()
            attention(layer)
        main.wait_stream(branch)
        session.select_and_compact()

    forms = {"without_spin": lambda: plain(engine.score), "kept_only": lambda: plain(session.score),
             "batched": batched, "per_layer": per_layer}
    def advance():
        session.advance(1)

    out = {f"{name}_us": gpu_clock.time_of(gpu_clock.capture(form), before=advance if form in (batched, per_layer) else None,
                                           cycle=shape.tokens_per_slot)
           for name, form in forms.items()}
    attend = gpu_clock.capture(lambda: [attention(layer) for layer in range(shape.layers)])
    out["attention_us"] = gpu_clock.time_of(attend)
    out["critical_path"] = out["per_layer_us"] / out["batched_us"]
    out["added"] = (out["per_layer_us"] - out["kept_only_us"]) / (out["batched_us"] - out["kept_only_us"])
    return out


def print_checks(checks: list):
    for row in checks:
        print(f"next_n {row['next_n']}: {row['kept_scores']} kept scores and their top-K equal to the full scan bit by bit; "
              f"{row['all_keep_scores']} scores equal without Spin where all blocks are kept; "
              f"top-K recall {row['topk_recall']:.3f}", flush=True)


def print_row(row: dict):
    target = "" if row["target"] is None else f"{row['target']:.2f} " + (
        "reached" if row["retained"] >= row["target"] else "MISSED")
    print(f"{row['slots']:8} {row['requests']:4} {row['sparsity']:8.1f} {row['kept']:6.3f} | {row['scan_all_us']:8.1f} "
          f"{row['scan_kept_us']:8.1f} {row['saved_us']:8.1f} | {row['observe_select_us']:8.1f} {row['compact_us']:7.1f} "
          f"{row['floor_us']:7.1f} {row['observe_select_us'] / row['floor_us']:6.2f} | {row['retained']:8.3f} "
          f"{row['retained_without_compact']:8.3f} {row['retained_cold']:8.3f}  {target}", flush=True)


def print_layered(row: dict):
    of = row["layered"]
    print(f"{row['slots']:8} x {row['requests']}: without Spin {of['without_spin_us']:.1f} us, kept blocks alone "
          f"{of['kept_only_us']:.1f}, batched {of['batched_us']:.1f}, per layer {of['per_layer_us']:.1f} (of it attention "
          f"{of['attention_us']:.1f}); per layer / batched: critical path {of['critical_path']:.2f}, "
          f"added time {of['added']:.2f}", flush=True)


HEADER = (f"{'slots':>8} {'req':>4} {'sparsity':>8} {'kept':>6} | {'all us':>8} {'kept us':>8} {'saved us':>8} | "
          f"{'obs+sel':>8} {'compact':>7} {'floor':>7} {'/floor':>6} | {'retained':>8} {'w/o comp':>8} {'cold':>8}  target")


def run(arguments) -> int:
    if not torch.cuda.is_available():
        raise Skipped("there is no GPU")
    scorer = DeepGemm()
    try:
        device = spin_kernels.Library(arguments.library).open(arguments.device)
    except OSError as error:
        raise Skipped(f"libspin_kernels.so can't be loaded ({error}); name it in SPIN_KERNELS_LIBRARY") from error
    say = (lambda *_: None) if arguments.json else (lambda *of: print(*of, flush=True))
    result = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": []}
    try:
        result["checks"] = check(device, scorer, "cuda")
    except AssertionError as error:
        print(f"deepgemm: {error}", file=sys.stderr)
        return 1
    if not arguments.json:
        print_checks(result["checks"])
    result["copy_bytes_per_second"] = bandwidth = gpu_clock.copy_bandwidth()
    say(f"{result['gpu']}, copy bandwidth {bandwidth * 1e-12:.2f} TB/s; 21 layers, 64 heads x 128, bf16 state, fp32 scores, "
        f"next_n {arguments.next_n}\n")
    say(HEADER)
    flush = gpu_clock.Flush()
    for slots, requests in arguments.sizes:
        engine = engine_step.Engine(engine_step.Shape(slots, requests, 0.0, arguments.next_n), scorer, "cuda")
        full = engine.score_all()
        for sparsity in arguments.sparsity:
            engine.shape = engine_step.Shape(slots, requests, sparsity, arguments.next_n)
            result["rows"].append(measure(device, engine, full, bandwidth, flush))
            if not arguments.json:
                print_row(result["rows"][-1])
        del engine, full
        torch.cuda.empty_cache()
    if arguments.json:
        print(json.dumps(result, indent=1))
        return 0
    if not any("layered" in row for row in result["rows"]):
        return 0
    say("\nBeside an emulated attention (a matrix product over 32 MB of weights a layer):")
    for row in result["rows"]:
        if "layered" in row:
            print_layered(row)
    return 0


def size(text: str) -> tuple[int, int]:
    slots, requests = map(int, text.split("x"))
    if slots < 4096 or slots % 64 or requests < 1:
        raise ValueError
    return slots, requests


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=size, nargs="+", default=SIZES, metavar="SLOTSxREQUESTS",
                        help="such as 131072x8; default: the sizes of docs/gpu.md")
    parser.add_argument("--sparsity", type=float, nargs="+", default=SPARSITIES, help="shares of blocks to skip")
    parser.add_argument("--next-n", type=int, default=1, choices=(1, 2), help="verifier rows of each request; all are "
                        "accepted")
    parser.add_argument("--library", help="path of libspin_kernels.so")
    parser.add_argument("--device", default="", help="UUID of the GPU; default: the only visible one")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    arguments = parser.parse_args()
    try:
        return run(arguments)
    except Skipped as reason:
        print(f"deepgemm: skipped, nothing was measured: {reason}", file=sys.stderr)
        if arguments.json:
            print(json.dumps({"skipped": str(reason)}))
        return 0


try:
    import torch

    import engine_step
    import gpu_clock
    import spin_kernels
except ImportError as missing:
    engine_step = None
    IMPORT_ERROR = missing

if __name__ == "__main__":
    if engine_step is None:
        print(f"deepgemm: skipped, nothing was measured: {IMPORT_ERROR}", file=sys.stderr)
        sys.exit(0)
    sys.exit(main())
