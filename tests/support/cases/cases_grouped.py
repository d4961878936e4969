"""Calls of GroupQueryAttention: its name, its inputs, its attributes."""

import numpy as np
from bodies import integers, normal, whole

HEADS, FEW, SIZE = 4, 2, 16


def call(length, ends, total, past=0, packed=False, turns=0, size=SIZE, more=(), **words):
    """A step of as many samples as `ends`; `turns` are the columns of the tables of angles."""
    batch = len(ends)
    query, key, value = (normal(batch, length, heads * size) for heads in (HEADS, FEW, FEW))
    inputs = [np.concatenate([query, key, value], 2), None, None] if packed else [query, key, value]
    inputs += [normal(batch, FEW, past, size), normal(batch, FEW, past, size)] if past else [None, None]
    inputs += [whole(*ends), np.array(total, np.int32)]
    inputs += [normal(32, turns), normal(32, turns)] if turns else [None, None]
    words |= {"num_heads": HEADS, "kv_num_heads": FEW, "outputs": ["y", "keys", "values"]}
    return "GroupQueryAttention", [*inputs, *more], words | ({"do_rotary": 1} if turns else {})


PLACES = integers([3, 1, 2, 0, 7], [8, 2, 4, 5, 5])
PROMPT = (5, [4, 4], 5)
DECODE = (1, [6, 6], 7)
CASES_GROUPED = [
    call(*PROMPT),
    call(*PROMPT, turns=8),
    call(*PROMPT, turns=8, rotary_interleaved=1),
    call(*PROMPT, turns=8, packed=True),
    call(*PROMPT, turns=8, size=32),
    call(*PROMPT, turns=8, past=8),  # a buffer longer than the prompt
    call(5, [4, 2], 5, turns=8),  # the second sample is shorter
    call(6, [5, 0], 6, local_window_size=2),
    call(*DECODE, past=6, turns=8),
    call(*DECODE, past=6, turns=8, packed=True),
    call(*DECODE, past=6, turns=8, size=32, rotary_interleaved=1),
    call(1, [6, 3], 7, past=10, turns=8),
    call(3, [8], 9, past=6, turns=8),
    call(9, [8], 9, local_window_size=3),
    call(*DECODE, past=6, local_window_size=3),
    call(*PROMPT, softcap=2.0, scale=0.3),
    call(*PROMPT, scale=-0.5),
    call(*PROMPT, smooth_softmax=1),
    call(*PROMPT, more=[None, None, normal(HEADS)]),
    call(*PROMPT, more=[None, normal(1, HEADS, 5, 5)]),
    call(1, [6, 3], 7, past=10, more=[None, normal(2, 1, 1, 7)], softcap=2.0),
    call(*PROMPT, turns=8, more=[PLACES]),  # of which a prompt reads the first
    call(*DECODE, past=6, turns=8, more=[PLACES[:, :1]]),
    call(3, [8], 9, past=6, turns=8, more=[PLACES[:1, :3]]),
]
UNKNOWN_GROUPED = {
    "whose queries look ahead": call(*PROMPT, causal=0),
    "whose cache forgets": call(*DECODE, past=6, local_window_size=3, sliding_window_cache=1),
    "whose cache is quantised": call(*DECODE, past=6, k_quant_type="PER_TENSOR", v_quant_type="PER_TENSOR"),
    "with a scale of its cache": call(*DECODE, past=6, more=[None, None, None, normal(1), normal(1)]),
    "with gains that no kernel has": call(*PROMPT, more=[None] * 5 + [normal(SIZE), normal(SIZE)]),
    "whose scores are wanted": call(*PROMPT, qk_output=1),
    "with a window of nothing": call(*PROMPT, local_window_size=0),
    "turned without tables": call(*PROMPT, do_rotary=1),
    "turned a little": call(*PROMPT, turns=8, rotary_interleaved=2),
    "of heads that do not divide": (*call(*PROMPT)[:2], {"num_heads": 4, "kv_num_heads": 3}),
    "of no heads": (*call(*PROMPT)[:2], {"num_heads": 0, "kv_num_heads": 0}),
    "with a text for a number": call(*PROMPT, softcap="x"),
    "that is too hot": call(*PROMPT, scale=float("nan")),
}


def half(case):
    operator, inputs, words = case
    narrow = [each.astype(np.float16) if each is not None and each.dtype == np.float32 else each for each in inputs]
    return operator, narrow, words


HALF_GROUPED = [
    half(call(5, [4, 2], 5, turns=8)),
    half(call(6, [5, 1], 6, local_window_size=2)),
    half(call(*DECODE, past=6, turns=8, softcap=3.0, scale=0.5)),
    half(call(*PROMPT, more=[None, normal(1, HEADS, 5, 5), normal(HEADS)])),
]
