"""Attention whose keys and values have fewer heads than its queries, and are kept from step to step."""

import math
from collections.abc import Iterable

from xbench.converters.ops.contrib.attention import numbers, rotated
from xbench.converters.ops.contrib.call import Call, NoBody

KEPT = ("past_key", "past_value")
LOWEST = -3.4028234663852886e38


def group_query_attention(call: Call) -> Iterable[str]:
    """`query` may have keys and values behind it. Of each sample `lengths` + 1 positions are known after this step, and
    of the longest `total`; those before it are in `past_key` and `past_value`, whose later rows are not read."""
    heads, few = call.integer("num_heads", 0), call.integer("kv_num_heads", 0)
    _check(call, heads, few)
    yield from _apart(call, heads, few)
    yield from _places(call)
    yield from _rotated(call, heads, few)
    yield from _remembered(call)
    yield from _scores(call, heads, few)
    yield from _seen(call)
    yield from _mixed(call, heads, few)


def _check(call: Call, heads: int, few: int) -> None:
    """Raises:
    NoBody: it is quantised, looks ahead, forgets, or lacks what it must have.
    """
    words = [call.attributes.get(f"{name}_quant_type", b"NONE") for name in "kv"]
    if call.version < 13 or heads < 1 or few < 1 or heads % few or call.rank(0) != 3:
        raise NoBody
    if words != [b"NONE", b"NONE"] or call.integer("kv_cache_bit_width", 0) or any(map(call.has, range(12, 16))):
        raise NoBody
    if call.integer("causal", 1) != 1 or call.integer("sliding_window_cache", 0) or call.integer("qk_output", 0):
        raise NoBody
    if not (math.isfinite(call.number("scale", 0.0)) and 0 <= call.number("softcap", 0.0) < math.inf):
        raise NoBody
    if (window := call.integer("local_window_size", -1)) < 1 and window != -1:
        raise NoBody
    pairs = [(1, 2), (3, 4), (7, 8)]
    if any(call.has(one) != call.has(other) for one, other in pairs) or not (call.has(5) and call.has(6)):
        raise NoBody


def _is_set(call: Call, name: str) -> bool:
    value = call.integer(name, 0)
    if value not in (-1, 0, 1):
        raise NoBody
    return value == 1


def _apart(call: Call, heads: int, few: int) -> Iterable[str]:
    """`queries`, `keys_new` and `values_new`: [batch, heads, length, size]."""
    if call.has(1):
        for name, target, count in (
            ("query", "queries", heads),
            ("key", "keys_new", few),
            ("value", "values_new", few),
        ):
            yield numbers(f"{target}_split", 0, 0, count, -1) + f"\n{target}_parts = Reshape ({name}, {target}_split)"
            yield f"{target}{'' if name == 'value' else '0'} = Transpose <perm = [0, 2, 1, 3]> ({target}_parts)"
        return
    yield numbers("split", 0, 0, heads + 2 * few, -1) + "\nparts = Reshape (query, split)"
    yield "packed = Transpose <perm = [0, 2, 1, 3]> (parts)\n" + numbers("counts", heads, few, few)
    yield "queries0, keys_new0, values_new = Split <axis = 1> (packed, counts)"


def _places(call: Call) -> Iterable[str]:
    """`before`, [batch, 1]: how many positions are kept of each sample; none at a prompt, which is as long as all."""
    yield numbers("none", 0) + "\n" + numbers("one", 1) + "\n" + numbers("two", 2)
    yield "sizes = Shape (query)\nlength = Slice (sizes, one, two, none)"
    yield "total_ = Cast <to = 7> (total)\nall = Reshape (total_, one)\nprompt = Equal (length, all)"
    yield numbers("column", -1, 1) + "\nlengths_ = Cast <to = 7> (lengths)\nknown_ = Reshape (lengths_, column)"
    yield "known = Add (known_, one)\nearlier = Sub (known, length)\nbefore = Where (prompt, none, earlier)"
    yield "zero_at = Constant <value = int64 {0}> ()\none_at = Constant <value = int64 {1}> ()"
    yield "length_at = Squeeze (length, none)\nsteps = Range (zero_at, length_at, one_at)"
    yield "places = Add (before, steps)"  # of the queries: [batch, length]


def _rotated(call: Call, heads: int, few: int) -> Iterable[str]:
    if not _is_set(call, "do_rotary"):
        yield "queries = Identity (queries0)\nkeys_new = Identity (keys_new0)"
        return
    shape = call.shapes[7] if call.has(7) else None
    if shape is None or len(shape) != 2 or not shape[1]:
        raise NoBody
    if call.has(9):  # at a prompt the kernel counts on from the very first
        yield numbers("line", -1) + "\nline_of = Reshape (positions, line)\nfirst_of = Slice (line_of, none, one, none)"
        yield "counted = Add (first_of, steps)\nangles_at = Where (prompt, counted, positions)"
    else:
        yield "angles_at = Identity (places)"
    yield "cosine_ = Gather (cosines, angles_at)\ncosine = Unsqueeze (cosine_, one)"
    yield "sine_ = Gather (sines, angles_at)\nsine = Unsqueeze (sine_, one)"
    yield "parted = Concat <axis = 1> (queries0, keys_new0)"
    yield from rotated(2 * shape[1], _is_set(call, "rotary_interleaved"))
    yield numbers("both", heads, few) + "\nqueries, keys_new = Split <axis = 1> (joined, both)"


