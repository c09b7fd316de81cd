# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""What the dashboard asks, row by row. Rates before sums; shares are ratios of rates; what an optional engine lacks has words of its own."""

from panels import BLUE, GREEN, ORANGE, RED, YELLOW, graph, override, table, tile

PODS = 'namespace=~"$namespace", pod=~"$pod"'
MODELS = f'{PODS}, model_name=~"$model"'
R = "[$__rate_interval]"
AUDITS = "[30m]"  # audits are few: one step in 64 by default


def rate(metric, labels="", by="", window=R, scope=MODELS):
    """Sum of rates, by labels if any."""
    selector = f"{scope}, {labels}" if labels else scope
    return f"sum{f' by ({by})' if by else ''}(rate({metric}{{{selector}}}{window}))"


def share(part, whole):
    """A ratio of two sums of rates; absent where the whole is nothing."""
    return f"{part} / ({whole} > 0)"


def quantile(q, metric, by="le", labels="", scope=MODELS):
    return f"histogram_quantile({q}, {rate(metric + '_bucket', labels, by, scope=scope)})"


CONSIDERED = rate("spin_blocks_considered_total")
SCORED = rate("spin_blocks_selected_total")
SPARSITY = f"1 - {share(SCORED, CONSIDERED)}"
STEPS = rate("spin_steps_total")
OWN = f"({rate('spin_predict_duration_seconds_sum')} + {rate('spin_observe_duration_seconds_sum')})"
SAVED = f"({CONSIDERED} - {SCORED}) * $scan_ns * 1e-9"
EXPLORED = 'source="explored"'


def for_audits(by=""):
    """Blocks that were scored for no other reason than an audit."""
    return f"({rate('spin_audit_blocks_total', by=by, window=AUDITS)} - {rate('spin_audit_list_blocks_total', by=by, window=AUDITS)})"


def age(by=""):
    """Steps since a block that predictions leave out was last scored, on average and at most: 1 / its chance of a second look in a step."""
    left_out = f"({rate('spin_blocks_considered_total', by=by, window=AUDITS)} - {rate('spin_blocks_selected_total', by=by, window=AUDITS)})"
    second_looks = f"({rate('spin_blocks_selected_total', EXPLORED, by=by, window=AUDITS)} + {for_audits(by)})"
    return share(f"({left_out} + {second_looks})", second_looks)



def weighted(ratio, by=("namespace", "pod", "model_name"), over="", window=R):
    """Mean of a gauge of the policy, each series with the weight of the blocks it was about: what realised shares can be held against."""
    blocks = rate("spin_blocks_considered_total", by=", ".join(by), window=window)
    on, of = f"on ({', '.join(by)})", f" by ({over})" if over else ""
    return share(f"sum{of} ({ratio}{{{MODELS}}} * {on} group_left () {blocks})", f"sum{of} ({blocks} and {on} {ratio}{{{MODELS}}})")


OF_LAYERS = ("namespace", "pod", "model_name", "layer")
TARGET = weighted("spin_target_sparsity_ratio")
MISS = share(rate("spin_audit_missed_slots_total", window=AUDITS), rate("spin_audit_topk_slots_total", window=AUDITS))
ROWS_BEGUN = rate("spin_rows_total", scope=PODS)
DOUBTS = rate("spin_fallback_rows_total", 'reason!="cold"', scope=PODS)
OF_PODS = "(namespace, pod)"
# Pods whose sparsity is worth the name: an engine's own series are kept or dropped by it, joined on the pod.
SPARSE_PODS = f"(1 - {rate('spin_blocks_selected_total', by='namespace, pod')} / ({rate('spin_blocks_considered_total', by='namespace, pod')} > 0) > 0.05)"
ONE_LAYER, FAILED = 'layer="0"', 'code!~"OK|CANCELLED"'
ENGINES = (("vLLM", "vllm"), ("SGLang", "sglang"))


