"""Attention in ONNX Runtime's own forms, rotary positions, and the sum of embeddings before both."""

from collections.abc import Iterable

from xbench.converters.ops.contrib.call import Call, NoBody
from xbench.converters.ops.contrib.norms import layer_norm


def numbers(name: str, *values: int) -> str:
    return f"{name} = Constant <value_ints = {list(values)}> ()"


# ***** embeddings and positions *****


def embed_layer_normalization(call: Call) -> Iterable[str]:
    """`places` is read from its first row on, or at `positions`; `lengths` are the sums of the rows of `mask`."""
    yield from _embedded(call, call.has(8))


def quantised_embed_layer_normalization(call: Call) -> Iterable[str]:
    for number, name in enumerate(("words", "places", "segments", "gamma", "beta")):
        if call.has(8 + number):
            yield f"{name} = DequantizeLinear ({name}_whole, {name}_scale, {name}_zero)"
    yield from _embedded(call, False)


def _embedded(call: Call, placed: bool) -> Iterable[str]:
    if call.integer("mask_index_type", 1) != 1 or call.version < 13:
        raise NoBody
    yield "word = Gather (words, ids)"
    if placed:
        yield "place = Gather (places, positions)"
    else:
        yield "sizes = Shape (ids)\n" + numbers("zero", 0) + "\n" + numbers("one", 1) + "\n" + numbers("two", 2)
        yield "length = Slice (sizes, one, two, zero)"
        yield "place = Slice (places, zero, length, zero)"
    yield "placed = Add (word, place)"
    if call.has(1):
        yield "kind = Gather (segments, kinds)\ntotal = Add (placed, kind)"
    else:
        yield "total = Identity (placed)"
    yield from layer_norm(call, True, call.number("epsilon", 1e-12))
    yield numbers("last", 1)
    if call.has(7):
        yield "lengths = ReduceSum <keepdims = 0> (mask, last)"
    else:
        yield "nothing = Sub (ids, ids)\nlengths_ = ReduceSum <keepdims = 0> (nothing, last)"
        yield "lengths = Cast <to = 6> (lengths_)"


def rotary_embedding(call: Call) -> Iterable[str]:
    """Of [batch, length, heads * size] or [batch, heads, length, size]; `positions` are [batch, length]."""
    rank, shape = call.rank(0), call.shapes[2]
    turned = call.integer("rotary_embedding_dim", 0)
    size = None if shape is None or shape[-1] is None else 2 * shape[-1]
    if call.rank(1) != 2 or rank not in (3, 4) or call.version < 13 or call.integer("is_packed_batching", 0):
        raise NoBody
    if turned and turned != size and not call.integer("num_heads", 0):
        raise NoBody
    if rank == 3:
        heads = call.integer("num_heads", 0)
        if not heads and size is None:
            raise NoBody
        yield numbers("split", 0, 0, heads, -1) if heads else numbers("split", 0, 0, -1, size or 0)
        yield "parted = Reshape (input, split)"
    else:
        yield "parted = Identity (input)"
    yield numbers("axis", 2 if rank == 3 else 1)
    yield "cosine_ = Gather (cosines, positions)\ncosine = Unsqueeze (cosine_, axis)"
    yield "sine_ = Gather (sines, positions)\nsine = Unsqueeze (sine_, axis)"
    yield from rotated(turned, bool(call.integer("interleaved", 0)))
    yield "shape = Shape (input)\noutput = Reshape (joined, shape)"


