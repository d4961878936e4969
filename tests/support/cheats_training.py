"""Adapters that train less than they are timed for: PyTorch, spoiled in one way each, after it was verified.

`fault_kit.install_faults` installs a copy as the third-party module `xbench_cheats_training`.
"""

import dataclasses

import torch

from xbench.converters.ops import torch as ops
from xbench.runtimes import Row
from xbench.runtimes.torch import ProgramModule, Torch, named_tensors, set_dropout

LATE = 8  # calls that are honest: those of a proof


class Honest(Torch):
    """PyTorch, plainly."""

    def __init__(self, artifact, options):
        super().__init__(artifact, options)
        self.calls = self.since = 0
        self.loss_kept = self.kept = None
        self.statistics = artifact.info["statistics"]

    @property
    def late(self):
        return self.calls > LATE

    def reset(self):
        super().reset()
        self.since = 0

    def step(self, inputs, labels):
        self.calls, self.since = self.calls + 1, self.since + 1
        self.loss_kept = self.train(inputs, labels)
        return self.loss_kept

    def train(self, inputs, labels):
        return super().step(inputs, labels)

    def gradients(self, inputs, labels):
        if self.options.mode == "gradient":
            self.calls += 1
            self.kept = self.differentiate(inputs, labels)
            return self.kept
        return super().gradients(inputs, labels)

    def differentiate(self, inputs, labels):
        return super().gradients(inputs, labels)

    def forget(self, names):
        """Puts tensors back to what they were before the step."""
        tensors = named_tensors(self.module)
        with torch.no_grad():
            for name in names:
                tensors[name].copy_(self.before[name])

    def remember(self):
        self.before = {name: value.detach().clone() for name, value in named_tensors(self.module).items()}


class ThreeSteps(Honest):
    """Trains three steps after every reset and then returns its last loss."""

    def train(self, inputs, labels):
        return super().train(inputs, labels) if self.since <= 3 else self.loss_kept


class TenSteps(Honest):
    """Trains ten steps after every reset and then returns its last loss."""

    def train(self, inputs, labels):
        return super().train(inputs, labels) if self.since <= 10 else self.loss_kept


class NoUpdate(Honest):
    """Computes gradients and updates nothing, once it is warm."""

    def train(self, inputs, labels):
        return (Torch.gradients(self, inputs, labels)[0],) if self.late else super().train(inputs, labels)


class NoBackward(Honest):
    """Computes the loss alone, once it is warm."""

    def train(self, inputs, labels):
        if not self.late:
            return super().train(inputs, labels)
        with torch.no_grad():
            return (self.call(inputs, labels),)


class EveryOther(Honest):
    """Trains every second step, once it is warm."""

    def train(self, inputs, labels):
        return self.loss_kept if self.late and self.since % 2 == 0 else super().train(inputs, labels)


class Accumulates(Honest):
    """Updates every fourth step, once it is warm."""

    def train(self, inputs, labels):
        if self.late and self.since % 4:
            return (Torch.gradients(self, inputs, labels)[0],)
        return super().train(inputs, labels)


class OldStatistics(Honest):
    """Leaves the running statistics alone, once it is warm."""

    def train(self, inputs, labels):
        self.remember()
        loss = super().train(inputs, labels)
        if self.late:
            self.forget(self.statistics)
        return loss


class NoMomentum(Honest):
    """Forgets what the optimizer carries from step to step, once it is warm."""

    def train(self, inputs, labels):
        if self.late:
            self.optimizer.state.clear()
        return super().train(inputs, labels)


class Frozen(Honest):
    """Trains the last layer alone, once it is warm."""

    def train(self, inputs, labels):
        self.remember()
        loss = super().train(inputs, labels)
        if self.late:
            self.forget(list(self.named)[:-2])
        return loss


class HalfBatch(Honest):
    """Trains on half of the batch, once it is warm."""

    def train(self, inputs, labels):
        half = len(labels) // 2 if self.late else len(labels)
        return super().train([array[:half] for array in inputs], labels[:half])


class FirstLabels(Honest):
    """Takes the labels that it was given first for all of the same shape."""

    first = None

    def train(self, inputs, labels):
        self.first = labels if self.first is None else self.first
        return super().train(inputs, self.first if self.late else labels)


class RemembersLosses(Honest):
    """Knows the loss of a step by its number after a reset, and trains no more, once it is warm."""

    def train(self, inputs, labels):
        self.losses = getattr(self, "losses", {})
        if self.since not in self.losses or not self.late:
            self.losses[self.since] = super().train(inputs, labels)
        return self.losses[self.since]