def engine_latency(q):
    """Inter-token latency as the engines themselves count it, whichever there is."""
    return " or ".join(f"histogram_quantile({q}, {rate(f'{name}:inter_token_latency_seconds_bucket', by='le', scope=PODS)})" for _, name in ENGINES)


def latency_of_pods(q, how):
    return " or ".join(
        f"histogram_quantile({q}, sum by (le) (rate({name}:inter_token_latency_seconds_bucket{{{PODS}}}{R}) {how} on {OF_PODS} {SPARSE_PODS}))" for _, name in ENGINES)


PREDICTED = 'source="predicted"'


def is_there(expr):
    """1 or 0, also where there is no series."""
    return f"(({expr} or vector(0)) > bool 0)"


UNABLE = f"(spin_start_failed{{{PODS}}} == 1)"
ABLE = f"(spin_build_info{{{PODS}}} unless on (job, instance) {UNABLE})"
STATE = [{"type": "value", "options": {
    "-1": {"text": "Cannot serve", "color": RED, "index": 4}, "0": {"text": "Down", "color": RED, "index": 0}, "1": {"text": "No engine", "color": YELLOW, "index": 1},
    "2": {"text": "Scans all", "color": ORANGE, "index": 2}, "3": {"text": "On", "color": GREEN, "index": 3}}}]

HEADER = [
    tile("Spin", "none", f"{is_there(f'count({ABLE})')} + {is_there(f'sum(spin_sessions{{{MODELS}}})')} + "
         f"{is_there(rate('spin_blocks_selected_total', PREDICTED))} - {is_there(f'count({UNABLE}) unless on () {ABLE}')}",
         "On: predictions decide which blocks are scored. Scans all: an engine is connected, but no step used a prediction. No engine: spind waits. Cannot serve: no spind here could start, "
         "and their logs say why (of some pods among many, the alert SpinNotServing tells). Down: no spind is scraped.",
         "Down", decimals=0, mappings=STATE),
    tile("Sparsity", "percentunit", SPARSITY, "Share of blocks that were not scored, of all layers, rows and pods: 1 - scored / considered.", "No steps"),
    tile("Target", "percentunit", TARGET,
         "Share of blocks that the policy asks to skip: where pods differ, their mean, weighted by blocks as sparsity is. Realised sparsity stays below it where contexts are short or rows are scored in full.",
         "No steps"),
    tile("Top-K missed", "percentunit", MISS, "Share of the true top-K slots that predictions left out, as audits of the last 30 minutes saw it. This is the price in quality.",
         "No audit", thresholds=(GREEN, (0.1, YELLOW), (0.25, RED)), decimals=2),
    tile("Fallbacks", "percentunit", share(DOUBTS, ROWS_BEGUN),
         "Share of rows (a request in a step) that scored all blocks out of doubt. First steps of requests are cold by design and not counted.",
         "No steps", thresholds=(GREEN, (0.05, YELLOW), (0.5, RED))),
    tile("Own time a step", "s", share(OWN, STEPS), "Mean time that predicting and observing take of a decode step.", "No steps",
         thresholds=(GREEN, (0.002, YELLOW), (0.01, RED))),
    tile("Saved a step", "s", share(f"({SAVED})", STEPS),
         "Estimate: blocks that were not scored in a mean step, times $scan_ns ns for each (the variable above). Compare with own time.", "No steps"),
    tile("ITL p95", "s", engine_latency(0.95), "95th percentile of the inter-token latency that vLLM or SGLang report in these pods.", "No engine metrics"),
]

