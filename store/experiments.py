"""Types of the record fields that belong to a single experiment (docs/results.md). Times are in seconds."""

from typing import Any, NotRequired, TypedDict


class Conversion(TypedDict):
    """The model that `convert` made for a runtime."""

    operators: dict[str, int]
    version: str | None
    device: str
    seconds: float | None
    folder: str
    files: list[str]
    kernels: dict[str, float | None]


class Training(TypedDict):
    """The result of `train`."""

    epochs: int
    batch: int
    seed: int
    train_samples: int
    test_samples: int
    content: str
    losses: list[float | None]
    proof_steps: int
    oracle_losses: list[float]
    first_wrong_step: int | None
    train_accuracy: list[float]
    test_accuracy: list[float]
    epoch_s: list[float]
    usage: list[dict[str, Any]]


class Changed(TypedDict):
    """A sample whose answer is another than the reference's. Null if it is an array. `image` is a PNG or JPEG in
    base64, missing in records of before."""

    sample: str
    label: str | None
    reference: str | None
    answer: str | None
    image: NotRequired[str | None]


class Evaluation(TypedDict):
    """A metric of the answers to a user's samples; its numbers are null if it was not measured. `form_bytes`, the size
    of the network in the runtime's own form, is missing in records of before."""

    inputs: str
    labels: str | None
    metric: str
    post: str | None
    output: str | None
    less: bool
    confidence: float
    calibration: str | None
    limit: int | None
    like: str | None
    samples: int
    set_aside: bool
    content: str
    ranges: str | None
    value: float | None
    reference: float | None
    difference: float | None
    low: float | None
    high: float | None
    accepted: float | None
    verdict: str | None
    needed: int | None
    constant: float | None
    changed: int | None
    changed_share: float | None
    gained: int | None
    lost: int | None
    p_value: float | None
    form_bytes: NotRequired[int | None]
    worst: list[Changed]


class NarrowNode(TypedDict):
    """A node that a runtime computes in a lower precision: its first tensor, and how far the outputs are off if it
    alone is in that precision, relative to their size; null if they are not finite."""

    tensor: str
    operator: str
    error: float | None


class Point(TypedDict):
    """A network with some nodes in float32, whose answers were evaluated: the metric, its difference to that of the
    float64 reference with an interval; if it was timed, the seconds of a call, and their ratio to float32's. `message`
    says why it could not be timed."""

    word: str
    precision: str
    wide: list[str]
    status: str
    value: float | None
    difference: float | None
    low: float | None
    high: float | None
    form_bytes: NotRequired[int | None]
    median_s: float | None
    low_s: float | None
    high_s: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    message: str | None


class Widening(TypedDict):
    """The result of `widen`: the nodes that must stay in float32, null if no set was good enough."""

    inputs: str
    metric: str
    less: bool
    accepted: float | None
    nodes: list[NarrowNode]
    points: list[Point]
    wide: list[str] | None
    trials: int
    ended: bool


class Told(TypedDict):
    """Times of a program, as it says: of what and where it was run, and the seconds of each run."""

    runtime: str | None
    machine: str | None
    seconds: list[float]
    median_s: float


class Judged(TypedDict):
    """Answers that another program computed: the verdict on each set of inputs, and its own times."""

    sets: list[dict[str, Any]]
    times: Told | None


class Trial(TypedDict):
    """A trial of a server at one rate of queries."""

    rate_per_s: float
    scheduled_per_s: float | None
    answered_per_s: float | None
    latency_s: float
    queries: int
    passed: bool
    says: str | None


class Load(TypedDict):
    """A scenario: its settings, and its results; null, or empty, if there are none."""

    scenario: str
    seconds: float
    percentile: float
    bound_s: float | None
    samples_per_query: int
    queries: int | None
    latency_s: dict[str, float] | None
    queries_per_s: float | None
    samples_per_s: float | None
    latencies: list[float]
    step_s: float | None
    single_stream_s: float | None
    trials: list[Trial]
    cpus: float | None


class Mean(TypedDict):
    """Over the rounds."""

    mean: float
    std: float


class Phases(TypedDict):
    """Where the time of a training iteration goes."""

    t_io: Mean
    t_h2d: Mean
    t_f: Mean
    t_b: Mean
    t_u: Mean
    t_step: Mean
    t_iter: Mean
    other: Mean
    rounds: list[dict[str, float]]


class Layer(TypedDict):
    """As a runtime's own profiler reports it."""

    name: str
    operator: str
    median_s: float


class Profile(TypedDict):
    """The layers of a forward pass, in the order in which they run."""

    layers: list[Layer]
    whole_s: float
    passes: int


class Interval(TypedDict):
    """Its ends are null if they are unknown."""

    median: float
    low: float | None
    high: float | None


class Scaling(TypedDict):
    """A training step by several workers."""

    kind: str
    workers: int
    shard: int
    total: int
    engine: str
    cpus: int
    oversubscribed: bool
    proof: dict[str, Any] | None
    iteration_s: Interval | None
    apart_s: Interval | None
    comm_s: Interval | None
    exposed_s: Interval | None
    hidden: bool | None
    samples_per_s: float | None
    speed_up: Interval | None
    efficiency: float | None
    phases: dict[str, Interval] | None
    messages: list[int] | None
    early: bool | None
    line: dict[str, Any] | None
    prediction: dict[str, Any] | None
    blocks: dict[str, list[list[float]]] | None
