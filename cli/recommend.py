"""`xbench recommend`: which runtime to deploy, how sure that is, and a folder that runs it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from xbench.cli.terminal import options
from xbench.cli.terminal.declared import as_in
from xbench.cli.terminal.lines import say
from xbench.cli.terminal.turn import turn
from xbench.errors import XBenchError
from xbench.experiments import choose
from xbench.store.results import FILE, FOLDER, open_store

if TYPE_CHECKING:
    from xbench.experiments.request import Request
    from xbench.recommend.question import Question
    from xbench.recommend.recommendation import Answer
    from xbench.store.record import Record

TIMEOUT = 600.0  # seconds of a job of an evaluation
PASSES = 3  # to get enough samples: on a busy machine steps may take longer than those that were counted on
Latency = Annotated[
    list[str] | None,
    typer.Option(
        "--max-latency-ms", help="What a call may take: 5 for its median, p99=5 for a percentile; may be repeated."
    ),
]
Memory = Annotated[float | None, typer.Option("--max-memory-mb", help="What its process may hold, in 10^6 bytes.")]
MaxDrop = Annotated[
    str | None,
    typer.Option(
        help="What its answers may lose of a metric, 0.5% or 0.005, as `xbench evaluate` found: only runtimes that are "
        "shown to lose no more are ranked."
    ),
]
Samples = Annotated[
    str | None,
    typer.Option(
        "--inputs",
        help="Your samples: cells that were measured on them, unless --data says on what; with --max-drop those of "
        "`xbench evaluate`, too.",
    ),
]
Labels = Annotated[str | None, typer.Option(help="The right answers, as in `xbench evaluate`.")]
Metric = Annotated[str | None, typer.Option(help="As in `xbench evaluate`. Default: the measured one, else top1.")]
Calls = Annotated[
    int | None, typer.Option(help="How often one process will run it: then load and compile count too.", min=1)
]
Scenario = Annotated[
    str | None, typer.Option(help="By what `xbench load` measured: single-stream, multi-stream, offline or server.")
]
Stream = Annotated[int | None, typer.Option(help="Samples of a multi-stream query.", min=1)]
Threads = Annotated[int | None, typer.Option(help="CPU threads. Default: as they were measured.", min=1)]
Device = Annotated[str | None, typer.Option(help="cpu or cuda. Default: cpu.")]
Mode = Annotated[str | None, typer.Option(help="forward, gradient or step. Default: forward.")]
Plane = Annotated[str | None, typer.Option(help="resident, host or device, as it was measured. Default: resident.")]
Data = Annotated[
    str | None,
    typer.Option(help="What it was measured on: synthetic, digits, or the word of --inputs. Default: synthetic."),
]
Precision = Annotated[
    str,
    typer.Option(
        help="What is good enough: fp32, or with commas less as well, fp32,bf16; each verified by its own tolerance."
    ),
]
Layout = Annotated[str | None, typer.Option(help="nchw or nhwc. Default: either.")]
Machine = Annotated[str | None, typer.Option(help="Where it was measured: the machine's name, or a part of it.")]
Measure = Annotated[bool, typer.Option("--measure", help="Measure what is missing first, here.")]
Deploy = Annotated[
    Path | None, typer.Option(metavar="FOLDER", help="Write the best there: model, script, requirements, certificate.")
]


def question(
    model: options.Model,
    max_latency_ms: Latency = None,
    max_memory_mb: Memory = None,
    max_drop: MaxDrop = None,
    samples: Samples = None,
    labels: Labels = None,
    metric: Metric = None,
    calls: Calls = None,
    scenario: Scenario = None,
    samples_per_query: Stream = None,
    batch: options.Batch = None,
    threads: Threads = None,
    device: Device = None,
    mode: Mode = None,
    plane: Plane = None,
    data: Data = None,
    precision: Precision = "fp32",
    layout: Layout = None,
    machine: Machine = None,
    shape: options.Shapes = None,
    shapes: options.ShapeFile = None,
    runtime: options.OnlyRuntimes = None,
    measure: Measure = False,
    budget: options.Budget = 2.0,
    deploy: Deploy = None,
    out: options.Out = FOLDER,
    as_json: options.Json = False,
    as_markdown: options.Markdown = False,
) -> None:
    """The parameters of the command."""


@as_in(question, question.__annotations__)
def recommend(arguments: dict[str, Any]) -> None:
    """Say which runtime to take, how sure that is, what excluded the others; write it as a folder that runs.

    Only runtimes that are verified are ranked: by the time of a call, or with --calls by that of a new process with so
    many calls, or with --scenario by what they did under load. With --max-drop only those whose answers to --inputs are
    shown to be good enough. Ties are called ties. A limit is met only where that is certain: p99=5 needs 299 samples.
    Of several shapes it is the mean of all by their weights, and a limit holds at each. Exit code 1 if none meets the
    limits; then it says what would.

    xbench recommend lenet --max-latency-ms p99=5 --measure --deploy lenet-deployed

    xbench recommend model.onnx --precision fp32,int8 --max-drop 0.5% --inputs samples.npz --measure
    """
    from xbench.proof.question import check_folder
    from xbench.recommend.question import check_one_shape, check_options, choose_data
    from xbench.recommend.shapes import shared_words

    if arguments["as_json"] and arguments["as_markdown"]:
        raise XBenchError("--json and --markdown exclude one another: give one of them")
    given = {
        name: arguments[name] for name in ("batch", "threads", "device", "mode", "plane", "data", "machine", "scenario")
    }
    given["stream"] = arguments["samples_per_query"]
    more, deploy = _fields(arguments), arguments["deploy"]
    given["data"] = choose_data(given["data"], arguments["samples"], more["quality"])
    check_options(given, more)
    if deploy:
        check_folder(deploy, "--deploy")
    shares = shared_words(arguments["model"], arguments["shape"] or [], arguments["shapes"])
    alone = {name: arguments[name] for name in ("calls", "scenario")} | {"inputs": arguments["samples"]}
    check_one_shape(len(shares), deploy=deploy, **alone)
    answer = _answered(shares, given, more, arguments["out"], arguments["budget"] if arguments["measure"] else None)
    notes, failure = _deployed(answer, deploy, arguments["out"]) if deploy and answer.ranked else (None, None)
    _report(answer, str(deploy) if notes else None, arguments["as_json"], arguments["as_markdown"])
    for line in notes or ():
        say(line, err=True)
    if failure:
        raise failure
    raise typer.Exit(0 if answer.ranked else 1)


def _fields(asked: dict[str, Any]) -> dict[str, Any]:
    """The fields of a question that records cannot supply.

    Raises:
        XBenchError: an unknown word, or an impossible amount.
    """
    from xbench.recommend.limits import MB, MEMORY, Limit, latency_limit
    from xbench.recommend.quality import choose_quality
    from xbench.recommend.question import choose_scenario

    limits = [latency_limit(word) for words in asked["max_latency_ms"] or () for word in words.split(",")]
    if (memory := asked["max_memory_mb"]) is not None:
        if not 0 < memory < float("inf"):
            raise XBenchError(f"--max-memory-mb must be more than 0, not {memory:g}")
        limits.append(Limit(MEMORY, memory * MB))
    if len({limit.name for limit in limits}) < len(limits):
        raise XBenchError("--max-latency-ms: give each percentile once")
    if asked["layout"]:
        choose.choose_layout(asked["layout"])
    precisions = tuple(map(choose.choose_precision, choose.split([asked["precision"]])))
    quality = choose_quality(asked["max_drop"], asked["metric"], asked["samples"], asked["labels"])
    fields = {"limits": tuple(limits), "calls": asked["calls"], "scenario": choose_scenario(asked["scenario"])}
    fields |= {"precisions": precisions, "layout": asked["layout"], "quality": quality}
    return fields | {"runtimes": tuple(choose.split(asked["runtime"]))}


def _answered(
    shares: dict[str, float], given: dict[str, Any], more: dict[str, Any], out: Path, budget: float | None
) -> "Answer":
    """The answer from the store for the words of `shares`, after measuring each cell for `budget` seconds if that is
    given."""
    from xbench.experiments.load import Load
    from xbench.recommend.shapes import over_shapes
    from xbench.recommend.stored import read

    file = Load.file if more["scenario"] else FILE
    if budget is not None:
        shares = {choose.choose_model("recommend", word): share for word, share in shares.items()}
        choose.choose_runtimes(more["runtimes"])
        choose.choose_device(given["device"] or "cpu")
        open_store(out, file)
    records, timed = read(out / file, _told), read(out / FILE) if more["scenario"] else []
    answers: dict[str, Answer] = {}
    for word in shares:
        answers[word] = _answer(word, given, more, (records, timed), out / file, budget)
        given = {name: getattr(answers[word].question, name) for name in given}  # the same cells at each shape
    return over_shapes(answers, shares) if len(shares) > 1 else answers.popitem()[1]


def _answer(
    word: str,
    given: dict[str, Any],
    more: dict[str, Any],
    stored: "tuple[list[Record], list[Record]]",
    path: Path,
    budget: float | None,
) -> "Answer":
    """The answer for one word from the records, those to ask and those of `xbench time`, and from what is measured."""
    from xbench.cli.terminal.run import requested
    from xbench.experiments.evaluate import Evaluate
    from xbench.recommend.missing import evaluation, measurable, on_samples
    from xbench.recommend.question import settled
    from xbench.recommend.recommendation import recommend as recommended
    from xbench.recommend.stored import check_runtimes, read

    question = settled(stored[0], word, given, more, budget is not None)
    check_runtimes(question, stored[0])
    wanted = measurable(question)
    request = evaluation(question, wanted) if budget is not None else None
    made = requested(request, {"out": path.parent, "timeout": TIMEOUT}).records if request else []
    how = None
    if budget is not None and question.own:
        evaluated = on_samples(question, made)
        how = request if evaluated != question else None
        question = evaluated if how else _as_they_are(question)
    evaluations = read(path.with_name(Evaluate.file)) if question.quality else []
    answer = recommended(stored[0], question, wanted, stored[1], evaluations)
    if budget is not None:
        for again in (False, *[True] * PASSES):
            if _measured(answer, again, path.parent, budget, how):
                answer = recommended(read(path), question, wanted, stored[1], evaluations)
    return answer


def _told(words: str) -> None:
    say(f"xbench: {words}", err=True)


def _as_they_are(question: "Question") -> "Question":
    """The question on the user's samples as they are now: records of earlier ones do not count."""
    from xbench.cli.terminal.progress import Bar
    from xbench.experiments.experiment import Lab
    from xbench.recommend.repeated import read_again

    choose.need_torch()
    with turn() as logs, Bar(1, "samples") as bar, Lab(logs, bar, TIMEOUT) as lab:
        return read_again(question, lab)