def rotated(size: int, interleaved: bool) -> Iterable[str]:
    """The first `size` numbers of each row of `parted`, or all, turned by the angles of their pairs: `joined`."""
    if size:
        yield numbers("start", 0) + "\n" + numbers("end", size) + "\n" + numbers("far", 2**31 - 1)
        yield numbers("depth", 3)
        yield "front = Slice (parted, start, end, depth)\nrest = Slice (parted, end, far, depth)"
    else:
        yield "front = Identity (parted)"
    if interleaved:
        yield numbers("pairs", 0, 0, 0, -1, 2) + "\npaired = Reshape (front, pairs)"
        yield numbers("halves", 1, 1) + "\nfirst_, second_ = Split <axis = 4> (paired, halves)"
        yield numbers("inner", 4) + "\nfirst = Squeeze (first_, inner)\nsecond = Squeeze (second_, inner)"
    else:
        if size:
            yield numbers("halves", size // 2, size // 2)
        else:
            yield "width = Shape (front)\n" + numbers("at", 3) + "\nwide = Gather (width, at)"
            yield numbers("pair", 2) + "\nhalf = Div (wide, pair)\nhalves = Concat <axis = 0> (half, half)"
        yield "first, second = Split <axis = 3> (front, halves)"
    yield "a = Mul (first, cosine)\nb = Mul (second, sine)\nreal = Sub (a, b)"
    yield "c = Mul (first, sine)\nd = Mul (second, cosine)\nimaginary = Add (c, d)"
    if interleaved:
        yield numbers("behind", 4) + "\nreal_ = Unsqueeze (real, behind)\nimaginary_ = Unsqueeze (imaginary, behind)"
        yield "stacked = Concat <axis = 4> (real_, imaginary_)"
        yield numbers("flat", 0, 0, 0, -1) + "\nturned = Reshape (stacked, flat)"
    else:
        yield "turned = Concat <axis = 3> (real, imaginary)"
    yield "joined = Concat <axis = 3> (turned, rest)" if size else "joined = Identity (turned)"


# ***** attention *****


def multi_head_attention(call: Call) -> Iterable[str]:
    """Queries, keys and values are [batch, length, heads * size]; in `past_key` and `past_value` heads are apart."""
    heads = call.integer("num_heads", 0)
    if not (heads and call.has(1) and call.has(2)) or call.version < 13 or call.rank(1) != 3 or call.rank(0) != 3:
        raise NoBody
    names = ["query", "key", "value"]
    if call.has(3):
        widths = [shape and shape[-1] for shape in (call.shapes[0], call.shapes[1], call.shapes[2])]
        if None in widths:
            raise NoBody
        yield numbers("widths", *(width or 0 for width in widths))
        yield "bias0, bias1, bias2 = Split <axis = 0> (bias, widths)"
        for number, name in enumerate(names):
            yield f"{name}_biased = Add ({name}, bias{number})"
        names = [f"{name}_biased" for name in names]
    yield from _apart(names, heads)
    for kind, past in (("keys", "past_key"), ("values", "past_value")):
        given = call.has(6 if kind == "keys" else 7)
        yield f"{kind} = Concat <axis = 2> ({past}, {kind}_own)" if given else f"{kind} = Identity ({kind}_own)"
    yield from _attended(call, 4, 5)


def attention(call: Call) -> Iterable[str]:
    """The projections of one input, [batch, length, width], by weights [width, 3 * heads * size]."""
    if call.has(4) or call.version < 13:
        raise NoBody
    yield "projected_ = MatMul (input, weights)"
    yield "projected = Add (projected_, bias)" if call.has(2) else "projected = Identity (projected_)"
    yield from _of_itself(call, 3, 5)


def quantised_attention(call: Call) -> Iterable[str]:
    """The same of numbers of a few bits; what is computed from their products is not quantised."""
    if call.has(8) or call.version < 13 or (call.has(7) and not call.has(6)):
        raise NoBody
    zeros = ", ".join(name for index, name in ((6, "input_zero"), (7, "weights_zero")) if call.has(index))
    yield f"whole = MatMulInteger (input, weights{', ' + zeros if zeros else ''})\nproduct_ = Cast <to = 1> (whole)"
    yield "steps = Mul (input_scale, weights_scale)\nstepped = Mul (product_, steps)\nprojected = Add (stepped, bias)"
    yield from _of_itself(call, 5, len(call.inputs))


def _of_itself(call: Call, mask: int, added: int) -> Iterable[str]:
    """Attention of `projected`: its queries, keys and values side by side."""
    heads = call.integer("num_heads", 0)
    if not heads or "qkv_hidden_sizes" in call.attributes:
        raise NoBody
    if call.integer("do_rotary", 0) or call.integer("past_present_share_buffer", 0):
        raise NoBody
    yield "width = Shape (projected)\n" + numbers("at", 2) + "\nwide = Gather (width, at)"
    yield numbers("three", 3) + "\nthird = Div (wide, three)\nthirds = Concat <axis = 0> (third, third, third)"
    yield "query, key, value = Split <axis = 2> (projected, thirds)"
    yield from _apart(["query", "key", "value"], heads)
    yield "keys = Identity (keys_own)\nvalues = Identity (values_own)"
    yield numbers("front", 0) + "\nkeys_ = Unsqueeze (keys, front)\nvalues_ = Unsqueeze (values, front)"
    yield "present = Concat <axis = 0> (keys_, values_)"
    yield from _attended(call, mask, added)


def _apart(names: Iterable[str], heads: int) -> Iterable[str]:
    """Each head for itself: [batch, heads, length, size]."""
    yield numbers("heads", 0, 0, heads, -1)
    for name, target in zip(names, ("queries", "keys_own", "values_own"), strict=True):
        yield f"{target}_parts = Reshape ({name}, heads)"
        yield f"{target} = Transpose <perm = [0, 2, 1, 3]> ({target}_parts)"


def _attended(call: Call, mask: int, added: int) -> Iterable[str]:
    """`output` of `queries`, `keys` and `values`; the inputs of these numbers are the mask and the bias."""
    yield "turned = Transpose <perm = [0, 1, 3, 2]> (keys)"
    if scale := call.number("scale", 0.0):
        yield call.constant("factor", scale, "queries")
    else:
        yield "shape = Shape (queries)\n" + numbers("last", 3) + "\nsize_ = Gather (shape, last)"
        yield "size = CastLike (size_, queries)" if call.version >= 15 else "size = Cast <to = 1> (size_)"
        yield "root = Sqrt (size)\nfactor = Reciprocal (root)"
    yield "products = MatMul (queries, turned)\nscores0 = Mul (products, factor)"
    yield "scores1 = Add (scores0, added)" if call.has(added) else "scores1 = Identity (scores0)"
    if call.has(mask):
        rank = call.rank(mask)
        if rank not in (2, 3):
            raise NoBody
        yield numbers("axes", *((1, 2) if rank == 2 else (1,))) + "\nmask_ = Unsqueeze (mask, axes)"
        yield "kept = Cast <to = 9> (mask_)"
        yield call.constant("zero", 0.0, "queries")
        yield call.constant("hidden", call.number("mask_filter_value", -10000.0), "queries")
        yield "masked = Where (kept, zero, hidden)\nscores2 = Add (scores1, masked)"
    else:
        yield "scores2 = Identity (scores1)"
    if call.integer("unidirectional", 0):
        yield from _causal(call)
    else:
        yield "scores = Identity (scores2)"
    yield "weights_ = Softmax <axis = -1> (scores)\nmixed_ = MatMul (weights_, values)"
    yield "mixed = Transpose <perm = [0, 2, 1, 3]> (mixed_)"
    yield numbers("flat", 0, 0, -1) + "\noutput = Reshape (mixed, flat)"


def _causal(call: Call) -> Iterable[str]:
    """Masks the keys after each query; the last query sees all."""
    yield "area = Shape (scores2)\nzero_at = Constant <value = int64 {0}> ()\none_at = Constant <value = int64 {1}> ()"
    for name, axis in (("rows", 2), ("columns", 3)):
        yield f"{name}_at = Constant <value = int64 {{{axis}}}> ()\n{name} = Gather (area, {name}_at)"
        yield f"{name}_from = Range (zero_at, {name}, one_at)"
    yield "offset = Sub (columns, rows)\nseen_to_ = Add (rows_from, offset)"
    yield numbers("behind", 1) + "\nseen_to = Unsqueeze (seen_to_, behind)"
    yield "seen = LessOrEqual (columns_from, seen_to)"
    yield call.constant("below", -3.4028234663852886e38, "queries")
    yield "scores = Where (seen, scores2, below)"
