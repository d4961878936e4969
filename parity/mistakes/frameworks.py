"""Update rules of frameworks: several things differ at once, and only together they explain a result.

A port of a network uses a framework's optimizer, passes some settings and leaves the rest to its defaults. The entries
here come from the formulas and defaults that the frameworks document for their optimizers.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from xbench.parity.mistakes import Mistake
from xbench.parity.mistakes.rules import formula

BETAS = {"beta1": 0.9, "beta2": 0.999}  # every framework's default
WORDS = {
    ("epsilon", "uncorrected"): "epsilon is added before the bias of the second moment is corrected",
    ("corrected", False): "the moments are not corrected for their bias",
    ("decay", "decoupled"): "weight decay is decoupled",
    ("decay", "unscaled"): "weight decay is decoupled and not multiplied by the learning rate",
    ("decay", "matrices"): "weight decay does not reach what has one axis",
    ("velocity", 1): "momentum holds the learning rate",
    ("velocity", -1): "momentum holds the learning rate, with the other sign",
}


@dataclass(frozen=True)
class Framework:
    """An optimizer: the rules that it replaces, its default settings, and the differences of its formula
    (`rules.formula`). `decay` is its default by rule, zero if not listed; `decays` is how it applies a decay that is
    passed, if that differs from the rule."""

    whose: str
    rules: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)
    does: Mapping[str, Any] = field(default_factory=dict)
    decay: Mapping[str, float] = field(default_factory=dict)
    decays: str | None = None


ADAMS = ("adam", "adamw")
FRAMEWORKS = (
    Framework("Keras", ADAMS, {"eps": 1e-7}, {"epsilon": "uncorrected"}, {"adamw": 0.004}, "decoupled"),
    Framework("TensorFlow Addons", ("adamw",), {"eps": 1e-7}, {"epsilon": "uncorrected"}, {}, "unscaled"),
    Framework("TensorFlow 1", ADAMS, {"eps": 1e-8}, {"epsilon": "uncorrected"}),
    Framework("MXNet", ("adam",), {"eps": 1e-8}, {"epsilon": "uncorrected"}),
    Framework("Chainer", ("adamw",), {"eps": 1e-8}, {"epsilon": "uncorrected"}, {}, "unscaled"),
    Framework("optax", ADAMS, {"eps": 1e-8}, {}, {"adamw": 1e-4}),
    Framework("PyTorch", ADAMS, {"eps": 1e-8}, {}, {"adamw": 0.01}),
    Framework("BERT", ("adamw",), {"eps": 1e-6}, {"corrected": False}, {"adamw": 0.01}, "matrices"),
    Framework("Keras", ("sgd",), {}, {"velocity": -1}, {}, "decoupled"),
    Framework("MXNet", ("sgd",), {}, {"velocity": -1}),
    Framework("Caffe", ("sgd",), {}, {"velocity": 1}),
    Framework("TensorFlow 1", ("sgd",)),
    Framework("optax", ("sgd",)),
    Framework("PyTorch", ("sgd",)),
)


@dataclass(frozen=True)
class Variant:
    """A framework's rule: its settings and formula where they differ from the rule, and each difference in words."""

    settings: Mapping[str, Any]
    does: Mapping[str, Any]
    differences: tuple[str, ...]


def defaults(rule: Mapping[str, Any]) -> Iterator[Mistake]:
    """Frameworks' rules that differ from this one in two or more things, those with the fewest first; frameworks that
    compute the same are one mistake. Single differences are in `training.py`."""
    variants: list[tuple[Variant, list[str]]] = []
    for framework in FRAMEWORKS:
        for variant in _variants(framework, rule) if rule["name"] in framework.rules else ():
            same = next((names for other, names in variants if other == variant), None)
            if same is None:
                variants.append((variant, [framework.whose]))
            elif framework.whose not in same:
                same.append(framework.whose)
    for variant, names in sorted(variants, key=lambda each: len(each[0].differences)):
        if len(variant.differences) > 1:
            kind = "SGD" if rule["name"] == "sgd" else "Adam"
            says = f"{kind} is as in {' or '.join(names)}: {', '.join(variant.differences)}"
            yield Mistake("framework_defaults", says, rule=variant.settings, update=formula(**variant.does))


def _variants(framework: Framework, rule: Mapping[str, Any]) -> list[Variant]:
    """A framework's rule with all settings passed, and with some left to defaults."""
    free = {"momentum": 0.0, "nesterov": False} if rule["name"] == "sgd" else BETAS
    each = [{**framework.settings, **settings} for settings in ({}, free)]
    decays = (None, framework.decay.get(rule["name"], 0.0))
    return [_variant(framework, rule, settings, decay) for settings in each for decay in decays]


def _variant(
    framework: Framework, rule: Mapping[str, Any], settings: Mapping[str, Any], decay: float | None
) -> Variant:
    """`decay` is None if the rule's own is passed."""
    new = {**settings, **({} if decay is None else {"weight_decay": decay})}
    new = {name: value for name, value in new.items() if value != rule[name]}
    does = dict(framework.does)
    if framework.decays and new.get("weight_decay", rule["weight_decay"]) and not _own(framework.decays, rule):
        does["decay"] = framework.decays
    if not new.get("momentum", rule["momentum"]):
        does.pop("velocity", None)
    words = [WORDS[item] for item in does.items()]
    return Variant(new, does, (*(_setting(name, value, rule[name]) for name, value in new.items()), *words))


def _own(decays: str, rule: Mapping[str, Any]) -> bool:
    return decays == "decoupled" and rule["name"] == "adamw"


def _setting(name: str, new: Any, old: Any) -> str:
    if name == "nesterov":
        return "momentum is Polyak's, not Nesterov's"
    words = {"eps": "epsilon", "weight_decay": "weight decay"}.get(name, name)
    return f"{words} is {new:g}, not {old:g}" if new else f"there is no {words}"