def _remembered(call: Call) -> Iterable[str]:
    """`keys` and `values`: the kept positions of each sample, then the new ones, then zeros."""
    if not call.has(3):
        yield "keys = Identity (keys_new)\nvalues = Identity (values_new)"
        return
    yield numbers("three", 3) + "\nkept_sizes = Shape (past_key)\nkept = Slice (kept_sizes, two, three, none)"
    yield "room = Max (all, kept)\nroom_at = Squeeze (room, none)\nslots = Range (zero_at, room_at, one_at)"
    yield "old = Less (slots, before)\nshift = Sub (kept, before)\nmoved = Add (slots, shift)"
    yield "filled_to = Add (before, length)\nfilled = Less (slots, filled_to)"
    yield "row0 = Where (old, slots, moved)\nrow1 = Where (filled, row0, none)\nrow = Unsqueeze (row1, two)"
    yield numbers("sides", 1, 3) + "\nshown = Unsqueeze (filled, sides)"
    yield call.constant("blank", 0.0, "query")
    for name, past in zip(("keys", "values"), KEPT, strict=True):
        yield f"{name}_all = Concat <axis = 2> ({past}, {name}_new)"
        yield f"{name}_rows = Transpose <perm = [0, 2, 1, 3]> ({name}_all)"
        yield f"{name}_found = GatherND <batch_dims = 1> ({name}_rows, row)"
        yield f"{name}_heads = Transpose <perm = [0, 2, 1, 3]> ({name}_found)"
        yield f"{name} = Where (shown, {name}_heads, blank)"


def _scores(call: Call, heads: int, few: int) -> Iterable[str]:
    """`scores`, [batch, heads, length, total]: each group of queries with the keys of one head."""
    yield "keys_seen_ = Slice (keys, none, all, two)\nvalues_seen_ = Slice (values, none, all, two)"
    yield "keys_seen = Unsqueeze (keys_seen_, two)\nvalues_seen = Unsqueeze (values_seen_, two)"
    yield numbers("four", 4) + "\n" + numbers("five", 5) + "\n" + numbers("third", 3)
    yield numbers("grouped", 0, few, heads // few) + "\n" + numbers("joint", 0, heads)
    yield "extents = Shape (queries)\ntail = Slice (extents, two, four, none)"
    yield "groups_shape = Concat <axis = 0> (grouped, tail)\ngroups = Reshape (queries, groups_shape)"
    yield "columns = Transpose <perm = [0, 1, 2, 4, 3]> (keys_seen)\nproducts = MatMul (groups, columns)"
    yield "area = Shape (products)\nsides_of = Slice (area, third, five, none)"
    yield "joint_shape = Concat <axis = 0> (joint, sides_of)\nproduct = Reshape (products, joint_shape)"
    if scale := call.number("scale", 0.0):
        yield call.constant("factor", scale, "query")
    else:
        yield "size_ = Slice (extents, third, four, none)"
        yield "size = CastLike (size_, query)" if call.version >= 15 else "size = Cast <to = 1> (size_)"
        yield "root = Sqrt (size)\nfactor = Reciprocal (root)"
    yield "scaled = Mul (product, factor)"
    if cap := call.number("softcap", 0.0):
        yield call.constant("cap", cap, "query")
        yield "ratio = Div (scaled, cap)\nbent = Tanh (ratio)\ncapped = Mul (bent, cap)"
    else:
        yield "capped = Identity (scaled)"
    yield "scores = Add (capped, added)" if call.has(10) else "scores = Identity (capped)"


def _seen(call: Call) -> Iterable[str]:
    """`masked`: the scores of positions that are later, or too much earlier, are the lowest number."""
    yield "all_at = Squeeze (all, none)\nspots = Range (zero_at, all_at, one_at)"
    yield "last_of = Sub (known, one)\nends_ = Min (places, last_of)\nends = Unsqueeze (ends_, two)"
    yield "not_later = LessOrEqual (spots, ends)"
    if (window := call.integer("local_window_size", -1)) > 0:
        yield numbers("window", window) + "\nplaces_ = Unsqueeze (places, two)\nstarts = Sub (places_, window)"
        yield "near = Greater (spots, starts)\nvisible = And (not_later, near)"
    else:
        yield "visible = Identity (not_later)"
    yield "mask = Unsqueeze (visible, one)"
    yield call.constant("lowest", LOWEST, "query")
    yield "masked = Where (mask, scores, lowest)"


def _mixed(call: Call, heads: int, few: int) -> Iterable[str]:
    if call.has(11) or _is_set(call, "smooth_softmax"):
        yield "edges_ = Slice (joint_shape, two, third, none)\nbatch = Slice (sizes, none, one, none)"
        yield numbers("heads", heads) + "\nedges = Concat <axis = 0> (batch, heads, edges_, one)"
        yield numbers("upright", 1, -1, 1, 1)
        yield "sinks = Reshape (sink, upright)" if call.has(11) else call.constant("sinks", 0.0, "query")
        yield "drains = Expand (sinks, edges)\nwidened = Concat <axis = 3> (masked, drains)"
        yield "shares = Softmax <axis = -1> (widened)\nweights_ = Slice (shares, none, all, third)"
    else:
        yield "weights_ = Softmax <axis = -1> (masked)"
    if call.integer("local_window_size", -1) > 0:  # queries of a padded prompt may see nothing
        yield call.constant("unseen", 0.0, "query") + "\nweights = Where (mask, weights_, unseen)"
    else:
        yield "weights = Identity (weights_)"
    yield "weights_shape = Concat <axis = 0> (grouped, sides_of)\nweights_apart = Reshape (weights, weights_shape)"
    yield "mixed_ = MatMul (weights_apart, values_seen)\nmixed_shape = Concat <axis = 0> (joint, tail)"
    yield "mixed = Reshape (mixed_, mixed_shape)\nturned_back = Transpose <perm = [0, 2, 1, 3]> (mixed)"
    yield numbers("ahead", 0, 0, -1) + "\noutput = Reshape (turned_back, ahead)"