def _measured(answer: "Answer", again: bool, out: Path, budget: float, how: "Request | None") -> bool:
    """Measure what an answer lacks, or (`again`) what has too few samples; return whether there was any."""
    from xbench.cli.terminal.run import measured
    from xbench.recommend.missing import Plan, cases, experiment, seconds

    chosen = cases(answer, again)
    if not chosen:
        return False
    plan = Plan(seconds(answer, budget) if again else budget)
    outcome = measured(experiment(answer.question, plan, how), chosen, out, plan.timeout, "all")
    if any(record["case"]["data"] != answer.question.data for record in outcome.records):
        raise XBenchError(f"{answer.question.own} gives other samples each time: save them in a file")
    return True


def _deployed(answer: "Answer", folder: Path, out: Path) -> tuple[list[str] | None, XBenchError | None]:
    """Write the first cell; return notes on the folder, or the error why there is none."""
    from xbench.cli.terminal.progress import Bar
    from xbench.experiments.evaluate import Evaluate
    from xbench.experiments.experiment import Lab
    from xbench.recommend.deployment import deploy
    from xbench.recommend.repeated import calibrated, repeated
    from xbench.recommend.stored import read

    record, question = answer.ranked[0].cell.record, answer.question
    with turn() as logs, Bar(1, "deploy") as bar, Lab(logs, bar) as lab:
        try:
            choose.need_torch()
            choose.choose_model("recommend", question.model)
            artifact = lab.exporter.artifact(question.model)
            of_cell = (record, artifact, lab, question.quality, read(out / Evaluate.file))
            notes = deploy(record, artifact, lab.exporter, folder, logs, repeated(*of_cell), calibrated(*of_cell))
            return [*notes, f"deployed in {folder}: python {folder}/run.py"], None
        except XBenchError as error:
            return None, error


def _report(answer: "Answer", deployed: str | None, as_json: bool, as_markdown: bool) -> None:
    from xbench.cli.terminal.console import console
    from xbench.reports import recommendation as report

    if as_json:
        say(report.to_json(answer, deployed), nl=False)
    elif as_markdown:
        say(report.to_markdown(answer), nl=False)
    else:
        report.show(answer, console(200))