PAYS = [
    graph("Inter-token latency beside sparsity", "s",
          [("p50", engine_latency(0.5)), ("p95", engine_latency(0.95)), ("p99", engine_latency(0.99)), ("sparsity", SPARSITY)],
          "Latency as vLLM or SGLang count it (left), and the sparsity of the same pods (right). Where sparsity rises, latency should fall.",
          "No engine metrics: scrape the engine's port too", (12, 9),
          label="latency", overrides=[override("sparsity", unit="percentunit", axis="right", label="sparsity", color="#8AB8FF", dash=True, fill=0, min=0, max=1)]),
    graph("Latency of pods with and without sparsity", "s",
          [("p50, sparse", latency_of_pods(0.5, "and")), ("p95, sparse", latency_of_pods(0.95, "and")),
           ("p50, scanning all", latency_of_pods(0.5, "unless")), ("p95, scanning all", latency_of_pods(0.95, "unless"))],
          "The engines' own latency, split by whether Spin skips more than 5 % of blocks in the same pod at that moment (joined on namespace and pod). The gap is the gain.",
          "No engine metrics: scrape the engine's port too", (12, 9),
          overrides=[override("p50, sparse", color=GREEN), override("p95, sparse", color="dark-green"),
                     override("p50, scanning all", color=ORANGE), override("p95, scanning all", color="dark-orange")]),
    graph("Sparsity by pod", "percentunit",
          [("{{pod}}", f"1 - {rate('spin_blocks_selected_total', by='pod')} / ({rate('spin_blocks_considered_total', by='pod')} > 0)"),
           ("target", TARGET)],
          "Share of blocks that were not scored, for each pod, beside the target of all (their mean, weighted by blocks).", "No steps", (8, 8), most=1,
          overrides=[override("target", color="text", dash=True, fill=0)]),
    graph("Scan time saved, and own time, a step", "s",
          [("saved (estimate)", share(f"({SAVED})", STEPS)), ("own time", share(OWN, STEPS)), ("net", share(f"({SAVED} - {OWN})", STEPS))],
          "What a mean decode step saves in scanning (estimate: skipped blocks x $scan_ns ns) and what Spin itself takes. Spin pays while the net is above zero. On the CPU device the two are of different machines (a GPU's scan, a CPU's own time), and the net means nothing.",
          "No steps", (8, 8), least=None,
          overrides=[override("saved (estimate)", color=GREEN), override("own time", color=ORANGE), override("net", color="text", dash=True, fill=0)]),
    graph("Tokens generated", "short",
          [(label, rate(f"{name}:generation_tokens_total", scope=PODS)) for label, name in ENGINES],
          "Tokens a second that vLLM or SGLang generate in these pods.", "No engine metrics: scrape the engine's port too", (8, 8), label="per second"),
]

