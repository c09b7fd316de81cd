# SPDX-FileCopyrightText: The Spin Authors
# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a replay's trace or flags: one sentence, exit code 2, and nothing was started.

tests/cli and tests/trace hold every message to its words; here it is the program that counts.
"""

import os

import pytest
import safetensors


@pytest.fixture
def refusal_of_trace(spinctl, tmp_path):
    """Replays a file with these contents, or of this name; returns the refusal without the path."""

    def refuse(contents) -> str:
        path = tmp_path / "trace.safetensors" if isinstance(contents, bytes) else contents
        if isinstance(contents, bytes):
            path.write_bytes(contents)
        start = f"spinctl replay: --trace: {path}: "
        said = spinctl.refusal("replay", "--trace", path, "--topk", 128)
        assert said.startswith(start), said
        return said.removeprefix(start)

    return refuse


@pytest.fixture(scope="module")
def trace(small_trace) -> bytes:
    return small_trace.read_bytes()


@pytest.fixture
def changed(trace):
    """The bundled trace with one tensor's entry changed: changed("k", dtype="F16")."""

    def change(tensor, **entry) -> bytes:
        header, data = safetensors.split(trace)
        header[tensor].update(entry)
        return safetensors.join(header, data)

    return change


class TestTrace:
    @pytest.mark.parametrize("share", [0.0001, 0.5, 0.9999])
    def test_truncated(self, refusal_of_trace, trace, share):
        assert "truncated" in refusal_of_trace(trace[:int(share * len(trace))])

    @pytest.mark.parametrize("contents", [
        b"", b"\0" * 4096, b"GGUF\3" + bytes(4096), b"PK\3\4" + bytes(4096), b"hello, this is some text\n" * 100,
        safetensors.join("[]", b""), safetensors.join("{nonsense", b"")],
        ids=["empty", "zeros", "gguf", "zip", "text", "list", "no json"])
    def test_that_is_no_safetensors_file(self, refusal_of_trace, contents):
        said = refusal_of_trace(contents)
        assert "not a safetensors file" in said or "header is not valid JSON" in said

    def test_that_is_missing_a_folder_or_a_device(self, refusal_of_trace, tmp_path):
        assert refusal_of_trace(tmp_path / "missing.safetensors") == "no such file\n"
        assert "is a directory" in refusal_of_trace(tmp_path)
        assert "not a regular file" in refusal_of_trace("/dev/zero")

    def test_of_safetensors_without_a_trace(self, refusal_of_trace):
        weights = {"model.embed": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}
        assert 'tensor "k" is missing' in refusal_of_trace(safetensors.join(weights, bytes(4)))

    @pytest.mark.parametrize("tensor, dtype, expected", [
        ("k", "F16", "F8_E4M3"), ("k", "F8_E5M2", "F8_E4M3"), ("k", "U8", "F8_E4M3"), ("k", "F7", "F8_E4M3"),
        ("k_scale", "F16", "F32"), ("q", "BF16", "F8_E4M3"), ("w", "F64", "F32")])
    def test_with_a_tensor_of_another_dtype_is_told_which_it_should_be(self, refusal_of_trace, changed, tensor, dtype,
                                                                      expected):
        said = refusal_of_trace(changed(tensor, dtype=dtype))
        assert f'tensor "{tensor}"' in said and dtype in said and f"expected {expected}" in said

    def test_with_shapes_that_disagree_or_lie(self, refusal_of_trace, changed):
        assert 'tensor "k_scale"' in refusal_of_trace(changed("k", shape=[4, 4096, 128]))
        assert 'tensor "w"' in refusal_of_trace(changed("w", shape=[4, 128, 2**40]))
        assert 'tensor "q"' in refusal_of_trace(changed("q", shape=[2**40, 2**40, 2**40]))
        assert 'tensor "k"' in refusal_of_trace(changed("k", data_offsets=[0, 2**62]))

    @pytest.mark.parametrize("entry, value", [
        ("first_query", "-1"), ("first_query", "8191"), ("first_query", "nan"), ("steps", "129"), ("layers", "[1]"),
        ("layers", "[4, 4, 20, 28]"), ("format", "spin-trace/9")])
    def test_with_wrong_metadata_is_told_which(self, refusal_of_trace, trace, entry, value):
        header, data = safetensors.split(trace)
        header["__metadata__"][entry] = value
        assert f'metadata "{entry}"' in refusal_of_trace(safetensors.join(header, data))

    def test_that_needs_more_memory_than_there_is(self, refusal_of_trace, tmp_path):
        # A right header and a file as long as it says, but sparse: it takes no room.
        slots, steps = 2**31 - 1, 2
        tensors = {"k": ("F8_E4M3", [1, slots, 64], slots * 64), "k_scale": ("F32", [1, slots], slots * 4),
                   "q": ("F8_E4M3", [1, steps, 1, 64], steps * 64), "w": ("F32", [1, steps, 1], steps * 4)}
        header, end = {"__metadata__": {"first_query": "8", "steps": "2", "layers": "[0]"}}, 0
        for name, (dtype, shape, size) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end := end + size]}
        path = tmp_path / "huge.safetensors"
        path.write_bytes(safetensors.join(header, b""))
        os.truncate(path, path.stat().st_size + end)
        said = refusal_of_trace(path)
        assert 'tensor "k": shape [1, 2147483647, 64]' in said and "memory" in said


class TestFlags:
    @pytest.mark.parametrize("flag, value", [
        ("--sparsity", "1.5"), ("--sparsity", "nan"), ("--sparsity", "-0.1"), ("--topk", "0"), ("--topk", "1e9"),
        ("--steps", "100000"), ("--layer-sparsity", "0.1,0.2"), ("--layer-sparsity", "0.1,nan,0,0"),
        ("--spind", "/nonexistent"), ("--socket", "/tmp/" + "s" * 200)])
    def test_out_of_range_are_refused_by_name(self, spinctl, small_trace, flag, value):
        flags = {"--trace": small_trace, "--topk": 128, flag: value}
        said = spinctl.refusal("replay", *[word for pair in flags.items() for word in pair])
        assert said.startswith(f"spinctl replay: {flag}: ")

    def test_name_the_spind_that_has_no_room(self, spinctl, small_trace, start_spind):
        spind = start_spind(slab_bytes="128KiB")
        done = spinctl("replay", "--trace", small_trace, "--topk", 128, "--socket", spind.socket)
        assert done.code == 1 and "spinctl replay: --socket: no room in the slab for 8192 slots" in done.err

    def test_that_are_required_are_asked_for(self, spinctl, small_trace):
        assert "--trace is required" in spinctl.refusal("replay")
        assert "--topk is required" in spinctl.refusal("replay", "--trace", small_trace)

    def test_in_json_mode_refuse_in_the_same_way(self, spinctl, small_trace):
        assert "--sparsity" in spinctl.refusal("replay", "--trace", small_trace, "--topk", 1, "--sparsity", "nan",
                                               "--json")
