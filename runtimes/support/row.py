"""What a row of the table of runtimes says of one: entry point, packages, capabilities, options."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Lower:
    """A precision below float32 that a runtime has: the framework's switch for it, and where it works. `tool` is the
    package of the switch, by each of its names, if it is none of the runtime's. `widens`: its option `wide` leaves
    single nodes in float32 (`Runtime.widen`)."""

    switch: str
    devices: tuple[str, ...] = ("cpu", "cuda")
    modes: tuple[str, ...] = ("forward", "gradient", "step")
    tool: tuple[str, ...] = ()
    widens: bool = False


@dataclass(frozen=True)
class EngineRow:
    """A runtime's own engine for several workers: its class, its launcher (`distributed/__init__.py`), and its name in
    its makers' words."""

    entry: str
    launcher: str
    words: str


@dataclass(frozen=True)
class Row:
    """One runtime of the table: where its class is, what it needs installed, what it can do.

    `operators` names the operator table (a file of `converters/`) that the runtime runs the printed program with, if
    any; `layouts` are the orders of an image's axes that it can compute in. Arrays go in and out in ONNX's order,
    nchw, in all of them. A `hidden` row is a fake for tests: it is not listed. Modes `on_request` take minutes to
    prepare, and are left out if no mode is requested. `lower` are its precisions below float32. `effort` says what is
    added to its name for `--tune off`, and what is tried for `--tune max`; `{seconds}` is what a search may take. Its
    keys may end in a device, or in `open`: forward of a user's file that leaves the size of an axis open.
    `events` are the devices whose own clock it can read around a step. `ours` are the modules that its adapter, not
    the runtime, needs: they are imported before the clock starts. If it `keeps` what it compiles, later processes load
    it from disk. `layers` is added to its name to get the times of single layers; None if it compiles a network as
    one. `options` are the words that may follow its name (`tensorflow:xla`), each with the values it may have, () for
    any; None if the row takes any options. `engine` trains it by several workers. A framework that cannot be installed
    with current ones has an `environment` of its own (`_environments.py`). A `named` one runs only on request by name.
    One that `reads_onnx` runs a user's file, forward: its nodes and weights as they are, its open axes perhaps fixed.
    `scripts` is the module for running it without xbench. `preload` are modules that take long to import, and may be
    before workers are forked (`workers/template.py`); the first names the framework. `without` are packages that it
    imports wherever they are installed, though its own installation does not bring them: in its workers they are
    absent (`workers/absent.py`). One that `copies` inputs cannot keep them: each of its calls copies them, and that is
    a part of its times.
    """

    entry: str
    packages: tuple[str, ...]
    extra: str
    autodiff: str | None = None
    note: str | None = None
    operators: str | None = None
    layouts: tuple[str, ...] = ("nchw",)
    hidden: bool = False
    on_request: tuple[str, ...] = ()
    lower: Mapping[str, Lower] = field(default_factory=dict)
    effort: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    ours: tuple[str, ...] = ()
    keeps: bool = False
    layers: str | None = None
    options: Mapping[str, tuple[str, ...]] | None = None
    engine: EngineRow | None = None
    environment: str | None = None
    named: bool = False
    reads_onnx: bool = False
    scripts: str | None = None
    preload: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    copies: bool = False