QUALITY = [
    graph("Top-K missed", "percentunit",
          [("{{model_name}}", share(rate("spin_audit_missed_slots_total", by="model_name", window=AUDITS), rate("spin_audit_topk_slots_total", by="model_name", window=AUDITS))),
           ("worst layer", f"max({share(rate('spin_audit_missed_slots_total', by='layer', window=AUDITS), rate('spin_audit_topk_slots_total', by='layer', window=AUDITS))})"),
           ("target", f"max(spin_target_miss_ratio{{{MODELS}}} > 0)"), ("expected", f"max(spin_expected_miss_ratio{{{MODELS}}} > 0)")],
          "Mean share of the true top-K slots that predictions left out, as audits of the last 30 minutes saw it. With the target of the policy, if it has one, and what the layers' curves expect of the budgets in force. Dashed lines: 10 % cost nothing in published tests, 25 % did.",
          "No audit yet", (8, 9), limits=((0.1, YELLOW), (0.25, RED)), at_least=0.12, overrides=[override("worst layer", color=ORANGE, dash=True, fill=0), override("target", color="text", dash=True, fill=0)]),
    graph("Missed by layer, the worst", "percentunit",
          [("layer {{layer}}", f"topk(6, {share(rate('spin_audit_missed_slots_total', by='layer', window=AUDITS), rate('spin_audit_topk_slots_total', by='layer', window=AUDITS))})")],
          "The layers that miss most. Layers differ by orders of magnitude; calibrated budgets give the bad ones more blocks.", "No audit yet", (8, 9), at_least=0.01),
    table("Layers", [
        ("target", f"1 - {weighted('spin_layer_target_sparsity_ratio', OF_LAYERS, 'layer', '[$__range]')}"),
        ("kept", share(rate("spin_blocks_selected_total", by="layer", window="[$__range]"), rate("spin_blocks_considered_total", by="layer", window="[$__range]"))),
        ("missed", share(rate("spin_audit_missed_slots_total", by="layer", window="[$__range]"), rate("spin_audit_topk_slots_total", by="layer", window="[$__range]"))),
        ("audited", f"sum by (layer) (increase(spin_audit_rows_total{{{MODELS}}}[$__range]))")],
        "Budget of each layer (share of blocks to keep; the mean of pods, weighted by blocks), what was really scored, and what audits saw missed, over the time range.",
        [("layer", "Layer", None, {"width": 60}), ("Value #A", "Budget", "percentunit", {"decimals": 1, "width": 75}),
         ("Value #B", "Scored", "percentunit", {"decimals": 1, "min": 0, "max": 1, "width": 130, "cell": {"type": "gauge", "mode": "basic", "valueDisplayMode": "text"}}),
         ("Value #C", "Missed", "percentunit", {"decimals": 2, "width": 80}), ("Value #D", "Audited", "short", {"decimals": 0})], size=(8, 9), nothing="No model yet"),
    graph("Blocks scored, by why", "short", [("{{source}}", rate("spin_blocks_selected_total", by="source"))],
          "Blocks a second: ranked best (predicted), drawn at random (explored), new tokens (pinned), or the whole row (full: cold, audit or fallback).",
          "No steps", (8, 8), stacked=True, label="per second",
          overrides=[override("predicted", color=GREEN), override("explored", color=BLUE), override("pinned", color="purple"), override("full", color=ORANGE)]),
    graph("Rows audited", "short", [("{{model_name}}", f"60 * {rate('spin_audit_rows_total', ONE_LAYER, by='model_name')}")],
          "Audited rows a minute. The miss rate is as fresh as these are frequent: none means that nobody knows what is missed.", "No audit yet", (8, 8), at_least=1, label="per minute"),
    graph("Scores explored", "percentunit", [("explored", share(rate("spin_blocks_selected_total", EXPLORED), SCORED))],
          "Share of scored blocks that were drawn at random, so that forgotten blocks get another chance.", "No steps", (8, 8)),
    graph("Missed by layer, p99", "percentunit",
          [("layer {{layer}}", f"topk(6, histogram_quantile(0.99, {rate('spin_audit_miss_ratio_bucket', by='layer, le', window=AUDITS)}))")],
          "The layers whose worst steps are worst: one audited step in a hundred missed more than this.", "No audit yet", (8, 8), at_least=0.01),
    graph("Budgets by layer", "percentunit",
          [("layer {{layer}}", f"1 - {weighted('spin_layer_target_sparsity_ratio', OF_LAYERS, 'layer')}")],
          "Share of blocks that each layer may keep, by the policy in force; the mean of pods, weighted by blocks. One line if the budgets are uniform.", "No steps", (8, 8), most=1),
    graph("Policy epoch, by who decides", "short",
          [("{{model_name}}: {{mode}}", f"max by (model_name, mode) ((spin_budget_mode{{{MODELS}}} == 1) * ignoring (mode) group_left () spin_policy_epoch{{{MODELS}}})")],
          "Rises with every change of the policy, whoever makes it. fixed: the sparsity given; calibrated: the same total, learnt from audits; target_miss: a total that holds a miss.",
          "No model yet", (8, 8), decimals=0, at_least=5, label="epoch"),
    graph("Budget changes of spind", "short",
          [("{{kind}}", f"sum by (kind) (increase(spin_budget_changes_total{{{MODELS}}}[$__range]))")],
          "Changes that spind made itself, counted over the length of the time range up to each point. A fallback is a return to more blocks because misses had jumped; many of them mean that the load changes faster than audits can follow.",
          "No model yet", (8, 8), decimals=0, at_least=5, label="changes", overrides=[override("fallback", color=RED)]),
    graph("What audits cost", "percentunit", [("blocks for audits alone", share(for_audits(), rate("spin_blocks_considered_total", window=AUDITS)))],
          "Blocks that were scored only because a step was audited, as a share of all blocks of all steps. --audit-every sets it.", "No audit yet", (8, 8), at_least=0.01),
    graph("Age of what is left out, at most", "short", [("all layers", age()), ("worst layer", f"max({age('layer')})")],
          "Staleness, in decode steps: how old the last score of a block that predictions leave out is, on average and at most. A bound, not a measurement: in each step exploration and audits score such a block with a chance p, "
          "so its score is 1/p steps old, or younger where the prediction took it back in between. More exploration or more audits lower it; times ITL it is seconds.",
          "Nothing is explored or audited", (8, 8), label="steps", overrides=[override("worst layer", color=ORANGE, dash=True, fill=0)]),
]

