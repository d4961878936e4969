"""A record, the content of one line of the store, as types for mypy (docs/results.md explains each field).

Records are plain dictionaries, as lines are; `schema.problem` checks a record when it is read. Times are in seconds.
"""

from collections.abc import Mapping
from typing import Any, NotRequired, TypedDict, TypeVar, cast

from xbench.store.experiments import (
    Conversion,
    Evaluation,
    Judged,
    Load,
    Phases,
    Profile,
    Scaling,
    Training,
    Widening,
)

T = TypeVar("T")
NOTHING: Any = {}  # in place of an optional part that a record lacks


class CaseFields(TypedDict):
    """A `Case`."""

    model: str
    runtime: str
    mode: str
    batch: int
    device: str
    threads: int
    precision: str
    layout: str
    plane: str
    data: str
    steps: int
    tune: str
    tune_budget: float


Parity = TypedDict(
    "Parity",
    {
        "class": str | None,
        "worst_tensor": str | None,
        "ratio": float | None,
        "first_wrong": str | None,
        "tensors": int,
        "rel_l2": float | None,
        "steps": int,
        "seeds": NotRequired[list[float | None]],
    },
)


class Promise(TypedDict):
    """The verdict on a contract."""

    held: bool | None
    says: str | None


class Process(TypedDict):
    """The start of a process of a cell."""

    load_s: float | None
    compile_s: float | None
    first_s: float | None
    anew_s: float | None
    proof_s: float | None
    warmup: list[float]
    steady_from: int | None


class Block(TypedDict):
    """Steps that were timed consecutively."""

    round: int
    process: int
    samples: list[float]
    lead: list[float]
    health: dict[str, Any]
    disturbed: str | None


class Opening(TypedDict):
    """The times of opening a cell, whatever is measured of it."""

    load_s: float | None
    compile_s: float | None
    first_s: float | None
    anew_s: float | None


class Times(Opening):
    """The times of a cell whose steps were measured."""

    median_s: float
    low_s: float | None
    high_s: float | None
    converged: bool
    drift: float | None
    resemblance: float | None
    processes: list[Process]
    blocks: list[Block]
    repeated: list[Block]
    cpus: float | None


class Cost(TypedDict):
    """What a step costs besides time."""

    peak_memory_bytes: int | None
    peak_memory_of: str
    references_bytes: int
    device_memory_bytes: int | None
    energy_j: float | None
    artifact_bytes: int
    parameter_bytes: int
    convert_s: float | None
    flop: int | None
    bytes: int
    peak_flops: float | None
    bandwidth: float | None


class Drawn(TypedDict):
    """The values drawn for an input."""

    name: str
    drawn: str
    unread: list[str] | None


class Record(TypedDict, total=False):
    """A cell, or what an experiment measured of one. The fields from `certificate` on are those of one experiment."""

    schema: int
    key: str
    case: CaseFields
    status: str
    message: str | None
    note: str | None
    autodiff: str | None
    dropout: bool
    graph: str
    layout: dict[str, Any] | None
    tuning: dict[str, Any] | None
    parity: Parity | None
    contracts: dict[str, Promise] | None
    audit: dict[str, Any] | None
    times: Times | None
    cost: Cost | None
    session: str
    artifact: str
    inputs: list[Drawn] | None
    macs: int | None
    versions: dict[str, str]
    machine: dict[str, Any]
    command: str
    time: str
    certificate: dict[str, Any] | None
    explanations: list[dict[str, Any]]
    conversion: Conversion
    training: Training
    load: Load
    phases: Phases | None
    profile: Profile | None
    scaling: Scaling | None
    judged: Judged
    evaluation: Evaluation
    widening: Widening


def known(part: T | None) -> T:
    """A part of a record that must be there, given its status.

    Raises:
        LookupError: it is missing.
    """
    if part is None:
        raise LookupError("a record lacks a part that it must have")
    return part


def class_of(record: Record) -> str | None:
    """The arithmetic that explains its error; None if it was not compared."""
    parity = record.get("parity")
    return parity["class"] if parity else None


def by_name(part: Mapping[str, object]) -> Mapping[str, Any]:
    """A record, or a part of one, whose fields are read by names known only at run time."""
    return part


def completed(record: Record, fields: Mapping[str, Any]) -> Record:
    """A record with further fields, put together by the caller."""
    return cast(Record, {**record, **fields})