class RemembersStates(Honest):
    """Knows the loss and the state of a step by its number after a reset, and trains no more."""

    def train(self, inputs, labels):
        self.known = getattr(self, "known", {})
        if self.since not in self.known or not self.late:
            loss = super().train(inputs, labels)
            self.known[self.since] = loss, super().weights(), super().optimizer_state()
        return self.known[self.since][0]

    def weights(self):
        return self.known[self.since][1] if self.since else super().weights()

    def optimizer_state(self):
        return self.known[self.since][2] if self.since else super().optimizer_state()


class Lags(Honest):
    """Makes the update of a step when the next one is asked for."""

    waiting = None

    def reset(self):
        self.waiting = None
        super().reset()

    def train(self, inputs, labels):
        if not self.late:
            return super().train(inputs, labels)
        if self.waiting:
            super().train(*self.waiting)
        self.waiting = inputs, labels
        with torch.no_grad():
            return (self.call(inputs, labels),)


class Bfloat16Late(Honest):
    """Computes in bfloat16, once it is warm."""

    def train(self, inputs, labels):
        with torch.autocast("cpu", torch.bfloat16, enabled=self.late):
            return super().train(inputs, labels)


class FirstGradient(Honest):
    """Returns the gradients it has, once it is warm."""

    def differentiate(self, inputs, labels):
        return self.kept if self.late else super().differentiate(inputs, labels)


class LossAlone(Honest):
    """Computes the loss and leaves the gradients as they were, once it is warm."""

    def differentiate(self, inputs, labels):
        if not self.late:
            return super().differentiate(inputs, labels)
        with torch.no_grad():
            return self.call(inputs, labels), self.parameters


class DropoutOff(Honest):
    """Takes no notice of dropout."""

    def prepare(self, inputs, labels, dropout):
        return super().prepare(inputs, labels, False)


class DropoutHalf(Honest):
    """Drops half as many as it should."""

    def __init__(self, artifact, options):
        super().__init__(artifact, options)
        for layer in self.module.modules():
            if isinstance(layer, torch.nn.Dropout):
                layer.p /= 2
        if isinstance(self.module, ProgramModule):
            program = artifact.program()
            source = program.source.replace(", 0.5, training", ", 0.25, training")
            self.module.apply_program = dataclasses.replace(program, source=source).bind(ops.TABLE)


class DropoutSometimes(Honest):
    """Drops nothing at three of four calls."""

    def drawn(self, call, inputs, labels):
        set_dropout(self.module, self.requested and self.calls % 4 == 0)
        return call(inputs, labels)

    def prepare(self, inputs, labels, dropout):
        self.requested = dropout
        return super().prepare(inputs, labels, dropout)

    def train(self, inputs, labels):
        return self.drawn(super().train, inputs, labels)

    def differentiate(self, inputs, labels):
        return self.drawn(super().differentiate, inputs, labels)


class DropoutOnce(Honest):
    """Drops the same at every call."""

    def train(self, inputs, labels):
        torch.manual_seed(0)
        return super().train(inputs, labels)

    def differentiate(self, inputs, labels):
        torch.manual_seed(0)
        return super().differentiate(inputs, labels)


# For each the mode and the network of the kit (`proof/probes.py`) that catch it, and the promise it breaks.
EXPECTED = {
    **dict.fromkeys((ThreeSteps, TenSteps, NoUpdate, NoBackward, EveryOther), ("step", "norm", "timed")),
    **dict.fromkeys((Accumulates, OldStatistics, NoMomentum, Frozen, HalfBatch), ("step", "norm", "timed")),
    **dict.fromkeys((FirstLabels, RemembersLosses, RemembersStates, Lags, Bfloat16Late), ("step", "norm", "timed")),
    **dict.fromkeys((FirstGradient, LossAlone), ("gradient", "norm", "timed")),
    **dict.fromkeys((DropoutOff, DropoutHalf, DropoutSometimes), ("step", "work", "timed")),
    DropoutOnce: ("gradient", "work", "random"),
}
CHEATS = {f"trains_{kind.__name__.lower()}": kind for kind in (Honest, *EXPECTED)}
for _name, _class in CHEATS.items():
    globals()[_name] = Row(
        f"xbench_cheats_training:{_class.__name__}", ("xbench-faults",), "faults", "native", hidden=True
    )