COST = [
    graph("Predict", "s", [("p50", quantile(0.5, "spin_predict_duration_seconds")), ("p99", quantile(0.99, "spin_predict_duration_seconds")),
                           ("mean", share(rate("spin_predict_duration_seconds_sum"), rate("spin_predict_duration_seconds_count")))],
          "Time to predict and select the blocks of one step, all layers.", "No steps"),
    graph("Observe", "s", [("p50", quantile(0.5, "spin_observe_duration_seconds")), ("p99", quantile(0.99, "spin_observe_duration_seconds")),
                           ("mean", share(rate("spin_observe_duration_seconds_sum"), rate("spin_observe_duration_seconds_count")))],
          "Time to let the scores of one step enter the state, all layers.", "No steps"),
    graph("Step call (sidecar executor)", "s",
          [("p50", quantile(0.5, "spin_rpc_duration_seconds", labels='method="Step"', scope=PODS)),
           ("p99", quantile(0.99, "spin_rpc_duration_seconds", labels='method="Step"', scope=PODS))],
          "Time from the arrival of a Step call at spind to its answer. The inline executor makes no calls in the decode loop.", "No calls: the inline executor makes none"),
]

REASONS = {"cold": "super-light-blue", "no_sidecar": RED, "deadline": YELLOW, "epoch": "purple", "capacity": ORANGE, "stale": BLUE, "position": "dark-yellow",
           "invalid": "dark-red", "internal": "dark-purple"}

FAULTS = [
    graph("Fallback rows, by reason", "short", [("{{reason}}", rate("spin_fallback_rows_total", by="reason", scope=PODS))],
          "Rows a second that scored all blocks out of doubt. cold is the first step of a request and normal; runbook SpinFallbackHigh explains the others.",
          "No spind", (12, 8), stacked=True, at_least=1, label="per second",
          overrides=[override(reason, color=color) for reason, color in REASONS.items()]),
    graph("Share of rows that fall back", "percentunit",
          [("{{pod}}", share(rate("spin_fallback_rows_total", 'reason!="cold"', by="pod", scope=PODS), rate("spin_rows_total", by="pod", scope=PODS)))],
          "Without cold rows, for each pod. The dashed lines are the limits of the alerts.", "No steps", (12, 8), limits=((0.05, YELLOW), (0.5, RED)), decimals=0, at_least=0.1),
    graph("Sessions ended, by reason", "short", [("{{reason}}", f"60 * {rate('spin_session_ends_total', by='reason', scope=PODS)}")],
          "Sessions a minute that ended. closed and shutdown are orderly; connection_lost and peer_exited are engines that vanished.", "No spind", at_least=1, label="per minute"),
    graph("Scores that were no numbers", "short", [("{{model_name}}", f"60 * {rate('spin_scores_nonfinite_total', by='model_name')}")],
          "Scores a minute that were NaN, infinite or too large. They never enter the state; they come from the engine.", "No model", at_least=1, label="per minute"),
    graph("Refused and failed", "short",
          [("connections refused", f"60 * {rate('spin_connections_rejected_total', scope=PODS)}"), ("calls failed", f"60 * {rate('spin_rpcs_total', FAILED, scope=PODS)}")],
          "Events a minute: users turned away, calls with an error.", "No spind", at_least=1, label="per minute"),
]

