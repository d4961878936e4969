"""Facts about operators besides their computation: one row each; operators without a row have the defaults.

Gradients are in `autodiff/gradient/`, counts of MACs in `passes/macs.py`, by the operator's name.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class OpInfo:
    """Facts of one ONNX operator; `tests/converters/ops/test_info.py` compares them with ONNX's own schemas.

    For the text and its tables: `static` are the inputs, by position, whose values decide shapes or the form of the
    computation: frameworks need them at compile time. It returns a tuple of `outputs` arrays, read or not; if it
    `counts_outputs`, further ones cost time, and the keyword `outputs` says how many are read. A `sequence` is a tuple
    even of one. A `shape_only` result is known while a framework traces.

    For graphs: a `folded` one is cheap enough to be computed if all its inputs are constant. No gradient passes
    through one that is not `differentiable`: steps, comparisons, integers. A `view` gives its input's own memory in
    another shape (Dropout does nothing in evaluation). `elementwise` ones broadcast their inputs. `image` ones take an
    image channels last if possible; others take either layout, if they are elementwise, or name one axis by the
    attribute `axis` (this is its default), or axes by the input at position `axes`; a `reduction` removes them.

    For the inputs of a graph: `shape_arithmetic` is computed if all its inputs are known and small; one that
    `hands_on` returns values of its first input; a `boolean` one returns truth values.

    For people: `control` flow, `random` numbers, `quantised` arithmetic, products of matrices that `passes/macs.py`
    leaves `uncounted`.
    """

    static: tuple[int, ...] = ()
    outputs: int = 1
    counts_outputs: bool = False
    sequence: bool = False
    elementwise: bool = False
    image: bool = False
    axis: int | None = None
    axes: int | None = None
    reduction: bool = False
    differentiable: bool = True
    folded: bool = False
    view: bool = False
    control: bool = False
    random: bool = False
    quantised: bool = False
    uncounted: bool = False
    shape_only: bool = False
    shape_arithmetic: bool = False
    hands_on: bool = False
    boolean: bool = False


OPERATORS: dict[str, OpInfo] = {
    "Abs": OpInfo(elementwise=True, folded=True),
    "Acos": OpInfo(elementwise=True),
    "Acosh": OpInfo(elementwise=True),
    "Add": OpInfo(elementwise=True, folded=True, shape_arithmetic=True),
    "AffineGrid": OpInfo(static=(1,)),
    "And": OpInfo(elementwise=True, differentiable=False, folded=True, boolean=True),
    "ArgMax": OpInfo(axis=0, differentiable=False),
    "ArgMin": OpInfo(axis=0, differentiable=False),
    "Asin": OpInfo(elementwise=True),
    "Asinh": OpInfo(elementwise=True),
    "Atan": OpInfo(elementwise=True),
    "Atanh": OpInfo(elementwise=True),
    "Attention": OpInfo(uncounted=True),
    "AveragePool": OpInfo(image=True),
    "BatchNormalization": OpInfo(outputs=3),
    "Bernoulli": OpInfo(random=True),
    "BitShift": OpInfo(elementwise=True, differentiable=False),
    "BitwiseAnd": OpInfo(elementwise=True, differentiable=False),
    "BitwiseNot": OpInfo(elementwise=True, differentiable=False),
    "BitwiseOr": OpInfo(elementwise=True, differentiable=False),
    "BitwiseXor": OpInfo(elementwise=True, differentiable=False),
    "BlackmanWindow": OpInfo(static=(0,)),
    "Cast": OpInfo(elementwise=True, folded=True, hands_on=True),
    "CastLike": OpInfo(folded=True, hands_on=True),
    "Ceil": OpInfo(elementwise=True, differentiable=False, folded=True, hands_on=True),
    "Celu": OpInfo(elementwise=True),
    "CenterCropPad": OpInfo(static=(1,)),
    "Clip": OpInfo(elementwise=True, folded=True),
    "Col2Im": OpInfo(static=(1, 2)),
    "Compress": OpInfo(static=(1,), hands_on=True),
    "Concat": OpInfo(axis=0, folded=True, shape_arithmetic=True),
    "Constant": OpInfo(shape_only=True),
    "ConstantOfShape": OpInfo(static=(0,), folded=True, shape_only=True, shape_arithmetic=True),
    "Conv": OpInfo(image=True),
    "ConvInteger": OpInfo(quantised=True, uncounted=True),
    "ConvTranspose": OpInfo(image=True),
    "Cos": OpInfo(elementwise=True, folded=True),
    "Cosh": OpInfo(elementwise=True),
    "CumSum": OpInfo(static=(1,), folded=True),
    "DFT": OpInfo(static=(1, 2), uncounted=True),
    "DeformConv": OpInfo(uncounted=True),
    "DequantizeLinear": OpInfo(quantised=True),
    "Div": OpInfo(elementwise=True, folded=True, shape_arithmetic=True),
    "Dropout": OpInfo(static=(1, 2), counts_outputs=True, elementwise=True, view=True, hands_on=True),
    "DynamicQuantizeLinear": OpInfo(outputs=3, quantised=True),
    "Einsum": OpInfo(uncounted=True),
    "Elu": OpInfo(elementwise=True),
    "Equal": OpInfo(elementwise=True, differentiable=False, folded=True, boolean=True),
    "Erf": OpInfo(elementwise=True, folded=True),
    "Exp": OpInfo(elementwise=True, folded=True),
    "Expand": OpInfo(static=(1,), folded=True, shape_arithmetic=True, hands_on=True),
    "EyeLike": OpInfo(differentiable=False, folded=True),
    "Flatten": OpInfo(folded=True, view=True, hands_on=True),
    "Floor": OpInfo(elementwise=True, differentiable=False, folded=True, hands_on=True),
    "GRU": OpInfo(outputs=2),
    "Gather": OpInfo(folded=True, shape_arithmetic=True, hands_on=True),
    "GatherElements": OpInfo(folded=True, hands_on=True),
    "GatherND": OpInfo(folded=True, hands_on=True),
    "Gelu": OpInfo(elementwise=True),
    "Greater": OpInfo(elementwise=True, differentiable=False, folded=True, boolean=True),
    "GreaterOrEqual": OpInfo(elementwise=True, differentiable=False, folded=True, boolean=True),
    "HammingWindow": OpInfo(static=(0,)),
    "HannWindow": OpInfo(static=(0,)),
    "HardSigmoid": OpInfo(elementwise=True),
    "HardSwish": OpInfo(elementwise=True),
    "Hardmax": OpInfo(axis=-1, differentiable=False),
    "Identity": OpInfo(elementwise=True, folded=True, view=True, shape_arithmetic=True, hands_on=True),
    "If": OpInfo(sequence=True, control=True),
    "IsInf": OpInfo(elementwise=True, differentiable=False, folded=True, boolean=True),
    "IsNaN": OpInfo(elementwise=True, differentiable=False, folded=True, boolean=True),
    "LSTM": OpInfo(outputs=3),
    "LayerNormalization": OpInfo(counts_outputs=True),
    "LeakyRelu": OpInfo(elementwise=True),
    "Less": OpInfo(elementwise=True, differentiable=False, folded=True, boolean=True),
    "LessOrEqual": OpInfo(elementwise=True, differentiable=False, folded=True, boolean=True),
    "Log": OpInfo(elementwise=True, folded=True),
    "LogSoftmax": OpInfo(axis=-1),
    "Loop": OpInfo(sequence=True, control=True),
    "MatMulInteger": OpInfo(quantised=True, uncounted=True),
    "Max": OpInfo(elementwise=True, folded=True, shape_arithmetic=True),
    "MaxPool": OpInfo(counts_outputs=True, image=True),
    "MaxUnpool": OpInfo(static=(2,)),
    "Mean": OpInfo(elementwise=True, folded=True),
    "MelWeightMatrix": OpInfo(static=(0, 1, 2, 3, 4)),
    "Min": OpInfo(elementwise=True, folded=True, shape_arithmetic=True),
    "Mish": OpInfo(elementwise=True),
    "Mod": OpInfo(elementwise=True, folded=True, shape_arithmetic=True),
    "Mul": OpInfo(elementwise=True, folded=True, shape_arithmetic=True),
    "Multinomial": OpInfo(random=True),
    "Neg": OpInfo(elementwise=True, folded=True, shape_arithmetic=True),
    "NonMaxSuppression": OpInfo(static=(2, 3, 4)),
    "NonZero": OpInfo(differentiable=False, folded=True),
    "Not": OpInfo(elementwise=True, differentiable=False, folded=True, boolean=True),
    "OneHot": OpInfo(static=(1,), folded=True),
    "OptionalHasElement": OpInfo(boolean=True),
    "Or": OpInfo(elementwise=True, differentiable=False, folded=True, boolean=True),
    "PRelu": OpInfo(elementwise=True),
    "Pad": OpInfo(static=(1, 3), axes=3, folded=True),
    "Pow": OpInfo(elementwise=True, folded=True),
    "QLinearConv": OpInfo(quantised=True, uncounted=True),
    "QLinearMatMul": OpInfo(quantised=True, uncounted=True),
    "QuantizeLinear": OpInfo(quantised=True),
    "RNN": OpInfo(outputs=2),
    "RandomNormal": OpInfo(random=True),
    "RandomNormalLike": OpInfo(random=True),
    "RandomUniform": OpInfo(random=True),
    "RandomUniformLike": OpInfo(differentiable=False, random=True),
    "Range": OpInfo(static=(0, 1, 2), differentiable=False, folded=True, shape_only=True, shape_arithmetic=True),
    "Reciprocal": OpInfo(elementwise=True, folded=True),
    "ReduceL1": OpInfo(static=(1,), axes=1, reduction=True, folded=True),
    "ReduceL2": OpInfo(static=(1,), axes=1, reduction=True, folded=True),
    "ReduceLogSum": OpInfo(static=(1,), axes=1, reduction=True, folded=True),
    "ReduceLogSumExp": OpInfo(static=(1,), axes=1, reduction=True, folded=True),
    "ReduceMax": OpInfo(static=(1,), axes=1, reduction=True, folded=True, hands_on=True),
    "ReduceMean": OpInfo(static=(1,), axes=1, reduction=True, folded=True, hands_on=True),
    "ReduceMin": OpInfo(static=(1,), axes=1, reduction=True, folded=True, hands_on=True),
    "ReduceProd": OpInfo(static=(1,), axes=1, reduction=True, folded=True),
    "ReduceSum": OpInfo(static=(1,), axes=1, reduction=True, folded=True),
    "ReduceSumSquare": OpInfo(static=(1,), axes=1, reduction=True, folded=True),
    "RegexFullMatch": OpInfo(boolean=True),
    "Relu": OpInfo(elementwise=True),
    "Reshape": OpInfo(static=(1,), folded=True, view=True, shape_arithmetic=True, hands_on=True),
    "Resize": OpInfo(static=(1, 2, 3)),
    "ReverseSequence": OpInfo(hands_on=True),
    "Round": OpInfo(elementwise=True, differentiable=False, folded=True, hands_on=True),
    "STFT": OpInfo(static=(1, 3)),
    "Scan": OpInfo(sequence=True, control=True),
    "ScatterElements": OpInfo(folded=True),
    "ScatterND": OpInfo(folded=True),
    "Selu": OpInfo(elementwise=True),
    "SequenceAt": OpInfo(static=(1,)),
    "SequenceErase": OpInfo(static=(1,)),
    "SequenceInsert": OpInfo(static=(2,)),
    "SequenceMap": OpInfo(sequence=True, control=True),
    "Shape": OpInfo(differentiable=False, folded=True, shape_only=True),
    "Shrink": OpInfo(elementwise=True),
    "Sigmoid": OpInfo(elementwise=True, folded=True),
    "Sign": OpInfo(elementwise=True, differentiable=False, folded=True),
    "Sin": OpInfo(elementwise=True, folded=True),
    "Sinh": OpInfo(elementwise=True),
    "Size": OpInfo(differentiable=False, folded=True, shape_only=True),
    "Slice": OpInfo(static=(1, 2, 3, 4), axes=3, folded=True, shape_arithmetic=True, hands_on=True),
    "Softmax": OpInfo(axis=-1, folded=True),
    "SoftmaxCrossEntropyLoss": OpInfo(counts_outputs=True),
    "Softplus": OpInfo(elementwise=True),
    "Softsign": OpInfo(elementwise=True),
    "Split": OpInfo(static=(1,), sequence=True, axis=0, folded=True, hands_on=True),
    "SplitToSequence": OpInfo(static=(1,)),
    "Sqrt": OpInfo(elementwise=True, folded=True),
    "Squeeze": OpInfo(static=(1,), folded=True, view=True, shape_arithmetic=True, hands_on=True),
    "Sub": OpInfo(elementwise=True, folded=True, shape_arithmetic=True),
    "Sum": OpInfo(elementwise=True, folded=True),
    "Tan": OpInfo(elementwise=True, folded=True),
    "Tanh": OpInfo(elementwise=True, folded=True),
    "ThresholdedRelu": OpInfo(elementwise=True),
    "Tile": OpInfo(static=(1,), folded=True, hands_on=True),
    "TopK": OpInfo(static=(1,), outputs=2, folded=True),
    "Transpose": OpInfo(folded=True, shape_arithmetic=True, hands_on=True),
    "Trilu": OpInfo(static=(1,), folded=True),
    "Unique": OpInfo(outputs=4),
    "Unsqueeze": OpInfo(static=(1,), folded=True, view=True, shape_arithmetic=True, hands_on=True),
    "Upsample": OpInfo(static=(1,)),
    "Where": OpInfo(elementwise=True, folded=True),
    "Xor": OpInfo(elementwise=True, differentiable=False, folded=True, boolean=True),
}
PLAIN = OpInfo()


def info(operator: str) -> OpInfo:
    """The facts of an operator of ONNX's own domain, by its name."""
    return OPERATORS.get(operator, PLAIN)


def where(fact: str) -> frozenset[str]:
    """The names of the operators for which a fact is true."""
    return frozenset(name for name, each in OPERATORS.items() if getattr(each, fact))
