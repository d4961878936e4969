"""Compares arrays and gives a verdict: distances in units of the noise floor, robust against NaN and zero.

The error of a tensor is its distance to the float64 oracle, once as the L2 norm of the difference and once as its
largest element (a single wrong row of a large gradient must not drown). Each is divided by what float32 PyTorch loses
itself (the floor, see `oracle`; of floats at least half a unit in the last place of the tensor's size). The largest
quotient over all tensors is the `ratio` of a check, and the class follows from it. Float32 arithmetic in another order
stays within `LIMITS["fp32"]`; TF32 and float16 keep 10 bits of a float32's 23, bfloat16 keeps 7.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from xbench.parity.arrays_file import join as join
from xbench.parity.arrays_file import read as read

LIMITS = {"fp32": 64.0, "tf32": 3000.0, "half": 2.0**17}
# The error allowed by precision; where integers are computed with a share of the tensor, whose range it scales with.
ALLOWED = {"fp32": LIMITS["fp32"], "tf32": LIMITS["tf32"], "fp16": LIMITS["half"], "bf16": LIMITS["half"]}
SHARES = {"int8": 0.1, "int4": 0.5}
# What right float32 arithmetic may give near a step (`steps.py`): the least and the largest of each element, how far it
# may be from the oracle, and how far outside of the least and the largest.
SPREAD = "spread/"
LOWER = "lower/"  # the floors of the requested precision, in a reference made for it
# The number of those floors it may be off, as it rounds more than weights; but never by a quarter of the tensor.
ROUNDINGS, QUARTER = 8, 0.25
OPTIMIZER = "optimizer/"
TYPE = "type/"  # of a tensor in a reference, if the graph has neither float32 nor the type stored there
NARROW = f"{TYPE}file"  # fp16 or bf16, in the reference of a file that computes in it
LOSS = "loss/"  # of one training step: each is a tensor of its own, because floors grow from step to step
HALF_ULP = 2.0**-24
REFERENCE = "reference.npz"  # next to the artifact of a part of a model (`workers/jobs/bisect.py`)
# The largest share of a tensor that float32 itself may lose if it is judged. An error of a tensor's whole size never
# passes, so floors stop growing at half of that share.
BLIND = 2 / LIMITS["fp32"]


@dataclass(frozen=True)
class Verdict:
    """The outcome of comparing all tensors of one run; `ratio` is the worst error in units of the noise floor, `steps`
    the number of training steps compared, 0 in other modes."""

    status: str
    precision: str
    worst_tensor: str | None
    ratio: float | None
    tensors: int
    rel_l2: float | None
    message: str | None = None
    first_wrong: str | None = None
    steps: int = 0

    def as_dict(self) -> dict[str, Any]:
        fields = asdict(self)
        fields["class"] = fields.pop("precision")
        return fields


def loss_by_step(losses: Iterable[float]) -> dict[str, np.ndarray]:
    """The loss of every step as a tensor of its own, steps counted from 1."""
    return {f"{LOSS}{step}": np.array([loss]) for step, loss in enumerate(losses, 1)}


def steps_of(reference: Iterable[str]) -> int:
    """The number of training steps of a reference; 0 in other modes than step."""
    return sum(name.startswith(LOSS) for name in reference)


def distance(candidate: np.ndarray, reference: np.ndarray) -> tuple[float, float]:
    """L2 norm and largest element of the difference; infinite if shapes differ or anything is not finite.

    Where the reference itself is infinite (a masked score), the candidate must be the same infinity. NaN is wrong.
    """
    difference = np.abs(_difference(candidate, reference))
    return float(np.linalg.norm(difference)), float(difference.max(initial=0.0))


def _difference(candidate: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """The elementwise difference in float64: 0 between equal infinities, else infinite where either is not finite."""
    candidate, reference = np.asarray(candidate, np.float64), np.asarray(reference, np.float64)
    if candidate.shape != reference.shape:
        return np.array(math.inf)
    with np.errstate(over="ignore", invalid="ignore"):
        plain = np.asarray(candidate - reference)
    if np.isfinite(plain).all():
        return plain
    finite = np.isfinite(candidate) & np.isfinite(reference)
    exact = np.where(candidate == reference, 0.0, math.inf)
    np.subtract(candidate, reference, where=finite, out=exact)
    return exact


def size_of(reference: np.ndarray) -> tuple[float, float]:
    """L2 norm and largest element of the finite part of a reference: the scale of its errors."""
    peak = max(float(reference.max(initial=0)), -float(reference.min(initial=0)))
    if not math.isfinite(peak):
        reference = reference[np.isfinite(reference)]
        peak = float(np.abs(reference).max(initial=0.0))
    return float(np.linalg.norm(reference)), peak


def relative_error(candidate: np.ndarray, reference: np.ndarray) -> float:
    """The largest elementwise error relative to the reference; 0/0 is 0, x/0 is infinite, NaN anywhere is infinite.

    [0, 1.5, 2] against [0, 1, 2] is 0.5.
    """
    difference = np.abs(_difference(candidate, reference))
    if not np.isfinite(difference).all():
        return math.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = difference / np.abs(reference)
    return float(np.where(difference == 0, 0.0, relative).max(initial=0.0))


def bounds(expected: np.ndarray, floor: Sequence[float] | np.ndarray) -> tuple[float, float]:
    """The L2 norm and the largest element of an error of one noise floor: at least half a unit in the last place of the
    tensor's own size (not of integers, which are exact), at most so large that no error of its whole size passes. Pure
    noise has no such limit."""
    size, peak = size_of(expected)
    ulp = 0.0 if expected.dtype.kind in "biu" else HALF_ULP
    norm = max(float(floor[0]), ulp * size)
    norm = min(norm, size / LIMITS["fp32"]) if norm <= BLIND * size else norm
    return norm, max(float(floor[1]), ulp * peak)


def narrow_of(reference: Mapping[str, np.ndarray]) -> str:
    """The precision the network itself computes in."""
    return str(reference.get(NARROW, "fp32"))


def errors(
    answers: Sequence[Mapping[str, np.ndarray]], reference: Mapping[str, np.ndarray], asked: str = "fp32"
) -> dict[str, tuple[list[float], bool]]:
    """Every tensor -> the error of each answer in noise floors, and whether the answers differ: one of two is off by
    more than float32 may be, or both by different errors; for a single answer, whether it is off. Below float32 it may
    be off by more, as in `judge`.

    A missing gradient is zero. A tensor that is NaN in the reference is not judged.
    """
    by_tensor, limit = {}, ALLOWED.get(asked if asked != "fp32" else narrow_of(reference), LIMITS["fp32"])
    for name in (name for name in compared(reference) if not np.isnan(reference[name]).any()):
        given = [each.get(name, np.zeros_like(reference[name])) for each in answers]
        fits = [_is_rounded(each, name, reference, asked) for each in given]
        apart = [min(off(a, name, reference), limit if fit else math.inf) for a, fit in zip(given, fits, strict=True)]
        differ = max(apart) > limit
        if differ and len(apart) > 1 and min(apart) > limit:
            differ = floors_off(given[0], given[1], reference[f"floor/{name}"]) > limit
        by_tensor[name] = apart, differ
    return by_tensor


def judge(candidate: Mapping[str, np.ndarray], reference: Mapping[str, np.ndarray], asked: str = "fp32") -> Verdict:
    """Compares all tensors of a reference (see `oracle`) with the candidate's of the same names.

    If a precision below float32 was requested, its tolerance holds; a result as near as float32 ignored the request:
    UNSUPPORTED. A file that computes in 16 bits has their tolerance, and a runtime may use more bits.
    """
    every, steps = compared(reference, candidate), steps_of(reference)
    names = [name for name in every if not np.isnan(reference[name]).any()]
    undefined = next((name for name in every if name not in names), None)
    if undefined and (undefined.startswith("loss") or not names):
        what = _undefined(undefined)
        return Verdict("UNVERIFIED", "wrong", None, None, len(every), None, what, undefined, steps)
    if missing := [name for name in names if name not in candidate]:
        what = f"{missing[0]} is missing"
        return Verdict("FAIL", "wrong", missing[0], None, len(names), None, what, missing[0], steps)
    ratios = {name: off(candidate[name], name, reference) for name in names}
    far = {name: _share(candidate[name], reference[name]) for name in names} if asked in SHARES else {}
    least = asked if asked != "fp32" else narrow_of(reference)  # the precision it may round to
    wrong = [n for n in names if ((far[n] or 0.0) > SHARES[asked] if far else ratios[n] > ALLOWED[least])]
    wrong = [name for name in wrong if not _is_rounded(candidate[name], name, reference)]
    worst = max(ratios, key=lambda name: ratios[name])
    rel_l2 = _share(candidate[worst], reference[worst])
    ratio, precision = ratios[worst], classify(ratios[worst])
    precision = least if not wrong and (far or precision == "wrong") and precision != "fp32" else precision
    status, message = ("FAIL", f"{worst} is {_off(candidate[worst], worst, reference)}") if wrong else ("PASS", None)
    if wrong and least != "fp32" and (share := _share(candidate[wrong[0]], reference[wrong[0]])) is not None:
        message = f"{wrong[0]} is off by {share:.2g} of its size: more than rounding to {least} explains"
    if asked != "fp32" and precision == "fp32":
        status, message = "UNSUPPORTED", f"was told {asked}, and computes in float32"
    if status == "PASS" and (unclear := blind(reference, names)):
        message = f"float32 itself loses more than {BLIND:.1%} of {unclear}; with other inputs it may not (--range)"
        status = "UNVERIFIED"
    if status == "PASS" and undefined:
        status, message = "UNVERIFIED", _undefined(undefined)
    # A wrong gradient is found walking back from the loss, everything else in the order of the graph.
    first = (wrong[-1] if worst.startswith("gradient/") else wrong[0]) if wrong else None
    finite = ratio if math.isfinite(ratio) else None
    return Verdict(status, precision, worst, finite, len(names), rel_l2, message, first, steps)


def _undefined(name: str) -> str:
    kind, _, step = name.partition("/")
    what = f"the loss of step {step}" if kind == "loss" and step else name
    return f"{what} is no number (NaN) in float64 either: there is nothing to compare with"


def compared(reference: Iterable[str], candidate: Iterable[str] = ()) -> list[str]:
    """The tensors of a reference that a candidate is compared on, in order; those of the optimizer only if it gives
    them, which a runtime need not."""
    names = [n for n in reference if n != "labels" and not n.startswith(("input/", "floor/", TYPE, LOWER, SPREAD))]
    has_optimizer = any(name.startswith(OPTIMIZER) for name in candidate)
    return [name for name in names if has_optimizer or not name.startswith(OPTIMIZER)]


def blind(reference: Mapping[str, np.ndarray], names: Sequence[str] | None = None) -> str | None:
    """A tensor that cannot be judged, because float32 itself loses too large a share of it."""
    names, unclear = names or compared(reference), None
    for name in names:
        size, _ = size_of(reference[name])
        if reference[f"floor/{name}"][0] > BLIND * size and size > 0:
            like = [other for other in names if _kind(other) == _kind(name)]
            cancels = math.isfinite(reference[f"floor/{name}"][0]) and _cancels(size, like, reference)
            unclear = unclear if cancels else name
    return unclear


def _cancels(size: float, names: Iterable[str], reference: Mapping[str, np.ndarray]) -> bool:
    """Whether a tensor is zero in exact arithmetic, like the gradient of a bias before a normalisation."""
    return size < 1e-6 * max(size_of(reference[name])[0] for name in names)


def floors_off(candidate: np.ndarray, expected: np.ndarray, floor: Sequence[float] | np.ndarray) -> float:
    """The error of one tensor in units of its noise floor (L2, largest element)."""
    return max(map(_quotient, distance(candidate, expected), bounds(expected, floor)))


def noise(reference: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    """L2 norm and largest element of an error of one noise floor, including steps right arithmetic may take."""
    far = reference.get(f"{SPREAD}far/{name}", np.zeros(2))
    return np.array(bounds(reference[name], reference[f"floor/{name}"])) + far / LIMITS["fp32"]


def off(candidate: np.ndarray, name: str, reference: Mapping[str, np.ndarray]) -> float:
    """The error of a tensor in noise floors. Where right arithmetic may be a step off, it is the error that no such run
    explains: outside of all of them, or farther from the oracle than they are."""
    expected, floor = reference[name], reference[f"floor/{name}"]
    if np.shape(candidate) != expected.shape:
        return math.inf
    if f"{SPREAD}far/{name}" not in reference:
        return floors_off(candidate, expected, floor)
    low, high, outside = (reference[f"{SPREAD}{kind}/{name}"] for kind in ("low", "high", "outside"))
    beyond = distance(candidate, np.clip(np.asarray(candidate, np.float64), low, high))
    may = np.array(bounds(expected, floor)) + outside / LIMITS["fp32"]
    quotients = zip((*beyond, *distance(candidate, expected)), (*may, *noise(reference, name)), strict=True)
    return max(_quotient(float(error), float(bound)) for error, bound in quotients)


def _is_rounded(candidate: np.ndarray, name: str, reference: Mapping[str, np.ndarray], asked: str = "") -> bool:
    """Whether rounding to the precision of the reference, or to the requested integers, explains an error."""
    if asked in SHARES:
        return (_share(candidate, reference[name]) or 0.0) <= SHARES[asked]
    if LOWER + name not in reference:
        return False
    error, size = distance(candidate, reference[name]), size_of(reference[name])
    bound = [min(ROUNDINGS * float(floor), QUARTER * each) for floor, each in zip(reference[LOWER + name], size)]
    return error[0] <= bound[0] and error[1] <= bound[1]


def _share(candidate: np.ndarray, reference: np.ndarray) -> float | None:
    """The error of a tensor over its size, by the L2 norm; None if the reference is zero."""
    norm = size_of(reference)[0]
    return distance(candidate, reference)[0] / norm if norm else None


def _kind(name: str) -> str:
    """The group of tensors comparable in size: outputs, gradients, weights, one slot of the optimizer's arrays."""
    return name.partition(".")[0] if name.startswith(OPTIMIZER) else name.partition("/")[0]


def _quotient(error: float, bound: float) -> float:
    """The error in bounds; 0 where float32 itself has no finite value, which is not judged (`blind`)."""
    if error == 0 or math.isinf(bound):
        return 0.0
    return math.inf if bound == 0 else error / bound


def _off(candidate: np.ndarray, name: str, reference: Mapping[str, np.ndarray]) -> str:
    """The error of a tensor in words, in noise floors and in absolute size."""
    ratio, expected = off(candidate, name, reference), reference[name]
    error, size = distance(candidate, expected)[1], size_of(expected)[1]
    if math.isinf(ratio):
        return f"{error:.2g}, not zero" if math.isfinite(error) and not size else "not finite or of another shape"
    return f"{ratio:.0f} times the float32 noise off (by {error:.2g}, its largest value is {size:.2g})"


def classify(ratio: float) -> str:
    """The arithmetic that explains an error of `ratio` noise floors: fp32, tf32, half (bf16, fp16) or wrong."""
    return next((name for name, limit in LIMITS.items() if ratio <= limit), "wrong")


class Changed(Exception):
    """A runtime gives fewer outputs than the graph has, or computes something else while it is timed."""