MEMORY = [
    graph("Slab", "bytes", [("in use", f"sum(spin_state_bytes{{{PODS}}})"), ("in quarantine", f"sum(spin_quarantined_bytes{{{PODS}}})"), ("size", f"sum(spin_slab_bytes{{{PODS}}})")],
          "Memory of sessions and requests, and all there is. In quarantine: of ended sessions whose engine may still write there.", "No spind",
          overrides=[override("size", color="text", dash=True, fill=0), override("in quarantine", color=ORANGE)]),
    graph("Slab in use, by pod", "percentunit", [("{{pod}}", f"sum by (pod) (spin_state_bytes{{{PODS}}}) / sum by (pod) (spin_slab_bytes{{{PODS}}})")],
          "Above 90 % new requests may be refused state, and then score all blocks.", "No spind", most=1, limits=((0.9, YELLOW),)),
    graph("Requests and sessions", "short", [("requests", f"sum(spin_requests{{{PODS}}})"), ("sessions", f"sum(spin_sessions{{{MODELS}}})")],
          "Requests that have state, and engines (ranks) that are connected.", "No spind", decimals=0, label="open"),
]

CONTROL = [
    graph("Calls", "reqps", [("{{method}}", f"{rate('spin_rpcs_total', by='method', scope=PODS)} > 0")],
          "Calls of the control plane a second. None of them is in the decode loop of the inline executor.", "No calls"),
    graph("Duration of calls, p99", "s", [("{{method}}", quantile(0.99, "spin_rpc_duration_seconds", by="le, method", scope=PODS) + " > 0")],
          "Time from arrival to answer.", "No calls"),
    graph("Queues and connections", "short", [("steps waiting", f"sum(spin_step_queue_depth{{{PODS}}})"), ("calls waiting", f"sum(spin_control_queue_depth{{{PODS}}})"),
                                              ("connections", f"sum(spin_connections{{{PODS}}})")],
          "Work that waits for spind's threads, and open connections to the control socket.", "No spind", decimals=0, label="now"),
]

PROCESS = [
    table("Versions", [("version", f"max by (pod, version) (spin_build_info{{{PODS}}})"),
                       ("start", f"max by (pod, version) (process_start_time_seconds{{{PODS}}} * 1000 * on (job, instance) group_left (version) spin_build_info{{{PODS}}})")],
          "What runs where, and since when.",
          [("pod", "Pod", None, {}), ("version", "Version", None, {"width": 80}), ("Value #B", "Started", "dateTimeFromNow", {"width": 120})], size=(8, 8), key=("pod", "version"), nothing="No spind"),
    graph("Memory", "bytes", [("{{pod}}", f"sum by (pod) (process_resident_memory_bytes{{{PODS}}} and on (job, instance) spin_build_info)")],
          "Resident memory of spind, the touched part of a CPU slab included.", "No spind"),
    graph("CPU", "short", [("{{pod}}", f"sum by (pod) (rate(process_cpu_seconds_total{{{PODS}}}{R}) and on (job, instance) spin_build_info)")],
          "Cores that spind uses.", "No spind", decimals=3, at_least=0.01, label="cores"),
]

ROWS = [
    ("Does it pay?", False, PAYS),
    ("Prediction quality", False, QUALITY),
    ("Cost", False, COST),
    ("Fallbacks and faults", False, FAULTS),
    ("State memory and capacity", False, MEMORY),
    ("Control plane", True, CONTROL),
    ("Process and versions", True, PROCESS),
]
