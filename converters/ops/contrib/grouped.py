"""Attention whose keys and values have fewer heads than its queries, and are kept from step to step."""

import math
from collections.abc import Iterable

import onnx

from xbench.converters.ops.contrib.attention import numbers, rotated
from xbench.converters.ops.contrib.call import Call, NoBody

KEPT = ("past_key", "past_value")
LOWEST, LOWEST_HALF = -3.4028234663852886e38, -65504.0


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
    if call.version < 13 or heads < 1 or few < 1 or heads % few:
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
    yield "zero_at = Constant <value = int64 {0}> ()\none_at = Constant <value = int64 {1}> ()"
    # Read as the indices they are: so what is drawn for them, or for a mask that they count, is within all positions.
    yield "all_at = Squeeze (all, none)\nspots = Range (zero_at, all_at, one_at)\nindices = Cast <to = 7> (lengths)"
    yield "last_ = Gather (spots, indices)\n" + numbers("upright_", -1, 1) + "\nlast_of = Reshape (last_, upright_)"
    yield "known = Add (last_of, one)\nearlier = Sub (known, length)\nbefore = Where (prompt, none, earlier)"
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
    """`scores`, [batch, few, heads / few, length, total]: each group of queries with the keys of one head."""
    if call.has(3):  # whose buffers may be longer than all
        yield "keys_seen_ = Slice (keys, none, all, two)\nvalues_seen_ = Slice (values, none, all, two)"
    else:
        yield "keys_seen_ = Identity (keys)\nvalues_seen_ = Identity (values)"
    yield "keys_seen = Unsqueeze (keys_seen_, two)\nvalues_seen = Unsqueeze (values_seen_, two)"
    yield (
        numbers("groups_split", 0, 0, few, heads // few, -1) + "\nlined_up = Transpose <perm = [0, 2, 1, 3]> (queries)"
    )
    yield "groups_ = Reshape (lined_up, groups_split)\ngroups = Transpose <perm = [0, 2, 3, 1, 4]> (groups_)"
    yield "columns = Transpose <perm = [0, 1, 2, 4, 3]> (keys_seen)\nproducts = MatMul (groups, columns)"
    if scale := call.number("scale", 0.0):
        yield call.constant("factor", scale, "query")
    else:
        yield numbers("third", 3) + "\n" + numbers("fourth", 4)
        yield "extents = Shape (queries)\nsize_ = Slice (extents, third, fourth, none)"
        yield "size = CastLike (size_, query)" if call.version >= 15 else "size = Cast <to = 1> (size_)"
        yield "root = Sqrt (size)\nfactor = Reciprocal (root)"
    yield "scaled = Mul (products, factor)"
    if cap := call.number("softcap", 0.0):
        yield call.constant("cap", cap, "query")
        yield "ratio = Div (scaled, cap)\nbent = Tanh (ratio)\ncapped = Mul (bent, cap)"
    else:
        yield "capped = Identity (scaled)"
    yield from _biased(call, heads, few)


def _biased(call: Call, heads: int, few: int) -> Iterable[str]:
    if not call.has(10):
        yield "scores = Identity (capped)"
        return
    shape = call.shapes[10]
    if shape is None or len(shape) != 4 or shape[1] not in (1, heads):
        raise NoBody
    yield numbers("added_split", 0, 0, 0, *((1, 1) if shape[1] == 1 else (few, heads // few)))
    yield "added_last = Transpose <perm = [0, 2, 3, 1]> (added)\nadded_parts = Reshape (added_last, added_split)"
    yield "added_groups = Transpose <perm = [0, 3, 4, 1, 2]> (added_parts)\nscores = Add (capped, added_groups)"


def _seen(call: Call) -> Iterable[str]:
    """`masked`: the scores of positions that are later, or too much earlier, are the lowest number."""
    yield "ends_ = Min (places, last_of)\nends = Unsqueeze (ends_, two)"
    yield "not_later = LessOrEqual (spots, ends)"
    if (window := call.integer("local_window_size", -1)) > 0:
        # Of queries behind the end of a shorter prompt: in float32 their windows go on, and see nothing in the end; in
        # float16 they stay at the last positions.
        yield numbers("window", window) + "\nplaces_ = Unsqueeze (places, two)"
        yield f"starts = Sub ({'ends' if _kind(call) == onnx.TensorProto.FLOAT16 else 'places_'}, window)"
        yield "near = Greater (spots, starts)\nvisible = And (not_later, near)"
    else:
        yield "visible = Identity (not_later)"
    yield numbers("ahead_of", 1, 2) + "\nmask = Unsqueeze (visible, ahead_of)"
    yield call.constant("lowest", LOWEST_HALF if onnx.TensorProto.FLOAT16 in call.types else LOWEST, "query")
    yield "masked = Where (mask, scores, lowest)"


def _kind(call: Call) -> int:
    """The type of queries, keys, values, tables and biases, which is one.

    Raises:
        NoBody: it is not known.
    """
    kinds = [call.types[at] for at in (0, 1, 2, 3, 7, 10) if call.has(at)]
    kind = next((each for each in kinds if each), None)
    if kind is None:
        raise NoBody
    return kind


def _mixed(call: Call, heads: int, few: int) -> Iterable[str]:
    if call.has(11) or _is_set(call, "smooth_softmax"):
        if call.has(11):
            yield numbers("upright", 1, few, heads // few, 1, 1) + "\nsinks = Reshape (sink, upright)"
        else:
            yield call.constant("sinks", 0.0, "query")
        yield numbers("last", -1) + "\ncolumn = Slice (masked, none, one, last)\nsame = Equal (column, column)"
        yield "other_ = Not (same)\nany = Or (same, other_)\ndrains = Where (any, sinks, column)"  # of its sides
        yield "widened = Concat <axis = 4> (masked, drains)\nshares = Softmax <axis = -1> (widened)"
        yield "weights_ = Slice (shares, none, all, last)"
    else:
        yield "weights_ = Softmax <axis = -1> (masked)"
    if call.integer("local_window_size", -1) > 0:  # queries of a padded prompt may see nothing
        yield call.constant("unseen", 0.0, "query") + "\nweights = Where (mask, weights_, unseen)"
    else:
        yield "weights = Identity (weights_)"
    yield "mixed = MatMul (weights, values_seen)\nturned_back = Transpose <perm = [0, 3, 1, 2, 4]> (mixed)"
    yield numbers("joined_up", 0, 0, -1) + "\noutput = Reshape (turned_back, joined_up)"
