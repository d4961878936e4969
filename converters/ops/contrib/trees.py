"""Ensembles of decision trees (`ai.onnx.ml`): all trees go down one level at a time, and a leaf stays."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import onnx

from xbench.converters.ops.contrib.call import Call, NoBody

LARGEST = 50_000  # nodes of all trees, which become text in between
WEIGHTS = 1_000_000  # of all nodes, one per column
DEEPEST = 64
COMPARED = {
    b"BRANCH_LEQ": "LessOrEqual",
    b"BRANCH_LT": "Less",
    b"BRANCH_GTE": "GreaterOrEqual",
    b"BRANCH_GT": "Greater",
    b"BRANCH_EQ": "Equal",
}
TRANSFORMS = {b"NONE": "Identity (summed)", b"LOGISTIC": "Sigmoid (summed)", b"SOFTMAX": "Softmax <axis = 1> (summed)"}


@dataclass(frozen=True)
class Trees:
    """The nodes of all trees in one list: their successors, comparisons, and where the trees begin."""

    roots: list[int]
    yes: list[int]
    no: list[int]
    features: list[int]
    values: list[float]
    missing: list[int]  # 1 if a missing number takes the true branch
    compared: str
    depth: int
    places: dict[tuple[int, int], int]  # of tree and node


def read(call: Call) -> Trees:
    """Reads the trees of a node.

    Raises:
        NoBody: they are too many or too deep, compare in several ways, or do not fit together.
    """
    given = call.attributes
    if call.types[0] == onnx.TensorProto.DOUBLE:  # ONNX Runtime compares those as float64
        raise NoBody
    keys = list(zip(given["nodes_treeids"], given["nodes_nodeids"], strict=True))
    modes = {mode for mode in given["nodes_modes"] if mode != b"LEAF"}
    if len(keys) > LARGEST or len(set(keys)) < len(keys) or len(modes) > 1 or not modes <= {*COMPARED}:
        raise NoBody
    places = {key: place for place, key in enumerate(keys)}
    leaf = [mode == b"LEAF" for mode in given["nodes_modes"]]
    sides = []
    for word in ("nodes_truenodeids", "nodes_falsenodeids"):
        rows = zip(keys, given[word], leaf, strict=True)
        sides.append([places[key] if ends else places[key[0], node] for key, node, ends in rows])
    targets = {place for side in sides for at, place in enumerate(side) if place != at}
    roots = [place for place in range(len(keys)) if place not in targets]
    missing = given.get("nodes_missing_value_tracks_true") or [0] * len(keys)
    compared = COMPARED[next(iter(modes))] if modes else "LessOrEqual"
    features, values = list(given["nodes_featureids"]), [float(value) for value in given["nodes_values"]]
    if {len(keys)} != {len(features), len(values), len(missing)} or len(roots) != len({tree for tree, _ in keys}):
        raise NoBody
    depth = _depth(roots, sides)
    yes, no = sides
    return Trees(roots, yes, no, features, values, list(missing), compared, depth, places)


def _depth(roots: Sequence[int], sides: Sequence[Sequence[int]]) -> int:
    level, depth = set(roots), 0
    while below := {side[at] for side in sides for at in level if side[at] != at}:
        level, depth = below, depth + 1
        if depth > DEEPEST:  # or it has a cycle
            raise NoBody
    return depth


def _array(name: str, kind: str, values: Sequence[Any]) -> str:
    return f"{name} = Constant <value = {kind}[{len(values)}] {{{', '.join(map(repr, values))}}}> ()"


def _leaves(trees: Trees) -> Iterable[str]:
    """`at`, [samples, trees]: the leaf in which each sample ends."""
    yield "x = Cast <to = 1> (input)"
    yield _array("roots", "int64", trees.roots) + "\n" + _array("yes", "int64", trees.yes)
    yield _array("no", "int64", trees.no) + "\n" + _array("features", "int64", trees.features)
    yield _array("values", "float", trees.values) + "\n" + _array("tracks", "int64", trees.missing)
    yield "size = Shape (x)\nzero = Constant <value_ints = [0]> ()\none = Constant <value_ints = [1]> ()"
    yield f"many = Slice (size, zero, one, zero)\ncount = Constant <value_ints = [{len(trees.roots)}]> ()"
    yield "area = Concat <axis = 0> (many, count)\nat0 = Expand (roots, area)"
    for step in range(trees.depth):
        yield f"feature{step} = Gather (features, at{step})"
        yield f"number{step} = GatherElements <axis = 1> (x, feature{step})"
        yield f"value{step} = Gather (values, at{step})\nmet{step} = {trees.compared} (number{step}, value{step})"
        yield f"track{step} = Gather (tracks, at{step})\ntracked{step} = Cast <to = 9> (track{step})"
        yield f"absent_{step} = IsNaN (number{step})\nabsent{step} = And (absent_{step}, tracked{step})"
        yield f"way{step} = Or (met{step}, absent{step})"
        yield f"left{step} = Gather (yes, at{step})\nright{step} = Gather (no, at{step})"
        yield f"at{step + 1} = Where (way{step}, left{step}, right{step})"
    yield f"at = Identity (at{trees.depth})"


def _summed(call: Call, trees: Trees, kind: str, columns: int) -> Iterable[str]:
    """`summed`, [samples, columns]: the values of the leaves, summed over all trees."""
    given, rows = call.attributes, len(trees.yes)
    if rows * columns > WEIGHTS:
        raise NoBody
    weights = [0.0] * (rows * columns)
    ids = zip(given[f"{kind}_treeids"], given[f"{kind}_nodeids"], given[f"{kind}_ids"], strict=True)
    for (tree, node, column), weight in zip(ids, given[f"{kind}_weights"], strict=True):
        if not 0 <= column < columns:
            raise NoBody
        weights[trees.places[tree, node] * columns + column] += float(weight)
    yield _array("flat", "float", weights) + f"\nsides = Constant <value_ints = [{rows}, {columns}]> ()"
    yield "table = Reshape (flat, sides)\ngiven = Gather (table, at)"
    yield "trees = Constant <value_ints = [1]> ()\ntotal = ReduceSum <keepdims = 0> (given, trees)"
    base = [float(value) for value in given.get("base_values", ())] or [0.0]
    if len(base) not in (1, columns):
        raise NoBody
    yield _array("base", "float", base) + "\nsummed = Add (total, base)"


def regressor(call: Call) -> Iterable[str]:
    """`output` is [samples, targets], the sum over the trees."""
    if call.attributes.get("aggregate_function", b"SUM") != b"SUM" or call.version < 13:
        raise NoBody
    if call.attributes.get("post_transform", b"NONE") != b"NONE":
        raise NoBody
    trees = read(call)
    yield from _leaves(trees)
    yield from _summed(call, trees, "target", call.integer("n_targets", 1))
    yield "output = Identity (summed)"


def classifier(call: Call) -> Iterable[str]:
    """`label` is the class of the largest sum, `scores` are [samples, classes]. For two classes the specification
    does not define the label: ONNX Runtime checks whether the second sum is positive."""
    labels = call.attributes.get("classlabels_int64s", ())
    transform = TRANSFORMS.get(call.attributes.get("post_transform", b"NONE"))
    if len(labels) < 3 or transform is None or call.version < 13:
        raise NoBody
    trees = read(call)
    yield from _leaves(trees)
    yield from _summed(call, trees, "class", len(labels))
    yield _array("labels", "int64", list(labels)) + "\nbest = ArgMax <axis = 1, keepdims = 0> (summed)"
    yield f"label = Gather (labels, best)\nscores = {transform}"
